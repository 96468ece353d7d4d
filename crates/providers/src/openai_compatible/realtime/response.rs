//! The running response: its output becomes events of the port.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::Instant;
use tollgate_formats::openai_realtime::{OutputCall, OutputPlace};
use tollgate_upstream::{ItemKey, RealtimeEvent, UpstreamError};

use super::items::Items;

/// Maximum text and arguments of a response, in bytes.
const MAX_TEXT_BYTES: usize = 4 << 20;
/// Maximum audio of a response, in bytes: 35 minutes.
const MAX_AUDIO_BYTES: usize = 100 << 20;
/// Maximum number of output items of a response, and of its function calls.
const MAX_OUTPUT_ITEMS: usize = 128;

/// A response that was requested and has not ended.
#[derive(Debug)]
pub(super) struct Running {
    /// Number of the command that requested it.
    pub(super) number: u64,
    /// Id of the response; `None` until the server has started it.
    pub(super) id: Option<Arc<str>>,
    /// Maximum time between two messages of the server.
    pub(super) idle: Duration,
    pub(super) last_message_at: Instant,
    pub(super) is_cancelled: bool,
    /// Error of an earlier command: the conversation is not the gateway's, so the response is
    /// cancelled and fails with this error.
    pub(super) spoiled: Option<UpstreamError>,
    item: Option<ItemKey>,
    items: usize,
    calls: Vec<Call>,
    text_bytes: usize,
    audio_bytes: usize,
    /// First half of a sample whose second half follows.
    half_sample: Option<u8>,
}

#[derive(Debug)]
struct Call {
    item: ItemKey,
    call_id: Arc<str>,
    has_arguments: bool,
}

impl Running {
    pub(super) fn new(number: u64, idle: Duration) -> Self {
        Self {
            number,
            id: None,
            idle,
            last_message_at: Instant::now(),
            is_cancelled: false,
            spoiled: None,
            item: None,
            items: 0,
            calls: Vec::new(),
            text_bytes: 0,
            audio_bytes: 0,
            half_sample: None,
        }
    }

    /// Selects the item of an output event, and announces it if it differs from the last one.
    pub(super) fn select(
        &mut self,
        place: &OutputPlace,
        items: &mut Items,
    ) -> Result<(ItemKey, Option<RealtimeEvent>), UpstreamError> {
        let (key, is_new) = match (&place.item_id, self.item) {
            (Some(id), _) => items.output(id.clone()),
            (None, Some(current)) => (current, false),
            (None, None) => (items.nameless(), true),
        };
        self.items += usize::from(is_new);
        if self.items > MAX_OUTPUT_ITEMS {
            return Err(excess("output items"));
        }
        if self.item.replace(key) == Some(key) {
            return Ok((key, None));
        }
        self.half_sample = None;
        Ok((key, Some(RealtimeEvent::Item(key))))
    }

    /// Counts text; more than the maximum is an error.
    pub(super) fn add_text(&mut self, text: &str) -> Result<(), UpstreamError> {
        self.text_bytes = self.text_bytes.saturating_add(text.len());
        match self.text_bytes > MAX_TEXT_BYTES {
            true => Err(excess("text")),
            false => Ok(()),
        }
    }

    /// Counts audio and returns its whole samples; `None` if there are none yet.
    pub(super) fn add_audio(&mut self, audio: Bytes) -> Result<Option<Bytes>, UpstreamError> {
        self.audio_bytes = self.audio_bytes.saturating_add(audio.len());
        if self.audio_bytes > MAX_AUDIO_BYTES {
            return Err(excess("audio"));
        }
        let mut audio = match self.half_sample.take() {
            None => audio,
            Some(first) => {
                let mut joined = BytesMut::with_capacity(audio.len() + 1);
                joined.extend_from_slice(&[first]);
                joined.extend_from_slice(&audio);
                joined.freeze()
            }
        };
        if !audio.len().is_multiple_of(2) {
            self.half_sample = audio.split_off(audio.len() - 1).first().copied();
        }
        Ok(Some(audio).filter(|audio| !audio.is_empty()))
    }

    /// Adds a function call; `None` if it is known.
    pub(super) fn add_call(
        &mut self,
        item: ItemKey,
        call: &OutputCall,
    ) -> Result<Option<RealtimeEvent>, UpstreamError> {
        if self.calls.iter().any(|known| known.call_id == call.call_id) {
            return Ok(None);
        }
        if self.calls.len() >= MAX_OUTPUT_ITEMS {
            return Err(excess("function calls"));
        }
        let index = u32::try_from(self.calls.len()).unwrap_or(u32::MAX);
        self.calls.push(Call {
            item,
            call_id: call.call_id.clone(),
            has_arguments: false,
        });
        Ok(Some(RealtimeEvent::CallStarted {
            index,
            call_id: call.call_id.to_string(),
            name: call.name.to_string(),
        }))
    }

    /// Returns a part of the arguments of the item's call; `None` if the call is unknown, because
    /// the event at its end has all arguments.
    pub(super) fn add_arguments(
        &mut self,
        item: ItemKey,
        delta: String,
    ) -> Result<Option<RealtimeEvent>, UpstreamError> {
        self.add_text(&delta)?;
        // An item is a single call.
        let mut calls = self.calls.iter_mut().zip(0..);
        let found = calls.find(|(call, _)| call.item == item);
        Ok(found.map(|(call, index)| {
            call.has_arguments = true;
            RealtimeEvent::CallArguments { index, delta }
        }))
    }

    /// Returns all arguments of a call, if no part of them was returned before.
    pub(super) fn end_arguments(
        &mut self,
        item: ItemKey,
        call: Option<&OutputCall>,
        arguments: String,
    ) -> Result<Option<RealtimeEvent>, UpstreamError> {
        let mut calls = self.calls.iter_mut().zip(0..);
        let found = calls.find(|(known, _)| match call {
            Some(call) => known.call_id == call.call_id,
            None => known.item == item,
        });
        let Some((known, index)) = found else {
            return Ok(None);
        };
        if std::mem::replace(&mut known.has_arguments, true) || arguments.is_empty() {
            return Ok(None);
        }
        self.add_text(&arguments)?;
        Ok(Some(RealtimeEvent::CallArguments {
            index,
            delta: arguments,
        }))
    }

    /// Whether a call is known.
    pub(super) fn has_call(&self, call: &OutputCall) -> bool {
        self.calls.iter().any(|known| known.call_id == call.call_id)
    }
}

fn excess(part: &str) -> UpstreamError {
    UpstreamError::protocol(format!("the response has too many {part}"))
}
