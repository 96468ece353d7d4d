//! Storage engines: SQLite for one process, PostgreSQL for several processes, counters in memory or
//! Redis, objects in local files or S3. Only the server depends on this crate; other crates use the
//! storage ports.

mod batches;
mod calibrations;
mod chats;
mod client_secrets;
mod closing;
mod columns;
mod fatal;
mod files;
mod ids;
mod jobs;
mod journal;
mod label_priors;
pub mod local_files;
pub mod memory;
mod notices;
mod parts;
mod people;
pub mod postgres;
mod provider_subscriptions;
pub mod redis;
mod rows;
mod runtime;
pub mod s3;
mod schema;
mod sessions;
pub mod sqlite;
mod top_ups;
pub mod transfer;
mod usage_hours;
mod usage_series;
mod webhooks;

pub use schema::Migrated;
