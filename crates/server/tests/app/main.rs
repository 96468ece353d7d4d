//! The whole gateway in one process, with parts that a user cannot bring about: files that were uploaded, a storage
//! that fails.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admin;
mod app;
mod compositions;
mod files;
mod holds;
mod jobs;
mod kept;
mod ledger;
mod left_out;
mod sealed;
mod webhooks;
