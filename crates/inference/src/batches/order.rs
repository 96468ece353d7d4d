//! What is kept of a batch while it is carried out, and what came of it. Both are sealed.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tollgate_accounts::Vault;
use tollgate_formats::anthropic_messages::{Betas, Version};
use tollgate_storage::{Job, LineCounts};
use tollgate_types::{AccountId, Error, FileId, JobId, Timestamp, Usage};

use super::request::{Endpoint, Fault, Reading};

/// The kinds of these jobs: those of files, and those in the format of messages.
pub(super) const KIND: &str = "batch";
pub(super) const MESSAGES_KIND: &str = "message_batch";
/// How long a batch may take.
pub(super) const WINDOW: Duration = Duration::from_hours(24);

/// What is asked for.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) input: FileId,
    pub(super) endpoint: Endpoint,
    /// The version of the format of messages that they are in; the first one when none is said.
    #[serde(default)]
    pub(super) version: Option<String>,
    /// Previews of that format by their names.
    #[serde(default)]
    pub(super) previews: Vec<String>,
    /// Requests.
    pub(super) total: u32,
    /// Tokens that they may consume, by a likely measure.
    pub(super) tokens: u64,
    pub(super) metadata: Option<BTreeMap<String, String>>,
    /// How long what comes of it is kept.
    pub(super) kept: Option<u64>,
    pub(super) mode: String,
    pub(super) compat: String,
    pub(super) accepted_at: Timestamp,
    /// Why it cannot be carried out.
    pub(super) faults: Vec<Fault>,
}

/// What came of it.
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
            begun: 0,
            done: self.done,
            failed: self.failed,
        }
    }
}

impl Order {
    /// How its lines are read.
    pub(super) fn reading(&self) -> Reading {
        let previews = self.previews.iter().map(String::as_bytes);
        Reading {
            endpoint: self.endpoint,
            version: Version::parse(self.version.as_deref()).unwrap_or_default(),
            betas: Betas::parse(previews).unwrap_or_default(),
        }
    }

    /// When it is too late.
    pub(super) fn expires_at(&self) -> Timestamp {
        self.accepted_at.plus(WINDOW)
    }
}

/// Seals what is kept of a job.
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

/// Opens it.
pub(super) fn opened<T: DeserializeOwned>(vault: &Vault, job: &Job, sealed: &[u8]) -> Result<T, Error> {
    let text = vault.open(job.account, job.terms.id.as_u128(), sealed);
    let text = text.ok_or_else(|| Error::internal(format!("{} cannot be opened", job.terms.id)))?;
    serde_json::from_slice(&text)
        .map_err(|error| Error::internal(format!("{} cannot be read: {error}", job.terms.id)))
}
