//! The running response: its output, its limit and its end.

use std::collections::VecDeque;
use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Sleep, sleep};
use tollgate_formats::gemini::live::{LiveCall, LiveEnd, LiveEvent};
use tollgate_types::Usage;
use tollgate_upstream::{ItemKey, REALTIME_RATE, RealtimeEvent, RealtimeFinish, RealtimeRole, UpstreamError};

use super::connection::OpenCall;
use super::conversation::{Content, Conversation};

/// Bytes of audio of one output token: the models speak with 25 tokens a second
/// (ai.google.dev/gemini-api/docs/tokens).
const BYTES_PER_AUDIO_TOKEN: u64 = 2 * REALTIME_RATE as u64 / 25;
/// Average bytes of one output token of text.
const BYTES_PER_TEXT_TOKEN: u64 = 4;
/// Maximum wait for the usage after the end of a turn or after a function call.
const USAGE_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum wait for the end of an interrupted turn.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum wait for output after the end of an earlier turn.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum wait for the end of a turn after its output is complete. The model may wait until the
/// answer was played.
const PLAYBACK_TIMEOUT: Duration = Duration::from_secs(30);

/// Consequence of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Continue,
    /// The response has reached its output limit.
    Stop,
}

/// The running response.
pub(super) struct Response {
    max_tokens: u64,
    has_started: bool,
    /// The message of the output.
    item: Option<ItemKey>,
    calls: u32,
    /// Function calls that the connection does not know yet.
    pub(super) called: Vec<OpenCall>,
    spoken_bytes: u64,
    text_bytes: u64,
    usage: Option<Usage>,
    /// Reason of an interruption.
    stopped: Option<RealtimeFinish>,
    is_interrupted: bool,
    is_generated: bool,
    turn_end: Option<LiveEnd>,
    has_ended: bool,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl Response {
    pub(super) fn new(max_tokens: u64) -> Self {
        Self {
            max_tokens,
            has_started: false,
            item: None,
            calls: 0,
            called: Vec::new(),
            spoken_bytes: 0,
            text_bytes: 0,
            usage: None,
            stopped: None,
            is_interrupted: false,
            is_generated: false,
            turn_end: None,
            has_ended: false,
            deadline: None,
        }
    }

    pub(super) fn has_output(&self) -> bool {
        self.has_started
    }

    /// Whether the conversation has its final state after this response.
    pub(super) fn is_generated(&self) -> bool {
        self.is_generated || self.is_interrupted || self.turn_end.is_some()
    }

    pub(super) fn has_turn_ended(&self) -> bool {
        self.turn_end.is_some()
    }

    /// Waits until the response ends without a further message. Cancel-safe.
    pub(super) async fn deadline(&mut self) {
        match &mut self.deadline {
            Some(deadline) => deadline.as_mut().await,
            None => pending().await,
        }
    }

    fn set_deadline(&mut self, wait: Duration) {
        self.deadline = Some(Box::pin(sleep(wait)));
    }

    /// Waits for output, but not forever.
    pub(super) fn expect_output(&mut self) {
        self.set_deadline(OUTPUT_TIMEOUT);
    }

    /// Notes that the response is interrupted. Returns false if it has just ended by itself.
    pub(super) fn stop(&mut self, finish: RealtimeFinish) -> bool {
        let is_ending = self.has_ended || self.stopped.is_some() || self.turn_end.is_some() || self.calls > 0;
        if is_ending {
            return false;
        }
        self.stopped = Some(finish);
        self.set_deadline(STOP_TIMEOUT);
        true
    }

    /// Applies an event of the server.
    pub(super) fn take(
        &mut self,
        event: LiveEvent,
        conversation: &mut Conversation,
        ready: &mut VecDeque<RealtimeEvent>,
    ) -> Step {
        match event {
            LiveEvent::Usage(usage) => self.usage = Some(usage),
            LiveEvent::GenerationComplete => {
                self.is_generated = true;
                if self.stopped.is_none() {
                    self.set_deadline(PLAYBACK_TIMEOUT);
                }
            }
            LiveEvent::Interrupted => {
                self.is_interrupted = true;
                self.stopped.get_or_insert(RealtimeFinish::Cancelled);
                self.set_deadline(USAGE_TIMEOUT);
            }
            LiveEvent::TurnComplete(end) => {
                self.turn_end = Some(end);
                self.set_deadline(USAGE_TIMEOUT);
            }
            LiveEvent::Text(_) | LiveEvent::Audio(_) | LiveEvent::Transcript(_) | LiveEvent::Call(_)
                if self.stopped.is_some() => {}
            LiveEvent::Text(delta) => return self.write(delta, conversation, ready),
            LiveEvent::Audio(audio) => return self.speak(audio, conversation, ready),
            LiveEvent::Transcript(delta) => {
                let key = self.message(spoken(), conversation, ready);
                if let Some(Content::Answer { words, .. }) = conversation.content(key) {
                    words.push_str(&delta);
                }
                ready.push_back(RealtimeEvent::Transcript(delta));
            }
            LiveEvent::Call(call) => self.call(call, conversation, ready),
            LiveEvent::SetupComplete
            | LiveEvent::Resumption(_)
            | LiveEvent::GoAway
            | LiveEvent::Heard(_)
            | LiveEvent::CallsCancelled(_) => {}
        }
        Step::Continue
    }

    fn start(&mut self, ready: &mut VecDeque<RealtimeEvent>) {
        if !std::mem::replace(&mut self.has_started, true) {
            self.deadline = None;
            ready.push_back(RealtimeEvent::Started);
        }
    }

    /// Returns the message of the output, which begins with the first event.
    fn message(
        &mut self,
        empty: Content,
        conversation: &mut Conversation,
        ready: &mut VecDeque<RealtimeEvent>,
    ) -> ItemKey {
        self.start(ready);
        *self.item.get_or_insert_with(|| {
            let key = conversation.push_output(empty);
            ready.push_back(RealtimeEvent::Item(key));
            key
        })
    }

    /// Returns the tokens that are left, by estimate.
    fn left(&self) -> u64 {
        let spoken = self.spoken_bytes.div_ceil(BYTES_PER_AUDIO_TOKEN);
        let written = self.text_bytes.div_ceil(BYTES_PER_TEXT_TOKEN);
        self.max_tokens.saturating_sub(spoken).saturating_sub(written)
    }

    fn write(
        &mut self,
        delta: String,
        conversation: &mut Conversation,
        ready: &mut VecDeque<RealtimeEvent>,
    ) -> Step {
        if (delta.len() as u64).div_ceil(BYTES_PER_TEXT_TOKEN) > self.left() {
            return Step::Stop;
        }
        let empty = Content::Said {
            role: RealtimeRole::Assistant,
            text: String::new(),
        };
        let key = self.message(empty, conversation, ready);
        if let Some(Content::Said { text, .. }) = conversation.content(key) {
            text.push_str(&delta);
        }
        self.text_bytes += delta.len() as u64;
        ready.push_back(RealtimeEvent::Text(delta));
        Step::Continue
    }

    fn speak(
        &mut self,
        audio: Bytes,
        conversation: &mut Conversation,
        ready: &mut VecDeque<RealtimeEvent>,
    ) -> Step {
        let max_bytes = self.left().saturating_mul(BYTES_PER_AUDIO_TOKEN);
        let is_too_long = audio.len() as u64 > max_bytes;
        let audio = match usize::try_from(max_bytes) {
            Ok(max_bytes) if is_too_long => audio.slice(..max_bytes),
            _ => audio,
        };
        if !audio.is_empty() {
            let key = self.message(spoken(), conversation, ready);
            if let Some(Content::Answer { bytes, .. }) = conversation.content(key) {
                *bytes += audio.len() as u64;
            }
            self.spoken_bytes += audio.len() as u64;
            ready.push_back(RealtimeEvent::Audio(audio));
        }
        if is_too_long { Step::Stop } else { Step::Continue }
    }

    fn call(&mut self, call: LiveCall, conversation: &mut Conversation, ready: &mut VecDeque<RealtimeEvent>) {
        self.start(ready);
        let index = self.calls;
        self.calls += 1;
        let call_id = match call.id.is_empty() {
            true => conversation.new_call_id(),
            false => call.id,
        };
        let key = conversation.push_output(Content::Call {
            call_id: call_id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        });
        self.called.push(OpenCall {
            id: call_id.clone(),
            name: call.name.clone(),
        });
        ready.push_back(RealtimeEvent::Item(key));
        ready.push_back(RealtimeEvent::CallStarted {
            index,
            call_id,
            name: call.name,
        });
        ready.push_back(RealtimeEvent::CallArguments {
            index,
            delta: call.arguments,
        });
        // The model waits for the outputs, so its turn does not end.
        self.set_deadline(USAGE_TIMEOUT);
    }

    /// Whether all messages of the response have arrived.
    pub(super) fn is_over(&self) -> bool {
        let has_end = match self.stopped {
            Some(_) => self.is_interrupted || self.turn_end.is_some(),
            None => self.is_generated || self.turn_end.is_some() || self.calls > 0,
        };
        has_end && self.usage.is_some() && !self.has_ended
    }

    /// Returns the last event, and whether the server has confirmed the end. `connection_limit` is
    /// the output limit of the connection.
    pub(super) fn end(&mut self, connection_limit: u64) -> (RealtimeEvent, bool) {
        self.has_ended = true;
        self.deadline = None;
        let has_reached_limit = |usage: &Usage| usage.total_output() >= connection_limit;
        let finish = match (self.stopped, self.turn_end) {
            (Some(stopped), _) => stopped,
            (None, Some(LiveEnd::Malformed)) => {
                let error = UpstreamError::protocol("the model wrote an invalid function call");
                return (RealtimeEvent::Failed(error.reporting(self.usage)), true);
            }
            (None, Some(LiveEnd::Blocked)) => RealtimeFinish::ContentFilter,
            (None, _) if self.usage.as_ref().is_some_and(has_reached_limit) => RealtimeFinish::MaxTokens,
            (None, _) => RealtimeFinish::Completed,
        };
        let is_confirmed = self.is_generated() || self.calls > 0;
        let event = RealtimeEvent::Ended {
            finish,
            usage: self.usage,
        };
        (event, is_confirmed)
    }
}

fn spoken() -> Content {
    Content::Answer {
        words: String::new(),
        bytes: 0,
    }
}
