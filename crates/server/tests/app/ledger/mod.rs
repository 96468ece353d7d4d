//! The ledger on both engines, read back by what trusts nothing that wrote it.

pub mod books;
mod recomputed;
mod speed;
mod tampered;
