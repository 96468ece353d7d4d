//! Responses of voice models that the gateway executes: recordings are transcribed (`hear`), a chat
//! model answers (`think`), and a speech model speaks the answer (`speak`).
//!
//! One task executes a response. It sends its progress to the session and ends when it is dropped.
//! The hold of the turn pays for the calls of all stages.

mod hear;
mod speak;
pub(crate) mod splitter;
mod think;

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tollgate_accounts::Caller;
use tollgate_catalog::VoiceStages;
use tollgate_edge::websocket::Outbox;
use tollgate_formats::openai_realtime::{Item, ItemKind, OutputModality};
use tollgate_pipeline::{CallRequest, Pipeline};
use tollgate_types::{Error, ErrorCode, KeyRights, RequestId, Timestamp, Usage};

pub(crate) use hear::{Recording, Words, blocked, set_transcript, transcribe};
pub(crate) use speak::{SAMPLES_PER_DELTA, SPEECH_RATE};
pub(crate) use think::text_of;

use crate::execution::{Consumption, ContextItem, Finish, Progress, Reporter, ResponseSettings, Stop};
use speak::Spoken;
use think::Thought;

/// Endpoint of all calls of a session.
pub(crate) const ENDPOINT: &str = "/v1/realtime";
/// Maximum output of a response without a limit of the client, in tokens.
pub(crate) const DEFAULT_OUTPUT_TOKENS: u64 = 1_024;
/// Number of chunks that are spoken ahead of the one that is sent.
const CHUNKS_AHEAD: usize = 2;
/// Maximum duration of spoken audio for each output token, in microseconds.
const MAX_MICROS_PER_TOKEN: u64 = 500_000;

/// Everything that the response of a turn depends on.
pub(crate) struct Order {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) caller: Caller,
    pub(crate) stages: Arc<VoiceStages>,
    pub(crate) request: RequestId,
    pub(crate) accepted_at: Timestamp,
    /// Items of the context, oldest first, with the recordings that are not transcribed yet.
    pub(crate) context: Vec<ContextItem>,
    /// Whether the end of a turn requested the response, so that silence starts nothing.
    pub(crate) is_automatic: bool,
    /// Words of the last recording, if their transcription has started.
    pub(crate) early_words: Option<EarlyWords>,
    pub(crate) settings: ResponseSettings,
    /// Queue of the client, whose backlog delays the audio.
    pub(crate) outbox: Outbox,
    /// Maximum lead of sent audio over its playback, in milliseconds; 0 for no limit.
    pub(crate) lead_ms: u64,
}

/// Words of a transcription that may still run; the inner value is `None` if it failed.
pub(crate) type EarlyWords = watch::Receiver<Option<Option<Words>>>;

/// Executes a response and reports its progress.
pub(crate) async fn respond(order: Order, reporter: Reporter, consumption: Consumption) {
    let last = match execute(order, &reporter, &consumption).await {
        Ok(Some(finish)) => Progress::Ended(finish),
        Ok(None) => Progress::Silent,
        Err(Stop::Failed(error)) => Progress::Failed(error),
        Err(Stop::Reported) => return,
    };
    let _ = reporter.report(last).await;
}

/// Returns the reason of the end; `None` if nothing was said.
async fn execute(
    mut order: Order,
    reporter: &Reporter,
    consumption: &Consumption,
) -> Result<Option<Finish>, Stop> {
    let mut context = std::mem::take(&mut order.context);
    if hear_all(&order, &mut context, reporter).await? == Heard::Silence && order.is_automatic {
        return Ok(None);
    }
    reporter.report(Progress::Started).await?;
    let items: Vec<Item> = context.into_iter().map(|context| context.item).collect();
    let thought = Thought::begin(&order, &items, consumption).await?;
    let finish = match order.settings.modality {
        OutputModality::Text => think::write(thought, reporter).await?,
        OutputModality::Audio => speak_all(&order, thought, reporter).await?,
    };
    Ok(Some(finish))
}

/// Content of the recordings of a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Heard {
    Words,
    Silence,
    /// There were no recordings.
    Nothing,
}

/// Transcribes the recordings of the context in their order. Returns an error if the content policy
/// forbids what was said.
async fn hear_all(order: &Order, context: &mut [ContextItem], reporter: &Reporter) -> Result<Heard, Stop> {
    let mut heard = Heard::Nothing;
    let last = context.iter().rposition(|item| item.recording.is_some());
    for (place, ContextItem { item, recording, .. }) in context.iter_mut().enumerate() {
        let is_last = Some(place) == last;
        let (Some(recording), Some(item_id)) = (recording.take(), item.id.clone()) else {
            continue;
        };
        let words = match words_of(order, recording, is_last).await {
            Ok(words) => words.text,
            Err(error) => {
                reporter.report(Progress::Unheard { item_id, error }).await?;
                return Err(Stop::Reported);
            }
        };
        set_transcript(item, &words);
        reporter.report(Progress::Heard { item_id, words }).await?;
        let said = match &item.kind {
            ItemKind::Message { content, .. } => text_of(content),
            _ => String::new(),
        };
        if !said.is_empty() {
            order.pipeline.check_texts(order.request, &[said]).await?;
            heard = Heard::Words;
        } else if heard == Heard::Nothing {
            heard = Heard::Silence;
        }
    }
    Ok(heard)
}

/// Returns the words of a recording: of the last one those that are already known, if any.
async fn words_of(order: &Order, recording: Recording, is_last: bool) -> Result<Words, Error> {
    if let Some(mut early) = order.early_words.clone().filter(|_| is_last)
        && let Ok(known) = early.wait_for(Option::is_some).await
        && let Some(Some(words)) = known.clone()
    {
        return Ok(words);
    }
    transcribe(&order.stage_call(), &order.stages.hear, recording).await
}

/// Speaks the answer chunk by chunk while the chat model writes it.
async fn speak_all(order: &Order, thought: Thought, reporter: &Reporter) -> Result<Finish, Stop> {
    let (chunks, written) = mpsc::channel(CHUNKS_AHEAD);
    let (voices, spoken) = mpsc::channel::<Spoken>(CHUNKS_AHEAD);
    let max_micros = order.settings.max_tokens.saturating_mul(MAX_MICROS_PER_TOKEN);
    let (finish, (), is_complete) = tokio::try_join!(
        think::split(thought, chunks, reporter),
        speak::synthesize(order, written, voices),
        speak::send(order, spoken, reporter, max_micros),
    )?;
    Ok(match is_complete {
        true => finish,
        false => Finish::MaxTokens,
    })
}

impl Order {
    /// Returns what the calls of the stages have in common.
    fn stage_call(&self) -> StageCall {
        StageCall::new(&self.pipeline, &self.caller, self.request, self.accepted_at)
    }
}

/// Data of the calls of the stages.
#[derive(Clone)]
pub(crate) struct StageCall {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) caller: Caller,
    pub(crate) request: RequestId,
    pub(crate) accepted_at: Timestamp,
}

impl StageCall {
    /// Creates the data for a caller whose key may use the model of the session. The key's rights
    /// do not restrict the stages, which are parts of that model.
    pub(crate) fn new(
        pipeline: &Arc<Pipeline>,
        caller: &Caller,
        request: RequestId,
        accepted_at: Timestamp,
    ) -> Self {
        Self {
            pipeline: pipeline.clone(),
            caller: Caller {
                rights: KeyRights::default(),
                ..caller.clone()
            },
            request,
            accepted_at,
        }
    }

    /// Returns a request for the pipeline. The stage takes no hold, so its demand bounds nothing.
    fn request<C>(&self, demand: tollgate_billing::Demand, call: C) -> CallRequest<C> {
        CallRequest {
            caller: self.caller.clone(),
            request: self.request,
            accepted_at: self.accepted_at,
            endpoint: ENDPOINT,
            demand,
            max_cost: None,
            call,
        }
    }
}

/// Returns a demand with these quantities besides tokens.
fn demand_of(made: Usage, max_tokens: u64, text_bytes: u64, messages: u64) -> tollgate_billing::Demand {
    tollgate_billing::Demand {
        text_bytes,
        tokens: 0,
        messages,
        inputs: 1,
        media_bytes: 0,
        images: 0,
        max_tokens: Some(max_tokens),
        reasoning_budget: 0,
        n: 1,
        caches_for_an_hour: false,
        made,
    }
}

/// Returns the error for a stage whose call does not exist.
fn broken_stage(stage: &str, error: &Error) -> Error {
    let message = "The model is not available at the moment. Retry shortly.";
    let cause = format!("stage '{stage}': {}", error.operator_message());
    Error::new(ErrorCode::ModelUnavailable, message).with_source(cause)
}
