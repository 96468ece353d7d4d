//! A server of ComfyUI. A model is a workflow of the operator's: a graph in the server's API format, with slots for
//! what a call says (docs.comfy.org/development/comfyui-server/comms_routes).

mod adapter;
mod progress;
mod wire;
mod workflow;

pub(crate) use adapter::ComfyUi;
pub(crate) use workflow::read_all;

/// The preset.
pub(crate) const PRESET: &str = "comfyui";
/// Where it is when nothing else is said: on this machine, on the server's own port.
pub(crate) const BASE_URL: &str = "http://127.0.0.1:8188";

#[cfg(test)]
mod tests;
