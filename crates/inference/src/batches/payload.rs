//! Stored payload and outcome of a batch job. Both are encrypted.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tollgate_formats::anthropic_messages::{Betas, Version};
use tollgate_storage::LineCounts;
use tollgate_types::{FileId, Timestamp, Usage};

use super::request::{Endpoint, Fault, Reading};

/// Job kinds: batches of files, and batches of Anthropic's format.
pub(super) const KIND: &str = "batch";
pub(super) const MESSAGES_KIND: &str = "message_batch";
/// Time within which a batch is executed.
pub(super) const COMPLETION_WINDOW: Duration = Duration::from_hours(24);

/// Stored request of a batch.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct BatchPayload {
    pub(super) input: FileId,
    pub(super) endpoint: Endpoint,
    /// Version of Anthropic's format; `None` for its first version.
    #[serde(default)]
    pub(super) version: Option<String>,
    /// Names of the requested beta features of Anthropic's format.
    #[serde(default)]
    pub(super) previews: Vec<String>,
    /// Total number of requests.
    pub(super) total: u32,
    /// Estimated tokens of all lines: bytes ÷ 4, plus the output cap of each line.
    pub(super) tokens: u64,
    pub(super) metadata: Option<BTreeMap<String, String>>,
    /// Retention of the result files, in seconds.
    #[serde(rename = "kept")]
    pub(super) retention_seconds: Option<u64>,
    pub(super) mode: String,
    pub(super) compat: String,
    pub(super) accepted_at: Timestamp,
    /// Errors of the input file that prevent execution.
    pub(super) faults: Vec<Fault>,
}

/// Stored outcome of an ended batch.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) output: Option<FileId>,
    pub(super) errors: Option<FileId>,
    pub(super) done: u64,
    pub(super) failed: u64,
    pub(super) finalizing_at: Option<Timestamp>,
    pub(super) cancelling_at: Option<Timestamp>,
    pub(super) usage: Usage,
}

impl Outcome {
    pub(super) fn counts(&self) -> LineCounts {
        LineCounts {
            started: 0,
            done: self.done,
            failed: self.failed,
        }
    }
}

impl BatchPayload {
    /// Returns the options for parsing the lines.
    pub(super) fn reading(&self) -> Reading {
        let previews = self.previews.iter().map(String::as_bytes);
        Reading {
            endpoint: self.endpoint,
            version: Version::parse(self.version.as_deref()).unwrap_or_default(),
            betas: Betas::parse(previews).unwrap_or_default(),
        }
    }

    /// Returns the time at which the batch expires.
    pub(super) fn expires_at(&self) -> Timestamp {
        self.accepted_at.plus(COMPLETION_WINDOW)
    }
}
