//! Request and response bodies of the asynchronous chat completions.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// Request body of `POST /v1/async/chat/completions`.
#[derive(Serialize, ToSchema)]
pub struct CreateAsyncChatCompletion {
    /// A chat completion request for a research model, without `stream`.
    #[schema(value_type = Object)]
    request: Value,
    /// Has the effect of the header `Idempotency-Key`, which takes precedence: 1 to 255 printable
    /// ASCII characters.
    #[schema(max_length = 255)]
    idempotency_key: Option<String>,
}

/// An asynchronous chat completion.
#[derive(Serialize, ToSchema)]
pub struct AsyncChatCompletion {
    /// Id of the job.
    pub(super) id: String,
    /// Model name as sent in the request.
    pub(super) model: String,
    /// Time of acceptance, in seconds since the Unix epoch.
    pub(super) created_at: i64,
    /// Time of the start; null before.
    pub(super) started_at: Option<i64>,
    /// Time of the completion; null unless the status is `COMPLETED`.
    pub(super) completed_at: Option<i64>,
    /// Time of the failure; null unless the status is `FAILED`.
    pub(super) failed_at: Option<i64>,
    /// Reason of the failure; null unless the status is `FAILED`.
    pub(super) error_message: Option<String>,
    /// `CREATED`, `IN_PROGRESS`, `COMPLETED` or `FAILED`. Cancelled jobs have failed.
    #[schema(value_type = String)]
    pub(super) status: &'static str,
    /// The chat completion, with `citations` and `search_results`; null unless the status is
    /// `COMPLETED`. The cost in its usage is an object of numbers.
    #[schema(value_type = Option<Object>)]
    pub(super) response: Option<Value>,
}

/// A page of asynchronous chat completions, newest first.
#[derive(Serialize, ToSchema)]
pub struct AsyncChatCompletions {
    /// The chat completions, without responses.
    pub(super) requests: Vec<AsyncChatCompletion>,
    /// Value of `next_token` for the next page; null on the last one.
    pub(super) next_token: Option<String>,
}

/// Query of the list of asynchronous chat completions.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct PageQuery {
    /// Number of items per page, 1 to 100. Default: 20.
    #[param(minimum = 1, maximum = 100)]
    pub(super) limit: Option<u32>,
    /// Value of `next_token` in the page before.
    pub(super) next_token: Option<String>,
}
