//! Delivery of one response: the provider's events are read as they arrive, and passed on at the
//! pace of their playback.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tollgate_pipeline::OutputInspection;
use tollgate_upstream::{ItemKey, REALTIME_RATE, RealtimeEvent, RealtimeFinish, RealtimeLink, UpstreamError};

use super::mirror::Mirror;
use super::{CANCEL_TIMEOUT, RelayOrder, report};
use crate::audio::pcm;
use crate::cascade::SAMPLES_PER_DELTA;
use crate::execution::{Finish, Progress};
use crate::pacer::Pace;
use crate::session::events::new_id;

/// Maximum size of audio that waits for its playback, in bytes: more than eleven minutes.
const MAX_WAITING_BYTES: usize = 32 << 20;

/// End of a response.
pub(super) enum End {
    Finished(Finish),
    /// The session has cancelled the response.
    Cancelled,
    /// The provider failed the response, but the connection can still be used.
    Failed(UpstreamError),
}

/// A running response.
pub(super) struct Delivery<'a> {
    order: &'a RelayOrder,
    cancelled: &'a CancellationToken,
    inspection: Option<OutputInspection>,
    mirror: &'a mut Mirror,
    pace: Pace,
    waiting: VecDeque<Progress>,
    waiting_bytes: usize,
    /// End of the response at the provider.
    end: Option<End>,
    /// Item of the output that has no content yet.
    unopened: Option<ItemKey>,
    /// Item of the gateway with the text and audio of the answer.
    message: Option<Arc<str>>,
}

impl<'a> Delivery<'a> {
    pub(super) fn new(
        order: &'a RelayOrder,
        cancelled: &'a CancellationToken,
        inspection: Option<OutputInspection>,
        mirror: &'a mut Mirror,
    ) -> Self {
        Self {
            order,
            cancelled,
            inspection,
            mirror,
            pace: Pace::new(order.outbox.clone(), order.lead_ms),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            end: None,
            unopened: None,
            message: None,
        }
    }

    /// Passes the response on until it ends or is cancelled. An error means that the connection is
    /// lost.
    pub(super) async fn run(mut self, link: &mut dyn RealtimeLink) -> Result<End, UpstreamError> {
        loop {
            if self.waiting.is_empty()
                && let Some(end) = self.end.take()
            {
                self.discard_unopened();
                return Ok(end);
            }
            let is_audio = matches!(self.waiting.front(), Some(Progress::Audio(_)));
            tokio::select! {
                biased;
                () = self.cancelled.cancelled() => return self.cancel(link).await,
                () = ready(&self.pace, is_audio), if !self.waiting.is_empty() => self.pass_next().await,
                event = link.next(), if self.end.is_none() => self.take(link, event?).await?,
            }
        }
    }

    async fn pass_next(&mut self) {
        let Some(progress) = self.waiting.pop_front() else {
            return;
        };
        let samples = match &progress {
            Progress::Audio(samples) => samples.len(),
            _ => 0,
        };
        self.waiting_bytes = self.waiting_bytes.saturating_sub(samples * 2);
        report(self.order, self.cancelled, progress).await;
        if samples > 0 {
            self.pace.deliver(pcm::duration_us(samples, REALTIME_RATE));
        }
    }

    async fn take(&mut self, link: &mut dyn RealtimeLink, event: RealtimeEvent) -> Result<(), UpstreamError> {
        match event {
            RealtimeEvent::Started => self.waiting.push_back(Progress::Started),
            RealtimeEvent::Item(key) => {
                self.discard_unopened();
                self.unopened = Some(key);
            }
            RealtimeEvent::Text(text) => {
                self.open_message();
                if self.allows(link, &text).await? {
                    self.waiting.push_back(Progress::Text(text));
                }
            }
            RealtimeEvent::Transcript(text) => {
                self.open_message();
                if self.allows(link, &text).await? {
                    self.waiting.push_back(Progress::Transcript(text));
                }
            }
            RealtimeEvent::Audio(audio) => {
                self.open_message();
                self.take_audio(&audio)?;
            }
            RealtimeEvent::CallStarted { index, call_id, name } => {
                let id: Arc<str> = new_id(&self.order.turns, "item_").into();
                self.open(&id);
                self.waiting.push_back(Progress::Item(id));
                if self.allows(link, &name).await? {
                    self.waiting
                        .push_back(Progress::CallStarted { index, call_id, name });
                }
            }
            RealtimeEvent::CallArguments { index, delta } => {
                if self.allows(link, &delta).await? {
                    self.waiting.push_back(Progress::CallArguments { index, delta });
                }
            }
            RealtimeEvent::Ended { finish, usage } => match self.withhold_rest().await {
                true => self.end(RealtimeFinish::ContentFilter, usage),
                false => self.end(finish, usage),
            },
            RealtimeEvent::Failed(error) => {
                self.withhold_rest().await;
                let reported = error.reported.as_deref().copied();
                self.note_usage(reported);
                self.end = Some(End::Failed(error));
            }
        }
        Ok(())
    }

    fn take_audio(&mut self, audio: &Bytes) -> Result<(), UpstreamError> {
        self.waiting_bytes += audio.len();
        if self.waiting_bytes > MAX_WAITING_BYTES {
            return Err(UpstreamError::protocol("the response has too much audio"));
        }
        let Some(samples) = pcm::from_le_bytes(audio) else {
            return Err(UpstreamError::protocol("the audio has half a sample"));
        };
        let parts = samples.chunks(SAMPLES_PER_DELTA);
        self.waiting
            .extend(parts.map(|part| Progress::Audio(part.to_vec())));
        Ok(())
    }

    fn end(&mut self, finish: RealtimeFinish, usage: Option<tollgate_types::Usage>) {
        self.note_usage(usage);
        self.end = Some(match finish {
            RealtimeFinish::Completed => End::Finished(Finish::Completed),
            RealtimeFinish::MaxTokens => End::Finished(Finish::MaxTokens),
            RealtimeFinish::ContentFilter => End::Finished(Finish::ContentFilter),
            RealtimeFinish::Cancelled => {
                End::Failed(UpstreamError::protocol("the provider cancelled the response"))
            }
        });
    }

    fn note_usage(&self, usage: Option<tollgate_types::Usage>) {
        if usage.is_some() {
            self.order.consumption.change(|consumed| {
                consumed.reported = usage;
                consumed.includes_audio = true;
            });
        }
    }

    /// Opens the message of the answer, if the response has none.
    fn open_message(&mut self) {
        let id = match &self.message {
            Some(id) => id.clone(),
            None => {
                let id: Arc<str> = new_id(&self.order.turns, "item_").into();
                self.waiting.push_back(Progress::Item(id.clone()));
                self.message = Some(id.clone());
                id
            }
        };
        self.open(&id);
    }

    /// Relates the provider's new item to an item of the gateway.
    fn open(&mut self, id: &Arc<str>) {
        if let Some(key) = self.unopened.take()
            && self.order.is_in_conversation
        {
            self.mirror.add_output(Some(id.clone()), key);
        }
    }

    /// Marks an item without content for removal: the gateway's conversation does not have it.
    fn discard_unopened(&mut self) {
        if let Some(key) = self.unopened.take()
            && self.order.is_in_conversation
        {
            self.mirror.add_output(None, key);
        }
    }

    /// Counts generated text. Ends the response if the content policy forbids the text so far.
    async fn allows(&mut self, link: &mut dyn RealtimeLink, text: &str) -> Result<bool, UpstreamError> {
        let size = text.len() as u64;
        self.order
            .consumption
            .change(|consumed| consumed.output_bytes += size);
        let Some(inspection) = &mut self.inspection else {
            return Ok(true);
        };
        if !inspection.forbids(text).await {
            return Ok(true);
        }
        self.stop(link).await?;
        self.withhold();
        self.end = Some(End::Finished(Finish::ContentFilter));
        Ok(false)
    }

    /// Withholds what was not passed on, if the content policy forbids the end of the output.
    /// Returns whether it does.
    async fn withhold_rest(&mut self) -> bool {
        let is_forbidden = match &mut self.inspection {
            Some(inspection) => inspection.forbids_rest().await,
            None => false,
        };
        if is_forbidden {
            self.withhold();
        }
        is_forbidden
    }

    /// Discards what was not passed on, and removes the message from the provider's conversation.
    fn withhold(&mut self) {
        self.waiting.clear();
        self.waiting_bytes = 0;
        if let Some(id) = &self.message {
            self.mirror.withdraw(id);
        }
    }

    async fn cancel(mut self, link: &mut dyn RealtimeLink) -> Result<End, UpstreamError> {
        if self.end.is_none() {
            self.stop(link).await?;
        }
        self.discard_unopened();
        self.withdraw_unsent();
        Ok(End::Cancelled)
    }

    /// Cancels the response at the provider and waits for its usage.
    async fn stop(&mut self, link: &mut dyn RealtimeLink) -> Result<(), UpstreamError> {
        let ended = async {
            link.cancel().await?;
            loop {
                match link.next().await? {
                    RealtimeEvent::Ended { usage, .. } => return Ok(usage),
                    RealtimeEvent::Failed(error) => return Ok(error.reported.as_deref().copied()),
                    RealtimeEvent::Item(key) => {
                        self.discard_unopened();
                        self.unopened = Some(key);
                    }
                    _ => {}
                }
            }
        };
        let ended = timeout(CANCEL_TIMEOUT, ended).await;
        let late = || UpstreamError::timeout("a cancelled response did not end in time");
        let usage = ended.unwrap_or_else(|_| Err(late()))?;
        self.note_usage(usage);
        Ok(())
    }

    /// Marks the items for removal that the session has not received.
    fn withdraw_unsent(&mut self) {
        for progress in std::mem::take(&mut self.waiting) {
            if let Progress::Item(id) = progress {
                self.mirror.withdraw(&id);
            }
        }
    }
}

/// Waits until the next progress may be passed on.
async fn ready(pace: &Pace, is_audio: bool) {
    if is_audio {
        pace.ready().await;
    }
}
