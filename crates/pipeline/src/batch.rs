//! Lines of batches that a provider carries out with batches of its own. A line is written as its call would be sent; when its answer
//! is there it goes through every stage as a call whose upstream answers at once, and so is metered, priced and delivered as any.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tollgate_storage::Job;
use tollgate_types::generate::{GenerateRequest, ResponseFormat};
use tollgate_types::{Error, Format};
use tollgate_upstream::{
    BatchKind, BatchProvider, BatchResults, BatchState, CallContext, EmbedAnswer, EmbedCall, EmbedProvider,
    ListedModel, MediaKind, Provider, Submission, TextCall, TextProvider, TextReply, UpstreamCause,
    UpstreamError, UpstreamErrorKind, Written,
};

use crate::Pipeline;
use crate::admit::{Admission, job_context};
use crate::dispatch::public_error;
use crate::job::Settled;
use crate::route::{Route, Routed};

/// How long a provider may take to answer that is given requests.
const HANDING_OVER: Duration = Duration::from_secs(300);

/// A call that may be a line of a provider's batch.
pub trait BatchedCall: Sized {
    /// What it asks for.
    const KIND: BatchKind;

    /// The line under this name for the first candidate.
    fn write(admission: &Admission<Self>, ctx: &CallContext, name: &str) -> Result<Written, UpstreamError>;
}

impl BatchedCall for TextCall {
    const KIND: BatchKind = BatchKind::Text;

    fn write(admission: &Admission<Self>, _: &CallContext, name: &str) -> Result<Written, UpstreamError> {
        let (route, batches) = first(admission)?;
        if admission.structured.is_some() {
            // It may have to be asked again.
            return Err(UpstreamError::connect("its answer has to be looked at"));
        }
        batches.write_text(&admission.text_call(route), name)
    }
}

impl BatchedCall for EmbedCall {
    const KIND: BatchKind = BatchKind::Embeddings;

    fn write(admission: &Admission<Self>, _: &CallContext, name: &str) -> Result<Written, UpstreamError> {
        let (route, batches) = first(admission)?;
        let mut call = admission.request.call.clone();
        call.upstream_model = route.candidate.upstream_model.clone();
        batches.write_embed(&call, name)
    }
}

fn first<C>(admission: &Admission<C>) -> Result<(&Route, &dyn BatchProvider), UpstreamError> {
    let route = admission.routes.first();
    let found = route.and_then(|route| Some((route, route.provider.batches()?)));
    found.ok_or_else(|| UpstreamError::connect("the provider has no batches"))
}

impl Routed {
    /// The provider that is tried first, if it has batches of its own for calls of this kind.
    pub fn batched_by(&self, kind: BatchKind) -> Option<Arc<str>> {
        let route = self.routes.first()?;
        let batches = route.provider.batches()?;
        let hands_over = batches.is_wanted() && batches.carries(kind);
        hands_over.then(|| route.candidate.provider.clone())
    }

    /// Keeps the candidate at this provider; false when there is none.
    pub fn keep_at(&mut self, provider: &str) -> bool {
        let found = self.candidate_at(provider).cloned();
        let is_there = found.is_some();
        if let Some(route) = found {
            self.routes = vec![route];
        }
        is_there
    }

    /// Puts what a provider has answered in the place of its candidate, also when the model has gone elsewhere since.
    pub fn answer_with(&mut self, at: &BatchAt, status: u16, body: Bytes) {
        self.keep_at(&at.name);
        self.routes.truncate(1);
        for route in &mut self.routes {
            route.candidate.provider = at.name.clone();
            route.provider = Arc::new(Answered {
                inner: at.provider.clone(),
                answer: Mutex::new(Some((status, body.clone()))),
            });
        }
        self.is_answered = true;
    }
}

impl Pipeline {
    /// The line of an admitted call under this name. The call is not made.
    pub async fn write_line<C: BatchedCall>(
        &self,
        admission: Admission<C>,
        name: &str,
    ) -> Result<Written, Error> {
        let written = C::write(&admission, &self.context(&admission), name);
        admission.leave(self).await;
        written.map_err(|error| public_error(&error, "body"))
    }

    /// A pipeline whose one call is a line of this batch, which is answered already.
    pub fn answering_line(&self, job: &Job) -> (Arc<Pipeline>, Arc<Settled>) {
        let (pipeline, settled) = self.carrying_out_line(job);
        (Arc::new(pipeline.with_answers()), settled)
    }

    /// The batches of the provider of this name, for a job.
    pub fn batches_at(&self, job: &Job, provider: &str) -> Option<BatchAt> {
        let found = self.providers.get(provider)?;
        found.batches()?;
        Some(BatchAt {
            name: provider.into(),
            provider: found,
            ctx: job_context(job, HANDING_OVER, self.settings.timeouts.idle),
        })
    }
}

/// What is known of a submission that has no handle.
#[derive(Debug)]
pub enum Unsubmitted {
    /// The provider did not take it, and may take it later.
    Later(Option<Duration>),
    /// The provider does not take it.
    Refused(UpstreamError),
    /// The provider may have taken it.
    Unknown(UpstreamError),
}

/// What a failed submission says. Only what was not sent, and what was answered with a status that says so, was certainly not taken.
fn unsubmitted(error: UpstreamError) -> Unsubmitted {
    match (error.cause, error.status) {
        (UpstreamCause::Connect, _) | (UpstreamCause::Status, Some(429)) => {
            Unsubmitted::Later(error.retry_after)
        }
        (_, Some(408 | 409 | 425)) => Unsubmitted::Unknown(error),
        (UpstreamCause::Status, Some(400..=499)) => Unsubmitted::Refused(error),
        _ if error.kind == UpstreamErrorKind::Rejected && error.status.is_some() => {
            Unsubmitted::Refused(error)
        }
        _ => Unsubmitted::Unknown(error),
    }
}

/// A provider's batches, asked for a job, whose hold pays for them.
#[derive(Clone)]
pub struct BatchAt {
    /// The name of the provider.
    pub name: Arc<str>,
    provider: Arc<dyn Provider>,
    ctx: CallContext,
}

impl BatchAt {
    /// The port, with the frame of its calls.
    fn port(&self) -> Result<(&dyn BatchProvider, &CallContext), UpstreamError> {
        let batches = self.provider.batches();
        let batches = batches.ok_or_else(|| UpstreamError::connect("the provider has no batches"))?;
        Ok((batches, &self.ctx))
    }

    /// The most of one submission: requests and bytes.
    pub fn limits(&self) -> (u32, u64) {
        self.provider.batches().map_or((0, 0), |batches| {
            let limits = batches.limits();
            (limits.requests, limits.bytes)
        })
    }

    /// Puts requests where a batch can be made of them, which may be done again.
    pub async fn stage(&self, submission: &Submission) -> Result<Option<String>, Unsubmitted> {
        let staged = async {
            let (batches, ctx) = self.port()?;
            batches.stage(ctx, submission).await
        };
        staged.await.map_err(|error| match unsubmitted(error) {
            // Whatever came of it, nothing is carried out.
            Unsubmitted::Unknown(error) => Unsubmitted::Later(error.retry_after),
            known => known,
        })
    }

    /// Has requests carried out.
    pub async fn submit(&self, submission: &Submission) -> Result<String, Unsubmitted> {
        let submitted = async {
            let (batches, ctx) = self.port()?;
            batches.submit(ctx, submission).await
        };
        submitted.await.map_err(unsubmitted)
    }

    /// Whether [`find`](Self::find) finds what was taken.
    pub fn finds(&self) -> bool {
        self.provider.batches().is_some_and(BatchProvider::finds)
    }

    /// The handle of what was submitted under this key.
    pub async fn find(&self, key: &str) -> Result<Option<String>, UpstreamError> {
        let (batches, ctx) = self.port()?;
        batches.find(ctx, key).await
    }

    /// How it goes.
    pub async fn poll(&self, handle: &str) -> Result<BatchState, UpstreamError> {
        let (batches, ctx) = self.port()?;
        batches.poll(ctx, handle).await
    }

    /// What came of requests.
    pub async fn results(&self, place: &str) -> Result<BatchResults, UpstreamError> {
        let (batches, ctx) = self.port()?;
        batches.results(ctx, place).await
    }

    /// Says that it is not wanted any more.
    pub async fn cancel(&self, handle: &str) -> Result<(), UpstreamError> {
        let (batches, ctx) = self.port()?;
        batches.cancel(ctx, handle).await
    }

    /// Deletes what the provider keeps of it.
    pub async fn forget(
        &self,
        handle: &str,
        staged: Option<&str>,
        places: &[String],
    ) -> Result<(), UpstreamError> {
        let (batches, ctx) = self.port()?;
        batches.forget(ctx, handle, staged, places).await
    }
}

/// What a caller is told of requests that a provider has not carried out.
pub fn told_of_batch(error: &UpstreamError) -> Error {
    public_error(error, "body")
}

/// A provider whose one answer is there already.
struct Answered {
    inner: Arc<dyn Provider>,
    answer: Mutex<Option<(u16, Bytes)>>,
}

impl Answered {
    fn take(&self) -> Result<(&dyn BatchProvider, u16, Bytes), UpstreamError> {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let batches = self.inner.batches();
        match (batches, answer) {
            (Some(batches), Some((status, body))) => Ok((batches, status, body)),
            _ => Err(UpstreamError::protocol("there is one answer and no other")),
        }
    }
}

#[async_trait]
impl Provider for Answered {
    fn id(&self) -> &str {
        self.inner.id()
    }

    fn is_simulated(&self) -> bool {
        self.inner.is_simulated()
    }

    fn text(&self) -> Option<&dyn TextProvider> {
        self.inner.text().map(|_| self as &dyn TextProvider)
    }

    fn embeddings(&self) -> Option<&dyn EmbedProvider> {
        self.inner.embeddings().map(|_| self as &dyn EmbedProvider)
    }

    async fn list_models(&self, _: Duration) -> Result<Vec<ListedModel>, UpstreamError> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl TextProvider for Answered {
    async fn generate(&self, ctx: &CallContext, call: &TextCall) -> Result<TextReply, UpstreamError> {
        let (batches, status, body) = self.take()?;
        batches.read_text(ctx, call, status, body).map(TextReply::Whole)
    }

    fn takes(&self, format: Format) -> bool {
        self.inner.text().is_some_and(|text| text.takes(format))
    }

    fn forces(&self, format: &ResponseFormat) -> bool {
        self.inner.text().is_some_and(|text| text.forces(format))
    }

    fn carry(&self, request: &GenerateRequest) -> Result<Vec<String>, Error> {
        self.inner
            .text()
            .map_or_else(|| Ok(Vec::new()), |text| text.carry(request))
    }

    fn leaves_out_reasoning(&self, call: &TextCall) -> bool {
        self.inner
            .text()
            .is_some_and(|text| text.leaves_out_reasoning(call))
    }

    fn needs_bytes(&self, kind: MediaKind) -> Option<&'static [&'static str]> {
        self.inner.text()?.needs_bytes(kind)
    }

    fn lacking_fields(&self, format: Format) -> &'static [&'static str] {
        self.inner.text().map_or(&[], |text| text.lacking_fields(format))
    }

    fn allowed_fields(&self) -> &'static [&'static str] {
        self.inner.text().map_or(&[], TextProvider::allowed_fields)
    }

    fn dropped_fields(&self) -> &'static [&'static str] {
        self.inner.text().map_or(&[], TextProvider::dropped_fields)
    }
}

#[async_trait]
impl EmbedProvider for Answered {
    async fn embed(&self, ctx: &CallContext, call: &EmbedCall) -> Result<EmbedAnswer, UpstreamError> {
        let (batches, status, body) = self.take()?;
        batches.read_embed(ctx, call, status, body)
    }

    fn allowed_fields(&self) -> &'static [&'static str] {
        self.inner.embeddings().map_or(&[], EmbedProvider::allowed_fields)
    }

    fn dropped_fields(&self) -> &'static [&'static str] {
        self.inner.embeddings().map_or(&[], EmbedProvider::dropped_fields)
    }

    fn takes_dimensions(&self) -> bool {
        self.inner
            .embeddings()
            .is_some_and(EmbedProvider::takes_dimensions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_certainly_not_taken_is_handed_over_again() {
        let status = |status| UpstreamError {
            status: Some(status),
            ..UpstreamError::new(UpstreamErrorKind::Unavailable, UpstreamCause::Status, "")
        };
        let name = |error| match unsubmitted(error) {
            Unsubmitted::Later(_) => "later",
            Unsubmitted::Refused(_) => "refused",
            Unsubmitted::Unknown(_) => "unknown",
        };
        for (error, expected) in [
            (UpstreamError::connect(""), "later"),
            (status(429), "later"),
            (status(400), "refused"),
            (status(403), "refused"),
            (status(404), "refused"),
            (status(408), "unknown"),
            (status(409), "unknown"),
            (status(500), "unknown"),
            (status(503), "unknown"),
            (UpstreamError::timeout(""), "unknown"),
            (UpstreamError::protocol(""), "unknown"),
        ] {
            let shown = error.to_string();
            assert_eq!(name(error), expected, "{shown}");
        }
    }
}
