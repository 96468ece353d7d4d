//! Who is calling, and how often they may: keys, callers and rate limits.
//!
//! Suggested reading order: [`secret`] (what a key looks like), [`keys`] (from a key to a caller), [`limits`].

pub mod keys;
pub mod limits;
pub mod secret;
pub mod vault;

pub use keys::{Caller, KeyError, Keys, KeysConfig};
pub use limits::{LimitHeaders, Limiter, TokenReservation};
pub use secret::{KeyShape, Pepper, SecretKey};
pub use vault::{SealError, Vault};
