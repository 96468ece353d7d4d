//! Handles: by what an upstream is asked for something that it was given to make. They have ids and paths in them, and
//! never an address or a key.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tollgate_upstream::UpstreamError;

/// A handle as it is kept.
pub(crate) fn to_handle<T: Serialize>(handle: &T) -> Result<Vec<u8>, UpstreamError> {
    serde_json::to_vec(handle).map_err(|_| UpstreamError::protocol("the handle cannot be written"))
}

/// A handle that was kept. Nothing is asked by one that is none.
pub(crate) fn from_handle<T: DeserializeOwned>(handle: &[u8]) -> Result<T, UpstreamError> {
    serde_json::from_slice(handle).map_err(|_| UpstreamError::connect("the handle is none of this adapter"))
}
