//! The shapes of request and answer. The rules are in `read`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::recipe::Recipe;
use super::storyboard::{RATIOS, STEPS};

/// A recipe.
#[derive(Debug, Serialize, ToSchema)]
pub struct RecipeRecord {
    /// What a request names it by, as `recipe`.
    slug: String,
    /// Always `recipe`.
    #[schema(value_type = String)]
    object: &'static str,
    /// Name for people.
    title: String,
    /// What it is for.
    description: String,
    /// Rises with each change.
    version: u32,
    /// What scenes show: `images` (pictures that move), `videos`, or `own` (only what is sent).
    #[schema(value_type = String)]
    visuals: &'static str,
    /// How many scenes a script has where a request does not say it.
    scenes: u32,
    /// How a script is written.
    tone: String,
    /// What stands behind the prompt of every scene.
    look: String,
    /// How scenes turn into each other.
    #[schema(value_type = String)]
    transition: &'static str,
    /// `style`, `position` and `words_per_line` of captions.
    #[schema(value_type = Object)]
    captions: Value,
    /// `mood` and `volume` of music.
    #[schema(value_type = Object)]
    music: Value,
    /// Ratio of width to height where a request does not say it.
    aspect_ratio: String,
    /// Step of size where a request does not say it.
    resolution: String,
    /// What can be asked for instead.
    #[schema(value_type = Vec<String>)]
    aspect_ratios: Vec<&'static str>,
    /// What can be asked for instead.
    #[schema(value_type = Vec<String>)]
    resolutions: Vec<&'static str>,
    /// Whether it can be rendered here.
    available: bool,
    /// What to do about it when it cannot, or not with everything.
    missing: Vec<String>,
}

/// Recipes, by slug.
#[derive(Debug, Serialize, ToSchema)]
pub struct RecipeList {
    /// Always `list`.
    #[schema(value_type = String)]
    pub(super) object: &'static str,
    /// All of them.
    pub(super) data: Vec<RecipeRecord>,
}

impl RecipeRecord {
    pub(super) fn of(recipe: &Recipe, (available, missing): (bool, &[String])) -> Self {
        Self {
            slug: recipe.slug.clone(),
            object: "recipe",
            title: recipe.title.clone(),
            description: recipe.description.clone(),
            version: recipe.version,
            visuals: recipe.visuals.as_str(),
            scenes: recipe.scenes,
            tone: recipe.tone.clone(),
            look: recipe.look.clone(),
            transition: recipe.transition.as_str(),
            captions: serde_json::json!({
                "style": recipe.style.as_str(),
                "position": recipe.position.as_str(),
                "words_per_line": recipe.words_per_line,
            }),
            music: serde_json::json!({"mood": recipe.mood.as_str(), "volume": recipe.volume}),
            aspect_ratio: recipe.aspect_ratio.clone(),
            resolution: recipe.resolution.clone(),
            aspect_ratios: RATIOS.iter().map(|(name, _)| *name).collect(),
            resolutions: STEPS.iter().map(|(name, _)| *name).collect(),
            available,
            missing: missing.to_vec(),
        }
    }
}

/// A request for a composition: exactly one of `topic`, `script` and `storyboard`.
#[derive(Serialize, ToSchema)]
pub struct ComposeVideo {
    /// `plan`, which answers a storyboard and what it costs, or `render`, which answers the film.
    mode: String,
    /// Slug of a recipe, one of GET /v1/videos/compose/recipes.
    #[schema(default = "explainer")]
    recipe: Option<String>,
    /// What the film is about: a chat model writes the script.
    #[schema(max_length = 2000)]
    topic: Option<String>,
    /// What is said: a paragraph is a scene, and a single one is cut into several.
    #[schema(max_length = 12000)]
    script: Option<String>,
    /// All of it, as a plan has answered it, changed or not.
    storyboard: Option<StoryboardBody>,
    /// How many scenes a chat model writes.
    #[schema(minimum = 1, maximum = 20)]
    scenes: Option<u32>,
    /// The chat model that writes the script.
    script_model: Option<String>,
    /// The image or video model that makes what scenes show.
    visual_model: Option<String>,
    /// Pictures of your own, http(s) or data URLs, shown in the scenes in this order.
    images: Option<Vec<String>>,
    /// Who speaks, or `"none"`.
    voice: Option<VoiceBody>,
    /// How what is said is written on the picture, or `"none"`.
    captions: Option<CaptionsBody>,
    /// What is heard besides, or `"none"`.
    music: Option<MusicBody>,
    /// Ratio of width to height: `9:16`, `16:9`, `1:1`, `4:5` or `4:3`.
    aspect_ratio: Option<String>,
    /// `480p`, `720p` or `1080p`.
    resolution: Option<String>,
    /// Makes the same again, where the models can.
    seed: Option<u64>,
    /// Up to 16 texts under names of your own; the job's record repeats them.
    metadata: Option<BTreeMap<String, String>>,
    /// Where to post that the job has ended: an https URL. docs/webhooks.md says how the post is signed.
    webhook_url: Option<String>,
}

/// A storyboard.
#[derive(Serialize, ToSchema)]
pub struct StoryboardBody {
    /// Its name.
    title: Option<String>,
    /// 1 to 20 scenes.
    scenes: Vec<SceneBody>,
    /// Who speaks, or `"none"`.
    voice: Option<VoiceBody>,
    /// How what is said is written on the picture, or `"none"`.
    captions: Option<CaptionsBody>,
    /// What is heard besides; nothing when it is not said.
    music: Option<MusicBody>,
    /// As in the request.
    aspect_ratio: Option<String>,
    /// As in the request.
    resolution: Option<String>,
}

/// A scene.
#[derive(Serialize, ToSchema)]
pub struct SceneBody {
    /// A name of your own.
    id: Option<String>,
    /// What is said.
    #[schema(max_length = 600)]
    narration: Option<String>,
    /// What is to be seen.
    visual: VisualBody,
    /// Seconds that it lasts at the least; as long as what is said when it is not said.
    #[schema(minimum = 1, maximum = 30)]
    duration: Option<f64>,
    /// How the one before turns into it: `cut`, `fade`, `slide_left`, `wipe` or `dissolve`.
    #[schema(default = "cut")]
    transition: Option<String>,
}

/// What is to be seen: exactly one of `prompt`, `image` and `video`.
#[derive(Serialize, ToSchema)]
pub struct VisualBody {
    /// What a model is asked for.
    prompt: Option<String>,
    /// The image or video model that is asked.
    model: Option<String>,
    /// An http(s) or data URL of a picture.
    image: Option<String>,
    /// An http(s) or data URL of a film.
    video: Option<String>,
    /// How a picture is moved: `in`, `out`, `left`, `right` or `still`.
    #[schema(default = "in")]
    motion: Option<String>,
}

/// Who speaks.
#[derive(Serialize, ToSchema)]
pub struct VoiceBody {
    /// A speech model; `built-in` is the voice of the gateway, which costs nothing.
    model: Option<String>,
    /// One of its voices; of the built-in one such as `en-us` or `de`.
    voice: Option<String>,
    /// How fast.
    #[schema(minimum = 0.5, maximum = 2.0)]
    speed: Option<f64>,
}

/// How what is said is written on the picture.
#[derive(Serialize, ToSchema)]
pub struct CaptionsBody {
    /// `karaoke`, `plain` or `boxed`.
    style: Option<String>,
    /// `top`, `middle` or `bottom`.
    position: Option<String>,
    /// How many words are seen at once.
    #[schema(minimum = 1, maximum = 8)]
    words_per_line: Option<u32>,
}

/// What is heard besides.
#[derive(Serialize, ToSchema)]
pub struct MusicBody {
    /// `calm`, `bright`, `tense` or `warm`: it is made here, and costs nothing.
    mood: Option<String>,
    /// Instead: an http(s) or data URL of a recording.
    url: Option<String>,
    /// How loud.
    #[schema(minimum = 0, maximum = 1)]
    volume: Option<f64>,
    /// By how many decibels it steps back while somebody speaks.
    #[schema(minimum = 0, maximum = 30, default = 12)]
    duck_db: Option<f64>,
}
