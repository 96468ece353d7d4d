//! Engines behind the storage ports: SQLite for one process, PostgreSQL for several, and counters in memory.
//! Only the server names them; everything else speaks to the ports.

pub mod memory;
pub mod postgres;
mod rows;
pub mod sqlite;
