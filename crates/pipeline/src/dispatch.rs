//! Stage 3: the candidates are tried in order until one answers, whatever the operation.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tollgate_billing::Ending;
use tollgate_types::{Error, ErrorCode, Retry};
use tollgate_upstream::{UpstreamCause, UpstreamError, UpstreamErrorKind};

use crate::Pipeline;
use crate::admit::Admission;
use crate::health::may_have_run;
use crate::operation::Operation;
use crate::policy;

/// A call that an upstream has begun to answer.
pub(crate) struct Dispatched<R> {
    pub(crate) reply: R,
    /// Which provider answers.
    pub(crate) provider: Arc<str>,
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
    pub(crate) async fn dispatch<C: Operation>(
        &self,
        admission: &Admission<C>,
    ) -> Result<Dispatched<C::Reply>, Failure> {
        let mut attempt = 0;
        let mut place = 0;
        loop {
            let route = &admission.routes[place];
            let error = match C::attempt(self, admission, route).await {
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
                _ => return Err(public_failure(&error, admission.request.call.input())),
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
    pub(crate) fn jittered(&self, first: Duration, attempt: u32) -> Duration {
        let longest = first
            .saturating_mul(1 << attempt.saturating_sub(1).min(16))
            .min(self.settings.retries.backoff_cap);
        let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.health.draw(micros.saturating_add(1)))
    }

    /// Waits for `future`, at most as long as a whole call may take.
    pub(crate) async fn within_total<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        timeout(self.settings.timeouts.total, future).await.ok()
    }
}

/// The failure as the caller sees it: it names no company. `input` is the parameter that carries what the model reads.
pub(crate) fn public_failure(error: &UpstreamError, input: &str) -> Failure {
    Failure {
        error: public_error(error, input),
        ending: ending_of(error),
    }
}

/// How a call ends that fails so.
pub(crate) fn ending_of(error: &UpstreamError) -> Ending {
    match error.cause {
        UpstreamCause::Timeout => Ending::Timeout,
        _ => Ending::UpstreamError,
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
pub(crate) fn public_error(error: &UpstreamError, input: &str) -> Error {
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
        UpstreamErrorKind::ContentBlocked => policy::blocked(),
        UpstreamErrorKind::ContextLength => Error::new(
            ErrorCode::ContextLengthExceeded,
            "The input and the requested output do not fit into the model's context. Shorten the input.",
        )
        .with_param(input),
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
                "The model is not reachable at the moment. Retry shortly; if it persists, contact support with the request id.",
            )
            .with_retry(retry),
            UpstreamCause::Status | UpstreamCause::Protocol => Error::new(
                ErrorCode::UpstreamError,
                "The model provider returned an error. Retry with backoff.",
            ),
        },
    }
}
