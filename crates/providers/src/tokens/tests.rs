//! Tokens: the cache with a manual clock, the sources against a scripted server on loopback.

mod cache;
mod sources;
