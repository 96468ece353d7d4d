//! For tests only: a scripted upstream, a mail server, a Redis that can fail, and the gateway's binary as its users run it.

pub mod gateway;
pub mod mail;
pub mod redis;
pub mod upstream;
