//! The steps of one simulated response. The words of a sentence precede its audio.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{BoxStream, unfold};
use tokio::time::sleep;
use tollgate_media_tools::Tools;
use tollgate_types::ErrorCode;
use tollgate_types::generate::{FinishReason, GenerateRequest, Role, ToolCall};
use tollgate_upstream::{
    CallContext, RealtimeEvent, RealtimeFinish, RealtimeRequest, RealtimeSettings, UpstreamError,
};

use super::super::answer::Answer;
use super::super::grammar::{self, Cut};
use super::super::{Prompt, failure, speech, stream, tokens};
use super::conversation::{Content, Entry, request};

/// Voice of a session that selects none.
const DEFAULT_VOICE: &str = "alloy";
/// Size of a chunk of audio in bytes: 200 ms.
const AUDIO_CHUNK_BYTES: usize = 9_600;
/// Number of tokens after which a sentence ends in any case.
const MAX_SENTENCE_TOKENS: usize = 40;

/// A step of the response.
#[derive(Debug)]
pub(super) enum Step {
    Started,
    /// A new item of the output, which is still empty.
    Item(Content),
    /// An event of the output, and the number of its text tokens.
    Output(RealtimeEvent, u64),
    End(RealtimeFinish),
    /// The response fails.
    Fail(UpstreamError),
    /// The connection ends.
    Break(UpstreamError),
}

impl Step {
    fn is_content(&self) -> bool {
        matches!(self, Step::Output(..))
    }
}

/// A step, or work that results in steps.
enum Work {
    Step(Step),
    Wait(Duration),
    Speak(String),
}

/// Opens the response to these items. `number` distinguishes the responses of a connection.
pub(super) fn open(
    tools: &Tools,
    settings: &RealtimeSettings,
    entries: &[Entry],
    wanted: &RealtimeRequest,
    number: u64,
    ctx: &CallContext,
) -> BoxStream<'static, Step> {
    let request = request(settings, entries, wanted.max_output_tokens);
    let mut run = Run {
        work: VecDeque::new(),
        tools: tools.clone(),
        voice: settings.voice.as_deref().unwrap_or(DEFAULT_VOICE).to_owned(),
        speed: settings.speed,
        pace: Duration::ZERO,
        cut: None,
        taken: 0,
        has_content: false,
    };
    let planned = prompt(request, &settings.instructions, number)
        .and_then(|prompt| run.plan(&prompt, settings.is_spoken, ctx.header_timeout));
    if let Err(error) = planned {
        run.work = VecDeque::from([Work::Step(Step::Fail(error))]);
    }
    unfold(run, |mut run| async move {
        let step = run.next().await?;
        Some((step, run))
    })
    .boxed()
}

/// Reads the script of the last user message, otherwise that of the instructions.
fn prompt(request: GenerateRequest, instructions: &str, number: u64) -> Result<Prompt, UpstreamError> {
    let read = |text: &str| {
        grammar::read(text).map_err(|wrong| failure::simulated(ErrorCode::InvalidParameter, wrong))
    };
    let last = grammar::last_user_text(&request);
    let (mut script, user_text) = read(&last)?;
    if user_text == last {
        (script, _) = read(instructions)?;
    }
    // A session shows no reasoning.
    script.reason = 0;
    let mut hasher = DefaultHasher::new();
    (number, &last).hash(&mut hasher);
    Ok(Prompt {
        request,
        script,
        user_text,
        hash: hasher.finish(),
    })
}

/// A running response.
struct Run {
    work: VecDeque<Work>,
    tools: Tools,
    voice: String,
    speed: f64,
    /// Delay between two content events.
    pace: Duration,
    cut: Option<(Cut, ErrorCode)>,
    /// Number of steps so far.
    taken: u64,
    /// Whether a content event was sent.
    has_content: bool,
}

impl Run {
    /// Plans the steps of the answer.
    fn plan(&mut self, prompt: &Prompt, is_spoken: bool, timeout: Duration) -> Result<(), UpstreamError> {
        let script = &prompt.script;
        if script.delay >= timeout {
            self.work.push_back(Work::Wait(timeout));
            self.step(Step::Fail(failure::requested(ErrorCode::UpstreamTimeout)));
            return Ok(());
        }
        self.work.push_back(Work::Wait(script.delay));
        if let (Some(code), None) = (script.error, script.cut) {
            self.step(Step::Fail(failure::requested(code)));
            return Ok(());
        }
        let answer = Answer::compose(prompt)?;
        self.pace = script.pace;
        self.cut = script.cut.map(|cut| {
            let code = script.error.unwrap_or(ErrorCode::UpstreamError);
            (cut, code)
        });
        self.step(Step::Started);
        let mut finish = RealtimeFinish::Completed;
        for choice in answer.choices {
            let text = [choice.text, choice.refusal].concat();
            if !text.is_empty() {
                self.plan_text(&text, is_spoken);
            }
            for (index, call) in (0..).zip(choice.calls) {
                self.plan_call(index, call);
            }
            if choice.finish == FinishReason::Length {
                finish = RealtimeFinish::MaxTokens;
            }
        }
        self.step(Step::End(finish));
        Ok(())
    }

    fn plan_text(&mut self, text: &str, is_spoken: bool) {
        if is_spoken {
            self.step(Step::Item(Content::Spoken {
                words: String::new(),
                bytes: 0,
            }));
            self.work.extend(sentences(text).map(Work::Speak));
            return;
        }
        self.step(Step::Item(Content::Text {
            role: Role::Assistant,
            text: String::new(),
        }));
        for (delta, count) in deltas(text) {
            self.step(Step::Output(RealtimeEvent::Text(delta), count));
        }
    }

    fn plan_call(&mut self, index: u32, call: ToolCall) {
        let count = tokens::count(&call.name);
        self.step(Step::Item(Content::Call(ToolCall {
            id: String::new(),
            name: String::new(),
            arguments: String::new(),
            custom: false,
        })));
        let started = RealtimeEvent::CallStarted {
            index,
            call_id: call.id,
            name: call.name,
        };
        self.step(Step::Output(started, count));
        for (delta, count) in deltas(&call.arguments) {
            self.step(Step::Output(RealtimeEvent::CallArguments { index, delta }, count));
        }
    }

    fn step(&mut self, step: Step) {
        self.work.push_back(Work::Step(step));
    }

    /// Returns the next step; `None` after the last one.
    async fn next(&mut self) -> Option<Step> {
        loop {
            match self.work.pop_front()? {
                Work::Step(step) => return Some(self.take(step).await),
                Work::Wait(delay) if delay.is_zero() => {}
                Work::Wait(delay) => sleep(delay).await,
                Work::Speak(sentence) => self.speak(&sentence).await,
            }
        }
    }

    /// Delays each content event except the first, and cuts the response where the script says so.
    /// A cut response never ends normally.
    async fn take(&mut self, step: Step) -> Step {
        if let Some((cut, code)) = self.cut {
            let is_cut = match cut {
                Cut::After(events) => self.taken >= events,
                Cut::BeforeUsage | Cut::BeforeEnd => false,
            };
            if is_cut || matches!(step, Step::End(_)) {
                self.work.clear();
                return Step::Break(stream::broken_off(code));
            }
        }
        self.taken += 1;
        if step.is_content() && std::mem::replace(&mut self.has_content, true) && !self.pace.is_zero() {
            sleep(self.pace).await;
        }
        step
    }

    /// Puts the words and the audio of a sentence before the remaining work.
    async fn speak(&mut self, sentence: &str) {
        let spoken = speech::utter(&self.tools, sentence.trim().to_owned(), &self.voice, self.speed).await;
        let audio = match spoken {
            Ok(audio) => Bytes::from(audio),
            Err(error) => {
                self.work = VecDeque::from([Work::Step(Step::Fail(error))]);
                return;
            }
        };
        let words = deltas(sentence).map(|(delta, count)| (RealtimeEvent::Transcript(delta), count));
        let starts = (0..audio.len()).step_by(AUDIO_CHUNK_BYTES);
        let chunks = starts.map(|start| {
            let chunk = audio.slice(start..audio.len().min(start + AUDIO_CHUNK_BYTES));
            (RealtimeEvent::Audio(chunk), 0)
        });
        let steps: Vec<Work> = words
            .chain(chunks)
            .map(|(event, count)| Work::Step(Step::Output(event, count)))
            .collect();
        for step in steps.into_iter().rev() {
            self.work.push_front(step);
        }
    }
}

/// Splits a text into sentences, which together equal the text.
fn sentences(text: &str) -> impl Iterator<Item = String> {
    let mut tokens = tokens::split(text);
    std::iter::from_fn(move || {
        let mut sentence = tokens.next()?.to_owned();
        let mut count = 1;
        while !sentence.trim_end().ends_with(['.', '!', '?', '…']) && count < MAX_SENTENCE_TOKENS {
            let Some(token) = tokens.next() else { break };
            sentence.push_str(token);
            count += 1;
        }
        Some(sentence)
    })
}

/// Splits a text into chunks with their number of tokens. A text of one or two tokens has three
/// chunks, as in a stream of the chat model; the first ones count.
fn deltas(text: &str) -> impl Iterator<Item = (String, u64)> {
    let mut left = tokens::count(text);
    let mut start = 0;
    std::iter::from_fn(move || {
        let chunk = tokens::chunk(text, start)?;
        start += chunk.len();
        let count = left.min(1);
        left -= count;
        Some((chunk.to_owned(), count))
    })
}
