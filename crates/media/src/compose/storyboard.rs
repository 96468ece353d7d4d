//! The storyboard of a composition: its scenes, voice, captions and music. The same format is
//! stored and returned, so that a caller can change a planned storyboard and send it in a new
//! request.

use serde::{Deserialize, Serialize};
use tollgate_media_tools::{CaptionPosition, CaptionStyle, Dimensions, Mood, Motion, Transition};
use tollgate_types::MediaId;

use super::recipe::Recipe;

/// Names of the supported aspect ratios, with width and height.
pub(super) const RATIOS: [(&str, (u32, u32)); 5] = [
    ("9:16", (9, 16)),
    ("16:9", (16, 9)),
    ("1:1", (1, 1)),
    ("4:5", (4, 5)),
    ("4:3", (4, 3)),
];
/// Names of the supported resolutions, with the shorter side in pixels.
pub(super) const STEPS: [(&str, u32); 3] = [("480p", 480), ("720p", 720), ("1080p", 1_080)];
/// Maximum number of scenes of one composition.
pub(super) const MAX_SCENES: usize = 20;
/// Maximum length of the narration of one scene, in characters.
pub(super) const MAX_NARRATION_CHARS: usize = 600;
/// Target length of a scene when a script is split by sentences, in characters.
const SCENE_CHARS: usize = 240;
/// Maximum number of words of one entry in a subtitle file.
pub(super) const SUBTITLE_WORDS: u32 = 8;
/// Placeholder for the URL of media that were sent as a data URL.
pub(super) const INLINE: &str = "inline";

/// The content of a composition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Storyboard {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    pub(crate) scenes: Vec<Scene>,
    /// Voice of the narration; `None` for no narration.
    pub(crate) voice: Option<Voice>,
    /// Captions of the narration; `None` for no captions.
    pub(crate) captions: Option<Captions>,
    /// Background music; `None` for no music.
    pub(crate) music: Option<Music>,
    pub(crate) aspect_ratio: String,
    pub(crate) resolution: String,
}

/// One scene: a visual and an optional narration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Scene {
    pub(crate) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) narration: Option<String>,
    pub(crate) visual: Visual,
    /// Minimum duration in seconds. If `None`, the scene lasts as long as its narration; without
    /// narration, as long as its video, or 4 seconds for an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) duration: Option<f64>,
    /// Transition from the preceding scene.
    pub(crate) transition: String,
}

/// Visual of a scene: a prompt, or media of the caller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Visual {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prompt: Option<String>,
    /// Model for the prompt; `None` for the composition's visual model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// URL of an image, or [`INLINE`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) image: Option<String>,
    /// URL of a video, or [`INLINE`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) video: Option<String>,
    /// Camera motion over an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) motion: Option<String>,
    /// Stored copy of the image or video.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) media: Option<MediaId>,
}

/// Voice of the narration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Voice {
    /// Speech model, or `built-in`. If `None`, the default speech model, or the built-in voice if
    /// there is no default model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// Name of one of the model's voices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) voice: Option<String>,
    /// Speed of the speech; 1 is normal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) speed: Option<f64>,
}

/// Style of the captions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Captions {
    pub(crate) style: String,
    pub(crate) position: String,
    pub(crate) words_per_line: u32,
}

/// Background music: generated for a mood, or a recording of the caller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Music {
    /// Mood of generated music; ignored if `url` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mood: Option<String>,
    /// URL of a recording, or [`INLINE`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
    /// Volume from 0 to 1.
    pub(crate) volume: f64,
    /// Attenuation of the music during narration, in decibels.
    pub(crate) duck_db: f64,
    /// Stored copy of the recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) media: Option<MediaId>,
}

/// Default of `duck_db`, in decibels.
pub(super) const DUCK_DB: f64 = 12.0;

impl Music {
    pub(super) fn of(recipe: &Recipe) -> Self {
        Self {
            mood: Some(recipe.mood.as_str().to_owned()),
            url: None,
            volume: recipe.volume,
            duck_db: DUCK_DB,
            media: None,
        }
    }

    pub(super) fn mood(&self) -> Mood {
        let named = self.mood.as_deref().and_then(Mood::parse);
        named.unwrap_or(Mood::Calm)
    }
}

impl Captions {
    pub(super) fn of(recipe: &Recipe) -> Self {
        Self {
            style: recipe.style.as_str().to_owned(),
            position: recipe.position.as_str().to_owned(),
            words_per_line: recipe.words_per_line,
        }
    }

    pub(super) fn style(&self) -> CaptionStyle {
        CaptionStyle::parse(&self.style).unwrap_or(CaptionStyle::Plain)
    }

    pub(super) fn position(&self) -> CaptionPosition {
        CaptionPosition::parse(&self.position).unwrap_or(CaptionPosition::Bottom)
    }
}

impl Scene {
    pub(super) fn transition(&self) -> Transition {
        Transition::parse(&self.transition).unwrap_or(Transition::Cut)
    }

    pub(super) fn motion(&self) -> Motion {
        let named = self.visual.motion.as_deref().and_then(Motion::parse);
        named.unwrap_or(Motion::In)
    }
}

impl Storyboard {
    /// Returns a storyboard without scenes, with the settings of a recipe.
    pub(super) fn of(recipe: &Recipe) -> Self {
        Self {
            title: None,
            scenes: Vec::new(),
            voice: Some(Voice::default()),
            captions: Some(Captions::of(recipe)),
            music: Some(Music::of(recipe)),
            aspect_ratio: recipe.aspect_ratio.clone(),
            resolution: recipe.resolution.clone(),
        }
    }

    /// Appends a scene. Motion, transition and style are those of the recipe; the first scene has
    /// no transition. Truncates the narration to [`MAX_NARRATION_CHARS`] characters.
    pub(super) fn add(&mut self, recipe: &Recipe, narration: String, scene_content: SceneContent) {
        let number = self.scenes.len();
        let motion = recipe.motions.get(number % recipe.motions.len().max(1));
        let visual = match scene_content {
            SceneContent::Prompt(prompt) => Visual {
                prompt: Some(match recipe.look.is_empty() {
                    true => prompt,
                    false => format!("{}. Style: {}.", prompt.trim_end_matches(['.', ' ']), recipe.look),
                }),
                ..Visual::default()
            },
            SceneContent::Image(address) => Visual {
                image: Some(address),
                ..Visual::default()
            },
        };
        let narration: String = narration.chars().take(MAX_NARRATION_CHARS).collect();
        self.scenes.push(Scene {
            id: format!("scene-{}", number + 1),
            narration: Some(narration).filter(|text| !text.trim().is_empty()),
            visual: Visual {
                motion: motion.map(|motion| motion.as_str().to_owned()),
                ..visual
            },
            duration: None,
            transition: match number {
                0 => Transition::Cut,
                _ => recipe.transition,
            }
            .as_str()
            .to_owned(),
        });
    }

    /// Returns the dimensions of the video in pixels. Both sides are even.
    pub(super) fn size(&self) -> Dimensions {
        let ratio = RATIOS.iter().find(|(name, _)| *name == self.aspect_ratio);
        let (width, height) = ratio.map_or((16, 9), |(_, ratio)| *ratio);
        let step = STEPS.iter().find(|(name, _)| *name == self.resolution);
        let short = step.map_or(720, |(_, pixels)| *pixels);
        let (min, max) = (width.min(height), width.max(height));
        let long = (short * max).div_ceil(min).next_multiple_of(2);
        match width > height {
            true => Dimensions::new(long, short),
            false => Dimensions::new(short, long),
        }
    }
}

/// Visual of a scene of a script: a prompt, or the URL of an image.
pub(super) enum SceneContent {
    Prompt(String),
    Image(String),
}

/// Splits a script into scenes. Each paragraph is a scene. A single paragraph, or a paragraph with
/// more than [`MAX_NARRATION_CHARS`] characters, is split into groups of sentences.
pub(super) fn split_script(script: &str) -> Vec<String> {
    let paragraphs = script.split("\n\n").map(words).filter(|part| !part.is_empty());
    let paragraphs: Vec<String> = paragraphs.collect();
    let is_one = paragraphs.len() == 1;
    let mut scenes = Vec::new();
    for paragraph in paragraphs {
        if !is_one && paragraph.chars().count() <= MAX_NARRATION_CHARS {
            scenes.push(paragraph);
            continue;
        }
        let mut scene = String::new();
        for sentence in sentences(&paragraph) {
            let together = scene.chars().count() + sentence.chars().count();
            if !scene.is_empty() && together > SCENE_CHARS {
                scenes.push(std::mem::take(&mut scene));
            }
            if !scene.is_empty() {
                scene.push(' ');
            }
            scene.push_str(&sentence);
        }
        scenes.push(scene);
    }
    scenes
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Splits a paragraph into sentences. A sentence that would exceed [`MAX_NARRATION_CHARS`] is split
/// between two words.
fn sentences(paragraph: &str) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut sentence = String::new();
    for word in paragraph.split(' ') {
        if sentence.chars().count() + word.chars().count() >= MAX_NARRATION_CHARS {
            sentences.push(std::mem::take(&mut sentence));
        }
        if !sentence.is_empty() {
            sentence.push(' ');
        }
        sentence.push_str(word);
        if word.ends_with(['.', '!', '?', '…', '。', '！', '？']) {
            sentences.push(std::mem::take(&mut sentence));
        }
    }
    sentences.push(sentence);
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_split_at_pauses() {
        assert_eq!(
            split_script("One.\nstill one.\n\nTwo."),
            ["One. still one.", "Two."]
        );
        assert_eq!(split_script("  \n\n "), Vec::<String>::new());
        let sentence = "Ten words make a sentence that is easy to say.";
        let one = split_script(&[sentence; 12].join(" "));
        assert_eq!(one.len(), 3);
        assert!(
            one.iter()
                .all(|scene| scene.ends_with('.') && scene.chars().count() <= SCENE_CHARS)
        );
        let endless = split_script(&"word ".repeat(500));
        assert!(
            endless
                .iter()
                .all(|scene| scene.chars().count() <= MAX_NARRATION_CHARS)
        );
        assert_eq!(endless.join(" "), "word ".repeat(500).trim());
    }

    #[test]
    fn videos_have_even_sides_of_their_ratio() {
        for (ratio, step, expected) in [
            ("9:16", "1080p", (1_080, 1_920)),
            ("16:9", "720p", (1_280, 720)),
            ("16:9", "480p", (854, 480)),
            ("1:1", "1080p", (1_080, 1_080)),
            ("4:5", "720p", (720, 900)),
            ("4:3", "480p", (640, 480)),
        ] {
            let board = Storyboard {
                aspect_ratio: ratio.to_owned(),
                resolution: step.to_owned(),
                ..Storyboard::default()
            };
            assert_eq!(
                board.size(),
                Dimensions::new(expected.0, expected.1),
                "{ratio} {step}"
            );
        }
    }
}
