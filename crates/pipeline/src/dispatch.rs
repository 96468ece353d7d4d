//! Stage 3: the candidates are tried in order until one answers. A stream counts as answered at its first content:
//! until then the caller has seen nothing and the call can go elsewhere.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tollgate_billing::Ending;
use tollgate_types::{Error, ErrorCode, Retry};
use tollgate_upstream::{
    ChunkKind, TextAnswer, TextChunk, TextReply, TextStream, UpstreamCause, UpstreamError, UpstreamErrorKind,
};

use crate::Pipeline;
use crate::admit::Admission;
use crate::health::may_have_run;
use crate::route::Route;

/// A call that an upstream has begun to answer.
pub(crate) struct Dispatched {
    pub(crate) reply: Started,
    /// Which provider answers.
    pub(crate) provider: Arc<str>,
}

/// The beginning of an answer.
pub(crate) enum Started {
    /// All of it.
    Whole(TextAnswer),
    /// What came so far, and what will come.
    Stream { begun: Vec<TextChunk>, rest: TextStream },
}

/// A call that no upstream answered.
pub(crate) struct Failure {
    pub(crate) error: Error,
    pub(crate) ending: Ending,
}

/// What to do after a failed attempt.
enum Next {
    GiveUp,
    Elsewhere,
    Again(Duration),
}

impl Pipeline {
    /// Tries the admission's candidates.
    pub(crate) async fn dispatch(&self, admission: &Admission) -> Result<Dispatched, Failure> {
        let mut attempt = 0;
        let mut place = 0;
        loop {
            let route = &admission.routes[place];
            let error = match self.attempt(admission, route).await {
                Ok(reply) => {
                    self.health.succeeded(&route.candidate);
                    return Ok(Dispatched {
                        reply,
                        provider: route.candidate.provider.clone(),
                    });
                }
                Err(error) => error,
            };
            self.health.failed(&route.candidate, &error);
            let request = admission.request.request;
            tracing::warn!(request.id = %request, provider = %route.candidate.provider, attempt, %error, "upstream failed");
            attempt += 1;
            let has_other = place + 1 < admission.routes.len();
            let next = if attempt > self.settings.retries.extra_attempts {
                Next::GiveUp
            } else {
                self.after_failure(&error, attempt, has_other)
            };
            match next {
                Next::Elsewhere if self.health.may_retry(&admission.routes[place + 1].candidate) => {
                    place += 1
                }
                Next::Again(wait) if self.health.may_retry(&route.candidate) => sleep(wait).await,
                _ => return Err(self.public_failure(&error)),
            }
        }
    }

    fn after_failure(&self, error: &UpstreamError, attempt: u32, has_other: bool) -> Next {
        let retries = &self.settings.retries;
        match error.kind {
            UpstreamErrorKind::Rejected
            | UpstreamErrorKind::ContentBlocked
            | UpstreamErrorKind::ContextLength
            | UpstreamErrorKind::Simulated(_) => Next::GiveUp,
            _ if error.cause == UpstreamCause::Timeout => Next::GiveUp,
            _ if has_other => Next::Elsewhere,
            UpstreamErrorKind::Credentials => Next::GiveUp,
            _ if error.retry == Retry::Never => Next::GiveUp,
            // The same upstream may be carrying out what it has received; a second copy could be paid for twice.
            _ if may_have_run(error) => Next::GiveUp,
            _ => match error.retry_after {
                Some(wait) if wait > retries.retry_after_cap => Next::GiveUp,
                Some(wait) => Next::Again(wait),
                None => Next::Again(self.jittered(retries.backoff, attempt)),
            },
        }
    }

    /// Full jitter: anything from nothing to the doubled wait.
    fn jittered(&self, first: Duration, attempt: u32) -> Duration {
        let longest = first
            .saturating_mul(1 << attempt.saturating_sub(1).min(16))
            .min(self.settings.retries.backoff_cap);
        let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.health.draw(micros.saturating_add(1)))
    }

    async fn attempt(&self, admission: &Admission, route: &Route) -> Result<Started, UpstreamError> {
        let Some(text) = route.provider.text() else {
            return Err(UpstreamError::connect("the provider does not generate text"));
        };
        let mut call = admission.request.call.clone();
        call.upstream_model = route.candidate.upstream_model.clone();
        let quote = admission.hold.terms().quote;
        call.clamp_output = quote.must_clamp.then_some(quote.output_cap);
        call.output_cap = quote.output_cap;
        let ctx = admission.context(self.settings.timeouts.headers, self.settings.timeouts.idle);
        match text.generate(&ctx, &call).await? {
            TextReply::Whole(answer) => Ok(Started::Whole(answer)),
            TextReply::Stream(stream) => self.peek(admission, stream).await,
        }
    }

    /// Waits for the first content, or until the headers can be kept back no longer.
    async fn peek(&self, admission: &Admission, mut stream: TextStream) -> Result<Started, UpstreamError> {
        let timeouts = &self.settings.timeouts;
        let patience = if admission.model.reasoning {
            timeouts.first_content_reasoning
        } else {
            timeouts.first_content
        };
        let commit_at = Instant::now() + timeouts.commit.min(patience);
        let mut begun = Vec::with_capacity(2);
        loop {
            let chunk = match timeout_at(commit_at, stream.next()).await {
                Ok(Some(chunk)) => chunk?,
                Ok(None) => return Err(UpstreamError::protocol("the stream ended before any content")),
                Err(_) if timeouts.commit < patience => return Ok(Started::Stream { begun, rest: stream }),
                Err(_) => return Err(UpstreamError::timeout("no content in time")),
            };
            let kind = chunk.kind;
            begun.push(chunk);
            match kind {
                ChunkKind::Preamble => {}
                ChunkKind::Content => return Ok(Started::Stream { begun, rest: stream }),
                ChunkKind::Usage | ChunkKind::End => {
                    return Err(UpstreamError::protocol("the stream has no content"));
                }
            }
        }
    }

    /// The failure as the caller sees it: it names no company.
    pub(crate) fn public_failure(&self, error: &UpstreamError) -> Failure {
        let ending = if error.cause == UpstreamCause::Timeout {
            Ending::Timeout
        } else {
            Ending::UpstreamError
        };
        Failure {
            error: public_error(error),
            ending,
        }
    }

    /// Waits for `future`, at most as long as a whole call may take.
    pub(crate) async fn within_total<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        timeout(self.settings.timeouts.total, future).await.ok()
    }
}

/// The error for a call that took longer than any may.
pub(crate) fn total_timeout() -> Failure {
    let message = "The model did not answer in time. Retry with backoff.";
    Failure {
        error: Error::new(ErrorCode::UpstreamTimeout, message),
        ending: Ending::Timeout,
    }
}

/// What a caller is told about a failed upstream.
pub(crate) fn public_error(error: &UpstreamError) -> Error {
    let retry = Retry::After(error.retry_after.unwrap_or(Duration::from_secs(5)));
    let with_param = |public: Error| match &error.param {
        Some(param) => public.with_param(param.clone()),
        None => public,
    };
    match error.kind {
        UpstreamErrorKind::Simulated(code) => {
            let public = with_param(Error::new(code, error.detail.clone()));
            match public.retry {
                Retry::Safe => public.with_retry(retry),
                _ => public,
            }
        }
        UpstreamErrorKind::Rejected => with_param(Error::new(
            ErrorCode::InvalidParameter,
            "The model rejected the request: it does not accept one of its parameters or their combination.",
        )),
        UpstreamErrorKind::ContentBlocked => Error::new(
            ErrorCode::ContentPolicyViolation,
            "The prompt was blocked by the content policy. Change the prompt; sending it again will not help.",
        ),
        UpstreamErrorKind::ContextLength => Error::new(
            ErrorCode::ContextLengthExceeded,
            "The input and the requested output do not fit into the model's context. Shorten the input.",
        )
        .with_param("messages"),
        UpstreamErrorKind::RateLimited => Error::new(
            ErrorCode::ModelUnavailable,
            "The model is at its capacity at the moment. Retry shortly.",
        )
        .with_retry(retry),
        UpstreamErrorKind::Credentials => Error::new(
            ErrorCode::UpstreamError,
            "The model provider returned an error. Retry with backoff; if it persists, contact support with the request id.",
        ),
        UpstreamErrorKind::Unavailable => match error.cause {
            UpstreamCause::Timeout => Error::new(
                ErrorCode::UpstreamTimeout,
                "The model did not answer in time. Retry with backoff.",
            ),
            UpstreamCause::Connect => Error::new(
                ErrorCode::ModelUnavailable,
                "The model is not reachable at the moment. Retry shortly.",
            )
            .with_retry(retry),
            UpstreamCause::Status | UpstreamCause::Protocol => Error::new(
                ErrorCode::UpstreamError,
                "The model provider returned an error. Retry with backoff.",
            ),
        },
    }
}
