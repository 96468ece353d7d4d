//! Execution of a response, by a cascade of models or by a provider's realtime model: its input,
//! its progress, and what it consumed.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;
use tollgate_formats::openai_realtime::{Item, OutputModality, Tool, ToolChoice};
use tollgate_types::{Error, Usage};

use crate::cascade::Recording;
use crate::session::Transcribed;

/// Item of the context of a response.
pub(crate) struct ContextItem {
    pub(crate) item: Item,
    /// Recording of the item, if no model has read it.
    pub(crate) recording: Option<Recording>,
    /// Number of audio tokens that a realtime model reads for the item.
    pub(crate) audio_tokens: u64,
    /// Duration of a spoken answer that the listener has heard, in microseconds, if it was cut.
    pub(crate) cut_us: Option<u64>,
}

/// Returns the duration of the recordings that no model has read, in microseconds.
pub(crate) fn recorded_micros(context: &[ContextItem]) -> u64 {
    let recordings = context.iter().filter_map(|item| item.recording.as_ref());
    recordings.map(Recording::micros).sum()
}

/// Settings of one response.
#[derive(Clone)]
pub(crate) struct ResponseSettings {
    pub(crate) instructions: Arc<str>,
    pub(crate) modality: OutputModality,
    /// Voice; `None` selects the model's default.
    pub(crate) voice: Option<Arc<str>>,
    pub(crate) speed: f64,
    pub(crate) tools: Arc<[Tool]>,
    pub(crate) tool_choice: ToolChoice,
    pub(crate) parallel_tool_calls: Option<bool>,
    pub(crate) temperature: Option<f64>,
    /// Maximum number of output tokens that the hold covers.
    pub(crate) max_tokens: u64,
}

/// Reason why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    Completed,
    MaxTokens,
    ContentFilter,
}

/// Progress of a response.
pub(crate) enum Progress {
    /// Words of a turn that has not ended.
    Interim(String),
    /// A recording was transcribed.
    Heard { item_id: Arc<str>, words: String },
    /// A recording could not be transcribed, which ends the response.
    Unheard { item_id: Arc<str>, error: Error },
    /// A recording was transcribed for the client, independent of responses.
    Transcribed(Transcribed),
    /// The provider has received the recording of an item, so the gateway no longer needs it.
    Uploaded { item_id: Arc<str> },
    /// Nothing was said, so the response does not begin.
    Silent,
    /// The answer begins.
    Started,
    /// The next item of the output has this id.
    Item(Arc<str>),
    /// Text of a written answer.
    Text(String),
    /// Text of the chunk whose audio follows.
    Chunk(String),
    /// Words of a spoken answer, which may precede their audio.
    Transcript(String),
    /// Audio of a spoken answer, at 24 kHz.
    Audio(Vec<i16>),
    /// The model starts to call a function.
    CallStarted {
        index: u32,
        call_id: String,
        name: String,
    },
    /// Part of the arguments of a function call, as JSON text.
    CallArguments { index: u32, delta: String },
    /// The response has ended.
    Ended(Finish),
    /// The response failed.
    Failed(Error),
}

/// Consumption of a response so far, which also counts if the response is cancelled.
#[derive(Clone, Default)]
pub(crate) struct Consumption(Arc<Mutex<Consumed>>);

/// Values of [`Consumption`].
#[derive(Clone, Default)]
pub(crate) struct Consumed {
    /// Usage that the provider reported.
    pub(crate) reported: Option<Usage>,
    /// Whether the reported usage includes audio.
    pub(crate) includes_audio: bool,
    /// Size of the prompt in bytes.
    pub(crate) prompt_bytes: u64,
    /// Size of the generated text in bytes.
    pub(crate) output_bytes: u64,
    /// Candidate that served the response.
    pub(crate) target: Option<Arc<str>>,
}

impl Consumption {
    pub(crate) fn get(&self) -> Consumed {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Consumed)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Sender of the progress of one response.
#[derive(Clone)]
pub(crate) struct Reporter {
    response: u64,
    sender: mpsc::Sender<(u64, Progress)>,
}

impl Reporter {
    pub(crate) fn new(response: u64, sender: mpsc::Sender<(u64, Progress)>) -> Self {
        Self { response, sender }
    }

    /// Reports that the response failed.
    pub(crate) async fn fail(&self, error: Error) {
        let _ = self.report(Progress::Failed(error)).await;
    }

    pub(crate) async fn report(&self, progress: Progress) -> Result<(), Stop> {
        let sent = self.sender.send((self.response, progress)).await;
        sent.map_err(|_| Stop::Reported)
    }
}

/// Reason why a response ends early.
pub(crate) enum Stop {
    Failed(Error),
    /// The session already knows the end, or has ended.
    Reported,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}
