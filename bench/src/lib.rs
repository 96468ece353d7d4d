//! The loopback comparison behind `make bench`: the cost of one metered call, compared with nginx
//! and a bare proxy. Reading order: `payload` (the requests), `stub` (the upstream), `load` (the
//! client), `bare` (the baseline), `accounting` (CPU and memory), `compare` (rounds over targets,
//! and the tables). `fleet` simulates many nodes. `jobs`, `batches`, `decisions` and `realtime`
//! measure work on a separate `gateway`. Linux only: it reads /proc.
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
mod gateway;
pub mod jobs;
pub mod realtime;
