//! Content policy for streamed responses. Text that was sent is not retracted. The chunk in which a
//! forbidden text starts, and all later chunks, are withheld: the choice ends with the reason
//! `content_filter`. The upstream is read to its usage report, as after a disconnect of the caller.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::unfold;
use tokio::time::{Instant, timeout_at};
use tollgate_types::RequestId;
use tollgate_types::generate::FinishReason;
use tollgate_types::stream::StreamEvent;
use tollgate_upstream::{ChunkKind, Payload, TextChunk, TextStream, UpstreamError};

use super::window::{Channel, Window};
use super::{Policy, not_common};
use crate::settings::Drain;

impl Policy {
    /// Returns the stream without forbidden text.
    pub(crate) fn filter(
        self: Arc<Self>,
        request: RequestId,
        drain: Drain,
        events: TextStream,
    ) -> TextStream {
        let filter = Filter {
            policy: self,
            request,
            drain,
            events,
            choices: Vec::new(),
            ready: VecDeque::new(),
            hidden_drain: None,
            is_done: false,
        };
        Box::pin(unfold(filter, |mut filter| async move {
            let item = filter.next().await?;
            Some((item, filter))
        }))
    }
}

struct Filter {
    policy: Arc<Policy>,
    request: RequestId,
    drain: Drain,
    events: TextStream,
    choices: Vec<ChoiceState>,
    ready: VecDeque<TextChunk>,
    /// Limits on the rest of the stream; set when all choices are blocked.
    hidden_drain: Option<HiddenDrain>,
    is_done: bool,
}

/// State of one choice of the response.
struct ChoiceState {
    index: u32,
    window: Option<Window>,
    is_blocked: bool,
}

/// Deadline and number of bytes for reading the rest of a blocked response.
struct HiddenDrain {
    until: Instant,
    bytes: u64,
}

impl Filter {
    async fn next(&mut self) -> Option<Result<TextChunk, UpstreamError>> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Some(Ok(chunk));
            }
            if self.is_done {
                return None;
            }
            let next = match &self.hidden_drain {
                None => self.events.next().await?,
                // Errors in the withheld rest are ignored: the response has ended for the caller.
                Some(hidden_drain) => match timeout_at(hidden_drain.until, self.events.next()).await {
                    Ok(Some(Ok(chunk))) if hidden_drain.bytes <= self.drain.bytes => Ok(chunk),
                    _ => Ok(end()),
                },
            };
            match next {
                Ok(chunk) => {
                    if let Err(error) = self.take(chunk).await {
                        self.is_done = true;
                        return Some(Err(error));
                    }
                }
                Err(error) => {
                    self.is_done = true;
                    return Some(Err(error));
                }
            }
        }
    }

    async fn take(&mut self, chunk: TextChunk) -> Result<(), UpstreamError> {
        if let Some(hidden_drain) = &mut self.hidden_drain {
            hidden_drain.bytes = hidden_drain.bytes.saturating_add(chunk.output_bytes);
        }
        if chunk.kind == ChunkKind::End {
            for place in 0..self.choices.len() {
                self.close(place).await;
            }
            self.is_done = true;
            self.ready.push_back(chunk);
            return Ok(());
        }
        match chunk.payload {
            Some(Payload::Common(event)) if event.choice().is_some() => {
                // Received output is metered immediately, whether or not it is delivered.
                self.ready.push_back(TextChunk {
                    payload: None,
                    ..chunk
                });
                self.push_event(*event).await;
            }
            Some(Payload::Raw(..)) => {
                return Err(not_common());
            }
            payload => self.ready.push_back(TextChunk { payload, ..chunk }),
        }
        Ok(())
    }

    /// Adds an event of a choice, and queues the events that are cleared.
    async fn push_event(&mut self, event: StreamEvent) {
        let place = self.choice_index(event.choice().unwrap_or(0));
        if self.choices[place].is_blocked {
            return;
        }
        let Some((channel, fragment)) = text_of_event(&event) else {
            self.close(place).await;
            if !self.choices[place].is_blocked {
                self.show(event);
            }
            return;
        };
        let open = self.choices[place].window.as_ref().map(|window| window.channel);
        if open.is_some_and(|open| open != channel) {
            self.close(place).await;
            if self.choices[place].is_blocked {
                return;
            }
        }
        let window = self.choices[place]
            .window
            .get_or_insert_with(|| Window::new(channel));
        let fragment = fragment.to_owned();
        window.push(event, &fragment);
        self.inspect(place, false).await;
    }

    /// Inspects the rest of a choice's current channel, and closes the channel.
    async fn close(&mut self, place: usize) {
        if !self.choices[place].is_blocked {
            self.inspect(place, true).await;
        }
        self.choices[place].window = None;
    }

    /// Inspects a choice's window and queues the events that pass. Ends the choice if the window
    /// contains forbidden text. `whole` means that no text of the channel follows.
    async fn inspect(&mut self, place: usize, whole: bool) {
        let policy = self.policy.clone();
        let Some(window) = &mut self.choices[place].window else {
            return;
        };
        let mut verdict = window.judge(&policy.output, whole);
        let mut is_forbidden = verdict.rule.is_some();
        if let Some(rule) = verdict.rule.and_then(|place| policy.output.get(place)) {
            tracing::info!(request.id = %self.request, rule = %rule.name, "response blocked by the content policy");
        }
        if let Some(classifier) = &policy.output_classifier {
            let (text, unseen) = window.unseen(verdict.clear);
            if unseen == 0 {
                // All of the text was classified before.
            } else if !classifier.is_due(text, unseen, whole || is_forbidden) {
                verdict.clear = 0;
            } else if classifier.forbids(self.request, &[text.to_owned()]).await {
                verdict.clear = 0;
                is_forbidden = true;
            }
        }
        for event in window.release(verdict.clear) {
            self.show(event);
        }
        if is_forbidden {
            self.block(place);
        }
    }

    fn block(&mut self, place: usize) {
        let choice = &mut self.choices[place];
        choice.is_blocked = true;
        choice.window = None;
        let ended = StreamEvent::Finish {
            choice: choice.index,
            reason: FinishReason::ContentFilter,
            stop_sequence: None,
        };
        self.show(ended);
        if self.choices.iter().all(|choice| choice.is_blocked) {
            self.hidden_drain = Some(HiddenDrain {
                until: Instant::now() + self.drain.time,
                bytes: 0,
            });
        }
    }

    fn show(&mut self, event: StreamEvent) {
        self.ready.push_back(TextChunk {
            kind: ChunkKind::Content,
            payload: Some(Payload::Common(Box::new(event))),
            usage: None,
            output_bytes: 0,
        });
    }

    fn choice_index(&mut self, index: u32) -> usize {
        let known = self.choices.iter().position(|choice| choice.index == index);
        known.unwrap_or_else(|| {
            self.hidden_drain = None;
            self.choices.push(ChoiceState {
                index,
                window: None,
                is_blocked: false,
            });
            self.choices.len() - 1
        })
    }
}

fn end() -> TextChunk {
    TextChunk {
        kind: ChunkKind::End,
        payload: None,
        usage: None,
        output_bytes: 0,
    }
}

/// Returns the text of an event and its channel; `None` for events without text.
fn text_of_event(event: &StreamEvent) -> Option<(Channel, &str)> {
    match event {
        StreamEvent::Text { text, .. } => Some((Channel::Text, text)),
        StreamEvent::Reasoning { text, .. } => Some((Channel::Reasoning, text)),
        StreamEvent::Refusal { text, .. } => Some((Channel::Refusal, text)),
        StreamEvent::ToolCallArguments { call, arguments, .. } => Some((Channel::Call(*call), arguments)),
        _ => None,
    }
}
