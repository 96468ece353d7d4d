//! Ledger checks and audits on both engines, independent of the code that writes the ledger.

pub mod engines;
mod recomputed;
mod speed;
mod tampered;
