//! ComfyUI servers. A model is a workflow of the operator: a graph in the server's API format, with
//! slots for the parameters (docs.comfy.org/development/comfyui-server/comms_routes).

mod adapter;
mod progress;
mod wire;
mod workflow;

pub(crate) use adapter::ComfyUi;
pub(crate) use workflow::read_all;

/// Name of the preset in the configuration.
pub(crate) const PRESET: &str = "comfyui";
/// Default base URL: ComfyUI's default port on this machine.
pub(crate) const BASE_URL: &str = "http://127.0.0.1:8188";

#[cfg(test)]
mod tests;
