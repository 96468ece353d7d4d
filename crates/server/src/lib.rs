//! The composition of the gateway: settings, wiring, listeners, reload, shutdown and admin
//! commands.
//!
//! Suggested reading order: [`config`], [`wiring`], [`router`], [`serve`], [`worker`],
//! [`control`], [`admin`], [`evaluate`].

pub mod admin;
pub mod assemble;
mod background;
mod batches;
pub mod cause;
pub mod config;
pub mod console;
pub mod control;
pub mod corpora;
mod counters;
pub mod doctor;
pub mod documentation;
pub mod evaluate;
mod inspector;
mod mail;
mod maintenance;
mod media;
mod media_quotes;
pub mod moving;
mod pages;
mod payments;
mod policy;
pub mod provider_status;
pub mod reload;
mod research_status;
pub mod router;
pub mod secrets;
pub mod self_test;
pub mod serve;
mod session_status;
pub mod shutdown;
pub mod telemetry;
pub mod time;
pub mod web_search;
pub mod wiring;
pub mod worker;

pub use config::{Config, ConfigError, Flags};
