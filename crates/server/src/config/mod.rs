//! Settings: `tollgate.toml`, then the environment, then flags, each overriding the one before.

pub(crate) mod effective;
pub mod env;
pub mod error;
pub mod file;
pub mod resolve;

pub use error::ConfigError;
pub use file::FileConfig;
pub use resolve::{Config, Flags, StorageUrl};
