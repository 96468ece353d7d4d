//! For tests only: a scripted upstream, and the gateway's binary as its users run it.

pub mod gateway;
pub mod upstream;
