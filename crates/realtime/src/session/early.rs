//! Transcription that begins in the first silence after speech, before the turn has ended. The hold
//! of the turn is taken then, and semantic detection decides by the words how long it waits.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use tollgate_accounts::Caller;
use tollgate_edge::context::RequestContext;
use tollgate_formats::openai_realtime::{ContentPart, Item, ItemKind, ResponseParams, Role, TurnDetection};

use super::response::RunningResponse;
use super::{VoiceSession, Way};
use crate::cascade::{EarlyWords, Recording, StageCall, transcribe};
use crate::execution::{ContextItem, Progress};
use crate::payment::Payment;
use crate::turns::semantic::{finished_probability, wait_ms};

/// A turn that is paid before its end.
pub(super) struct EarlyTurn {
    pub(super) caller: Caller,
    pub(super) ctx: Arc<RequestContext>,
    pub(super) payment: Payment,
    /// The running or ended transcription of the speech so far; `None` after the speaker continued.
    pub(super) hearing: Option<Hearing>,
}

/// Transcription of the speech before a silence.
pub(super) struct Hearing {
    pub(super) words: EarlyWords,
    _task: AbortOnDropHandle<()>,
}

impl VoiceSession {
    /// Begins to transcribe the running turn. Does nothing if the turn gets no response yet, or if
    /// its hold is refused: then the end of the turn reports the refusal.
    pub(super) async fn hear_early(&mut self) {
        let stages = match &self.opening.way {
            Way::Cascade(stages) => stages.clone(),
            // No model transcribes the turn, so its words are unknown.
            Way::Relay(_) => return self.set_silence(""),
        };
        let responds = self
            .session
            .turn_detection
            .is_some_and(TurnDetection::create_response);
        if !responds || self.responses.iter().any(RunningResponse::is_in_conversation) {
            return;
        }
        let (samples, rate) = self.input.peek();
        let recording = self.recording(samples, rate);
        if self.early.is_none() {
            self.early = self.pay_early(&recording).await;
        }
        let Some(early) = &mut self.early else { return };
        let stage = StageCall::new(
            &self.opening.shared.pipeline,
            &early.caller,
            early.ctx.id,
            early.ctx.accepted_at,
        );
        let (sender, words) = watch::channel(None);
        let (model, reports) = (stages.hear.clone(), self.reports.clone());
        let task = async move {
            let heard = transcribe(&stage, &model, recording).await.ok();
            let text = heard.as_ref().map(|words| words.text.clone()).unwrap_or_default();
            sender.send_replace(Some(heard));
            let _ = reports.send((0, Progress::Interim(text))).await;
        };
        let task = self.opening.shared.pipeline.calls.spawn(task);
        early.hearing = Some(Hearing {
            words,
            _task: AbortOnDropHandle::new(task),
        });
    }

    async fn pay_early(&mut self, recording: &Recording) -> Option<EarlyTurn> {
        let params = ResponseParams::default();
        let mut context = self.conversation.context();
        context.push(recorded(recording.clone()));
        let options = self.options_of(&params, true);
        let settings = self.settings_of(&params, &options);
        let (caller, ctx) = self.events.turns.turn().await.started.ok()?;
        let payment = self.pay(&caller, &ctx, &context, &settings, options.max_output_tokens);
        let payment = payment.await.ok()?;
        Some(EarlyTurn {
            caller,
            ctx,
            payment,
            hearing: None,
        })
    }

    /// Discards a transcription, because the speaker has continued.
    pub(super) fn resume_speech(&mut self) {
        if let Some(early) = &mut self.early {
            early.hearing = None;
        }
    }

    /// Sets the silence that ends the turn by the words so far, for semantic detection.
    pub(super) fn note_interim(&mut self, words: &str) {
        if self.early.as_ref().is_some_and(|early| early.hearing.is_some()) {
            self.set_silence(words);
        }
    }

    fn set_silence(&mut self, words: &str) {
        if let Some(TurnDetection::Semantic { eagerness, .. }) = self.session.turn_detection {
            let probability = finished_probability(words);
            self.input.set_silence_ms(wait_ms(eagerness, probability));
        }
    }
}

/// Returns an item for a recording that is not committed, to bound the cost of its turn.
fn recorded(recording: Recording) -> ContextItem {
    ContextItem {
        item: Item {
            id: None,
            kind: ItemKind::Message {
                role: Role::User,
                content: vec![ContentPart::InputAudio {
                    audio: bytes::Bytes::new(),
                    transcript: None,
                }],
            },
        },
        recording: Some(recording),
        audio_tokens: 0,
        cut_us: None,
    }
}
