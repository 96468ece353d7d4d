//! Engines behind the storage ports: SQLite for one process, PostgreSQL for several, counters in memory or in Redis, and
//! objects in local files or in S3.
//! Only the server names them; everything else speaks to the ports.

mod batches;
mod calibrations;
mod files;
mod ids;
mod jobs;
mod journal;
mod label_priors;
pub mod local_files;
pub mod memory;
pub mod moving;
mod notices;
mod parts;
pub mod postgres;
mod provider_subscriptions;
pub mod redis;
mod rows;
mod runtime;
pub mod s3;
mod schema;
pub mod sqlite;
mod top_ups;
mod webhooks;
