//! Settings: `tollgate.toml`, overridden by the environment, overridden by command-line flags.

mod address;
pub(crate) mod effective;
pub mod env;
pub mod error;
pub mod file;
pub mod realtime;
pub mod research;
pub mod resolve;
mod restart;
mod variable;

pub use error::ConfigError;
pub use file::FileConfig;
pub use resolve::{Config, Flags, StorageUrl};
pub use restart::{needs_restart, start_only_keys};
pub use variable::VariableName;
