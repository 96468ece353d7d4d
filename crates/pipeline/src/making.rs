//! Pictures and films: jobs whose steps are submissions to a provider that makes them. What is asked of a provider here is
//! asked for a job, whose hold pays for it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tollgate_billing::{Charge, Verdict, charge};
use tollgate_storage::{Job, Settlement, UsagePart};
use tollgate_types::usage::Outcome;
use tollgate_types::{Credits, Error, ErrorCode, Prices, Timestamp, Usage};
use tollgate_upstream::{
    ContentStream, FetchRequest, ImageCall, Maker, MediaKind, Provider, State, Submitted, UpstreamCause,
    UpstreamError, UpstreamErrorKind, VideoCall,
};

use crate::Pipeline;
use crate::admit::job_context;
use crate::dispatch::public_error;
use crate::media::NamesMedia;
use crate::route::{Route, Routed};

/// How long a provider may be silent that is asked how it goes.
const ASKING: Duration = Duration::from_secs(60);

/// A call that a provider's maker carries out.
pub trait MakerCall: NamesMedia + Clone + 'static {
    /// What carries it out at a provider, if anything does.
    fn maker(provider: &dyn Provider) -> Option<&dyn Maker<Self>>;

    /// The same for a model that has this name at the provider.
    fn at(&self, upstream_model: Arc<str>) -> Self;
}

impl NamesMedia for ImageCall {}

impl MakerCall for ImageCall {
    fn maker(provider: &dyn Provider) -> Option<&dyn Maker<Self>> {
        provider.images()
    }

    fn at(&self, upstream_model: Arc<str>) -> Self {
        Self {
            upstream_model,
            ..self.clone()
        }
    }
}

impl NamesMedia for VideoCall {}

impl MakerCall for VideoCall {
    fn maker(provider: &dyn Provider) -> Option<&dyn Maker<Self>> {
        provider.videos()
    }

    fn at(&self, upstream_model: Arc<str>) -> Self {
        Self {
            upstream_model,
            ..self.clone()
        }
    }
}

impl Routed {
    /// Keeps the candidates that can carry a call out. When there is none, the first refusal is told.
    pub fn retain_makers<C: MakerCall>(&mut self, call: &C) -> Result<(), Error> {
        let mut refusal = None;
        let mut kept = Vec::with_capacity(self.routes.len());
        for route in &self.routes {
            let Some(maker) = C::maker(&*route.provider) else {
                continue;
            };
            match maker.check(&call.at(route.candidate.upstream_model.clone())) {
                Ok(()) => kept.push(route.clone()),
                Err(error) => {
                    refusal.get_or_insert(error);
                }
            }
        }
        if kept.is_empty() {
            return Err(refusal.unwrap_or_else(cannot_make));
        }
        self.routes = kept;
        Ok(())
    }

    /// The candidate for an attempt, from 1: each has its turn.
    pub fn candidate(&self, attempt: u32) -> Option<&Route> {
        let turn = attempt.saturating_sub(1) as usize % self.routes.len().max(1);
        self.routes.get(turn)
    }

    /// The candidate at this provider.
    pub fn candidate_at(&self, provider: &str) -> Option<&Route> {
        self.routes
            .iter()
            .find(|route| *route.candidate.provider == *provider)
    }

    /// The most pieces that one submission can ask every candidate for.
    pub fn most_at_once<C: MakerCall>(&self) -> u32 {
        let most = |route: &Route| {
            let maker = C::maker(&*route.provider)?;
            Some(maker.most_at_once(&route.candidate.upstream_model))
        };
        self.routes.iter().filter_map(most).min().unwrap_or(1).max(1)
    }
}

fn cannot_make() -> Error {
    let message =
        "This model cannot be asked for that. Its record in GET /v1/models names the endpoints it serves.";
    Error::new(ErrorCode::UnsupportedEndpoint, message).with_param("model")
}

/// What is known of a submission that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It was not carried out, and may be tried again or elsewhere.
    Passing,
    /// It was not carried out, and will not be.
    Final,
    /// It may have been carried out.
    Unknown,
}

/// What a failed submission says about trying again. Only what was not sent, and what was answered with a status that says
/// so, was certainly not carried out.
pub fn refusal(error: &UpstreamError) -> Refusal {
    match (error.kind, error.cause, error.status) {
        (
            UpstreamErrorKind::Rejected
            | UpstreamErrorKind::ContentBlocked
            | UpstreamErrorKind::ContextLength
            | UpstreamErrorKind::Simulated(_),
            ..,
        ) => Refusal::Final,
        (UpstreamErrorKind::Credentials, ..) => Refusal::Passing,
        (_, UpstreamCause::Connect, _) => Refusal::Passing,
        (_, UpstreamCause::Status, Some(429 | 503)) => Refusal::Passing,
        (_, UpstreamCause::Status, Some(400..=499)) => Refusal::Final,
        _ => Refusal::Unknown,
    }
}

/// What a caller is told of a failure.
pub fn told(error: &UpstreamError) -> Error {
    public_error(error, "prompt")
}

/// How a job's call ended, as far as its price goes.
#[derive(Clone, Debug)]
pub struct Conclusion {
    /// What was consumed.
    pub usage: Usage,
    /// How it ended.
    pub outcome: Outcome,
    /// Who carried it out; empty when nobody did.
    pub provider: Arc<str>,
    /// When the first of it was there.
    pub first_at: Option<Timestamp>,
    /// How far the account's test clock is ahead.
    pub ahead: Duration,
}

impl Pipeline {
    /// Asks a candidate to carry a call out. Its answer may take as long as `patience`.
    pub async fn submit<C: MakerCall>(
        &self,
        job: &Job,
        route: &Route,
        call: &C,
        key: &str,
        patience: Duration,
    ) -> Result<Submitted, UpstreamError> {
        let Some(maker) = C::maker(&*route.provider) else {
            return Err(UpstreamError::connect("the provider does not make this"));
        };
        let call = call.at(route.candidate.upstream_model.clone());
        let submitted = maker
            .submit(&job_context(job, patience, ASKING), &call, key)
            .await;
        match &submitted {
            Ok(_) => self.health.succeeded(&route.candidate),
            Err(error) => {
                self.health.failed(&route.candidate, error);
                let (provider, request) = (&route.candidate.provider, job.request);
                tracing::warn!(request.id = %request, job.id = %job.terms.id, %provider, %error, "upstream failed");
            }
        }
        submitted
    }

    /// Asks a provider how it goes with what was submitted to it.
    pub async fn ask<C: MakerCall>(
        &self,
        job: &Job,
        provider: &str,
        handle: &[u8],
    ) -> Result<State, UpstreamError> {
        let provider = self.known(provider)?;
        let maker = C::maker(&*provider).ok_or_else(makes_no_more)?;
        maker.poll(&job_context(job, ASKING, ASKING), handle).await
    }

    /// Tells a provider that what was submitted to it is not wanted any more.
    pub async fn withdraw<C: MakerCall>(
        &self,
        job: &Job,
        provider: &str,
        handle: &[u8],
    ) -> Result<(), UpstreamError> {
        let provider = self.known(provider)?;
        let maker = C::maker(&*provider).ok_or_else(makes_no_more)?;
        maker.cancel(&job_context(job, ASKING, ASKING), handle).await
    }

    /// What a provider has made and keeps.
    pub async fn collect<C: MakerCall>(
        &self,
        job: &Job,
        provider: &str,
        own: &str,
    ) -> Result<ContentStream, UpstreamError> {
        let provider = self.known(provider)?;
        let maker = C::maker(&*provider).ok_or_else(makes_no_more)?;
        maker.fetch(&job_context(job, ASKING, ASKING), own).await
    }

    /// What a provider has made and keeps at an address that anybody may open. The address is a stranger's: it is fetched as
    /// those of callers are.
    pub async fn fetch_made(&self, url: &str) -> Result<Bytes, UpstreamError> {
        const TYPES: &[&str] = &["image/png", "image/jpeg", "image/webp", "video/mp4", "video/webm"];
        let request = FetchRequest {
            url,
            kind: MediaKind::Video,
            most_bytes: MediaKind::Video.most_bytes(),
            media_types: TYPES,
        };
        let fetched = self.media.fetcher.fetch(&request).await;
        let fetched = fetched.map_err(|error| UpstreamError::protocol(format!("what was made {error}")))?;
        Ok(fetched.bytes)
    }

    /// Whether a provider carries a submission out once that is sent to it again under its key.
    pub fn keeps_keys<C: MakerCall>(&self, provider: &str) -> bool {
        let provider = self.providers.get(provider);
        provider.is_some_and(|provider| C::maker(&*provider).is_some_and(Maker::keeps_keys))
    }

    /// How the hold of a job is resolved: what was consumed, at the prices that were agreed.
    pub fn conclude(&self, job: &Job, prices: &Prices, conclusion: Conclusion) -> Settlement {
        let verdict = Verdict {
            usage: conclusion.usage,
            estimated: false,
            outcome: conclusion.outcome,
        };
        self.resolve(job, charge(prices, &verdict, job.held), conclusion)
    }

    /// How the hold of a job is resolved on which several models worked: what they cost together, as far as it was held.
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
            provider: only_provider(parts),
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
            provider: conclusion.provider,
            first_at: conclusion.first_at.map(|at| at.plus(conclusion.ahead)),
            ended_at: self.clock.now().plus(conclusion.ahead),
        }
    }

    fn known(&self, name: &str) -> Result<Arc<dyn Provider>, UpstreamError> {
        let gone = || UpstreamError::connect(format!("the provider '{name}' is not configured any more"));
        self.providers.get(name).ok_or_else(gone)
    }
}

/// Who carried every part out; empty when there are several, or none.
fn only_provider(parts: &[UsagePart]) -> Arc<str> {
    match parts {
        [first, rest @ ..] if rest.iter().all(|part| part.provider == first.provider) => {
            first.provider.clone()
        }
        _ => "".into(),
    }
}

fn makes_no_more() -> UpstreamError {
    UpstreamError::connect("the provider does not make this any more")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_certainly_not_carried_out_is_tried_again() {
        let status = |kind, status| UpstreamError {
            status: Some(status),
            ..UpstreamError::new(kind, UpstreamCause::Status, "")
        };
        use UpstreamErrorKind::{ContentBlocked, Credentials, RateLimited, Rejected, Unavailable};
        for (error, expected) in [
            (UpstreamError::connect(""), Refusal::Passing),
            (status(RateLimited, 429), Refusal::Passing),
            (status(Unavailable, 503), Refusal::Passing),
            (status(Credentials, 401), Refusal::Passing),
            (status(Rejected, 400), Refusal::Final),
            (status(Unavailable, 404), Refusal::Final),
            (status(ContentBlocked, 400), Refusal::Final),
            (status(Unavailable, 500), Refusal::Unknown),
            (status(Unavailable, 502), Refusal::Unknown),
            (UpstreamError::protocol(""), Refusal::Unknown),
            (UpstreamError::timeout(""), Refusal::Unknown),
        ] {
            assert_eq!(refusal(&error), expected, "{error}");
        }
    }
}
