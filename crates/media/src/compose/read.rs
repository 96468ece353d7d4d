//! The request, checked as far as the format goes. What models can do is looked at when they are known.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tollgate_studio::{CaptionPosition, CaptionStyle, Mood, Motion, Transition};
use tollgate_types::{Error, ErrorCode};

use super::storyboard::{
    Captions, DUCK_DB, INLINE, MOST_NARRATION, MOST_SCENES, Music, RATIOS, STEPS, Scene, Storyboard, Visual,
    Voice,
};
use crate::read::{Members, invalid, nested};

/// Most characters of a topic and of a script.
const MOST_TOPIC: usize = 2_000;
const MOST_SCRIPT: usize = 12_000;
/// Most characters of names.
const MOST_NAME: usize = 200;
/// Seconds of a scene, from and to.
const SECONDS: (f64, f64) = (1.0, 30.0);
/// How fast is spoken.
const SPEEDS: (f64, f64) = (0.5, 2.0);
/// By how many decibels music steps back.
const DUCKS: (f64, f64) = (0.0, 30.0);

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// A storyboard and what it costs.
    Plan,
    /// The film.
    Render,
}

/// What it is made from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    /// A model writes the script.
    Topic(String),
    /// This is said.
    Script(String),
    /// All of it.
    Board(Box<Storyboard>),
}

/// What may be said, be left to the recipe, or be nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Choice<T> {
    #[default]
    Usual,
    Nothing,
    Said(T),
}

impl<T: Clone> Choice<T> {
    /// What it comes to where this is usual.
    pub(super) fn or(&self, usual: Option<T>) -> Option<T> {
        match self {
            Choice::Usual => usual,
            Choice::Nothing => None,
            Choice::Said(said) => Some(said.clone()),
        }
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) mode: Mode,
    pub(super) recipe: Option<String>,
    pub(super) content: Content,
    /// How many scenes a model writes.
    pub(super) scenes: Option<u32>,
    pub(super) script_model: Option<String>,
    pub(super) visual_model: Option<String>,
    /// Addresses of pictures, one for each scene.
    pub(super) images: Vec<String>,
    pub(super) voice: Choice<Voice>,
    pub(super) captions: Choice<CaptionsSaid>,
    pub(super) music: Choice<MusicSaid>,
    pub(super) aspect_ratio: Option<String>,
    pub(super) resolution: Option<String>,
    pub(super) seed: Option<u64>,
    pub(super) metadata: Option<BTreeMap<String, String>>,
    pub(super) webhook_url: Option<String>,
}

/// What is said of captions.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CaptionsSaid {
    style: Option<String>,
    position: Option<String>,
    words_per_line: Option<u32>,
}

/// What is said of music.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MusicSaid {
    mood: Option<String>,
    url: Option<String>,
    volume: Option<f64>,
    duck_db: Option<f64>,
}

impl CaptionsSaid {
    pub(super) fn with(self, usual: Captions) -> Captions {
        Captions {
            style: self.style.unwrap_or(usual.style),
            position: self.position.unwrap_or(usual.position),
            words_per_line: self.words_per_line.unwrap_or(usual.words_per_line),
        }
    }
}

impl MusicSaid {
    pub(super) fn with(self, usual: Music) -> Music {
        let has_own = self.url.is_some();
        Music {
            mood: self.mood.or(usual.mood).filter(|_| !has_own),
            url: self.url,
            volume: self.volume.unwrap_or(usual.volume),
            duck_db: self.duck_db.unwrap_or(usual.duck_db),
            media: None,
        }
    }
}

/// Reads a request.
pub(super) fn request(body: &[u8]) -> Result<Request, Error> {
    let mut members = Members::read(body)?;
    let request = Request {
        mode: mode(&mut members)?,
        recipe: members.text("recipe")?,
        content: content(&mut members)?,
        scenes: members
            .number("scenes", 1, MOST_SCENES as u64)?
            .and_then(|count| u32::try_from(count).ok()),
        script_model: members.text("script_model")?,
        visual_model: members.text("visual_model")?,
        images: images(&mut members)?,
        voice: choice(&mut members, "voice", voice)?,
        captions: choice(&mut members, "captions", captions)?,
        music: choice(&mut members, "music", music)?,
        aspect_ratio: one_of(&mut members, "aspect_ratio", RATIOS.map(|(name, _)| name))?,
        resolution: one_of(&mut members, "resolution", STEPS.map(|(name, _)| name))?,
        seed: members.seed()?,
        metadata: members.metadata()?,
        webhook_url: members.text("webhook_url")?,
    };
    members.end()?;
    request.check()?;
    Ok(request)
}

impl Request {
    /// What excludes each other.
    fn check(&self) -> Result<(), Error> {
        let alone = |name: &str, is_there: bool, with: &str| match is_there {
            true => Err(invalid(name, &format!("cannot stand beside '{with}'"))),
            false => Ok(()),
        };
        match &self.content {
            Content::Topic(_) => Ok(()),
            Content::Script(_) => {
                alone("scenes", self.scenes.is_some(), "script")?;
                alone("script_model", self.script_model.is_some(), "script")
            }
            Content::Board(_) => {
                alone("scenes", self.scenes.is_some(), "storyboard")?;
                alone("script_model", self.script_model.is_some(), "storyboard")?;
                alone("images", !self.images.is_empty(), "storyboard")
            }
        }
    }
}

fn mode(members: &mut Members) -> Result<Mode, Error> {
    match members.text("mode")?.as_deref() {
        Some("plan") => Ok(Mode::Plan),
        Some("render") => Ok(Mode::Render),
        Some(_) => Err(invalid("mode", "is \"plan\" or \"render\"")),
        None => {
            let message = "'mode' is missing: \"plan\" answers a storyboard, \"render\" the film.";
            Err(Error::new(ErrorCode::MissingRequiredParameter, message).with_param("mode"))
        }
    }
}

fn content(members: &mut Members) -> Result<Content, Error> {
    let topic = bounded(members.text("topic")?, "topic", MOST_TOPIC)?;
    let script = bounded(members.text("script")?, "script", MOST_SCRIPT)?;
    let board = members
        .take("storyboard")
        .map(|value| nested("storyboard", value, storyboard))
        .transpose()?;
    match (topic, script, board) {
        (Some(topic), None, None) => Ok(Content::Topic(topic)),
        (None, Some(script), None) => Ok(Content::Script(script)),
        (None, None, Some(board)) => Ok(Content::Board(Box::new(board))),
        (None, None, None) => {
            let message =
                "'topic' is missing: say what the video is about, or send 'script' or 'storyboard'.";
            Err(Error::new(ErrorCode::MissingRequiredParameter, message).with_param("topic"))
        }
        (_, Some(_), Some(_)) | (Some(_), _, Some(_)) => {
            Err(invalid("storyboard", "cannot stand beside 'topic' or 'script'"))
        }
        (Some(_), Some(_), None) => Err(invalid("script", "cannot stand beside 'topic'")),
    }
}

fn images(members: &mut Members) -> Result<Vec<String>, Error> {
    let images = members.texts("images", MOST_SCENES)?;
    images
        .into_iter()
        .map(|(path, address)| check_address(&path, address))
        .collect()
}

/// Whether something can be an address of media. What is there is looked at when it is fetched.
fn check_address(path: &str, address: String) -> Result<String, Error> {
    let known = ["https://", "http://", "data:"];
    match known.iter().any(|scheme| address.starts_with(scheme)) {
        true => Ok(address),
        false => Err(invalid(path, "is an http(s) or data URL")),
    }
}

fn storyboard(members: &mut Members) -> Result<Storyboard, Error> {
    let Some(Value::Array(scenes)) = members.take("scenes") else {
        return Err(invalid("scenes", "is a list of scenes"));
    };
    if scenes.is_empty() || scenes.len() > MOST_SCENES {
        return Err(invalid("scenes", &format!("has 1 to {MOST_SCENES} scenes")));
    }
    let mut ids = BTreeSet::new();
    let mut read = Vec::with_capacity(scenes.len());
    for (number, value) in scenes.into_iter().enumerate() {
        let path = format!("scenes[{number}]");
        let one = nested(&path, value, |members| scene(members, number))?;
        if !ids.insert(one.id.clone()) {
            return Err(invalid(&format!("{path}.id"), "is the id of another scene"));
        }
        read.push(one);
    }
    Ok(Storyboard {
        title: bounded(members.text("title")?, "title", MOST_NAME)?,
        scenes: read,
        voice: choice(members, "voice", voice)?.or(Some(Voice::default())),
        captions: match choice(members, "captions", captions)? {
            Choice::Said(said) => Some(said.with(usual_captions())),
            Choice::Usual => Some(usual_captions()),
            Choice::Nothing => None,
        },
        music: match choice(members, "music", music)? {
            Choice::Said(said) => Some(said.with(usual_music())),
            Choice::Usual | Choice::Nothing => None,
        },
        aspect_ratio: one_of(members, "aspect_ratio", RATIOS.map(|(name, _)| name))?.unwrap_or_default(),
        resolution: one_of(members, "resolution", STEPS.map(|(name, _)| name))?.unwrap_or_default(),
    })
}

fn usual_captions() -> Captions {
    Captions {
        style: CaptionStyle::Plain.as_str().to_owned(),
        position: CaptionPosition::Bottom.as_str().to_owned(),
        words_per_line: 6,
    }
}

fn usual_music() -> Music {
    Music {
        mood: Some(Mood::Calm.as_str().to_owned()),
        url: None,
        volume: 0.4,
        duck_db: DUCK_DB,
        media: None,
    }
}

fn scene(members: &mut Members, number: usize) -> Result<Scene, Error> {
    let visual = members.take("visual").ok_or_else(|| {
        let message = "'visual' is missing: say what is to be seen, as 'prompt', 'image' or 'video'.";
        Error::new(ErrorCode::MissingRequiredParameter, message).with_param("visual")
    })?;
    let scene = Scene {
        id: bounded(members.text("id")?, "id", MOST_NAME)?.unwrap_or_else(|| format!("scene-{}", number + 1)),
        narration: bounded(members.any_text("narration")?, "narration", MOST_NARRATION)?
            .filter(|text| !text.trim().is_empty()),
        visual: nested("visual", visual, self::visual)?,
        duration: members.decimal("duration", SECONDS)?,
        transition: one_of(members, "transition", Transition::ALL.map(Transition::as_str))?
            .unwrap_or_else(|| Transition::Cut.as_str().to_owned()),
    };
    Ok(scene)
}

fn visual(members: &mut Members) -> Result<Visual, Error> {
    let address = |members: &mut Members, name| {
        let address = members.text(name)?;
        address.map(|address| check_address(name, address)).transpose()
    };
    let visual = Visual {
        prompt: members.prompt("prompt")?,
        model: members.text("model")?,
        image: address(members, "image")?,
        video: address(members, "video")?,
        motion: one_of(members, "motion", Motion::ALL.map(Motion::as_str))?,
        media: None,
    };
    let said = [&visual.prompt, &visual.image, &visual.video];
    if said.into_iter().flatten().count() != 1 {
        return Err(invalid(
            "prompt",
            "is what is to be seen, unless there is 'image' or 'video': exactly one of them",
        ));
    }
    if visual.model.is_some() && visual.prompt.is_none() {
        return Err(invalid("model", "is for what has a 'prompt'"));
    }
    Ok(visual)
}

fn voice(members: &mut Members) -> Result<Voice, Error> {
    Ok(Voice {
        model: members.text("model")?,
        voice: bounded(members.text("voice")?, "voice", MOST_NAME)?,
        speed: members.decimal("speed", SPEEDS)?,
    })
}

fn captions(members: &mut Members) -> Result<CaptionsSaid, Error> {
    Ok(CaptionsSaid {
        style: one_of(members, "style", CaptionStyle::ALL.map(CaptionStyle::as_str))?,
        position: one_of(
            members,
            "position",
            CaptionPosition::ALL.map(CaptionPosition::as_str),
        )?,
        words_per_line: members
            .number("words_per_line", 1, 8)?
            .and_then(|count| u32::try_from(count).ok()),
    })
}

fn music(members: &mut Members) -> Result<MusicSaid, Error> {
    let url = members.text("url")?;
    let said = MusicSaid {
        mood: one_of(members, "mood", Mood::ALL.map(Mood::as_str))?,
        url: url.map(|url| check_address("url", url)).transpose()?,
        volume: members.decimal("volume", (0.0, 1.0))?,
        duck_db: members.decimal("duck_db", DUCKS)?,
    };
    match said.mood.is_some() && said.url.is_some() {
        true => Err(invalid("mood", "cannot stand beside 'url'")),
        false => Ok(said),
    }
}

/// An object, `false` or `"none"` for nothing, or nothing said.
fn choice<T>(
    members: &mut Members,
    name: &'static str,
    read: impl FnOnce(&mut Members) -> Result<T, Error>,
) -> Result<Choice<T>, Error> {
    match members.take(name) {
        None => Ok(Choice::Usual),
        Some(Value::Bool(false)) => Ok(Choice::Nothing),
        Some(Value::String(none)) if none == "none" => Ok(Choice::Nothing),
        Some(value @ Value::Object(_)) => Ok(Choice::Said(nested(name, value, read)?)),
        Some(_) => Err(invalid(name, "is an object, or \"none\"")),
    }
}

fn one_of<const N: usize>(
    members: &mut Members,
    name: &'static str,
    known: [&'static str; N],
) -> Result<Option<String>, Error> {
    match members.text(name)? {
        Some(said) if !known.contains(&said.as_str()) => {
            Err(invalid(name, &format!("is one of: {}", known.join(", "))))
        }
        said => Ok(said),
    }
}

fn bounded(text: Option<String>, name: &str, most: usize) -> Result<Option<String>, Error> {
    match text {
        Some(text) if text.chars().count() > most => {
            Err(invalid(name, &format!("has at most {most} characters")))
        }
        text => Ok(text),
    }
}

impl Storyboard {
    /// What came with the request itself is not kept as text.
    pub(super) fn without_inline(mut self) -> Self {
        let hide = |address: &mut Option<String>| {
            if address
                .as_ref()
                .is_some_and(|address| address.starts_with("data:"))
            {
                *address = Some(INLINE.to_owned());
            }
        };
        for scene in &mut self.scenes {
            hide(&mut scene.visual.image);
            hide(&mut scene.visual.video);
        }
        if let Some(music) = &mut self.music {
            hide(&mut music.url);
        }
        self
    }
}

#[cfg(test)]
mod tests;
