//! What is kept of a composition until it has ended, what its steps have become, and what has come of it. All of it is sealed.

use serde::{Deserialize, Serialize};
use tollgate_storage::UsagePart;
use tollgate_studio::Word;
use tollgate_types::{MediaId, Timestamp, Usage};

use super::cast::Cast;
use super::storyboard::Storyboard;
use crate::order::{Head, Outcome};

/// A request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Composition {
    pub(super) head: Head,
    /// Whether only a storyboard is wanted.
    pub(super) is_plan: bool,
    pub(super) recipe: String,
    /// What a script is to be about; the storyboard has no scenes then.
    pub(super) topic: Option<Topic>,
    pub(super) board: Storyboard,
    pub(super) cast: Cast,
    pub(super) seed: Option<u64>,
    pub(super) accepted_at: Timestamp,
}

/// What a script is to be about.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Topic {
    pub(super) text: String,
    pub(super) scenes: u32,
    /// Pictures of the caller's, in the order of the scenes.
    pub(super) images: Vec<Image>,
}

/// A picture of the caller's.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Image {
    pub(super) address: String,
    pub(super) media: Option<MediaId>,
}

/// What a call to a model has consumed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Spent {
    pub(super) model: String,
    pub(super) provider: String,
    pub(super) usage: Usage,
}

/// A script, as a step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Written {
    pub(super) board: Storyboard,
    pub(super) spent: Spent,
}

/// What is said in a scene, as a step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Voiced {
    pub(super) media: MediaId,
    /// Microseconds.
    pub(super) duration: u64,
    /// Each word, and from when to when it is heard, in microseconds.
    words: Vec<(String, u64, u64)>,
    pub(super) spent: Option<Spent>,
}

/// A scene as it is cut in, as a step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Segment {
    pub(super) media: MediaId,
    pub(super) frames: u64,
    /// Whether it may be black: what it shows is, or was not looked at.
    pub(super) may_be_black: bool,
}

/// What has come of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Composed {
    /// The film; nothing of a plan.
    #[serde(flatten)]
    pub(super) outcome: Outcome,
    pub(super) is_plan: bool,
    pub(super) recipe: String,
    pub(super) board: Storyboard,
    pub(super) price: Vec<Line>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) subtitles: Option<Subtitles>,
    /// What was measured of the film.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) measured: Option<Measured>,
}

/// What is said, as files.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Subtitles {
    pub(super) srt: MediaId,
    pub(super) vtt: MediaId,
}

/// What was measured of a film before it was called done.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) frames: u64,
    /// Tenths of LUFS.
    pub(super) loudness: Option<i32>,
}

/// What a step costs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) model: String,
    /// Credits.
    pub(super) cost: String,
}

impl From<&UsagePart> for Line {
    fn from(part: &UsagePart) -> Self {
        Self {
            name: part.name.to_string(),
            model: part.model.to_string(),
            cost: part.cost.to_string(),
        }
    }
}

impl Voiced {
    pub(super) fn new(media: MediaId, duration: u64, words: &[Word], spent: Option<Spent>) -> Self {
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

    /// Each word, `after` so long.
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
