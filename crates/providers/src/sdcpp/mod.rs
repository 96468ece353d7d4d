//! A server of stable-diffusion.cpp by its native API, which has jobs and a queue
//! (github.com/leejet/stable-diffusion.cpp, examples/server/api.md). It has one model, whatever it is called.

mod adapter;
mod wire;

pub(crate) use adapter::StableDiffusionCpp;

/// The preset.
pub(crate) const PRESET: &str = "stable-diffusion.cpp";
/// Where it is when nothing else is said: on this machine, on the server's own port.
pub(crate) const BASE_URL: &str = "http://127.0.0.1:1234";

#[cfg(test)]
mod tests;
