//! Lines of provider-native batches. A line is encoded like a single call. When its response has
//! arrived, the line passes all stages as a call whose upstream responds immediately. So it is
//! metered, priced and delivered like any other call.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tollgate_storage::Job;
use tollgate_types::generate::{GenerateRequest, ResponseFormat};
use tollgate_types::{Abilities, Error, Format};
use tollgate_upstream::{
    BatchKind, BatchProvider, BatchResults, BatchState, CallContext, EmbedAnswer, EmbedCall, EmbedProvider,
    EncodedRequest, ListedModel, MediaKind, Provider, Submission, TextCall, TextProvider, TextReply,
    UpstreamCause, UpstreamError, UpstreamErrorKind,
};

use crate::Pipeline;
use crate::admit::{Admission, job_context};
use crate::dispatch::public_error;
use crate::job::Settled;
use crate::route::{Route, Routed};

/// Timeout of a provider's response to a batch request, such as a submission.
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(300);

/// A call that can be a line of a provider-native batch.
pub trait BatchedCall: Sized {
    /// Operation of the requests in the batch.
    const KIND: BatchKind;

    /// Encodes the line for the first candidate; `name` is the custom id of the line.
    fn write(
        admission: &Admission<Self>,
        ctx: &CallContext,
        name: &str,
    ) -> Result<EncodedRequest, UpstreamError>;
}

impl BatchedCall for TextCall {
    const KIND: BatchKind = BatchKind::Text;

    fn write(
        admission: &Admission<Self>,
        _: &CallContext,
        name: &str,
    ) -> Result<EncodedRequest, UpstreamError> {
        let (route, batches) = first(admission)?;
        if admission.structured.is_some() {
            // A structured response can require a second request.
            return Err(UpstreamError::connect("structured responses cannot be batched"));
        }
        batches.write_text(&admission.text_call(route), name)
    }
}

impl BatchedCall for EmbedCall {
    const KIND: BatchKind = BatchKind::Embeddings;

    fn write(
        admission: &Admission<Self>,
        _: &CallContext,
        name: &str,
    ) -> Result<EncodedRequest, UpstreamError> {
        let (route, batches) = first(admission)?;
        let mut call = admission.request.call.clone();
        call.upstream_model = route.candidate.upstream_model.clone();
        batches.write_embed(&call, name)
    }
}

fn first<C>(admission: &Admission<C>) -> Result<(&Route, &dyn BatchProvider), UpstreamError> {
    let route = admission.routes.first();
    let found = route.and_then(|route| Some((route, route.provider.batches()?)));
    found.ok_or_else(|| UpstreamError::connect("the provider does not support batches"))
}

impl Routed {
    /// Returns the provider of the first candidate, if native batches are enabled and support this
    /// kind of call.
    pub fn native_batch_provider(&self, kind: BatchKind) -> Option<Arc<str>> {
        let route = self.routes.first()?;
        let batches = route.provider.batches()?;
        let is_native = batches.is_enabled() && batches.supports(kind);
        is_native.then(|| route.candidate.provider.clone())
    }

    /// Removes all candidates except the first one at this provider. If there is none, returns
    /// `false` and changes nothing.
    pub fn retain_provider(&mut self, provider: &str) -> bool {
        let found = self.candidate_at(provider).cloned();
        let was_found = found.is_some();
        if let Some(route) = found {
            self.routes = vec![route];
        }
        was_found
    }

    /// Replaces the candidates by one that returns a provider's stored response, even if the
    /// model's routes have changed since.
    pub fn replay_batch_answer(&mut self, at: &ProviderBatches, status: u16, body: Bytes) {
        self.retain_provider(&at.name);
        self.routes.truncate(1);
        for route in &mut self.routes {
            route.candidate = route.candidate.at(&at.name);
            route.provider = Arc::new(ReplayProvider {
                inner: at.provider.clone(),
                answer: Mutex::new(Some((status, body.clone()))),
            });
        }
        self.is_replay = true;
    }
}

impl Pipeline {
    /// Encodes an admitted call as the batch line `name`. The call is not sent.
    pub async fn write_line<C: BatchedCall>(
        &self,
        admission: Admission<C>,
        name: &str,
    ) -> Result<EncodedRequest, Error> {
        let written = C::write(&admission, &self.context(&admission), name);
        admission.defer_to_worker(self).await;
        written.map_err(|error| public_error(&error, "body"))
    }

    /// Returns a pipeline that runs one batch line with a stored response, and the [`Settled`] that
    /// receives its settlement.
    pub fn replay_pipeline(&self, job: &Job) -> (Arc<Pipeline>, Arc<Settled>) {
        let (pipeline, settled) = self.executing_batch_line(job);
        (Arc::new(pipeline.with_replay()), settled)
    }

    /// Returns the batch client of the named provider for a job; `None` if the provider is not
    /// configured or does not support batches.
    pub fn provider_batches(&self, job: &Job, provider: &str) -> Option<ProviderBatches> {
        let found = self.providers.get(provider)?;
        found.batches()?;
        Some(ProviderBatches {
            name: provider.into(),
            provider: found,
            ctx: job_context(job, SUBMIT_TIMEOUT, self.settings.timeouts.idle),
        })
    }
}

/// Reason why a submission has no handle.
#[derive(Debug)]
pub enum SubmitError {
    /// The provider did not accept the submission. Retry after this delay, if given.
    Later(Option<Duration>),
    /// The provider rejected the submission; a retry would fail as well.
    Refused(UpstreamError),
    /// The provider may have accepted the submission.
    Unknown(UpstreamError),
}

/// Classifies a failed submission. `Later`: the connection failed, or the status is 429. `Refused`:
/// the response proves the rejection. `Unknown` otherwise: the provider may have accepted it.
fn submit_error(error: UpstreamError) -> SubmitError {
    match (error.cause, error.status) {
        (UpstreamCause::Connect, _) | (UpstreamCause::Status, Some(429)) => {
            SubmitError::Later(error.retry_after)
        }
        (_, Some(408 | 409 | 425)) => SubmitError::Unknown(error),
        (UpstreamCause::Status, Some(400..=499)) => SubmitError::Refused(error),
        _ if error.kind == UpstreamErrorKind::Rejected && error.status.is_some() => {
            SubmitError::Refused(error)
        }
        _ => SubmitError::Unknown(error),
    }
}

/// Client for a provider's native batches. The job's hold pays for its calls.
#[derive(Clone)]
pub struct ProviderBatches {
    /// Name of the provider in the configuration.
    pub name: Arc<str>,
    provider: Arc<dyn Provider>,
    ctx: CallContext,
}

impl ProviderBatches {
    /// Returns the batch port of the provider, with the context of its calls.
    fn port(&self) -> Result<(&dyn BatchProvider, &CallContext), UpstreamError> {
        let batches = self.provider.batches();
        let batches =
            batches.ok_or_else(|| UpstreamError::connect("the provider does not support batches"))?;
        Ok((batches, &self.ctx))
    }

    /// Returns the maximum size of one submission: number of requests, and bytes.
    pub fn limits(&self) -> (u32, u64) {
        self.provider.batches().map_or((0, 0), |batches| {
            let limits = batches.limits();
            (limits.requests, limits.bytes)
        })
    }

    /// Uploads requests for a later [`submit`](Self::submit) and returns a reference, if the
    /// provider requires an upload. Repeated uploads are safe.
    pub async fn stage(&self, submission: &Submission) -> Result<Option<String>, SubmitError> {
        let staged = async {
            let (batches, ctx) = self.port()?;
            batches.stage(ctx, submission).await
        };
        staged.await.map_err(|error| match submit_error(error) {
            // Staged requests are not executed, regardless of the outcome.
            SubmitError::Unknown(error) => SubmitError::Later(error.retry_after),
            known => known,
        })
    }

    /// Submits requests for execution and returns the provider's handle.
    pub async fn submit(&self, submission: &Submission) -> Result<String, SubmitError> {
        let submitted = async {
            let (batches, ctx) = self.port()?;
            batches.submit(ctx, submission).await
        };
        submitted.await.map_err(submit_error)
    }

    /// Whether [`find`](Self::find) can find an accepted submission.
    pub fn can_find(&self) -> bool {
        self.provider.batches().is_some_and(BatchProvider::can_find)
    }

    /// Returns the handle of the batch that was submitted under this idempotency key, if the
    /// provider accepted one.
    pub async fn find(&self, key: &str) -> Result<Option<String>, UpstreamError> {
        let (batches, ctx) = self.port()?;
        batches.find(ctx, key).await
    }

    /// Requests the state of the batch with this handle.
    pub async fn poll(&self, handle: &str) -> Result<BatchState, UpstreamError> {
        let (batches, ctx) = self.port()?;
        batches.poll(ctx, handle).await
    }

    /// Reads the results of the requests from `place`, such as a result file of the provider.
    pub async fn results(&self, place: &str) -> Result<BatchResults, UpstreamError> {
        let (batches, ctx) = self.port()?;
        batches.results(ctx, place).await
    }

    /// Requests cancellation of the batch.
    pub async fn cancel(&self, handle: &str) -> Result<(), UpstreamError> {
        let (batches, ctx) = self.port()?;
        batches.cancel(ctx, handle).await
    }

    /// Deletes the provider's copies of the batch, of its staged input and of its results.
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

/// Returns the public error for requests that a provider did not execute.
pub fn public_batch_error(error: &UpstreamError) -> Error {
    public_error(error, "body")
}

/// A provider that returns one stored response.
struct ReplayProvider {
    inner: Arc<dyn Provider>,
    answer: Mutex<Option<(u16, Bytes)>>,
}

impl ReplayProvider {
    fn take(&self) -> Result<(&dyn BatchProvider, u16, Bytes), UpstreamError> {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let batches = self.inner.batches();
        match (batches, answer) {
            (Some(batches), Some((status, body))) => Ok((batches, status, body)),
            _ => Err(UpstreamError::protocol("the stored response was already taken")),
        }
    }
}

#[async_trait]
impl Provider for ReplayProvider {
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
impl TextProvider for ReplayProvider {
    async fn generate(&self, ctx: &CallContext, call: &TextCall) -> Result<TextReply, UpstreamError> {
        let (batches, status, body) = self.take()?;
        batches.read_text(ctx, call, status, body).map(TextReply::Whole)
    }

    fn takes(&self, format: Format) -> bool {
        self.inner.text().is_some_and(|text| text.takes(format))
    }

    fn enforces_schema(&self, format: &ResponseFormat) -> bool {
        self.inner.text().is_some_and(|text| text.enforces_schema(format))
    }

    fn check_compatible(
        &self,
        request: &GenerateRequest,
        abilities: &Abilities,
    ) -> Result<Vec<String>, Error> {
        self.inner.text().map_or_else(
            || Ok(Vec::new()),
            |text| text.check_compatible(request, abilities),
        )
    }

    fn takes_system_turns(&self, abilities: &Abilities) -> bool {
        let inner = self.inner.text();
        inner.is_none_or(|text| text.takes_system_turns(abilities))
    }

    fn drops_reasoning(&self, call: &TextCall) -> bool {
        self.inner.text().is_some_and(|text| text.drops_reasoning(call))
    }

    fn needs_bytes(&self, kind: MediaKind) -> Option<&'static [&'static str]> {
        self.inner.text()?.needs_bytes(kind)
    }

    fn unsupported_fields(&self, format: Format) -> &'static [&'static str] {
        self.inner
            .text()
            .map_or(&[], |text| text.unsupported_fields(format))
    }

    fn allowed_fields(&self) -> &'static [&'static str] {
        self.inner.text().map_or(&[], TextProvider::allowed_fields)
    }

    fn dropped_fields(&self) -> &'static [&'static str] {
        self.inner.text().map_or(&[], TextProvider::dropped_fields)
    }
}

#[async_trait]
impl EmbedProvider for ReplayProvider {
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
    fn only_definite_rejections_are_resubmitted() {
        let status = |status| UpstreamError {
            status: Some(status),
            ..UpstreamError::new(UpstreamErrorKind::Unavailable, UpstreamCause::Status, "")
        };
        let name = |error| match submit_error(error) {
            SubmitError::Later(_) => "later",
            SubmitError::Refused(_) => "refused",
            SubmitError::Unknown(_) => "unknown",
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
