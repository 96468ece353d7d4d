//! Calls of research jobs: the job's hold pays for them.

use std::time::Duration;

use tollgate_storage::Job;
use tollgate_upstream::CallContext;

use crate::Pipeline;
use crate::admit::job_context;

impl Pipeline {
    /// Returns the context of a call of a research job.
    pub fn research_context(&self, job: &Job, timeout: Duration) -> CallContext {
        job_context(job, timeout, timeout)
    }

    /// Whether the content policy forbids this text of a report.
    pub async fn forbids_report(&self, job: &Job, text: &str) -> bool {
        match self.policy().filter(|policy| policy.inspects_output()) {
            Some(policy) => policy.forbids(job.request, &[text.to_owned()]).await,
            None => false,
        }
    }
}
