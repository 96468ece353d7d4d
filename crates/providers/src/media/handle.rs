//! Handles of jobs at an upstream. They contain ids and paths, never a host or a credential.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tollgate_upstream::UpstreamError;

/// Encodes a handle for storage.
pub(crate) fn to_handle<T: Serialize>(handle: &T) -> Result<Vec<u8>, UpstreamError> {
    serde_json::to_vec(handle).map_err(|_| UpstreamError::protocol("the job handle cannot be encoded"))
}

/// Decodes a stored handle. Returns an error for a malformed handle, before any request is sent.
pub(crate) fn from_handle<T: DeserializeOwned>(handle: &[u8]) -> Result<T, UpstreamError> {
    serde_json::from_slice(handle)
        .map_err(|_| UpstreamError::connect("the job handle is malformed or belongs to another adapter"))
}
