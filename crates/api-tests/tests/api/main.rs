//! Tests of the public API of the built binary, as its callers see it: its own process in front of
//! a scripted upstream.
//!
//! Suggested reading order: [`scene`], then the module of the group that you change.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::type_complexity,
    reason = "tests spawn tasks, print the seed of a fault injection run, and list rows with their checks"
)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "an error in a test must fail the test"
)]

mod a_month;
mod abilities;
mod admin;
mod alerts;
mod audio;
mod auth;
mod azure;
mod bad_input;
mod batches;
mod bedrock;
mod clocks;
mod completions;
mod console;
mod counting;
mod crash;
mod credits;
mod decisions;
mod decisions_calibrations;
mod earlier_data;
mod embeddings;
mod engine_transfer;
mod fault_injection;
mod files;
mod generate_content;
mod idempotency;
mod lenient;
mod limits;
mod logging;
mod max_cost;
mod media;
mod media_jobs;
mod messages;
mod models;
mod money;
mod nodes;
mod notifications;
mod openapi;
mod operations;
mod own_servers;
mod plans;
mod policy;
mod privacy;
mod quote;
mod realtime;
mod receipts;
mod reload;
mod research;
mod responses;
mod scene;
mod shared_limits;
mod shutdown;
mod streaming;
mod structured_output;
mod templates;
mod test_clock;
mod test_keys;
mod top_ups;
mod upstream_faults;
mod vertex;
mod videos;
mod workers;
