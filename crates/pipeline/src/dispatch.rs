//! Stage 3: tries the candidates in order until one responds, for any operation.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tollgate_billing::Ending;
use tollgate_types::{Error, ErrorCode, Retry, Usage};
use tollgate_upstream::{RejectedPart, UpstreamCause, UpstreamError, UpstreamErrorKind};

use crate::Pipeline;
use crate::admit::Admission;
use crate::health::may_have_run;
use crate::operation::Operation;
use crate::policy;

/// A call with the reply of an upstream, complete or started.
pub(crate) struct Dispatched<R> {
    pub(crate) reply: R,
    /// Target of the reply, see [`Candidate::target`](tollgate_catalog::Candidate::target).
    pub(crate) target: Arc<str>,
}

/// Failure of a call, for the caller and for its settlement.
pub(crate) struct Failure {
    pub(crate) error: Error,
    pub(crate) ending: Ending,
    /// Usage that upstreams reported for discarded responses.
    pub(crate) reported: Option<Box<Usage>>,
}

/// Next step after a failed attempt.
enum Next {
    GiveUp,
    Elsewhere,
    Again(Duration),
}

impl Pipeline {
    /// Tries the admission's candidates in order, with retries and backoff.
    pub(crate) async fn dispatch<C: Operation>(
        &self,
        admission: &Admission<C>,
    ) -> Result<Dispatched<C::Reply>, Failure> {
        let mut attempt = 0;
        let mut place = 0;
        let mut was_reported = false;
        let shape = admission.shape();
        loop {
            let route = &admission.routes[place];
            let mut error = match C::attempt(self, admission, route).await {
                Ok(reply) => {
                    self.health.succeeded(&route.candidate, shape);
                    return Ok(Dispatched {
                        reply,
                        target: route.candidate.target.clone(),
                    });
                }
                Err(error) => error,
            };
            self.health.failed(&route.candidate, &error, shape);
            let request = admission.request.request;
            if let Some(reported) = &error.reported {
                self.count_uncharged(request, reported);
            }
            tracing::warn!(request.id = %request, provider = %route.candidate.provider, attempt, %error, "upstream failed");
            attempt += 1;
            let has_other = place + 1 < admission.routes.len();
            // Two consecutive error objects from upstreams end the attempts: another one would fail
            // as well.
            let is_again = std::mem::replace(&mut was_reported, error.is_reported) && error.is_reported;
            let next = if attempt > self.settings.retries.extra_attempts || is_again {
                Next::GiveUp
            } else {
                self.after_failure(&error, attempt, has_other)
            };
            match next {
                Next::Elsewhere if self.health.may_retry(&admission.routes[place + 1].candidate) => {
                    place += 1
                }
                Next::Again(wait) if self.health.may_retry(&route.candidate) => sleep(wait).await,
                _ => {
                    if error.rejected == Some(RejectedPart::OutputCap) {
                        let call = &admission.request.call;
                        let name = CAP_PARAMS.iter().find(|name| call.has_param(name));
                        error.param = name.map(|name| (*name).to_owned());
                    }
                    // The upstream's name of a parameter is removed if the caller's request does
                    // not have the parameter.
                    error.param = error.param.filter(|param| {
                        error.kind != UpstreamErrorKind::Rejected || admission.request.call.has_param(param)
                    });
                    return Err(public_failure(&error, admission.request.call.input()));
                }
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
            UpstreamErrorKind::Unsupported => Next::GiveUp,
            _ if error.retry == Retry::Never => Next::GiveUp,
            // The same upstream may still be executing the request, and could charge a second copy.
            _ if may_have_run(error) => Next::GiveUp,
            _ => match error.retry_after {
                Some(wait) if wait > retries.retry_after_cap => Next::GiveUp,
                Some(wait) => Next::Again(wait),
                None => Next::Again(self.jittered(retries.backoff, attempt)),
            },
        }
    }

    /// Returns a random delay with full jitter: between zero and `first` doubled per attempt, at
    /// most `backoff_cap`.
    pub(crate) fn jittered(&self, first: Duration, attempt: u32) -> Duration {
        let longest = first
            .saturating_mul(1 << attempt.saturating_sub(1).min(16))
            .min(self.settings.retries.backoff_cap);
        let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.health.draw(micros.saturating_add(1)))
    }

    /// Waits for `future`. Returns `None` after the total timeout of a call.
    pub(crate) async fn within_total<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        timeout(self.settings.timeouts.total, future).await.ok()
    }
}

/// Names of the output cap in the request formats.
const CAP_PARAMS: &[&str] = &[
    "max_completion_tokens",
    "max_tokens",
    "max_output_tokens",
    "generationConfig.maxOutputTokens",
    "generation_config.max_output_tokens",
];

/// Converts an upstream error to a failure for the caller. `input` is the name of the parameter
/// with the model's input.
pub(crate) fn public_failure(error: &UpstreamError, input: &str) -> Failure {
    Failure {
        error: public_error(error, input),
        ending: ending_of(error),
        reported: None,
    }
}

/// Returns the ending of a call with this error.
pub(crate) fn ending_of(error: &UpstreamError) -> Ending {
    match error.cause {
        UpstreamCause::Timeout => Ending::Timeout,
        _ => Ending::UpstreamError,
    }
}

/// Returns the failure of a call that exceeded the total timeout.
pub(crate) fn total_timeout() -> Failure {
    let message = "The model did not answer in time. Retry with backoff.";
    Failure {
        error: Error::new(ErrorCode::UpstreamTimeout, message),
        ending: Ending::Timeout,
        reported: None,
    }
}

/// Returns the failure of a call that was ended after its caller had disconnected. No caller
/// receives the error.
pub(crate) fn cut_off() -> Failure {
    Failure {
        ending: Ending::CallerGoneCut,
        ..total_timeout()
    }
}

/// Returns the public error of an upstream failure. The message does not name the provider. It
/// includes the upstream's text only if the provider's settings allow it.
pub(crate) fn public_error(error: &UpstreamError, input: &str) -> Error {
    let mut public = without_text(error, input);
    if let Some(text) = error.passed_text() {
        public.message = format!("{} The provider says: {text}", public.message);
    }
    public
}

fn without_text(error: &UpstreamError, input: &str) -> Error {
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
        UpstreamErrorKind::Rejected if error.added_cap.is_some() => Error::new(
            ErrorCode::InvalidParameter,
            format!(
                "The model rejected the request, possibly because of the limit of {} output tokens \
                 that the gateway added. Set a smaller limit in the request.",
                error.added_cap.unwrap_or_default()
            ),
        ),
        UpstreamErrorKind::Rejected if error.rejected == Some(RejectedPart::OutputCap) => {
            let name = error.param.as_deref().map(|param| format!("'{param}'"));
            let name = name.as_deref().unwrap_or("The output cap");
            with_param(Error::new(
                ErrorCode::InvalidParameter,
                format!("{name} is larger than the model's limit. Set a smaller value."),
            ))
        }
        UpstreamErrorKind::Rejected => with_param(Error::new(
            ErrorCode::InvalidParameter,
            "The model rejected the request because it does not accept a parameter or a combination \
             of parameters. Change the parameters or choose another model.",
        )),
        UpstreamErrorKind::Unsupported => {
            let name = error.param.as_deref().unwrap_or("a parameter");
            with_param(Error::new(
                ErrorCode::UnsupportedParameter,
                format!("This model's server ignores '{name}'. Remove it or choose another model."),
            ))
        }
        UpstreamErrorKind::ContentBlocked => policy::blocked(),
        UpstreamErrorKind::ContextLength => Error::new(
            ErrorCode::ContextLengthExceeded,
            "The input and the requested output together exceed the model's context window. \
             Shorten the input, or request fewer output tokens.",
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
        // The upstream reports that it is overloaded or restarting.
        UpstreamErrorKind::Unavailable if matches!(error.status, Some(503 | 529)) => Error::new(
            ErrorCode::ModelUnavailable,
            "The model is temporarily offline. Retry shortly; if it persists, contact support with the request id.",
        )
        .with_retry(retry),
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
