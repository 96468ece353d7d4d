//! Calls of research jobs: the job's hold pays for them.

use std::sync::Arc;
use std::time::Duration;

use tollgate_storage::Job;
use tollgate_types::Credits;
use tollgate_upstream::CallContext;

use crate::Pipeline;
use crate::admit::job_context;
use crate::job::Settled;

impl Pipeline {
    /// Returns the context of a call of a research job.
    pub fn research_context(&self, job: &Job, timeout: Duration) -> CallContext {
        job_context(job, timeout, timeout)
    }

    /// Returns a pipeline for one call of a research job whose cost is at most `amount`, a part of
    /// the job's hold, and the [`Settled`] that receives its settlement. The calls do not count
    /// towards tokens per minute. A dropped call ends immediately, because only recorded calls are
    /// charged.
    pub fn executing_research_call(&self, amount: Credits) -> (Arc<Pipeline>, Arc<Settled>) {
        self.executing_part(amount)
    }

    /// Whether the content policy forbids this text of a report.
    pub async fn forbids_report(&self, job: &Job, text: &str) -> bool {
        match self.policy().filter(|policy| policy.inspects_output()) {
            Some(policy) => policy.forbids(job.request, &[text.to_owned()]).await,
            None => false,
        }
    }
}
