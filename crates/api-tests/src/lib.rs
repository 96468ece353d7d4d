//! The path of the binary under test.

/// Path of the `tollgate` binary, which `cargo nextest run --workspace` and
/// `cargo test --workspace` build before they run the tests.
pub const BINARY: &str = env!("TOLLGATE_BINARY");
