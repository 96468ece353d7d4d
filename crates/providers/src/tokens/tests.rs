//! Tests of tokens: the cache with a manual clock, and the sources against a scripted server on
//! loopback.

mod cache;
mod sources;
