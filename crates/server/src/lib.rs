//! The one place where everything meets: settings, wiring, listeners, reload, shutdown, and the commands of operators.
//!
//! Suggested reading order: [`config`], [`wiring`], [`router`], [`listen`], [`serve`], [`worker`], [`control`], [`admin`],
//! [`evaluate`].

pub mod admin;
pub mod assemble;
mod background;
mod chores;
pub mod config;
pub mod control;
mod counters;
pub mod doctor;
pub mod documentation;
pub mod evaluate;
mod gauge;
pub mod listen;
mod mail;
mod media;
pub mod moving;
mod payments;
mod policy;
pub mod reload;
pub mod roster;
pub mod router;
pub mod secrets;
pub mod self_test;
pub mod serve;
pub mod shutdown;
pub mod telemetry;
pub mod time;
pub mod wiring;
pub mod worker;

pub use config::{Config, ConfigError, Flags};
