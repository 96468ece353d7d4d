//! A running response: its output items, their events, and what it consumed.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use tollgate_formats::openai_realtime::{
    AudioFormat, ContentPart, Item, ItemKind, ItemStatus, OutputModality, Part, Response, ResponseStatus,
    ResponseUsage, Role, ServerEvent, SpokenPlace, TokenCounts, WrittenItem,
};
use tollgate_pipeline::MICROS_PER_OUTPUT_TOKEN;
use tollgate_types::{RequestId, Timestamp, Unit, Usage};

use super::conversation::{Conversation, Entry};
use super::events::Events;
use super::input::encoding_of;
use crate::audio::{OutputEncoder, pcm};
use crate::cascade::SPEECH_RATE;
use crate::execution::Consumption;
use crate::heard::{Heard, Playback};
use crate::payment::Payment;
use crate::relay::RelayedResponse;

/// Values that the events of a response repeat.
pub(crate) struct ResponseOptions {
    pub(crate) id: String,
    /// Conversation of the output; `None` for a response outside it.
    pub(crate) conversation_id: Option<Arc<str>>,
    pub(crate) modality: OutputModality,
    pub(crate) output_format: AudioFormat,
    pub(crate) voice: Option<Arc<str>>,
    pub(crate) max_output_tokens: Option<u32>,
    pub(crate) metadata: Vec<(String, String)>,
    /// Whether the client gave the input, which replaces the conversation.
    pub(crate) has_own_input: bool,
}

/// Task that executes a response. Dropping it ends the task.
pub(crate) enum Execution {
    Cascade(AbortOnDropHandle<()>),
    Relay(RelayedResponse),
}

impl Execution {
    /// Ends the task. Returns when the consumption is final.
    pub(crate) async fn stop(&mut self) {
        match self {
            Execution::Cascade(task) => task.abort(),
            Execution::Relay(response) => response.stop().await,
        }
    }
}

/// A response that has not ended.
pub(crate) struct RunningResponse {
    pub(crate) number: u64,
    pub(crate) request: RequestId,
    pub(crate) payment: Option<Payment>,
    pub(crate) options: ResponseOptions,
    pub(crate) consumption: Consumption,
    /// Number of audio tokens that the models of the response read.
    pub(crate) read_audio_tokens: u64,
    /// Whether the client has received `response.created`.
    pub(crate) is_created: bool,
    pub(crate) first_at: Option<Timestamp>,
    pub(crate) started: Instant,
    pub(crate) output: Vec<Output>,
    /// Id of the next item of the output, if its execution has chosen one.
    pub(crate) next_item_id: Option<Arc<str>>,
    pub(crate) execution: Execution,
}

/// Item of the output.
pub(crate) struct Output {
    pub(crate) item: Item,
    pub(crate) status: ItemStatus,
    /// Id of the item before it in the conversation.
    previous: Option<String>,
    state: OutputState,
}

#[expect(
    clippy::large_enum_variant,
    reason = "a response has few items, and the first one is usually the message"
)]
enum OutputState {
    Message {
        text: String,
        heard: Heard,
        playback: Playback,
        encoder: Option<OutputEncoder>,
        is_spoken: bool,
        /// Audio that the listener has heard according to the client.
        truncated_us: Option<u64>,
    },
    Call {
        index: u32,
        arguments: String,
    },
    Closed,
}

/// A spoken answer that the client may still be playing.
pub(crate) struct LastSpoken {
    pub(crate) item_id: String,
    pub(crate) playback: Playback,
}

impl RunningResponse {
    /// Whether the output belongs to the conversation.
    pub(crate) const fn is_in_conversation(&self) -> bool {
        self.options.conversation_id.is_some()
    }

    /// Returns the duration of the audio that was sent, in microseconds.
    pub(crate) fn delivered_micros(&self) -> u64 {
        let durations = self.output.iter().map(|output| match &output.state {
            OutputState::Message { playback, .. } => playback.delivered_us(),
            OutputState::Call { .. } | OutputState::Closed => 0,
        });
        durations.sum()
    }

    /// Cuts the open answer after the audio that the listener has heard. Returns this duration, at
    /// most that of the delivered audio; `None` if the item is not the open answer.
    pub(crate) fn truncate(&mut self, item_id: &str, heard_us: u64) -> Option<u64> {
        let output = self.output.iter_mut().find(|output| output.id() == item_id)?;
        let OutputState::Message {
            heard, truncated_us, ..
        } = &mut output.state
        else {
            return None;
        };
        let heard_us = heard_us.min(heard.total_us());
        *truncated_us = Some(heard_us);
        Some(heard_us)
    }

    /// Whether the client is playing the answer.
    pub(crate) fn is_playing(&self, now_us: u64) -> bool {
        self.output.iter().any(|output| match &output.state {
            OutputState::Message { playback, .. } => playback.is_playing(now_us),
            OutputState::Call { .. } | OutputState::Closed => false,
        })
    }

    /// Sends text of a written answer.
    pub(crate) fn write(&mut self, delta: &str, events: &Events, conversation: &mut Conversation) {
        let index = self.open_message(events, conversation);
        let Some(place) = self.place(index) else { return };
        events.send(&ServerEvent::TextDelta {
            place: place.borrow(),
            delta,
        });
        if let Some(Output {
            state: OutputState::Message { text, .. },
            ..
        }) = self.output.get_mut(index)
        {
            text.push_str(delta);
        }
    }

    /// Sends words of a spoken answer. With `is_chunk`, the following audio speaks exactly these
    /// words; otherwise it speaks any of the words that were not spoken yet.
    pub(crate) fn speak(
        &mut self,
        words: &str,
        is_chunk: bool,
        events: &Events,
        conversation: &mut Conversation,
    ) {
        let index = self.open_message(events, conversation);
        let Some(place) = self.place(index) else { return };
        events.send(&ServerEvent::TranscriptDelta {
            place: place.borrow(),
            delta: words,
        });
        if let Some(Output {
            state: OutputState::Message { text, heard, .. },
            ..
        }) = self.output.get_mut(index)
        {
            text.push_str(words);
            match is_chunk {
                true => heard.begin(words),
                false => heard.append(words),
            }
        }
    }

    /// Sends audio of a spoken answer.
    pub(crate) fn play(
        &mut self,
        samples: &[i16],
        events: &Events,
        conversation: &mut Conversation,
        now_us: u64,
    ) {
        let index = self.open_message(events, conversation);
        let Some(place) = self.place(index) else { return };
        let Some(Output {
            state:
                OutputState::Message {
                    heard,
                    playback,
                    encoder,
                    ..
                },
            ..
        }) = self.output.get_mut(index)
        else {
            return;
        };
        let audio = match encoder {
            Some(encoder) => encoder.push(samples),
            None => pcm::to_le_bytes(samples),
        };
        let micros = pcm::duration_us(samples.len(), SPEECH_RATE);
        heard.extend(micros);
        playback.deliver(now_us, micros);
        if !audio.is_empty() {
            events.send(&ServerEvent::AudioDelta {
                place: place.borrow(),
                audio: &audio,
            });
        }
    }

    /// Sends the start of a function call.
    pub(crate) fn start_call(
        &mut self,
        index: u32,
        call_id: &str,
        name: &str,
        events: &Events,
        conversation: &mut Conversation,
    ) {
        let item = Item {
            id: Some(self.new_item_id(events)),
            kind: ItemKind::FunctionCall {
                call_id: Some(call_id.into()),
                name: name.into(),
                arguments: "".into(),
            },
        };
        let state = OutputState::Call {
            index,
            arguments: String::new(),
        };
        self.open(item, state, events, conversation);
    }

    /// Sends arguments of a function call.
    pub(crate) fn extend_call(&mut self, index: u32, delta: &str, events: &Events) {
        let is_call = |output: &Output| matches!(&output.state, OutputState::Call { index: known, .. } if *known == index);
        let Some(position) = self.output.iter().position(is_call) else {
            return;
        };
        let Some(place) = self.place(position) else { return };
        let Some(Output {
            item,
            state: OutputState::Call { arguments, .. },
            ..
        }) = self.output.get_mut(position)
        else {
            return;
        };
        arguments.push_str(delta);
        if let ItemKind::FunctionCall {
            call_id: Some(call_id),
            ..
        } = &item.kind
        {
            events.send(&ServerEvent::ArgumentsDelta {
                place: place.borrow(),
                call_id,
                delta,
            });
        }
    }

    /// Sends `response.created`.
    pub(crate) fn create(&mut self, events: &Events) {
        if self.is_created {
            return;
        }
        self.is_created = true;
        let request = self.request.to_string();
        events.send(&ServerEvent::ResponseCreated(&Response {
            status: ResponseStatus::InProgress,
            ..self.response(&[], &request)
        }));
    }

    /// Closes the items of the output and sends their last events. Returns the spoken answer.
    pub(crate) fn close_items(
        &mut self,
        is_complete: bool,
        events: &Events,
        conversation: &mut Conversation,
    ) -> Option<LastSpoken> {
        let mut last_spoken = None;
        for index in 0..self.output.len() {
            let spoken = self.close_item(index, is_complete, events, conversation);
            last_spoken = spoken.or(last_spoken);
        }
        last_spoken
    }

    /// Sends `response.done`.
    pub(crate) fn done(&self, status: ResponseStatus<'_>, usage: &Usage, cost: &str, events: &Events) {
        let output: Vec<WrittenItem<'_>> = self
            .output
            .iter()
            .map(|output| WrittenItem {
                item: &output.item,
                status: output.status,
            })
            .collect();
        let audio_input = usage.input_audio();
        let image_input = usage.get(Unit::InputImage);
        let audio_output = usage.get(Unit::OutputAudio);
        let usage = ResponseUsage {
            input: TokenCounts {
                text: usage.total_input().saturating_sub(audio_input + image_input),
                audio: audio_input,
                image: image_input,
            },
            cached: TokenCounts {
                text: usage.get(Unit::CacheRead),
                audio: usage.get(Unit::CacheReadAudio),
                image: 0,
            },
            output: TokenCounts {
                text: usage.total_output().saturating_sub(audio_output),
                audio: audio_output,
                image: 0,
            },
            cost: Some(cost),
        };
        let request = self.request.to_string();
        events.send(&ServerEvent::ResponseDone(&Response {
            status,
            usage: Some(&usage),
            ..self.response(&output, &request)
        }));
    }

    /// Returns the consumption of the response so far, and whether a part of it is estimated.
    pub(crate) fn usage(&self, delivered_micros: u64) -> (Usage, bool) {
        let consumed = self.consumption.get();
        let tokens = consumed.reported.unwrap_or_else(|| {
            Usage::tokens(
                consumed.prompt_bytes.div_ceil(4),
                consumed.output_bytes.div_ceil(4),
            )
        });
        if consumed.includes_audio {
            return (tokens, false);
        }
        let usage = tokens
            .with(
                Unit::InputAudio,
                tokens.get(Unit::InputAudio) + self.read_audio_tokens,
            )
            .with(
                Unit::OutputAudio,
                tokens.get(Unit::OutputAudio) + delivered_micros.div_ceil(MICROS_PER_OUTPUT_TOKEN),
            );
        (usage, consumed.reported.is_none())
    }

    /// Whether the client has received output that it pays for: audio, or text of a written answer.
    pub(crate) fn has_output(&self) -> bool {
        self.output.iter().any(|output| match &output.state {
            OutputState::Message {
                text,
                playback,
                is_spoken,
                ..
            } => playback.delivered_us() > 0 || (!is_spoken && !text.is_empty()),
            OutputState::Call { .. } => true,
            OutputState::Closed => false,
        })
    }

    fn response<'a>(&'a self, output: &'a [WrittenItem<'a>], request: &'a str) -> Response<'a> {
        let options = &self.options;
        Response {
            id: &options.id,
            status: ResponseStatus::InProgress,
            output,
            usage: None,
            conversation_id: options.conversation_id.as_deref(),
            modality: options.modality,
            output_format: options.output_format,
            voice: options.voice.as_deref(),
            max_output_tokens: options.max_output_tokens,
            metadata: &options.metadata,
            request_id: Some(request),
        }
    }

    fn new_item_id(&mut self, events: &Events) -> Arc<str> {
        let chosen = self.next_item_id.take();
        chosen.unwrap_or_else(|| events.new_id("item_").into())
    }

    fn message_index(&self) -> Option<usize> {
        let is_message = |output: &Output| matches!(output.state, OutputState::Message { .. });
        self.output.iter().position(is_message)
    }

    /// Returns the index of the message, which is opened if there is none.
    fn open_message(&mut self, events: &Events, conversation: &mut Conversation) -> usize {
        if let Some(index) = self.message_index() {
            return index;
        }
        let is_spoken = self.options.modality == OutputModality::Audio;
        let item = Item {
            id: Some(self.new_item_id(events)),
            kind: ItemKind::Message {
                role: Role::Assistant,
                content: Vec::new(),
            },
        };
        let state = OutputState::Message {
            text: String::new(),
            heard: Heard::default(),
            playback: Playback::default(),
            encoder: match self.options.output_format {
                AudioFormat::Pcm => None,
                format => OutputEncoder::new(SPEECH_RATE, encoding_of(format)),
            },
            is_spoken,
            truncated_us: None,
        };
        let index = self.open(item, state, events, conversation);
        if let Some(place) = self.place(index) {
            events.send(&ServerEvent::ContentPartAdded {
                place: place.borrow(),
                part: part(is_spoken, ""),
            });
        }
        index
    }

    fn open(
        &mut self,
        item: Item,
        state: OutputState,
        events: &Events,
        conversation: &mut Conversation,
    ) -> usize {
        let index = self.output.len();
        let written = WrittenItem {
            item: &item,
            status: ItemStatus::InProgress,
        };
        events.send(&ServerEvent::OutputItemAdded {
            response_id: &self.options.id,
            output_index: number(index),
            item: written,
        });
        let mut previous = None;
        if self.is_in_conversation() {
            previous = conversation.append(Entry::new(item.clone(), ItemStatus::InProgress));
            events.send(&ServerEvent::ItemAdded {
                previous_item_id: previous.as_deref(),
                item: written,
            });
        }
        self.output.push(Output {
            item,
            status: ItemStatus::InProgress,
            previous,
            state,
        });
        index
    }

    fn close_item(
        &mut self,
        index: usize,
        is_complete: bool,
        events: &Events,
        conversation: &mut Conversation,
    ) -> Option<LastSpoken> {
        let place = self.place(index)?;
        let output = self.output.get_mut(index)?;
        output.status = match is_complete {
            true => ItemStatus::Completed,
            false => ItemStatus::Incomplete,
        };
        let mut heard_words = None;
        let mut last_spoken = None;
        match std::mem::replace(&mut output.state, OutputState::Closed) {
            OutputState::Message {
                text,
                mut heard,
                playback,
                encoder,
                is_spoken,
                truncated_us,
            } => {
                if is_complete {
                    heard.end(None);
                }
                if let Some(mut encoder) = encoder {
                    send_audio(&place, &encoder.finish(), events);
                }
                close_message(&place, is_spoken, &text, events);
                output.set_content(is_spoken, &text);
                if is_spoken {
                    last_spoken = truncated_us.is_none().then(|| LastSpoken {
                        item_id: place.item_id.clone(),
                        playback,
                    });
                    heard_words = Some((heard, truncated_us));
                }
            }
            OutputState::Call { arguments, .. } => close_call(&place, output, &arguments, events),
            OutputState::Closed => return None,
        }
        self.finish_item(index, &place, heard_words, events, conversation);
        last_spoken
    }

    /// Sends the last events of an item, and stores it in the conversation.
    fn finish_item(
        &self,
        index: usize,
        place: &OwnPlace,
        heard: Option<(Heard, Option<u64>)>,
        events: &Events,
        conversation: &mut Conversation,
    ) {
        let Some(output) = self.output.get(index) else {
            return;
        };
        let written = WrittenItem {
            item: &output.item,
            status: output.status,
        };
        if self.is_in_conversation() {
            if let Some(entry) = conversation.get_mut(&place.item_id) {
                entry.item = output.item.clone();
                entry.status = output.status;
                if let Some((heard, truncated_us)) = heard {
                    entry.heard = Some(heard);
                    truncated_us.map(|heard_us| entry.truncate(heard_us));
                }
            }
            events.send(&ServerEvent::ItemDone {
                previous_item_id: output.previous.as_deref(),
                item: written,
            });
        }
        events.send(&ServerEvent::OutputItemDone {
            response_id: &self.options.id,
            output_index: place.output_index,
            item: written,
        });
    }

    fn place(&self, index: usize) -> Option<OwnPlace> {
        Some(OwnPlace {
            response_id: self.options.id.clone(),
            item_id: self.output.get(index)?.id().to_owned(),
            output_index: number(index),
        })
    }
}

impl Output {
    fn id(&self) -> &str {
        self.item.id.as_deref().unwrap_or_default()
    }

    fn set_content(&mut self, is_spoken: bool, text: &str) {
        let ItemKind::Message { content, .. } = &mut self.item.kind else {
            return;
        };
        *content = vec![match is_spoken {
            true => ContentPart::OutputAudio {
                audio: Bytes::new(),
                transcript: Some(text.into()),
            },
            false => ContentPart::OutputText { text: text.into() },
        }];
    }
}

/// Place of an output item, with its own texts.
struct OwnPlace {
    response_id: String,
    item_id: String,
    output_index: u32,
}

impl OwnPlace {
    fn borrow(&self) -> SpokenPlace<'_> {
        SpokenPlace {
            response_id: &self.response_id,
            item_id: &self.item_id,
            output_index: self.output_index,
            content_index: 0,
        }
    }
}

fn send_audio(place: &OwnPlace, audio: &[u8], events: &Events) {
    if !audio.is_empty() {
        events.send(&ServerEvent::AudioDelta {
            place: place.borrow(),
            audio,
        });
    }
}

fn close_message(place: &OwnPlace, is_spoken: bool, text: &str, events: &Events) {
    if is_spoken {
        events.send(&ServerEvent::AudioDone {
            place: place.borrow(),
        });
        events.send(&ServerEvent::TranscriptDone {
            place: place.borrow(),
            transcript: text,
        });
    } else {
        events.send(&ServerEvent::TextDone {
            place: place.borrow(),
            text,
        });
    }
    events.send(&ServerEvent::ContentPartDone {
        place: place.borrow(),
        part: part(is_spoken, text),
    });
}

fn close_call(place: &OwnPlace, output: &mut Output, all_arguments: &str, events: &Events) {
    let ItemKind::FunctionCall {
        call_id,
        name,
        arguments,
    } = &mut output.item.kind
    else {
        return;
    };
    *arguments = all_arguments.into();
    events.send(&ServerEvent::ArgumentsDone {
        place: place.borrow(),
        call_id: call_id.as_deref().unwrap_or_default(),
        name,
        arguments: all_arguments,
    });
}

const fn part(is_spoken: bool, text: &str) -> Part<'_> {
    match is_spoken {
        true => Part::Audio { transcript: text },
        false => Part::Text { text },
    }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
