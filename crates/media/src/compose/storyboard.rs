//! What a composition is made from: scenes in their order, who speaks, what is written on it and what is heard. It is told to
//! callers as it is kept, so that one that was planned can be changed and sent back.

use serde::{Deserialize, Serialize};
use tollgate_studio::{CaptionPosition, CaptionStyle, Dimensions, Mood, Motion, Transition};
use tollgate_types::MediaId;

use super::recipe::Recipe;

/// Ratios of width to height.
pub(super) const RATIOS: [(&str, (u32, u32)); 5] = [
    ("9:16", (9, 16)),
    ("16:9", (16, 9)),
    ("1:1", (1, 1)),
    ("4:5", (4, 5)),
    ("4:3", (4, 3)),
];
/// Steps of size, by the pixels of the shorter side.
pub(super) const STEPS: [(&str, u32); 3] = [("480p", 480), ("720p", 720), ("1080p", 1_080)];
/// The most scenes.
pub(super) const MOST_SCENES: usize = 20;
/// The most characters that are spoken in one scene.
pub(super) const MOST_NARRATION: usize = 600;
/// Characters that a scene gets of a script that is cut by sentences.
const SCENE_CHARACTERS: usize = 240;
/// Words of one subtitle in the files beside a film.
pub(super) const SUBTITLE_WORDS: u32 = 8;
/// Stands for bytes that came with the request.
pub(super) const INLINE: &str = "inline";

/// A composition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Storyboard {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    pub(crate) scenes: Vec<Scene>,
    /// Who speaks; nobody when it is nothing.
    pub(crate) voice: Option<Voice>,
    /// How what is said is written on the picture.
    pub(crate) captions: Option<Captions>,
    /// What is heard besides.
    pub(crate) music: Option<Music>,
    pub(crate) aspect_ratio: String,
    pub(crate) resolution: String,
}

/// A scene.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Scene {
    pub(crate) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) narration: Option<String>,
    pub(crate) visual: Visual,
    /// Seconds that it lasts at the least; as long as what is said when it is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) duration: Option<f64>,
    /// How the one before turns into it.
    pub(crate) transition: String,
}

/// What is to be seen: a prompt, or something of the caller's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Visual {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prompt: Option<String>,
    /// The model that makes it; the composition's when it is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// Address of a picture, or [`INLINE`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) image: Option<String>,
    /// Address of a film, or [`INLINE`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) video: Option<String>,
    /// How a picture is moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) motion: Option<String>,
    /// What was at the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) media: Option<MediaId>,
}

/// Who speaks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Voice {
    /// A speech model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// One of its voices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) voice: Option<String>,
    /// How fast.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) speed: Option<f64>,
}

/// How what is said is written on the picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Captions {
    pub(crate) style: String,
    pub(crate) position: String,
    pub(crate) words_per_line: u32,
}

/// What is heard besides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Music {
    /// What is made, where there is no address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mood: Option<String>,
    /// Address of a recording, or [`INLINE`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
    /// How loud, of 1.
    pub(crate) volume: f64,
    /// By how many decibels it steps back while somebody speaks.
    pub(crate) duck_db: f64,
    /// What was at the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) media: Option<MediaId>,
}

/// How far music steps back where nobody says it.
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
    /// One without scenes, as a recipe has it.
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

    /// Adds a scene as the recipe has it. `seen` is what a model is asked for, or the address of a picture.
    pub(super) fn add(&mut self, recipe: &Recipe, narration: String, seen: Seen) {
        let number = self.scenes.len();
        let motion = recipe.motions.get(number % recipe.motions.len().max(1));
        let visual = match seen {
            Seen::Prompt(prompt) => Visual {
                prompt: Some(match recipe.look.is_empty() {
                    true => prompt,
                    false => format!("{}. Style: {}.", prompt.trim_end_matches(['.', ' ']), recipe.look),
                }),
                ..Visual::default()
            },
            Seen::Image(address) => Visual {
                image: Some(address),
                ..Visual::default()
            },
        };
        let narration: String = narration.chars().take(MOST_NARRATION).collect();
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

    /// How large the film is. Both sides are even.
    pub(super) fn size(&self) -> Dimensions {
        let ratio = RATIOS.iter().find(|(name, _)| *name == self.aspect_ratio);
        let (width, height) = ratio.map_or((16, 9), |(_, ratio)| *ratio);
        let step = STEPS.iter().find(|(name, _)| *name == self.resolution);
        let short = step.map_or(720, |(_, pixels)| *pixels);
        let (least, most) = (width.min(height), width.max(height));
        let long = (short * most).div_ceil(least).next_multiple_of(2);
        match width > height {
            true => Dimensions::new(long, short),
            false => Dimensions::new(short, long),
        }
    }
}

/// What a scene that is written down shows.
pub(super) enum Seen {
    Prompt(String),
    Image(String),
}

/// A script's scenes: its paragraphs, or where it is one paragraph or one is too long, some sentences each.
pub(super) fn cut(script: &str) -> Vec<String> {
    let paragraphs = script.split("\n\n").map(words).filter(|part| !part.is_empty());
    let paragraphs: Vec<String> = paragraphs.collect();
    let is_one = paragraphs.len() == 1;
    let mut scenes = Vec::new();
    for paragraph in paragraphs {
        if !is_one && paragraph.chars().count() <= MOST_NARRATION {
            scenes.push(paragraph);
            continue;
        }
        let mut scene = String::new();
        for sentence in sentences(&paragraph) {
            let together = scene.chars().count() + sentence.chars().count();
            if !scene.is_empty() && together > SCENE_CHARACTERS {
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

/// Sentences; what has no end for too long ends between two words.
fn sentences(paragraph: &str) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut sentence = String::new();
    for word in paragraph.split(' ') {
        if sentence.chars().count() + word.chars().count() >= MOST_NARRATION {
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
    fn a_script_is_cut_where_it_pauses() {
        assert_eq!(cut("One.\nstill one.\n\nTwo."), ["One. still one.", "Two."]);
        assert_eq!(cut("  \n\n "), Vec::<String>::new());
        let sentence = "Ten words make a sentence that is easy to say.";
        let one = cut(&[sentence; 12].join(" "));
        assert_eq!(one.len(), 3);
        assert!(
            one.iter()
                .all(|scene| scene.ends_with('.') && scene.chars().count() <= SCENE_CHARACTERS)
        );
        let endless = cut(&"word ".repeat(500));
        assert!(
            endless
                .iter()
                .all(|scene| scene.chars().count() <= MOST_NARRATION)
        );
        assert_eq!(endless.join(" "), "word ".repeat(500).trim());
    }

    #[test]
    fn films_have_even_sides_of_their_ratio() {
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
