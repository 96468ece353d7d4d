//! The whole gateway in one process, with parts that a user cannot bring about: files that were uploaded, a storage
//! that fails.

mod app;
mod files;
mod holds;
mod kept;
mod left_out;
mod sealed;
