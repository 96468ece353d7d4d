//! Authentication and rate limits: keys, callers, administrators, sign-in and sessions of the
//! console, client secrets of realtime sessions, signed media URLs, encrypted objects and webhook
//! signatures.
//!
//! Suggested reading order: [`secret`] (format of a key), [`keys`] (from a key to a caller),
//! [`limits`], [`admins`], [`sign_in`].

pub mod admins;
pub mod client_secrets;
pub mod keys;
pub mod limits;
pub mod sealed_blobs;
pub mod secret;
pub mod sign_in;
pub mod signed_url;
pub mod vault;
pub mod webhook;

pub use admins::Admins;
pub use client_secrets::{ClientSecrets, CreatedSecret, NewClientSecret, SecretBudget, SecretCaller};
pub use keys::{Caller, KeyError, KeyParams, Keys, KeysConfig};
pub use limits::{LimitHeaders, Limiter, TokenReservation};
pub use sealed_blobs::SealedBlobs;
pub use secret::{KeyShape, Pepper, RandomToken, SecretKey, TokenShape};
pub use sign_in::{DeviceToken, Passwords, SessionLifetimes, Sessions, SignIns, Visitor};
pub use signed_url::{Disposition, MediaAddresses, Refusal, SignedAddress, SigningKey};
pub use vault::{SealError, Vault};
pub use webhook::{WebhookSecret, WebhookSecrets};
