//! Stored data of a composition: its payload, the outcomes of its steps, and its result. All data
//! is encrypted.

use serde::{Deserialize, Serialize};
use tollgate_media_tools::Word;
use tollgate_storage::UsagePart;
use tollgate_types::{MediaId, Timestamp, Usage};

use super::step_pricing::ModelPlan;
use super::storyboard::Storyboard;
use crate::job_payload::{Head, Outcome};

/// The payload of a composition job: the resolved request and its prices.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Composition {
    pub(super) head: Head,
    /// Whether the request is a plan, which returns a storyboard and no video.
    pub(super) is_plan: bool,
    pub(super) recipe: String,
    /// Topic of a script that a model writes. The storyboard has no scenes in this case.
    pub(super) topic: Option<Topic>,
    pub(super) board: Storyboard,
    #[serde(rename = "cast")]
    pub(super) model_plan: ModelPlan,
    pub(super) seed: Option<u64>,
    pub(super) accepted_at: Timestamp,
}

/// The topic of a script that a model writes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Topic {
    pub(super) text: String,
    pub(super) scenes: u32,
    /// Images of the caller, in the order of the scenes.
    pub(super) images: Vec<Image>,
}

/// An image of the caller, by URL and as a stored copy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Image {
    pub(super) address: String,
    pub(super) media: Option<MediaId>,
}

/// Model, provider and usage of one model call, for billing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CallUsage {
    pub(super) model: String,
    /// Provider target that served the call.
    #[serde(rename = "provider")]
    pub(super) target: String,
    pub(super) usage: Usage,
}

/// Outcome of the script step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Written {
    /// The storyboard with the scenes of the script; without scenes if the script was withheld.
    pub(super) board: Storyboard,
    pub(super) spent: CallUsage,
    /// Whether a content filter withheld the script. A withheld script is billed, too.
    #[serde(default)]
    pub(super) is_withheld: bool,
}

/// Outcome of a voice step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct VoiceClip {
    pub(super) media: MediaId,
    /// Duration of the audio, in microseconds.
    pub(super) duration: u64,
    /// Each word with its start and end, in microseconds.
    words: Vec<(String, u64, u64)>,
    pub(super) spent: Option<CallUsage>,
}

/// Outcome of a segment step: one rendered scene.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Segment {
    pub(super) media: MediaId,
    pub(super) frames: u64,
    /// Whether the segment may be black: its image is black, or its source is a video, which is not
    /// checked.
    pub(super) may_be_black: bool,
}

/// The result of a composition job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Composed {
    /// The rendered video; a plan has no items.
    #[serde(flatten)]
    pub(super) outcome: Outcome,
    pub(super) is_plan: bool,
    pub(super) recipe: String,
    pub(super) board: Storyboard,
    pub(super) price: Vec<PriceLine>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) subtitles: Option<Subtitles>,
    /// Measurements of the rendered video.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) measured: Option<Measured>,
}

/// Ids of the stored subtitle files of the narration.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Subtitles {
    pub(super) srt: MediaId,
    pub(super) vtt: MediaId,
}

/// Measurements of the final inspection of a video.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) frames: u64,
    /// Integrated loudness in tenths of LUFS.
    pub(super) loudness: Option<i32>,
}

/// Cost or maximum cost of one step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PriceLine {
    pub(super) name: String,
    pub(super) model: String,
    /// Cost in credits, as a decimal string.
    pub(super) cost: String,
}

impl From<&UsagePart> for PriceLine {
    fn from(part: &UsagePart) -> Self {
        Self {
            name: part.name.to_string(),
            model: part.model.to_string(),
            cost: part.cost.to_string(),
        }
    }
}

impl VoiceClip {
    pub(super) fn new(media: MediaId, duration: u64, words: &[Word], spent: Option<CallUsage>) -> Self {
        let micros = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let words = words.iter();
        Self {
            media,
            duration,
            words: words
                .map(|word| (word.text.clone(), micros(word.from), micros(word.to)))
                .collect(),
            spent,
        }
    }

    /// Returns the words with `after` added to their times.
    pub(super) fn words(&self, after: std::time::Duration) -> Vec<Word> {
        let time = |micros: &u64| after + std::time::Duration::from_micros(*micros);
        let words = self.words.iter();
        words
            .map(|(text, from, to)| Word {
                text: text.clone(),
                from: time(from),
                to: time(to),
            })
            .collect()
    }
}
