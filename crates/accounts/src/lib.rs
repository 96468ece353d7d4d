//! Who is calling, and how often they may: keys, callers, administrators and rate limits; addresses that need no key.
//!
//! Suggested reading order: [`secret`] (what a key looks like), [`keys`] (from a key to a caller), [`limits`], [`admins`].

pub mod admins;
pub mod keys;
pub mod limits;
pub mod secret;
pub mod signed_url;
pub mod vault;
pub mod webhook;

pub use admins::Admins;
pub use keys::{Caller, KeyError, KeyWish, Keys, KeysConfig};
pub use limits::{LimitHeaders, Limiter, TokenReservation};
pub use secret::{KeyShape, Pepper, SecretKey, TokenShape};
pub use signed_url::{Disposition, MediaAddresses, Refusal, SignedAddress, SigningKey};
pub use vault::{SealError, Vault};
pub use webhook::{WebhookSecret, WebhookSecrets};
