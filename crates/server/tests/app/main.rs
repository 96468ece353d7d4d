//! The whole gateway in one process, with components that a user cannot set up, such as failing
//! storage.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admin;
mod app;
mod client_secrets;
mod commands;
mod compositions;
mod example_config;
mod files;
mod holds;
mod jobs;
mod ledger;
mod left_out;
mod realtime;
mod sealed;
mod stored_jobs;
mod web_search;
mod webhooks;
