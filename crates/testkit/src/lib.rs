//! For tests only: a scripted upstream, a Redis that can fail, and the gateway's binary as its users run it.

pub mod gateway;
pub mod redis;
pub mod upstream;
