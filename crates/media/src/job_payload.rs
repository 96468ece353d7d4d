//! Stored data of a job: its payload, the outcomes of its steps, and its result. All data is
//! encrypted.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tollgate_storage::KeyMode;
use tollgate_types::{MediaId, Prices, Timestamp, Usage};

/// Payload of a generation job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct JobPayload<T> {
    /// Data that is common to all job kinds.
    pub(crate) head: Head,
    /// Number of outputs that each submission requests, one element per submission.
    pub(crate) parts: Vec<u32>,
    /// Generation parameters of the job kind.
    #[serde(rename = "wish")]
    pub(crate) params: T,
}

/// Payload data that is common to all job kinds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Head {
    /// Base URL of the gateway, as the caller addressed it.
    pub(crate) origin: String,
    /// Mode of the caller's key: `live` or `test`.
    pub(crate) mode: String,
    /// Offset of the account's test clock at acceptance.
    pub(crate) ahead: Duration,
    /// Agreed prices in nano-credits, by price name.
    pub(crate) prices: BTreeMap<String, i64>,
    /// Model of this step, if it differs from the model of the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// Key-value pairs from the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<BTreeMap<String, String>>,
}

/// Result of a completed job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Completion time of the generation.
    pub(crate) created_at: Timestamp,
    /// Stored outputs, in their order.
    #[serde(rename = "pieces")]
    pub(crate) items: Vec<StoredMedia>,
    /// Whether the job's result contains the bytes of the outputs instead of URLs.
    #[serde(default)]
    pub(crate) inline: bool,
}

/// A stored output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredMedia {
    pub(crate) media: MediaId,
    pub(crate) mime_type: String,
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// Duration of a video, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) duration: Option<u64>,
    /// Part of `duration` that this job generated, in microseconds. It excludes the source of an
    /// extended video.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "made")]
    pub(crate) generated: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) revised_prompt: Option<String>,
}

/// Outcome of a completed submission.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Part {
    /// Provider target that served the submission.
    #[serde(rename = "provider")]
    pub(crate) target: String,
    #[serde(rename = "pieces")]
    pub(crate) items: Vec<StoredMedia>,
    /// Token usage that the provider reported.
    pub(crate) reported: Option<Usage>,
    /// Whether the provider generated the output but blocked it.
    pub(crate) is_blocked: bool,
    pub(crate) first_at: Timestamp,
}

impl Head {
    /// Returns the prices of the time of acceptance.
    pub(crate) fn agreed(&self) -> Prices {
        tollgate_billing::agreed::agreed(&self.prices)
    }

    /// Returns the mode of the caller's key. Unknown values count as live.
    pub(crate) fn key_mode(&self) -> KeyMode {
        KeyMode::parse(&self.mode).unwrap_or(KeyMode::Live)
    }
}
