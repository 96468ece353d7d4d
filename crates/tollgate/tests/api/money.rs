//! What calls cost: exactly what was reported, never more than is there.

mod callers;
mod charges;
mod counted;
pub mod holds;
mod rows;
