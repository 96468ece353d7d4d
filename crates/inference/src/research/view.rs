//! Results and events of research jobs for their owners.

use async_trait::async_trait;
use serde_json::Value;
use tollgate_accounts::Vault;
use tollgate_jobs::{JobResult, JobView, sealed};
use tollgate_storage::{Job, JobEvent};
use tollgate_types::Error;

use super::KIND;

/// View of research jobs. Results are stored in their final form. A cancelled job has a
/// partial result.
pub(super) struct ResearchView {
    vault: Vault,
}

impl ResearchView {
    pub(super) fn new(vault: Vault) -> Self {
        Self { vault }
    }
}

#[async_trait]
impl JobView for ResearchView {
    fn kind(&self) -> &'static str {
        KIND
    }

    async fn result(&self, _: &str, job: &Job) -> Result<Option<JobResult>, Error> {
        let Some(sealed) = &job.result else {
            return Ok(None);
        };
        Ok(Some(JobResult {
            body: sealed::open(&self.vault, job, sealed)?,
            expires_at: None,
        }))
    }

    /// Decrypts the body of an event. Events of the status are not encrypted.
    fn event(&self, job: &Job, event: &JobEvent) -> Value {
        match event.kind.starts_with("research.") {
            true => sealed::open(&self.vault, job, &event.body).unwrap_or_default(),
            false => serde_json::from_slice(&event.body).unwrap_or_default(),
        }
    }
}
