//! Tokens: the cache on a clock of its own, the sources against a scripted server on loopback.

mod cache;
mod sources;
