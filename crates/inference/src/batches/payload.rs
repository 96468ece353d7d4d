//! Stored payload and outcome of a batch job. Both are encrypted.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tollgate_accounts::Vault;
use tollgate_formats::anthropic_messages::{Betas, Version};
use tollgate_storage::{Job, LineCounts};
use tollgate_types::{AccountId, Error, FileId, JobId, Timestamp, Usage};

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

/// Encrypts data of a job.
pub(super) fn seal(
    vault: &Vault,
    account: AccountId,
    id: JobId,
    what: &impl Serialize,
) -> Result<Vec<u8>, Error> {
    let text = serde_json::to_vec(what).map_err(|error| Error::internal(error.to_string()))?;
    let sealed = vault.seal(account, id.as_u128(), &text);
    sealed.map_err(|error| Error::internal(error.to_string()))
}

/// Decrypts and parses data of a job.
pub(super) fn opened<T: DeserializeOwned>(vault: &Vault, job: &Job, sealed: &[u8]) -> Result<T, Error> {
    let text = vault.open(job.account, job.terms.id.as_u128(), sealed);
    let text = text.ok_or_else(|| Error::internal(format!("{} cannot be decrypted", job.terms.id)))?;
    serde_json::from_slice(&text)
        .map_err(|error| Error::internal(format!("the content of {} is invalid: {error}", job.terms.id)))
}
