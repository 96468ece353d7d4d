//! The loopback comparison behind `make bench`: what one metered call costs beside nginx and beside a bare proxy.
//! Reading order: `payload` (what is sent), `stub` (who answers it), `load` (who sends it), `bare` (the floor),
//! `accounting` (what it cost), `compare` (rounds over targets, and the tables); `fleet` simulates many nodes. Linux only: it
//! reads /proc.
#![cfg(target_os = "linux")]

pub mod payload;

pub mod stub;

pub mod load;

pub mod bare;

pub mod accounting;
pub mod clock;
pub mod stamp;
pub mod wire;

pub mod compare;
pub mod fleet;
