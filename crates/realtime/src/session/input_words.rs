//! Words of the client's speech in sessions whose model hears audio itself: a transcription model
//! writes them if the session requests it. Each recording has a separate hold and usage row.

use std::sync::Arc;

use tollgate_catalog::ModelKind;
use tollgate_edge::websocket::Turns;
use tollgate_formats::openai_realtime::{ServerEvent, Transcription, TranscriptionUsage};
use tollgate_pipeline::{Pipeline, TurnResult, audio_usage};
use tollgate_types::usage::Outcome;
use tollgate_types::{Credits, Error, ErrorCode, HoldId, RequestId};

use super::events::event_error;
use super::{VoiceSession, Way};
use crate::cascade::{Recording, StageCall, set_transcript, transcribe};
use crate::execution::Progress;
use crate::payment::{Payment, audio_request};
use crate::socket::default_transcription;

/// Result of the transcription of an item.
pub(crate) struct Transcribed {
    item_id: Arc<str>,
    micros: u64,
    words: Result<(String, Credits), Error>,
}

impl VoiceSession {
    /// Sets the model of a requested transcription. A cascade always transcribes with its own
    /// model. Otherwise a model that the catalog does not have is replaced by the default one,
    /// because clients name models of OpenAI. Without a default one, a request that names no model
    /// has no effect.
    pub(super) fn select_transcription(&self, requested: &mut Option<Transcription>) -> Result<(), Error> {
        if let Way::Cascade(stages) = &self.opening.way {
            requested.get_or_insert_default().model = Some(stages.hear.as_str().into());
            return Ok(());
        }
        let Some(settings) = requested else {
            return Ok(());
        };
        let shared = &self.opening.shared;
        let caller = &self.opening.caller;
        let named = settings.model.as_deref();
        let found = named.and_then(|name| shared.pipeline.route(caller, name).ok());
        if let Some(routed) = found.filter(|routed| routed.model.kind == ModelKind::Transcription) {
            settings.model = Some(routed.public_model);
            return Ok(());
        }
        match default_transcription(shared, caller) {
            Ok(model) => settings.model = Some(model),
            Err(_) if named.is_none() => *requested = None,
            Err(error) => return Err(error.with_param("session.audio.input.transcription.model")),
        }
        Ok(())
    }

    /// Sets the transcription model that a client secret requests.
    pub(super) fn select_first_transcription(&mut self) {
        let mut requested = self.session.transcription.take();
        if self.select_transcription(&mut requested).is_ok() {
            self.session.transcription = requested;
        }
    }

    /// Transcribes a recording in a task, if the session requests it and no response does so.
    pub(super) fn transcribe_input(&self, item_id: &Arc<str>, recording: &Recording) {
        let settings = self.session.transcription.as_ref();
        let (Way::Relay(_), Some(model)) = (
            &self.opening.way,
            settings.and_then(|settings| settings.model.clone()),
        ) else {
            return;
        };
        let work = Work {
            pipeline: self.opening.shared.pipeline.clone(),
            turns: self.events.turns.clone(),
            session: self.opening.request,
            model,
            recording: recording.clone(),
        };
        let (item_id, micros) = (item_id.clone(), recording.micros());
        let reports = self.reports.clone();
        // The task outlives the session, because its hold must be settled.
        self.opening.shared.pipeline.calls.spawn(async move {
            let transcribed = Transcribed {
                item_id,
                micros,
                words: work.run().await,
            };
            let _ = reports.send((0, Progress::Transcribed(transcribed))).await;
        });
    }

    /// Sends the words of a recording, or why there are none.
    pub(super) fn note_transcribed(&mut self, transcribed: Transcribed) {
        let Transcribed {
            item_id,
            micros,
            words,
        } = transcribed;
        let Some(entry) = self.conversation.get_mut(&item_id) else {
            return;
        };
        match words {
            Ok((words, cost)) => {
                set_transcript(&mut entry.item, &words);
                self.events.send(&ServerEvent::TranscriptionCompleted {
                    item_id: &item_id,
                    content_index: 0,
                    transcript: &words,
                    usage: TranscriptionUsage::Duration {
                        micros,
                        cost: Some(&cost.to_string()),
                    },
                    logprobs: None,
                });
            }
            Err(error) => self.events.send(&ServerEvent::TranscriptionFailed {
                item_id: &item_id,
                content_index: 0,
                error: &event_error(&error),
            }),
        }
    }
}

/// Transcription of one recording.
struct Work {
    pipeline: Arc<Pipeline>,
    turns: Arc<Turns>,
    /// Request of the session, which the usage row has.
    session: RequestId,
    model: Arc<str>,
    recording: Recording,
}

impl Work {
    async fn run(self) -> Result<(String, Credits), Error> {
        let Work {
            pipeline,
            turns,
            session,
            model,
            recording,
        } = self;
        let turn = turns.turn().await;
        let (caller, ctx) = turn.started?;
        let routed = pipeline.route(&caller, &model)?;
        let (priced, micros) = (routed.model.clone(), recording.micros());
        let request = audio_request(caller.clone(), session, &ctx, &routed, micros);
        let hold = HoldId::from_u128(turns.new_id());
        let payment = Payment::take(&pipeline, &turns, Some(hold), routed, request).await?;
        let stage = StageCall::new(&pipeline, &caller, session, ctx.accepted_at);
        let words = transcribe(&stage, &model, recording).await;
        let result = match &words {
            Ok(words) => TurnResult {
                usage: audio_usage(&priced, micros),
                target: words.target.clone(),
                ..TurnResult::free(Outcome::Ok)
            },
            Err(error) if error.code == ErrorCode::UpstreamTimeout => TurnResult::free(Outcome::Timeout),
            Err(_) => TurnResult::free(Outcome::UpstreamError),
        };
        let charge = payment.settle(&pipeline, result).await;
        Ok((words?.text, charge.amount))
    }
}
