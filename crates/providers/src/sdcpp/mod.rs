//! The native API of stable-diffusion.cpp servers, with jobs and a queue
//! (github.com/leejet/stable-diffusion.cpp, examples/server/api.md). A server has one model and
//! accepts any name for it.

mod adapter;
mod wire;

pub(crate) use adapter::StableDiffusionCpp;

/// Name of the preset in the configuration.
pub(crate) const PRESET: &str = "stable-diffusion.cpp";
/// Default base URL: the server's default port on this machine.
pub(crate) const BASE_URL: &str = "http://127.0.0.1:1234";

#[cfg(test)]
mod tests;
