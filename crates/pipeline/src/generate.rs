//! Text generation, complete or streamed. An attempt with a stream succeeds at the first content:
//! until then the caller has received nothing, and another candidate can be tried.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tollgate_billing::{Demand, FALLBACK_OUTPUT_CAP, MIN_CLAMP};
use tollgate_catalog::Model;
use tollgate_types::Format;
use tollgate_upstream::{
    CallContext, ChunkKind, Payload, TextAnswer, TextCall, TextChunk, TextProvider, TextReply, TextStream,
    UpstreamError, UpstreamErrorKind,
};

use crate::Pipeline;
use crate::admit::Admission;
use crate::cost_limit::MAX_BYTES_PER_TOKEN;
use crate::dispatch::Dispatched;
use crate::operation::{Completed, Operation, names_param};
use crate::route::Route;
use crate::run::Delivered;
use crate::run_to_completion::Caller;
use crate::separate;
use crate::stream::{BUFFERED_CHUNKS, replayed};

/// A response that an upstream has started.
pub(crate) enum Started {
    /// A complete response.
    Whole(TextAnswer),
    /// A stream: the chunks received so far, and the remaining ones.
    Stream {
        received: Vec<TextChunk>,
        rest: TextStream,
        /// Whether the request was sent without the output cap of the hold, so that the gateway
        /// must enforce the cap.
        uncapped: bool,
    },
}

impl Operation for TextCall {
    type Reply = Started;
    type Answer = Delivered;

    fn input(&self) -> &'static str {
        self.format.input()
    }

    fn has_param(&self, path: &str) -> bool {
        match self.body.is_empty() {
            true => path.starts_with(self.format.input()),
            false => names_param(&self.body, path),
        }
    }

    async fn attempt(
        pipeline: &Pipeline,
        admission: &Admission,
        route: &Route,
    ) -> Result<Started, UpstreamError> {
        let Some(text) = route.provider.text() else {
            return Err(UpstreamError::connect("the provider does not generate text"));
        };
        let mut call = admission.text_call(route);
        let mut ctx = pipeline.context(admission);
        // With a cost limit, the gateway may have to end the response.
        ctx.inspected |= call.stream && (call.is_read || admission.request.max_cost.is_some());
        let mut uncapped = false;
        let requested = pipeline
            .request_answers(admission, route, text, &ctx, &call)
            .await;
        let reply = match requested.map_err(|error| admission.detect_context_length(error)) {
            Err(mut error) => {
                error.added_cap = admission.refused_cap(text, &call, &error);
                if error.added_cap.is_none() || admission.request.max_cost.is_some() {
                    return Err(error);
                }
                tracing::warn!(
                    request.id = %ctx.request, provider = %route.candidate.provider, model = %admission.model.id, %error,
                    "upstream rejected the request, possibly because of the output limit that the gateway \
                     added; retrying once without it or with a lower one; configure the limits of the model"
                );
                uncapped = !text.requires_cap();
                admission.without_cap(&mut ctx, &mut call);
                let requested = pipeline
                    .request_answers(admission, route, text, &ctx, &call)
                    .await;
                requested.map_err(|error| {
                    let mut error = admission.detect_context_length(error);
                    error.added_cap = admission.refused_cap(text, &call, &error);
                    error
                })?
            }
            Ok(reply) => reply,
        };
        match reply {
            TextReply::Whole(mut answer) => {
                if let Some(policy) = &admission.policy {
                    policy.censor(ctx.request, &mut answer.payload).await?;
                }
                Ok(Started::Whole(answer))
            }
            TextReply::Stream(stream) => {
                let stream = match &admission.policy {
                    None => stream,
                    Some(policy) => policy
                        .clone()
                        .filter(ctx.request, pipeline.settings.drain, stream),
                };
                pipeline.peek(admission, stream, uncapped).await
            }
        }
    }

    async fn complete(
        pipeline: &Pipeline,
        admission: &mut Admission,
        caller: &Caller,
        dispatched: Dispatched<Started>,
    ) -> Completed<Started> {
        pipeline.structure(admission, caller, dispatched).await
    }

    async fn deliver(
        pipeline: Arc<Pipeline>,
        admission: Admission,
        dispatched: Dispatched<Started>,
        left: bool,
    ) -> Delivered {
        let Dispatched { reply, target } = dispatched;
        match reply {
            Started::Whole(whole) => {
                let is_streamed = admission.request.call.stream;
                let min_output_tokens = min_output(&whole, &admission.hold.terms().demand);
                let charge = pipeline
                    .settle_whole(
                        admission,
                        whole.usage,
                        min_output_tokens,
                        whole.output_bytes,
                        target,
                        left,
                    )
                    .await;
                match whole.payload {
                    Payload::Common(answer) if is_streamed => Delivered::Stream(replayed(*answer, charge)),
                    mut payload => {
                        if let Payload::Common(answer) = &mut payload {
                            answer.usage.get_or_insert(charge.usage);
                        }
                        Delivered::Whole {
                            charge,
                            payload,
                            outline: whole.outline,
                        }
                    }
                }
            }
            Started::Stream {
                received,
                rest,
                uncapped,
            } => {
                let (sender, receiver) = mpsc::channel(BUFFERED_CHUNKS);
                let sender = (!left).then_some(sender);
                pipeline.start_pump(admission, target, received, rest, uncapped, sender);
                Delivered::Stream(receiver)
            }
        }
    }
}

impl Admission {
    /// Returns the call for this candidate, with the candidate's model name and the output caps.
    pub(crate) fn text_call(&self, route: &Route) -> TextCall {
        let mut call = self.request.call.clone();
        call.upstream_model = route.candidate.upstream_model.clone();
        // A response that the gateway validates is not streamed.
        call.stream &= self.structured.is_none();
        let quote = self.hold.terms().quote;
        call.clamp_output = quote.must_clamp.then_some(quote.output_cap);
        call.output_cap = match self.hold.terms().demand.max_tokens {
            Some(_) => quote.output_cap,
            None => required_cap(&self.model, quote.output_cap),
        };
        call.reasons = self.model.reasoning;
        call.abilities = route.candidate.abilities.clone();
        if let Some(common) = call.common.as_ref().filter(|_| !route.adaptations.is_empty()) {
            call.common = Some(Arc::new(route.adapted(common).into_owned()));
            (call.body, call.outline) = (Bytes::new(), None);
        }
        call
    }

    /// Reclassifies a rejection as [`UpstreamErrorKind::ContextLength`] if its text contains the
    /// size of the context window and the request may exceed the window. vLLM reports the error
    /// this way.
    fn detect_context_length(&self, mut error: UpstreamError) -> UpstreamError {
        let Some(window) = self.model.context_window else {
            return error;
        };
        let terms = self.hold.terms();
        let max_total = terms.demand.input_bound().saturating_add(terms.quote.output_cap);
        let names_window = error.kind == UpstreamErrorKind::Rejected
            && error.status == Some(400)
            && error.param.is_none()
            && error
                .upstream_text
                .as_ref()
                .is_some_and(|upstream_text| upstream_text.numbers.contains(&window));
        if names_window && max_total > window {
            error.kind = UpstreamErrorKind::ContextLength;
        }
        error
    }

    /// Returns the output cap that the gateway added, if the upstream may have rejected the request
    /// because of it.
    fn refused_cap(&self, text: &dyn TextProvider, call: &TextCall, error: &UpstreamError) -> Option<u64> {
        let is_refusal = matches!(
            error.kind,
            UpstreamErrorKind::Rejected | UpstreamErrorKind::ContextLength
        ) && matches!(error.status, Some(400 | 422));
        let names_other_param = error.kind == UpstreamErrorKind::Rejected
            && error.param.as_ref().is_some_and(|param| !is_cap(param));
        if !is_refusal || names_other_param {
            return None;
        }
        let needed = || text.requires_cap().then_some(call.output_cap);
        let sent = call.clamp_output.or_else(needed)?;
        let requested = self.hold.terms().demand.max_tokens;
        requested.is_none_or(|requested| requested > sent).then_some(sent)
    }

    /// Removes the gateway's output cap from a call, or lowers it if the format requires one. The
    /// gateway then enforces the cap of the hold, which requires parsing the response.
    fn without_cap(&self, ctx: &mut CallContext, call: &mut TextCall) {
        ctx.inspected |= call.stream;
        call.clamp_output = None;
        call.output_cap = MIN_CLAMP.min(call.output_cap / 2).max(1);
    }
}

/// Returns the minimum number of output tokens of several choices, for usage reports that count
/// only one of them. A report that equals the cap is assumed to count one choice; then each choice
/// that reached the cap counts as the cap.
fn min_output(answer: &TextAnswer, demand: &Demand) -> u64 {
    if demand.n < 2 {
        return 0;
    }
    let by_bytes = answer.output_bytes / MAX_BYTES_PER_TOKEN;
    let reported = answer.usage.map(|usage| usage.total_output());
    match demand.max_tokens {
        Some(cap) if reported == Some(cap) => by_bytes.max(cap.saturating_mul(answer.capped_answers.into())),
        _ => by_bytes,
    }
}

/// Returns the output cap for a format that requires one. If only the context window is known, the
/// cap is at most half of it, because input and cap together must fit into the window.
fn required_cap(model: &Model, covered: u64) -> u64 {
    match (model.max_output_tokens, model.context_window) {
        (Some(_), _) => covered,
        (None, Some(window)) => covered.min(FALLBACK_OUTPUT_CAP).min(window / 2).max(1),
        (None, None) => covered.min(FALLBACK_OUTPUT_CAP),
    }
}

/// Whether a parameter is the output cap in any format.
fn is_cap(param: &str) -> bool {
    let name = param.to_ascii_lowercase().replace('_', "");
    ["maxtokens", "maxcompletiontokens", "maxoutputtokens"]
        .iter()
        .any(|cap| name.ends_with(cap))
}

impl Pipeline {
    /// Sends the call to a candidate: one request, or one request per choice if the server returns
    /// only one choice per request.
    async fn request_answers(
        &self,
        admission: &Admission,
        route: &Route,
        text: &dyn TextProvider,
        ctx: &CallContext,
        call: &TextCall,
    ) -> Result<TextReply, UpstreamError> {
        let n = u32::try_from(admission.request.demand.n).unwrap_or(u32::MAX);
        // Native completions may have several prompts, and fields without a common form.
        // Completions that are converted to chat have one prompt and no such fields.
        let is_native_completion = call.format == Format::Completions && text.takes(Format::Completions);
        if n > 1 && !is_native_completion && text.needs_call_per_answer() {
            return separate::generate_separately(&route.provider, ctx, call, n).await;
        }
        text.generate(ctx, call).await
    }

    /// Waits for the first content, or until the response headers must be sent. Returns an error if
    /// the stream ends without content.
    async fn peek(
        &self,
        admission: &Admission,
        mut stream: TextStream,
        uncapped: bool,
    ) -> Result<Started, UpstreamError> {
        let timeouts = &self.settings.timeouts;
        let max_wait = if admission.model.reasoning {
            timeouts.first_content_reasoning
        } else {
            timeouts.first_content
        };
        let commit_at = Instant::now() + timeouts.commit.min(max_wait);
        let mut received = Vec::with_capacity(2);
        let started = |received, rest| Started::Stream {
            received,
            rest,
            uncapped,
        };
        let error = loop {
            let chunk = match timeout_at(commit_at, stream.next()).await {
                Ok(Some(Ok(chunk))) => chunk,
                Ok(Some(Err(error))) => break error,
                Ok(None) => break UpstreamError::protocol("the stream ended before any content"),
                Err(_) if timeouts.commit < max_wait => return Ok(started(received, stream)),
                Err(_) => break UpstreamError::timeout("no content before the timeout"),
            };
            let kind = chunk.kind;
            received.push(chunk);
            match kind {
                ChunkKind::Preamble => {}
                ChunkKind::Content | ChunkKind::Finish => return Ok(started(received, stream)),
                ChunkKind::Usage | ChunkKind::End => {
                    break UpstreamError::protocol("the stream has no content");
                }
            }
        };
        if let Some(reported) = received.iter().rev().find_map(|chunk| chunk.usage) {
            self.count_uncharged(admission.request.request, &reported);
        }
        Err(error)
    }
}
