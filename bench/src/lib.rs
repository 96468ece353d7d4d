//! The loopback comparison behind `make bench`: what one metered call costs beside nginx and beside a bare proxy.
//! Reading order: `payload` (what is sent), `stub` (who answers it), `load` (who sends it), `bare` (the floor),
//! `accounting` (what it cost), `compare` (rounds over targets, and the tables); `fleet` simulates many nodes, and `jobs` and `batches`
//! measure work that goes on after its request was answered, by a gateway of their `own`, and
//! `decisions` what typed decisions cost there. Linux only: it reads /proc.
#![cfg(target_os = "linux")]

pub mod payload;

pub mod stub;

pub mod load;

pub mod bare;

pub mod accounting;
pub mod clock;
pub mod stamp;
pub mod wire;

pub mod batches;
pub mod compare;
pub mod decisions;
pub mod fleet;
pub mod jobs;
mod own;
