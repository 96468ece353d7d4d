//! Queries and answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_edge::error::ErrorObject;
use tollgate_storage::{Job, JobFilter};
use tollgate_types::{Error, ErrorCode, JobStatus};
use utoipa::{IntoParams, ToSchema};

/// Jobs on a page when the request does not say, and at the most.
const USUAL_LIMIT: u32 = 20;
const MOST_LIMIT: u32 = 100;
/// Longest wait, in seconds.
const MOST_WAIT: u64 = 60;

/// That a job was accepted (choices, J2).
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct JobReference {
    /// Identifier used in `GET /v1/jobs/{job_id}`.
    pub job_id: String,
    /// Always `job`.
    #[schema(value_type = String)]
    pub object: &'static str,
    /// What kind of work it is, such as `image.generation`.
    pub r#type: String,
    /// `queued`, `in_progress`, `completed`, `failed`, `cancelled` or `expired`.
    #[schema(value_type = String)]
    pub status: &'static str,
    /// Address to poll.
    pub poll_url: String,
    /// When it was accepted, RFC 3339 in UTC.
    pub created_at: String,
}

/// A job (choices, J3).
#[derive(Debug, Serialize, ToSchema)]
pub struct JobRecord {
    /// What its acceptance said; `status` as it is now.
    #[serde(flatten)]
    #[schema(inline)]
    pub reference: JobReference,
    /// The same as `job_id`.
    pub id: String,
    /// The model as the request named it.
    pub model: String,
    /// How much is done, in percent; null where nobody knows.
    pub progress: Option<u8>,
    /// Where the work is: `accepted`, `submitting`, `queued_upstream`, `running`, `fetching`, …; null once it has ended.
    pub phase: Option<String>,
    /// How many jobs are before it at the model, if the model tells.
    pub queue_position: Option<u32>,
    /// When it was begun.
    pub started_at: Option<String>,
    /// When it ended.
    pub completed_at: Option<String>,
    /// When the first address in the result ends; another poll makes new ones for as long as the objects are kept.
    pub expires_at: Option<String>,
    /// POST here to cancel it.
    pub cancel_url: String,
    /// What was made; null until it is.
    pub result: Option<Value>,
    /// Why nothing was made.
    pub error: Option<ErrorObject>,
    /// What was consumed; null until it has ended.
    pub usage: Option<Value>,
    /// What it cost, in credits as a decimal string; null until it has ended.
    pub cost: Option<String>,
    /// As the request had it.
    pub metadata: Option<BTreeMap<String, String>>,
    /// The `x-request-id` of its request.
    pub request_id: String,
}

/// A page of jobs, newest first.
#[derive(Serialize, ToSchema)]
pub struct JobList {
    /// Always `list`.
    #[schema(value_type = String)]
    pub object: &'static str,
    /// The jobs. Their results are at `GET /v1/jobs/{job_id}`: a list makes no addresses.
    pub data: Vec<JobRecord>,
    /// Id of the first.
    pub first_id: Option<String>,
    /// Id of the last: `after` of the next page.
    pub last_id: Option<String>,
    /// Whether there are older ones.
    pub has_more: bool,
}

/// Which jobs.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// Of this type, such as `video.generation`.
    r#type: Option<String>,
    /// With this status.
    status: Option<String>,
    /// Older than the job with this id.
    after: Option<String>,
    /// Jobs on a page, 1 to 100; 20 when it is not said.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

/// How long to wait.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct WaitQuery {
    /// Answer when the job has ended, and after so many seconds in any case: 0 to 60.
    #[param(minimum = 0, maximum = 60)]
    wait: Option<u64>,
}

fn invalid(param: &str, message: &str) -> Error {
    Error::new(ErrorCode::InvalidParameter, message).with_param(param)
}

impl ListQuery {
    pub(super) fn decode(self) -> Result<(JobFilter, u32), Error> {
        let limit = self.limit.unwrap_or(USUAL_LIMIT);
        if !(1..=MOST_LIMIT).contains(&limit) {
            return Err(invalid("limit", "'limit' is 1 to 100."));
        }
        let status = |name: String| {
            let message = "'status' is queued, in_progress, completed, failed, cancelled or expired.";
            JobStatus::parse(&name).ok_or_else(|| invalid("status", message))
        };
        let id = |text: String| {
            text.parse()
                .map_err(|_| invalid("after", "'after' is not the id of a job."))
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
        if seconds > MOST_WAIT {
            return Err(invalid("wait", "'wait' is 0 to 60 seconds."));
        }
        Ok(std::time::Duration::from_secs(seconds))
    }
}

impl JobReference {
    /// A job as it is, for a caller who has reached the service here.
    pub fn of(origin: &str, job: &Job) -> Self {
        Self::new(origin, job.terms.id, &job.terms.kind, job.status, job.created_at)
    }

    /// The same of its parts.
    pub fn new(
        origin: &str,
        id: tollgate_types::JobId,
        kind: &str,
        status: JobStatus,
        created_at: tollgate_types::Timestamp,
    ) -> Self {
        Self {
            job_id: id.to_string(),
            object: "job",
            r#type: kind.to_owned(),
            status: status.as_str(),
            poll_url: format!("{origin}/v1/jobs/{id}"),
            created_at: created_at.to_rfc3339(),
        }
    }
}
