//! Test support: a scripted upstream, a mail server, a PostgreSQL and a Redis that can fail, an S3
//! server, faulty network proxies to all of them, hosts, clocks and disks with faults, and the
//! gateway's binary.

pub mod clock;
pub mod disk;
pub mod example_config;
pub mod fault_injection;
pub mod gateway;
pub mod mail;
pub mod network;
pub mod postgres;
pub mod proxy;
pub mod redis;
pub mod s3;
pub mod upstream;
