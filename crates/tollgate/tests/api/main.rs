//! The public API of the built binary, as its callers see it: a process of its own before a scripted upstream.
//!
//! Suggested reading order: [`scene`], then the module of the group that you change.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::type_complexity,
    reason = "tests start tasks of their own, print the seed of a torture, and list rows with their checks"
)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "whatever goes wrong in a test fails it"
)]

mod a_month;
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
mod counting;
mod crash;
mod credits;
mod decisions;
mod decisions_calibrations;
mod embeddings;
mod files;
mod generate_content;
mod idempotency;
mod lenient;
mod limits;
mod making;
mod max_cost;
mod media;
mod messages;
mod models;
mod money;
mod moving;
mod news;
mod nodes;
mod openapi;
mod operations;
mod plans;
mod policy;
mod privacy;
mod quote;
mod receipts;
mod reload;
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
mod torture;
mod upstream_faults;
mod vertex;
mod videos;
mod workers;
