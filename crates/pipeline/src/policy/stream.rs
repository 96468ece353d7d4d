//! Answers that come piece by piece. What was shown stays; the piece in which something forbidden begins, and what
//! follows it, is not shown: the choice ends there by the content filter. The upstream is read on for its report, like
//! that of a caller who has left.

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
    /// The stream with what may be shown of it.
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
            silence: None,
            is_over: false,
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
    choices: Vec<Spoken>,
    ready: VecDeque<TextChunk>,
    /// From when on nothing more will be shown.
    silence: Option<Silence>,
    is_over: bool,
}

/// One choice.
struct Spoken {
    index: u32,
    window: Option<Window>,
    is_blocked: bool,
}

/// The rest of an answer that nobody will see, within the bounds of a drain.
struct Silence {
    until: Instant,
    bytes: u64,
}

impl Filter {
    async fn next(&mut self) -> Option<Result<TextChunk, UpstreamError>> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Some(Ok(chunk));
            }
            if self.is_over {
                return None;
            }
            let next = match &self.silence {
                None => self.events.next().await?,
                // Whatever happens to what nobody will see: the answer has ended.
                Some(silence) => match timeout_at(silence.until, self.events.next()).await {
                    Ok(Some(Ok(chunk))) if silence.bytes <= self.drain.bytes => Ok(chunk),
                    _ => Ok(end()),
                },
            };
            match next {
                Ok(chunk) => {
                    if let Err(error) = self.take(chunk).await {
                        self.is_over = true;
                        return Some(Err(error));
                    }
                }
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        }
    }

    async fn take(&mut self, chunk: TextChunk) -> Result<(), UpstreamError> {
        if let Some(silence) = &mut self.silence {
            silence.bytes = silence.bytes.saturating_add(chunk.output_bytes);
        }
        if chunk.kind == ChunkKind::End {
            for place in 0..self.choices.len() {
                self.close(place).await;
            }
            self.is_over = true;
            self.ready.push_back(chunk);
            return Ok(());
        }
        match chunk.payload {
            Some(Payload::Common(event)) if event.choice().is_some() => {
                // What arrived is counted at once, whenever it is shown and whether it is.
                self.ready.push_back(TextChunk {
                    payload: None,
                    ..chunk
                });
                self.hear(*event).await;
            }
            Some(Payload::Raw(..)) => {
                return Err(not_common());
            }
            payload => self.ready.push_back(TextChunk { payload, ..chunk }),
        }
        Ok(())
    }

    /// Takes an event of a choice and makes ready what may be shown by now.
    async fn hear(&mut self, event: StreamEvent) {
        let place = self.place_of(event.choice().unwrap_or(0));
        if self.choices[place].is_blocked {
            return;
        }
        let Some((channel, piece)) = spoken(&event) else {
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
        let piece = piece.to_owned();
        window.push(event, &piece);
        self.look(place, false).await;
    }

    /// Ends the channel that a choice speaks on, if it speaks.
    async fn close(&mut self, place: usize) {
        if !self.choices[place].is_blocked {
            self.look(place, true).await;
        }
        self.choices[place].window = None;
    }

    /// Shows what may be shown of a choice's window, and ends the choice where something forbidden begins.
    async fn look(&mut self, place: usize, whole: bool) {
        let policy = self.policy.clone();
        let Some(window) = &mut self.choices[place].window else {
            return;
        };
        let mut judged = window.judge(&policy.output, whole);
        let mut is_forbidden = judged.rule.is_some();
        if let Some(rule) = judged.rule.and_then(|place| policy.output.get(place)) {
            tracing::info!(request.id = %self.request, rule = %rule.name, "answer blocked by the content policy");
        }
        if let Some(classifier) = &policy.output_classifier {
            let (text, unseen) = window.unseen(judged.clear);
            if unseen == 0 {
                // It has been asked about all of it.
            } else if !classifier.wants(text, unseen, whole || is_forbidden) {
                judged.clear = 0;
            } else if classifier.forbids(self.request, &[text.to_owned()]).await {
                judged.clear = 0;
                is_forbidden = true;
            }
        }
        for event in window.release(judged.clear) {
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
            self.silence = Some(Silence {
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

    fn place_of(&mut self, index: u32) -> usize {
        let known = self.choices.iter().position(|choice| choice.index == index);
        known.unwrap_or_else(|| {
            self.silence = None;
            self.choices.push(Spoken {
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

/// What an event says, and on which channel.
fn spoken(event: &StreamEvent) -> Option<(Channel, &str)> {
    match event {
        StreamEvent::Text { text, .. } => Some((Channel::Text, text)),
        StreamEvent::Reasoning { text, .. } => Some((Channel::Reasoning, text)),
        StreamEvent::Refusal { text, .. } => Some((Channel::Refusal, text)),
        StreamEvent::ToolCallArguments { call, arguments, .. } => Some((Channel::Call(*call), arguments)),
        _ => None,
    }
}
