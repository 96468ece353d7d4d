//! What calls cost: exactly what was reported, never more than is there.

mod callers;
mod charges;
pub mod holds;
mod rows;
