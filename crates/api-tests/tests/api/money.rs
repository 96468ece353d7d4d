//! Charges: exactly the reported usage, never more than the balance.

mod callers;
mod charges;
mod counted;
mod empty;
pub mod holds;
mod rows;
mod windows;
