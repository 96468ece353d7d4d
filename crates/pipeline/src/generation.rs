//! Calls that a provider executes as jobs, such as image and video generation: the gateway submits
//! the call and polls its state. The hold of the gateway's own job pays for these requests.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tollgate_billing::{Charge, Verdict, charge};
use tollgate_storage::{Job, Settlement, UsagePart};
use tollgate_types::usage::Outcome;
use tollgate_types::{Credits, Error, ErrorCode, Prices, Timestamp, Usage};
use tollgate_upstream::{
    ContentStream, FetchRequest, GenerationState, ImageCall, JobCall, JobProvider, MediaKind, Provider,
    Submitted, UpstreamCause, UpstreamError, UpstreamErrorKind, VideoCall,
};

use crate::Pipeline;
use crate::admit::job_context;
use crate::health::Shape;
use crate::media::ReferencesMedia;
use crate::route::{Route, Routed};

/// Header timeout of status, cancellation and download requests, and idle timeout of all requests
/// to a media provider.
const POLL_TIMEOUT: Duration = Duration::from_secs(60);

impl ReferencesMedia for ImageCall {}

impl ReferencesMedia for VideoCall {}

impl Routed {
    /// Retains the candidates that accept the call. If there are none, returns the first
    /// candidate's error, or `unsupported_endpoint`.
    pub fn retain_job_providers<C: JobCall>(&mut self, call: &C) -> Result<(), Error> {
        let mut refusal = None;
        let mut retained = Vec::with_capacity(self.routes.len());
        for route in &self.routes {
            let Some(job_provider) = C::provider(&*route.provider) else {
                continue;
            };
            match job_provider.check(&call.at(route.candidate.upstream_model.clone())) {
                Ok(()) => retained.push(route.clone()),
                Err(error) => {
                    refusal.get_or_insert(error);
                }
            }
        }
        if retained.is_empty() {
            return Err(refusal.unwrap_or_else(unsupported_model));
        }
        self.routes = retained;
        Ok(())
    }

    /// Returns the candidate of an attempt (counted from 1), in round-robin order.
    pub fn candidate(&self, attempt: u32) -> Option<&Route> {
        let index = attempt.saturating_sub(1) as usize % self.routes.len().max(1);
        self.routes.get(index)
    }

    /// Returns the first candidate at this provider.
    pub fn candidate_at(&self, provider: &str) -> Option<&Route> {
        self.routes
            .iter()
            .find(|route| *route.candidate.provider == *provider)
    }

    /// Returns the maximum number of outputs per submission that all candidates support; at least
    /// 1.
    pub fn max_outputs<C: JobCall>(&self) -> u32 {
        let max = |route: &Route| {
            let job_provider = C::provider(&*route.provider)?;
            Some(job_provider.max_outputs(&route.candidate.upstream_model))
        };
        self.routes.iter().filter_map(max).min().unwrap_or(1).max(1)
    }
}

fn unsupported_model() -> Error {
    let message =
        "This model does not support this endpoint. GET /v1/models lists the endpoints of each model.";
    Error::new(ErrorCode::UnsupportedEndpoint, message).with_param("model")
}

/// Whether a failed submission can be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitFailure {
    /// The submission was not executed. A retry at the same or another candidate may succeed.
    Retryable,
    /// The submission was not executed, and a retry would fail as well.
    Final,
    /// The submission may have been executed.
    Unknown,
}

/// Classifies a failed submission. A submission was certainly not executed only if the request was
/// not sent, or if the upstream's error implies it.
pub fn classify_failure(error: &UpstreamError) -> SubmitFailure {
    match (error.kind, error.cause, error.status) {
        (
            UpstreamErrorKind::Rejected
            | UpstreamErrorKind::Unsupported
            | UpstreamErrorKind::ContentBlocked
            | UpstreamErrorKind::ContextLength
            | UpstreamErrorKind::Simulated(_),
            ..,
        ) => SubmitFailure::Final,
        (UpstreamErrorKind::Credentials, ..) => SubmitFailure::Retryable,
        (_, UpstreamCause::Connect, _) => SubmitFailure::Retryable,
        (_, UpstreamCause::Status, Some(429 | 503)) => SubmitFailure::Retryable,
        (_, UpstreamCause::Status, Some(400..=499)) => SubmitFailure::Final,
        _ => SubmitFailure::Unknown,
    }
}

/// Result of a job's call, from which the charge is computed.
#[derive(Clone, Debug)]
pub struct Conclusion {
    /// Consumption by unit, such as images and tokens.
    pub usage: Usage,
    /// Recorded outcome of the call.
    pub outcome: Outcome,
    /// Target in the form `provider/model`; empty if none served the call, or several did.
    pub target: Arc<str>,
    /// Time of the first output.
    pub first_at: Option<Timestamp>,
    /// Offset of the account's test clock ahead of real time.
    pub ahead: Duration,
}

impl Pipeline {
    /// Submits a call to a candidate. `max_wait` is the timeout of the response. `key` makes a
    /// repeated submission idempotent if the provider supports idempotency keys.
    pub async fn submit<C: JobCall>(
        &self,
        job: &Job,
        route: &Route,
        call: &C,
        key: &str,
        max_wait: Duration,
    ) -> Result<Submitted<C::Output>, UpstreamError> {
        let Some(job_provider) = C::provider(&*route.provider) else {
            return Err(UpstreamError::connect(
                "the provider does not support this kind of media",
            ));
        };
        let call = call.at(route.candidate.upstream_model.clone());
        let submitted = job_provider
            .submit(&job_context(job, max_wait, POLL_TIMEOUT), &call, key)
            .await;
        match &submitted {
            Ok(_) => self.health.succeeded(&route.candidate, Shape::default()),
            Err(error) => {
                self.health.failed(&route.candidate, error, Shape::default());
                let (provider, request) = (&route.candidate.provider, job.request);
                tracing::warn!(request.id = %request, job.id = %job.terms.id, %provider, %error, "upstream failed");
            }
        }
        submitted
    }

    /// Requests the state of the submission with the provider's `handle`.
    pub async fn poll_generation<C: JobCall>(
        &self,
        job: &Job,
        provider: &str,
        handle: &[u8],
    ) -> Result<GenerationState<C::Output>, UpstreamError> {
        let provider = self.configured_provider(provider)?;
        let job_provider = C::provider(&*provider).ok_or_else(no_longer_supported)?;
        job_provider
            .poll(&job_context(job, POLL_TIMEOUT, POLL_TIMEOUT), handle)
            .await
    }

    /// Cancels a submission at its provider.
    pub async fn cancel_generation<C: JobCall>(
        &self,
        job: &Job,
        provider: &str,
        handle: &[u8],
    ) -> Result<(), UpstreamError> {
        let provider = self.configured_provider(provider)?;
        let job_provider = C::provider(&*provider).ok_or_else(no_longer_supported)?;
        job_provider
            .cancel(&job_context(job, POLL_TIMEOUT, POLL_TIMEOUT), handle)
            .await
    }

    /// Downloads an output that the provider stores.
    pub async fn fetch_output<C: JobCall>(
        &self,
        job: &Job,
        provider: &str,
        output_id: &str,
    ) -> Result<ContentStream, UpstreamError> {
        let provider = self.configured_provider(provider)?;
        let job_provider = C::provider(&*provider).ok_or_else(no_longer_supported)?;
        job_provider
            .fetch(&job_context(job, POLL_TIMEOUT, POLL_TIMEOUT), output_id)
            .await
    }

    /// Downloads an output from a public URL of the provider. The URL is untrusted, so the same
    /// checks apply as to callers' URLs.
    pub async fn fetch_public_output(&self, url: &str) -> Result<Bytes, UpstreamError> {
        const TYPES: &[&str] = &["image/png", "image/jpeg", "image/webp", "video/mp4", "video/webm"];
        let request = FetchRequest {
            url,
            account: None,
            kind: MediaKind::Video,
            max_bytes: MediaKind::Video.max_bytes(),
            media_types: TYPES,
        };
        let fetched = self.media.fetcher.fetch(&request).await;
        let fetched = fetched.map_err(|error| UpstreamError::protocol(format!("the media {error}")))?;
        Ok(fetched.bytes)
    }

    /// Whether the provider executes a submission only once if it is sent again with the same key.
    pub fn is_idempotent<C: JobCall>(&self, provider: &str) -> bool {
        let provider = self.providers.get(provider);
        provider.is_some_and(|provider| C::provider(&*provider).is_some_and(JobProvider::is_idempotent))
    }

    /// Returns the settlement of a job's hold: the charge for the usage at `prices`.
    pub fn conclude(&self, job: &Job, prices: &Prices, conclusion: Conclusion) -> Settlement {
        let verdict = Verdict {
            usage: conclusion.usage,
            estimated: false,
            outcome: conclusion.outcome,
        };
        self.resolve(job, charge(prices, &verdict, job.held), conclusion)
    }

    /// Returns the settlement of the hold of a job that several models served: the charge is the
    /// sum of their costs, at most the held amount.
    pub fn conclude_parts(
        &self,
        job: &Job,
        parts: &[UsagePart],
        outcome: Outcome,
        first_at: Option<Timestamp>,
        ahead: Duration,
    ) -> Settlement {
        let cost = parts.iter().fold(Credits::ZERO, |sum, part| {
            sum.checked_add(part.cost).unwrap_or(Credits::MAX)
        });
        let usage = parts
            .iter()
            .fold(Usage::ZERO, |usage, part| usage.plus(&part.usage));
        let amount = cost.min(job.held);
        let charge = Charge {
            amount,
            overrun: cost.saturating_sub(amount),
            usage,
            estimated: false,
            outcome,
        };
        let conclusion = Conclusion {
            usage,
            outcome,
            target: only_target(parts),
            first_at,
            ahead,
        };
        self.resolve(job, charge, conclusion)
    }

    fn resolve(&self, job: &Job, charge: Charge, conclusion: Conclusion) -> Settlement {
        self.meters.record(&charge);
        Settlement {
            hold: job.hold,
            account: job.account,
            charge: charge.amount,
            overrun: charge.overrun,
            usage: charge.usage,
            outcome: charge.outcome,
            estimated: charge.estimated,
            target: conclusion.target,
            first_at: conclusion.first_at.map(|at| at.plus(conclusion.ahead)),
            ended_at: self.clock.now().plus(conclusion.ahead),
        }
    }

    fn configured_provider(&self, name: &str) -> Result<Arc<dyn Provider>, UpstreamError> {
        let not_configured =
            || UpstreamError::connect(format!("the provider '{name}' is no longer configured"));
        self.providers.get(name).ok_or_else(not_configured)
    }
}

/// Returns the target that served all parts; empty if there are several targets or none.
fn only_target(parts: &[UsagePart]) -> Arc<str> {
    match parts {
        [first, rest @ ..] if rest.iter().all(|part| part.target == first.target) => first.target.clone(),
        _ => "".into(),
    }
}

fn no_longer_supported() -> UpstreamError {
    UpstreamError::connect("the provider no longer supports this kind of media")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_definite_failures_are_retryable() {
        let status = |kind, status| UpstreamError {
            status: Some(status),
            ..UpstreamError::new(kind, UpstreamCause::Status, "")
        };
        use UpstreamErrorKind::{ContentBlocked, Credentials, RateLimited, Rejected, Unavailable};
        for (error, expected) in [
            (UpstreamError::connect(""), SubmitFailure::Retryable),
            (status(RateLimited, 429), SubmitFailure::Retryable),
            (status(Unavailable, 503), SubmitFailure::Retryable),
            (status(Credentials, 401), SubmitFailure::Retryable),
            (status(Rejected, 400), SubmitFailure::Final),
            (status(Unavailable, 404), SubmitFailure::Final),
            (status(ContentBlocked, 400), SubmitFailure::Final),
            (status(Unavailable, 500), SubmitFailure::Unknown),
            (status(Unavailable, 502), SubmitFailure::Unknown),
            (UpstreamError::protocol(""), SubmitFailure::Unknown),
            (UpstreamError::timeout(""), SubmitFailure::Unknown),
        ] {
            assert_eq!(classify_failure(&error), expected, "{error}");
        }
    }
}
