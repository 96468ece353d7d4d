//! Engines behind the storage ports: SQLite for one process, PostgreSQL for several, and counters in memory or in Redis.
//! Only the server names them; everything else speaks to the ports.

mod ids;
mod jobs;
mod journal;
pub mod memory;
pub mod moving;
mod notices;
pub mod postgres;
mod provider_subscriptions;
pub mod redis;
mod rows;
mod schema;
pub mod sqlite;
mod top_ups;
