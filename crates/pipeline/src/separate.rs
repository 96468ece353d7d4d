//! Several choices (`n` > 1) by one call per choice, for upstreams that may not report the usage of
//! all choices. Each call reports its own output, so the sum is exact. The caller receives one
//! response.

use std::sync::Arc;

use futures_util::stream::{BoxStream, iter, once, unfold};
use futures_util::{StreamExt, TryStreamExt};
use tollgate_types::Usage;
use tollgate_types::stream::StreamEvent;
use tollgate_upstream::{
    CallContext, ChunkKind, Payload, Provider, TextAnswer, TextCall, TextChunk, TextReply, TextStream,
    UpstreamError,
};

/// Maximum number of concurrent calls of one request.
const MAX_CONCURRENT: usize = 8;

/// Requests `n` choices in separate calls. The other calls start only after the first one has
/// responded. All responses must be of the same kind, complete or streamed.
pub(crate) async fn generate_separately(
    provider: &Arc<dyn Provider>,
    ctx: &CallContext,
    call: &TextCall,
    n: u32,
) -> Result<TextReply, UpstreamError> {
    let (mut ctx, mut call) = (ctx.clone(), call.clone());
    ctx.inspected = true;
    call.is_single = true;
    let one = move |provider: Arc<dyn Provider>| {
        let (ctx, call) = (ctx.clone(), call.clone());
        async move {
            match provider.text() {
                Some(text) => text.generate(&ctx, &call).await,
                None => Err(UpstreamError::connect("the provider does not generate text")),
            }
        }
    };
    let others = (1..n).map(|_| one(provider.clone())).collect::<Vec<_>>();
    match one(provider.clone()).await? {
        TextReply::Whole(first) => {
            let whole = |reply| match reply {
                TextReply::Whole(answer) => Ok(answer),
                TextReply::Stream(_) => Err(mixed_replies()),
            };
            let others = iter(others).buffered(MAX_CONCURRENT).map(|reply| whole(reply?));
            let others: Vec<TextAnswer> = others.try_collect().await?;
            merged(first, others).map(TextReply::Whole)
        }
        TextReply::Stream(first) => {
            let stream = |reply| match reply {
                TextReply::Stream(stream) => Ok(stream),
                TextReply::Whole(_) => Err(mixed_replies()),
            };
            let others = others
                .into_iter()
                .map(|reply| once(async move { stream(reply.await?) }).try_flatten().boxed());
            let streams = std::iter::once(first).chain(others);
            Ok(TextReply::Stream(joined(streams.collect())))
        }
    }
}

fn mixed_replies() -> UpstreamError {
    UpstreamError::protocol("one of several responses is complete and another one is a stream")
}

/// Merges the choices of all responses into the first response.
fn merged(mut first: TextAnswer, others: Vec<TextAnswer>) -> Result<TextAnswer, UpstreamError> {
    let not_common = || UpstreamError::protocol("one of several responses is not in the common form");
    let Payload::Common(all) = &mut first.payload else {
        return Err(not_common());
    };
    let mut reports = vec![first.usage];
    for other in others {
        let Payload::Common(answer) = other.payload else {
            return Err(not_common());
        };
        all.choices.extend(answer.choices);
        reports.push(other.usage);
        first.output_bytes = first.output_bytes.saturating_add(other.output_bytes);
    }
    for (index, choice) in (0..).zip(&mut all.choices) {
        choice.index = index;
    }
    first.usage = total(&reports);
    all.usage = first.usage;
    Ok(first)
}

/// Returns the usage of several responses to one request: the sum of their outputs and the maximum
/// of their inputs, as if one call had returned all choices. `None` if a report is missing.
fn total(reports: &[Option<Usage>]) -> Option<Usage> {
    let mut sum = Usage::ZERO;
    for report in reports {
        for (unit, quantity) in (*report)?.iter() {
            let so_far = sum.get(unit);
            let both = match unit.is_input() {
                true => so_far.max(quantity),
                false => so_far.saturating_add(quantity),
            };
            sum = sum.with(unit, both);
        }
    }
    Some(sum)
}

struct Joined {
    streams: BoxStream<'static, (usize, Result<TextChunk, UpstreamError>)>,
    /// Usage reported for each choice.
    reports: Vec<Option<Usage>>,
    /// Number of streams that have not ended.
    open: usize,
    has_started: bool,
    state: State,
}

#[derive(PartialEq)]
enum State {
    Open,
    /// All content was sent; the usage report and the end follow.
    Reporting,
    Ending,
    Over,
}

/// Joins the choices of all streams into one stream.
fn joined(streams: Vec<TextStream>) -> TextStream {
    let count = streams.len();
    let numbered = streams
        .into_iter()
        .enumerate()
        .map(|(index, stream)| stream.map(move |chunk| (index, chunk)).boxed());
    let joined = Joined {
        streams: iter(numbered.collect::<Vec<_>>())
            .flatten_unordered(MAX_CONCURRENT)
            .boxed(),
        reports: vec![None; count],
        open: count,
        has_started: false,
        state: State::Open,
    };
    Box::pin(unfold(joined, |mut joined| async move {
        let chunk = joined.next().await?;
        Some((chunk, joined))
    }))
}

impl Joined {
    async fn next(&mut self) -> Option<Result<TextChunk, UpstreamError>> {
        loop {
            match self.state {
                State::Over => return None,
                State::Ending => {
                    self.state = State::Over;
                    return Some(Ok(bare(ChunkKind::End, None)));
                }
                State::Reporting => {
                    self.state = State::Ending;
                    if let Some(usage) = total(&self.reports) {
                        let event = Payload::Common(Box::new(StreamEvent::Usage(usage)));
                        return Some(Ok(TextChunk {
                            usage: Some(usage),
                            ..bare(ChunkKind::Usage, Some(event))
                        }));
                    }
                }
                State::Open => match self.streams.next().await {
                    None if self.open == 0 => self.state = State::Reporting,
                    None => return self.fail(UpstreamError::protocol("the stream ended early")),
                    Some((_, Err(error))) => return self.fail(error),
                    Some((index, Ok(chunk))) => {
                        if let Some(chunk) = self.take(index, chunk) {
                            return Some(Ok(chunk));
                        }
                    }
                },
            }
        }
    }

    fn fail(&mut self, error: UpstreamError) -> Option<Result<TextChunk, UpstreamError>> {
        self.state = State::Over;
        Some(Err(error))
    }

    /// Converts a chunk to a chunk of the joined stream; `None` if the joined stream has no such
    /// chunk.
    fn take(&mut self, index: usize, mut chunk: TextChunk) -> Option<TextChunk> {
        if let Some(usage) = chunk.usage.take() {
            self.reports[index] = Some(usage);
        }
        if chunk.kind == ChunkKind::End {
            self.open = self.open.saturating_sub(1);
            return None;
        }
        let has_payload = match &mut chunk.payload {
            Some(Payload::Common(event)) => match &mut **event {
                StreamEvent::Usage(_) => false,
                StreamEvent::Start { .. } => !std::mem::replace(&mut self.has_started, true),
                event => {
                    if let Some(choice) = event.choice_mut() {
                        *choice = u32::try_from(index).unwrap_or(u32::MAX);
                    }
                    true
                }
            },
            _ => false,
        };
        if !has_payload {
            chunk.payload = None;
        }
        (has_payload || chunk.output_bytes > 0).then_some(chunk)
    }
}

fn bare(kind: ChunkKind, payload: Option<Payload<StreamEvent>>) -> TextChunk {
    TextChunk {
        kind,
        payload,
        usage: None,
        output_bytes: 0,
    }
}
