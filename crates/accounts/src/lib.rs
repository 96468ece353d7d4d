//! Authentication and rate limits: keys, callers, administrators, signed media URLs, encrypted
//! objects and webhook signatures.
//!
//! Suggested reading order: [`secret`] (format of a key), [`keys`] (from a key to a caller),
//! [`limits`], [`admins`].

pub mod admins;
pub mod keys;
pub mod limits;
pub mod sealed_blobs;
pub mod secret;
pub mod signed_url;
pub mod vault;
pub mod webhook;

pub use admins::Admins;
pub use keys::{Caller, KeyError, KeyParams, Keys, KeysConfig};
pub use limits::{LimitHeaders, Limiter, TokenReservation};
pub use sealed_blobs::SealedBlobs;
pub use secret::{KeyShape, Pepper, SecretKey, TokenShape};
pub use signed_url::{Disposition, MediaAddresses, Refusal, SignedAddress, SigningKey};
pub use vault::{SealError, Vault};
pub use webhook::{WebhookSecret, WebhookSecrets};
