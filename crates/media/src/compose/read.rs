//! Parses composition requests and checks the limits that apply to all models. The limits of a
//! model are checked after routing.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tollgate_edge::members::{Members, invalid, nested};
use tollgate_media_tools::{CaptionPosition, CaptionStyle, Mood, Motion, Transition};
use tollgate_types::{Error, ErrorCode};

use super::storyboard::{
    Captions, DUCK_DB, INLINE, MAX_NARRATION_CHARS, MAX_SCENES, Music, RATIOS, STEPS, Scene, Storyboard,
    Visual, Voice,
};

/// Maximum length of `topic`, in characters.
const MAX_TOPIC_CHARS: usize = 2_000;
/// Maximum length of `script`, in characters.
const MAX_SCRIPT_CHARS: usize = 12_000;
/// Maximum length of scene ids, titles and voice names, in characters.
const MAX_NAME_CHARS: usize = 200;
/// Allowed `duration` of a scene in seconds, as minimum and maximum.
const SCENE_SECONDS: (f64, f64) = (1.0, 30.0);
/// Allowed `speed` of a voice, as minimum and maximum.
const SPEED_RANGE: (f64, f64) = (0.5, 2.0);
/// Allowed `duck_db` in decibels, as minimum and maximum.
const DUCK_DB_RANGE: (f64, f64) = (0.0, 30.0);

/// The `mode` parameter: plan or render.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Returns a storyboard and the price of each step.
    Plan,
    /// Renders the video.
    Render,
}

/// The source of the scenes: exactly one of `topic`, `script` and `storyboard`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    /// A chat model writes a script about this topic.
    Topic(String),
    /// The narration, which is split into scenes.
    Script(String),
    /// A complete storyboard.
    Board(Box<Storyboard>),
}

/// A setting: a value of the caller, the value of the storyboard or recipe, or disabled.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Choice<T> {
    #[default]
    FromRecipe,
    Disabled,
    Custom(T),
}

impl<T: Clone> Choice<T> {
    /// Returns the effective setting; `fallback` is the value of the storyboard or recipe.
    pub(super) fn or(&self, fallback: Option<T>) -> Option<T> {
        match self {
            Choice::FromRecipe => fallback,
            Choice::Disabled => None,
            Choice::Custom(custom) => Some(custom.clone()),
        }
    }
}

/// A parsed composition request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) mode: Mode,
    pub(super) recipe: Option<String>,
    pub(super) content: Content,
    /// Number of scenes that a model writes.
    pub(super) scenes: Option<u32>,
    pub(super) script_model: Option<String>,
    pub(super) visual_model: Option<String>,
    /// URLs of images, at most one for each scene, in the order of the scenes.
    pub(super) images: Vec<String>,
    pub(super) voice: Choice<Voice>,
    pub(super) captions: Choice<CaptionsParams>,
    pub(super) music: Choice<MusicParams>,
    pub(super) aspect_ratio: Option<String>,
    pub(super) resolution: Option<String>,
    pub(super) seed: Option<u64>,
    pub(super) metadata: Option<BTreeMap<String, String>>,
    pub(super) webhook_url: Option<String>,
}

/// Caption settings of a request. Missing settings are those of the storyboard, of the recipe or of
/// the defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CaptionsParams {
    style: Option<String>,
    position: Option<String>,
    words_per_line: Option<u32>,
}

/// Music settings of a request. Missing settings are those of the storyboard, of the recipe or of
/// the defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MusicParams {
    mood: Option<String>,
    url: Option<String>,
    volume: Option<f64>,
    duck_db: Option<f64>,
}

impl CaptionsParams {
    pub(super) fn with(self, fallback: Captions) -> Captions {
        Captions {
            style: self.style.unwrap_or(fallback.style),
            position: self.position.unwrap_or(fallback.position),
            words_per_line: self.words_per_line.unwrap_or(fallback.words_per_line),
        }
    }
}

impl MusicParams {
    pub(super) fn with(self, fallback: Music) -> Music {
        let has_own = self.url.is_some();
        Music {
            mood: self.mood.or(fallback.mood).filter(|_| !has_own),
            url: self.url,
            volume: self.volume.unwrap_or(fallback.volume),
            duck_db: self.duck_db.unwrap_or(fallback.duck_db),
            media: None,
        }
    }
}

/// Parses the JSON body of a composition request.
pub(super) fn request(body: &[u8]) -> Result<Request, Error> {
    let mut members = Members::read(body)?;
    let request = Request {
        mode: mode(&mut members)?,
        recipe: members.text("recipe")?,
        content: content(&mut members)?,
        scenes: members
            .number("scenes", 1, MAX_SCENES as u64)?
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
    /// Returns an error if two parameters exclude each other.
    fn check(&self) -> Result<(), Error> {
        let alone = |name: &str, is_there: bool, with: &str| match is_there {
            true => Err(invalid(name, &format!("cannot be combined with '{with}'"))),
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
        Some(_) => Err(invalid("mode", "must be \"plan\" or \"render\"")),
        None => {
            let message = "'mode' is required: \"plan\" returns a storyboard, \"render\" returns the video.";
            Err(Error::new(ErrorCode::MissingRequiredParameter, message).with_param("mode"))
        }
    }
}

fn content(members: &mut Members) -> Result<Content, Error> {
    let topic = bounded(members.text("topic")?, "topic", MAX_TOPIC_CHARS)?;
    let script = bounded(members.text("script")?, "script", MAX_SCRIPT_CHARS)?;
    let board = members
        .take("storyboard")
        .map(|value| nested("storyboard", value, storyboard))
        .transpose()?;
    match (topic, script, board) {
        (Some(topic), None, None) => Ok(Content::Topic(topic)),
        (None, Some(script), None) => Ok(Content::Script(script)),
        (None, None, Some(board)) => Ok(Content::Board(Box::new(board))),
        (None, None, None) => {
            let message = "Send exactly one of 'topic', 'script' and 'storyboard'.";
            Err(Error::new(ErrorCode::MissingRequiredParameter, message).with_param("topic"))
        }
        (_, Some(_), Some(_)) | (Some(_), _, Some(_)) => Err(invalid(
            "storyboard",
            "cannot be combined with 'topic' or 'script'",
        )),
        (Some(_), Some(_), None) => Err(invalid("script", "cannot be combined with 'topic'")),
    }
}

fn images(members: &mut Members) -> Result<Vec<String>, Error> {
    let images = members.texts("images", MAX_SCENES)?;
    images
        .into_iter()
        .map(|(path, address)| check_address(&path, address))
        .collect()
}

/// Checks the scheme of a media URL. The content is checked when it is fetched.
fn check_address(path: &str, address: String) -> Result<String, Error> {
    let known = ["https://", "http://", "data:"];
    match known.iter().any(|scheme| address.starts_with(scheme)) {
        true => Ok(address),
        false => Err(invalid(path, "must be an http(s) or data URL")),
    }
}

fn storyboard(members: &mut Members) -> Result<Storyboard, Error> {
    let Some(Value::Array(scenes)) = members.take("scenes") else {
        return Err(invalid("scenes", "must be a list of scenes"));
    };
    if scenes.is_empty() || scenes.len() > MAX_SCENES {
        return Err(invalid("scenes", &format!("must have 1 to {MAX_SCENES} scenes")));
    }
    let mut ids = BTreeSet::new();
    let mut read = Vec::with_capacity(scenes.len());
    for (number, value) in scenes.into_iter().enumerate() {
        let path = format!("scenes[{number}]");
        let one = nested(&path, value, |members| scene(members, number))?;
        if !ids.insert(one.id.clone()) {
            return Err(invalid(&format!("{path}.id"), "must be unique"));
        }
        read.push(one);
    }
    Ok(Storyboard {
        title: bounded(members.text("title")?, "title", MAX_NAME_CHARS)?,
        scenes: read,
        voice: choice(members, "voice", voice)?.or(Some(Voice::default())),
        captions: match choice(members, "captions", captions)? {
            Choice::Custom(custom) => Some(custom.with(default_captions())),
            Choice::FromRecipe => Some(default_captions()),
            Choice::Disabled => None,
        },
        music: match choice(members, "music", music)? {
            Choice::Custom(custom) => Some(custom.with(default_music())),
            Choice::FromRecipe | Choice::Disabled => None,
        },
        aspect_ratio: one_of(members, "aspect_ratio", RATIOS.map(|(name, _)| name))?.unwrap_or_default(),
        resolution: one_of(members, "resolution", STEPS.map(|(name, _)| name))?.unwrap_or_default(),
    })
}

fn default_captions() -> Captions {
    Captions {
        style: CaptionStyle::Plain.as_str().to_owned(),
        position: CaptionPosition::Bottom.as_str().to_owned(),
        words_per_line: 6,
    }
}

fn default_music() -> Music {
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
        let message = "'visual' is required. Send a 'prompt', an 'image' or a 'video' in it.";
        Error::new(ErrorCode::MissingRequiredParameter, message).with_param("visual")
    })?;
    let scene = Scene {
        id: bounded(members.text("id")?, "id", MAX_NAME_CHARS)?
            .unwrap_or_else(|| format!("scene-{}", number + 1)),
        narration: bounded(members.any_text("narration")?, "narration", MAX_NARRATION_CHARS)?
            .filter(|text| !text.trim().is_empty()),
        visual: nested("visual", visual, self::visual)?,
        duration: members.decimal("duration", SCENE_SECONDS)?,
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
    let custom = [&visual.prompt, &visual.image, &visual.video];
    if custom.into_iter().flatten().count() != 1 {
        return Err(invalid(
            "prompt",
            "is required unless 'image' or 'video' is set. Send exactly one of the three",
        ));
    }
    if visual.model.is_some() && visual.prompt.is_none() {
        return Err(invalid("model", "requires a 'prompt'"));
    }
    Ok(visual)
}

fn voice(members: &mut Members) -> Result<Voice, Error> {
    Ok(Voice {
        model: members.text("model")?,
        voice: bounded(members.text("voice")?, "voice", MAX_NAME_CHARS)?,
        speed: members.decimal("speed", SPEED_RANGE)?,
    })
}

fn captions(members: &mut Members) -> Result<CaptionsParams, Error> {
    Ok(CaptionsParams {
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

fn music(members: &mut Members) -> Result<MusicParams, Error> {
    let url = members.text("url")?;
    let custom = MusicParams {
        mood: one_of(members, "mood", Mood::ALL.map(Mood::as_str))?,
        url: url.map(|url| check_address("url", url)).transpose()?,
        volume: members.decimal("volume", (0.0, 1.0))?,
        duck_db: members.decimal("duck_db", DUCK_DB_RANGE)?,
    };
    match custom.mood.is_some() && custom.url.is_some() {
        true => Err(invalid("mood", "cannot be combined with 'url'")),
        false => Ok(custom),
    }
}

/// Parses a setting. An object is a custom value, `false` and `"none"` disable the setting, and an
/// absent member selects the value of the storyboard or recipe.
fn choice<T>(
    members: &mut Members,
    name: &'static str,
    read: impl FnOnce(&mut Members) -> Result<T, Error>,
) -> Result<Choice<T>, Error> {
    match members.take(name) {
        None => Ok(Choice::FromRecipe),
        Some(Value::Bool(false)) => Ok(Choice::Disabled),
        Some(Value::String(none)) if none == "none" => Ok(Choice::Disabled),
        Some(value @ Value::Object(_)) => Ok(Choice::Custom(nested(name, value, read)?)),
        Some(_) => Err(invalid(name, "must be an object or \"none\"")),
    }
}

fn one_of<const N: usize>(
    members: &mut Members,
    name: &'static str,
    known: [&'static str; N],
) -> Result<Option<String>, Error> {
    match members.text(name)? {
        Some(custom) if !known.contains(&custom.as_str()) => {
            Err(invalid(name, &format!("must be one of: {}", known.join(", "))))
        }
        custom => Ok(custom),
    }
}

fn bounded(text: Option<String>, name: &str, max: usize) -> Result<Option<String>, Error> {
    match text {
        Some(text) if text.chars().count() > max => {
            Err(invalid(name, &format!("must have at most {max} characters")))
        }
        text => Ok(text),
    }
}

impl Storyboard {
    /// Replaces data URLs by [`INLINE`], because their bytes are stored as media.
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
