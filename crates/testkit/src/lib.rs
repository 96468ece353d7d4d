//! For tests only: a scripted upstream, a mail server, a PostgreSQL and a Redis that can fail, bad roads to
//! all of them, hosts and clocks of its own, and the gateway's binary as its users run it.

pub mod clock;
pub mod gateway;
pub mod mail;
pub mod network;
pub mod postgres;
pub mod proxy;
pub mod redis;
pub mod torture;
pub mod upstream;
