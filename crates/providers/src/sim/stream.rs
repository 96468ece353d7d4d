//! The same answer piece by piece: all choices take turns.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::stream::unfold;
use tokio::time::sleep;
use tollgate_types::ErrorCode;
use tollgate_types::stream::StreamEvent;
use tollgate_upstream::{ChunkKind, Payload, TextCall, TextChunk, TextStream, UpstreamCause, UpstreamError};

use super::answer::{Answer, Spoken};
use super::grammar::Cut;
use super::{CREATED, Prompt, failure, logprobs, tokens};

/// The stream of an answer.
pub(super) fn open(prompt: Prompt, answer: Answer, call: &TextCall) -> TextStream {
    let start = StreamEvent::Start {
        id: answer.id,
        created: CREATED,
        model: call.public_model.to_string(),
    };
    let has_logprobs = prompt.request.top_logprobs.is_some();
    let choices = answer.choices.into_iter();
    let mut events = VecDeque::from([Step::Event(start)]);
    take_turns(
        choices.map(|spoken| turns(spoken, has_logprobs)).collect(),
        &mut events,
    );
    events.push_back(Step::Usage(StreamEvent::Usage(answer.usage)));
    events.push_back(Step::End);
    cut(&mut events, prompt.script.cut, prompt.script.error);
    let run = Run {
        steps: events,
        pace: prompt.script.pace,
        include_usage: call.include_usage,
        top_logprobs: prompt.request.top_logprobs,
        is_first: true,
    };
    Box::pin(unfold(run, |mut run| async move {
        let step = run.steps.pop_front()?;
        run.wait(&step).await;
        Some((run.item(step), run))
    }))
}

/// What comes next in a stream.
enum Step {
    Event(StreamEvent),
    Usage(StreamEvent),
    End,
    Fail(ErrorCode),
}

struct Run {
    steps: VecDeque<Step>,
    pace: Duration,
    include_usage: bool,
    top_logprobs: Option<u32>,
    is_first: bool,
}

impl Run {
    /// Content is paced; framing before it and reports after it are not.
    async fn wait(&mut self, step: &Step) {
        let is_content = matches!(step, Step::Event(event) if event.is_content());
        let is_first = is_content && std::mem::take(&mut self.is_first);
        if is_content && !is_first && !self.pace.is_zero() {
            sleep(self.pace).await;
        }
    }

    fn item(&self, step: Step) -> Result<TextChunk, UpstreamError> {
        Ok(match step {
            Step::Fail(code) => return Err(broken_off(code)),
            Step::End => TextChunk {
                kind: ChunkKind::End,
                payload: None,
                usage: None,
                output_bytes: 0,
            },
            Step::Usage(event) => TextChunk {
                kind: ChunkKind::Usage,
                usage: match &event {
                    StreamEvent::Usage(usage) => Some(*usage),
                    _ => None,
                },
                payload: self.include_usage.then(|| Payload::Common(Box::new(event))),
                output_bytes: 0,
            },
            Step::Event(event) => {
                let kind = match event {
                    StreamEvent::Start { .. } => ChunkKind::Preamble,
                    _ => ChunkKind::Content,
                };
                TextChunk {
                    kind,
                    usage: None,
                    output_bytes: output_bytes(&event),
                    payload: Some(Payload::Common(Box::new(self.with_logprobs(event)))),
                }
            }
        })
    }

    /// Probabilities are made when they are needed: all of them together are large.
    fn with_logprobs(&self, event: StreamEvent) -> StreamEvent {
        match (event, self.top_logprobs) {
            (StreamEvent::Text { choice, text, .. }, Some(alternatives)) => StreamEvent::Text {
                choice,
                logprobs: Some(logprobs::of(std::iter::once(text.as_str()), alternatives)),
                text,
            },
            (event, _) => event,
        }
    }
}

/// A stream that breaks off says nothing about the simulator's health.
fn broken_off(code: ErrorCode) -> UpstreamError {
    let error = failure::asked_for(code);
    UpstreamError {
        cause: match error.cause {
            UpstreamCause::Timeout => UpstreamCause::Timeout,
            _ => UpstreamCause::Protocol,
        },
        ..error
    }
}

/// Puts the failure where the script wants it.
fn cut(steps: &mut VecDeque<Step>, cut: Option<Cut>, error: Option<ErrorCode>) {
    let Some(cut) = cut else { return };
    let kept = match cut {
        Cut::After(events) => usize::try_from(events).unwrap_or(usize::MAX).min(steps.len() - 1),
        Cut::BeforeUsage => steps.len() - 2,
        Cut::BeforeEnd => steps.len() - 1,
    };
    steps.truncate(kept);
    steps.push_back(Step::Fail(error.unwrap_or(ErrorCode::UpstreamError)));
}

/// The events of one choice.
fn turns(spoken: Spoken, has_logprobs: bool) -> VecDeque<StreamEvent> {
    let choice = spoken.index;
    let mut events = VecDeque::new();
    for piece in tokens::split(&spoken.reasoning) {
        let text = piece.to_owned();
        events.push_back(StreamEvent::Reasoning { choice, text });
    }
    // With probabilities, every piece is a token.
    let pieces = match has_logprobs {
        true => tokens::split(&spoken.text).collect(),
        false => tokens::pieces(&spoken.text),
    };
    for piece in pieces {
        events.push_back(StreamEvent::Text {
            choice,
            text: piece.to_owned(),
            logprobs: None,
        });
    }
    for piece in tokens::pieces(&spoken.refusal) {
        let text = piece.to_owned();
        events.push_back(StreamEvent::Refusal { choice, text });
    }
    for (call, called) in (0..).zip(spoken.calls) {
        events.push_back(StreamEvent::ToolCallStart {
            choice,
            call,
            id: called.id,
            name: called.name,
        });
        for piece in tokens::pieces(&called.arguments) {
            events.push_back(StreamEvent::ToolCallArguments {
                choice,
                call,
                arguments: piece.to_owned(),
            });
        }
    }
    events.push_back(StreamEvent::Finish {
        choice,
        reason: spoken.finish,
        stop_sequence: spoken.stop_sequence,
    });
    events
}

/// One event of each choice after the other, until none has any left.
fn take_turns(mut choices: Vec<VecDeque<StreamEvent>>, into: &mut VecDeque<Step>) {
    while choices.iter().any(|events| !events.is_empty()) {
        for events in &mut choices {
            into.extend(events.pop_front().map(Step::Event));
        }
    }
}

fn output_bytes(event: &StreamEvent) -> u64 {
    let text = match event {
        StreamEvent::Text { text, .. }
        | StreamEvent::Reasoning { text, .. }
        | StreamEvent::Refusal { text, .. } => text,
        StreamEvent::ToolCallArguments { arguments, .. } => arguments,
        _ => return 0,
    };
    text.len() as u64
}
