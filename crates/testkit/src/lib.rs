//! For tests only: a scripted upstream, a mail server, a PostgreSQL and a Redis that can fail, a server of S3's protocol, bad
//! roads to all of them, hosts, clocks and a full disk of its own, and the gateway's binary as its users run it.

pub mod clock;
pub mod disk;
pub mod gateway;
pub mod mail;
pub mod network;
pub mod postgres;
pub mod proxy;
pub mod redis;
pub mod s3;
pub mod torture;
pub mod upstream;
