//! Text generation: whole, or as a stream. A stream counts as answered at its first content: until then the caller has
//! seen nothing and the call can go elsewhere.

use std::sync::Arc;

use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tollgate_upstream::{
    ChunkKind, Payload, TextAnswer, TextCall, TextChunk, TextReply, TextStream, UpstreamError,
};

use crate::Pipeline;
use crate::admit::Admission;
use crate::dispatch::Dispatched;
use crate::operation::{Completed, Operation};
use crate::owned::Caller;
use crate::route::Route;
use crate::run::Delivered;
use crate::stream::{BUFFERED_PIECES, replayed};

/// The beginning of an answer.
pub(crate) enum Started {
    /// All of it.
    Whole(TextAnswer),
    /// What came so far, and what will come.
    Stream { begun: Vec<TextChunk>, rest: TextStream },
}

impl Operation for TextCall {
    type Reply = Started;
    type Answer = Delivered;

    fn input(&self) -> &'static str {
        self.format.input()
    }

    async fn attempt(
        pipeline: &Pipeline,
        admission: &Admission,
        route: &Route,
    ) -> Result<Started, UpstreamError> {
        let Some(text) = route.provider.text() else {
            return Err(UpstreamError::connect("the provider does not generate text"));
        };
        let call = admission.text_call(route);
        let mut ctx = pipeline.context(admission);
        // Who allows so much and no more may see the gateway end the answer.
        ctx.inspected |= call.stream && admission.request.max_cost.is_some();
        match text.generate(&ctx, &call).await? {
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
                pipeline.peek(admission, stream).await
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
        let Dispatched { reply, provider } = dispatched;
        match reply {
            Started::Whole(whole) => {
                let is_streamed = admission.request.call.stream;
                let charge = pipeline
                    .settle_whole(admission, whole.usage, whole.output_bytes, provider, left)
                    .await;
                match whole.payload {
                    Payload::Common(answer) if is_streamed => Delivered::Stream(replayed(*answer, charge)),
                    payload => Delivered::Whole {
                        charge,
                        payload,
                        outline: whole.outline,
                    },
                }
            }
            Started::Stream { begun, rest } => {
                let (pieces, receiver) = mpsc::channel(BUFFERED_PIECES);
                let pieces = (!left).then_some(pieces);
                pipeline.start_pump(admission, provider, begun, rest, pieces);
                Delivered::Stream(receiver)
            }
        }
    }
}

impl Admission {
    /// The call as a candidate gets it.
    pub(crate) fn text_call(&self, route: &Route) -> TextCall {
        let mut call = self.request.call.clone();
        call.upstream_model = route.candidate.upstream_model.clone();
        // What is looked at as a whole is asked for as a whole.
        call.stream &= self.structured.is_none();
        let quote = self.hold.terms().quote;
        call.clamp_output = quote.must_clamp.then_some(quote.output_cap);
        call.output_cap = quote.output_cap;
        call.reasons = self.model.reasoning;
        call
    }
}

impl Pipeline {
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
}
