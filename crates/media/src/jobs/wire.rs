//! Query parameters and response schemas of the job endpoints.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_edge::JobReference;
use tollgate_edge::error::ErrorObject;
use tollgate_storage::JobFilter;
use tollgate_types::{Error, ErrorCode, JobStatus};
use utoipa::{IntoParams, ToSchema};

/// Default number of jobs on a page.
const DEFAULT_LIMIT: u32 = 20;
/// Maximum value of `limit`.
const MAX_LIMIT: u32 = 100;
/// Maximum value of `wait`, in seconds.
const MAX_WAIT_SECONDS: u64 = 60;

/// A job with its status, progress and result.
#[derive(Debug, Serialize, ToSchema)]
pub struct JobRecord {
    /// The fields of the job reference, with the current `status`.
    #[serde(flatten)]
    #[schema(inline)]
    pub reference: JobReference,
    /// Same value as `job_id`.
    pub id: String,
    /// Model, as named in the request, or the default model if the request names none. `compose`
    /// for compositions.
    pub model: String,
    /// Progress in percent; null if it is unknown.
    pub progress: Option<u8>,
    /// Current phase, for example `accepted`, `submitting`, `queued_upstream`, `running` or
    /// `fetching`. Null after the job has ended.
    pub phase: Option<String>,
    /// Number of jobs ahead in the provider's queue; null if the provider does not report it.
    pub queue_position: Option<u32>,
    /// Start time of the execution, RFC 3339 in UTC; null if the job has not started.
    pub started_at: Option<String>,
    /// End time of the job, RFC 3339 in UTC; null until the job has ended.
    pub completed_at: Option<String>,
    /// Earliest time at which a URL in the result expires, RFC 3339 in UTC; null if the record
    /// contains no URLs. While the objects are stored, each poll returns new URLs.
    pub expires_at: Option<String>,
    /// URL that cancels the job on a POST request.
    pub cancel_url: String,
    /// Result of the job; null until it has completed.
    pub result: Option<Value>,
    /// Reason why the job failed; null for other jobs.
    pub error: Option<ErrorObject>,
    /// Billed quantities, such as `images`, `video_seconds` or `output_tokens`; null until the job
    /// has ended.
    pub usage: Option<Value>,
    /// Cost in credits, as a decimal string; null until the job has ended.
    pub cost: Option<String>,
    /// Custom key-value pairs from the request; null if the request has none.
    pub metadata: Option<BTreeMap<String, String>>,
    /// The `x-request-id` of the request that created the job.
    pub request_id: String,
}

/// A page of jobs, newest first.
#[derive(Serialize, ToSchema)]
pub struct JobList {
    /// Always `list`.
    #[schema(value_type = String)]
    pub object: &'static str,
    /// The jobs, without results. `GET /v1/jobs/{job_id}` returns the result of a job.
    pub data: Vec<JobRecord>,
    /// Id of the first job on the page; null on an empty page.
    pub first_id: Option<String>,
    /// Id of the last job on the page; null on an empty page. Send it as `after` to get the next
    /// page.
    pub last_id: Option<String>,
    /// Whether older jobs exist.
    pub has_more: bool,
}

/// Filters and paging of the job list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// Selects jobs of this type, such as `video.generation`.
    r#type: Option<String>,
    /// Selects jobs with this status: `queued`, `in_progress`, `completed`, `failed`, `cancelled`
    /// or `expired`.
    status: Option<String>,
    /// Selects jobs that are older than the job with this id.
    after: Option<String>,
    /// Number of jobs on a page, 1 to 100. Defaults to 20.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

/// Query parameters of a poll.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct WaitQuery {
    /// Maximum time to wait for the end of the job, in seconds, 0 to 60. Defaults to 0.
    #[param(minimum = 0, maximum = 60)]
    wait: Option<u64>,
}

fn invalid(param: &str, message: &str) -> Error {
    Error::new(ErrorCode::InvalidParameter, message).with_param(param)
}

impl ListQuery {
    pub(super) fn decode(self) -> Result<(JobFilter, u32), Error> {
        let limit = self.limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAX_LIMIT).contains(&limit) {
            return Err(invalid("limit", "'limit' must be 1 to 100."));
        }
        let status = |name: String| {
            let message = "'status' must be queued, in_progress, completed, failed, cancelled or expired.";
            JobStatus::parse(&name).ok_or_else(|| invalid("status", message))
        };
        let id = |text: String| {
            text.parse()
                .map_err(|_| invalid("after", "'after' must be the id of a job."))
        };
        let filter = JobFilter {
            kind: self.r#type,
            status: self.status.map(status).transpose()?,
            before: self.after.map(id).transpose()?,
            after: None,
        };
        Ok((filter, limit))
    }
}

impl WaitQuery {
    pub(super) fn decode(&self) -> Result<std::time::Duration, Error> {
        let seconds = self.wait.unwrap_or_default();
        if seconds > MAX_WAIT_SECONDS {
            return Err(invalid("wait", "'wait' must be 0 to 60 seconds."));
        }
        Ok(std::time::Duration::from_secs(seconds))
    }
}
