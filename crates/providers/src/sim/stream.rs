//! Streams a response in chunks. The chunks of its choices alternate.

use std::time::Duration;

use futures_util::stream::unfold;
use tokio::time::sleep;
use tollgate_types::stream::StreamEvent;
use tollgate_types::{ErrorCode, Usage};
use tollgate_upstream::{ChunkKind, Payload, TextCall, TextChunk, TextStream, UpstreamCause, UpstreamError};

use super::answer::{Answer, AnswerChoice};
use super::grammar::Cut;
use super::{CREATED, Prompt, failure, logprobs, tokens};

/// Opens the stream of a response.
pub(super) fn open(prompt: Prompt, answer: Answer, call: &TextCall) -> TextStream {
    let start = StreamEvent::Start {
        id: answer.id,
        created: CREATED,
        model: call.public_model.to_string(),
    };
    let has_logprobs = prompt.request.top_logprobs.is_some();
    let choices = answer.choices.into_iter();
    let steps = Steps {
        start: Some(start),
        choices: choices
            .map(|answer_choice| ChoiceEvents::new(answer_choice, has_logprobs))
            .collect(),
        next: 0,
        usage: Some(answer.usage),
        has_ended: false,
    };
    let cut = prompt.script.cut.map(|cut| {
        let code = prompt.script.error.unwrap_or(ErrorCode::UpstreamError);
        (cut, code)
    });
    let run = Run {
        steps: CutSteps { steps, cut, taken: 0 },
        pace: prompt.script.pace,
        include_usage: call.include_usage,
        top_logprobs: prompt.request.top_logprobs,
        is_first: true,
    };
    Box::pin(unfold(run, |mut run| async move {
        let step = run.steps.next()?;
        run.wait(&step).await;
        Some((run.item(step), run))
    }))
}

/// A step of the stream.
enum Step {
    Event(StreamEvent),
    /// Finish event of the last choice.
    Finish(StreamEvent),
    Usage(StreamEvent),
    End,
    Fail(ErrorCode),
}

struct Run {
    steps: CutSteps,
    pace: Duration,
    include_usage: bool,
    top_logprobs: Option<u32>,
    is_first: bool,
}

impl Run {
    /// Delays each content event except the first. The start event and the reports at the end are
    /// not delayed.
    async fn wait(&mut self, step: &Step) {
        let is_content = matches!(step, Step::Event(event) | Step::Finish(event) if event.is_content());
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
            Step::Finish(event) => TextChunk {
                kind: ChunkKind::Finish,
                payload: Some(Payload::Common(Box::new(event))),
                usage: None,
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

    /// Adds log probabilities to a text event. They are computed only when needed, because all of
    /// them together are large.
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

/// Returns the error of a cut stream. Like every simulated error, it does not count towards health.
pub(super) fn broken_off(code: ErrorCode) -> UpstreamError {
    let error = failure::requested(code);
    UpstreamError {
        cause: match error.cause {
            UpstreamCause::Timeout => UpstreamCause::Timeout,
            _ => UpstreamCause::Protocol,
        },
        ..error
    }
}

/// The steps of a response, in which the events of the choices alternate. Each step is built when
/// the caller polls, so a slow caller costs only the memory of the response.
struct Steps {
    start: Option<StreamEvent>,
    choices: Vec<ChoiceEvents>,
    /// Index of the next choice.
    next: usize,
    usage: Option<Usage>,
    has_ended: bool,
}

impl Steps {
    fn ended() -> Self {
        Self {
            start: None,
            choices: Vec::new(),
            next: 0,
            usage: None,
            has_ended: true,
        }
    }

    /// Returns the next event of a choice. Skips choices without further events.
    fn event(&mut self) -> Option<StreamEvent> {
        for _ in 0..self.choices.len() {
            let event = self.choices.get_mut(self.next).and_then(ChoiceEvents::next);
            self.next = (self.next + 1) % self.choices.len();
            if let Some(event) = event {
                return Some(event);
            }
        }
        None
    }
}

impl Iterator for Steps {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if let Some(event) = self.start.take() {
            return Some(Step::Event(event));
        }
        if let Some(event) = self.event() {
            return Some(match self.choices.iter().all(ChoiceEvents::is_over) {
                true => Step::Finish(event),
                false => Step::Event(event),
            });
        }
        if let Some(usage) = self.usage.take() {
            return Some(Step::Usage(StreamEvent::Usage(usage)));
        }
        (!std::mem::replace(&mut self.has_ended, true)).then_some(Step::End)
    }
}

/// Steps of a response. If the script cuts the stream, the last step is a failure.
struct CutSteps {
    steps: Steps,
    cut: Option<(Cut, ErrorCode)>,
    taken: u64,
}

impl Iterator for CutSteps {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let step = self.steps.next()?;
        let Some((cut, code)) = self.cut else {
            return Some(step);
        };
        // A cut stream never ends normally.
        let fails = match (cut, &step) {
            (_, Step::End) | (Cut::BeforeUsage, Step::Usage(_)) => true,
            (Cut::After(events), _) => self.taken >= events,
            (Cut::BeforeUsage | Cut::BeforeEnd, _) => false,
        };
        self.taken += 1;
        if fails {
            self.steps = Steps::ended();
        }
        Some(if fails { Step::Fail(code) } else { step })
    }
}

/// Sections of a choice, in this order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Reasoning,
    Text,
    Refusal,
    Call(usize),
    Finish,
    Over,
}

/// The events of one choice.
struct ChoiceEvents {
    answer_choice: AnswerChoice,
    section: Section,
    /// Whether the section has started.
    is_started: bool,
    /// Number of bytes of the section's text that were sent.
    sent_bytes: usize,
    has_logprobs: bool,
}

impl ChoiceEvents {
    fn new(answer_choice: AnswerChoice, has_logprobs: bool) -> Self {
        Self {
            answer_choice,
            section: Section::Reasoning,
            is_started: false,
            sent_bytes: 0,
            has_logprobs,
        }
    }

    /// Whether the last event was returned.
    fn is_over(&self) -> bool {
        self.section == Section::Over || (self.section == Section::Finish && self.is_started)
    }

    /// Returns the next chunk of the section's text.
    fn chunk(&mut self) -> Option<String> {
        let (text, by_token) = match self.section {
            Section::Reasoning => (&self.answer_choice.reasoning, true),
            // With log probabilities, every chunk is a token.
            Section::Text => (&self.answer_choice.text, self.has_logprobs),
            Section::Refusal => (&self.answer_choice.refusal, false),
            Section::Call(call) => (&self.answer_choice.calls.get(call)?.arguments, false),
            Section::Finish | Section::Over => return None,
        };
        let chunk = match by_token {
            true => tokens::split(text.get(self.sent_bytes..)?).next()?,
            false => tokens::chunk(text, self.sent_bytes)?,
        };
        self.sent_bytes += chunk.len();
        Some(chunk.to_owned())
    }

    fn event(&self, chunk: String) -> StreamEvent {
        let choice = self.answer_choice.index;
        match self.section {
            Section::Reasoning => StreamEvent::Reasoning { choice, text: chunk },
            Section::Refusal => StreamEvent::Refusal { choice, text: chunk },
            Section::Call(call) => StreamEvent::ToolCallArguments {
                choice,
                call: u32::try_from(call).unwrap_or(u32::MAX),
                arguments: chunk,
            },
            Section::Text | Section::Finish | Section::Over => StreamEvent::Text {
                choice,
                text: chunk,
                logprobs: None,
            },
        }
    }

    fn after(&self) -> Section {
        let call = |number: usize| match number < self.answer_choice.calls.len() {
            true => Section::Call(number),
            false => Section::Finish,
        };
        match self.section {
            Section::Reasoning => Section::Text,
            Section::Text => Section::Refusal,
            Section::Refusal => call(0),
            Section::Call(number) => call(number + 1),
            Section::Finish | Section::Over => Section::Over,
        }
    }

    /// Returns the first event of a section, which precedes its text, if any.
    fn beginning(&mut self) -> Option<StreamEvent> {
        if std::mem::replace(&mut self.is_started, true) {
            return None;
        }
        let choice = self.answer_choice.index;
        match self.section {
            Section::Call(number) => {
                let called = self.answer_choice.calls.get(number)?;
                Some(StreamEvent::ToolCallStart {
                    choice,
                    call: u32::try_from(number).unwrap_or(u32::MAX),
                    id: called.id.clone(),
                    name: called.name.clone(),
                })
            }
            Section::Finish => Some(StreamEvent::Finish {
                choice,
                reason: self.answer_choice.finish,
                stop_sequence: self.answer_choice.stop_sequence.take(),
            }),
            _ => None,
        }
    }
}

impl Iterator for ChoiceEvents {
    type Item = StreamEvent;

    fn next(&mut self) -> Option<StreamEvent> {
        while self.section != Section::Over {
            if let Some(event) = self.beginning() {
                return Some(event);
            }
            if let Some(chunk) = self.chunk() {
                return Some(self.event(chunk));
            }
            (self.section, self.sent_bytes, self.is_started) = (self.after(), 0, false);
        }
        None
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
