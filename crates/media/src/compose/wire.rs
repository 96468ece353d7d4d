//! Request and response schemas. `read` parses and validates the requests.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::recipe::Recipe;
use super::storyboard::{RATIOS, STEPS};

/// A recipe: the default settings of a composition.
#[derive(Debug, Serialize, ToSchema)]
pub struct RecipeRecord {
    /// Identifier of the recipe, used as `recipe` in a request.
    slug: String,
    /// Always `recipe`.
    #[schema(value_type = String)]
    object: &'static str,
    /// Name of the recipe for display.
    title: String,
    /// Description of the videos that the recipe makes.
    description: String,
    /// Version of the recipe; increases with each change.
    version: u32,
    /// Source of the visuals: `images` (generated images with camera motion), `videos` (generated
    /// videos) or `own` (only the images that you send).
    #[schema(value_type = String)]
    visuals: &'static str,
    /// Default number of scenes of a script.
    scenes: u32,
    /// Tone in which a script is written.
    tone: String,
    /// Style that is appended to the prompt of each scene.
    look: String,
    /// Transition between scenes.
    #[schema(value_type = String)]
    transition: &'static str,
    /// Default `style`, `position` and `words_per_line` of the captions.
    #[schema(value_type = Object)]
    captions: Value,
    /// Default `mood` and `volume` of the music.
    #[schema(value_type = Object)]
    music: Value,
    /// Default aspect ratio, width to height.
    aspect_ratio: String,
    /// Default resolution, named by the shorter side.
    resolution: String,
    /// Aspect ratios that a request can set.
    #[schema(value_type = Vec<String>)]
    aspect_ratios: Vec<&'static str>,
    /// Resolutions that a request can set.
    #[schema(value_type = Vec<String>)]
    resolutions: Vec<&'static str>,
    /// Whether the server has the programs that render videos.
    available: bool,
    /// Programs and fonts that are not installed, each with the command to install it.
    missing: Vec<String>,
}

/// The list of all recipes, sorted by slug.
#[derive(Debug, Serialize, ToSchema)]
pub struct RecipeList {
    /// Always `list`.
    #[schema(value_type = String)]
    pub(super) object: &'static str,
    /// All recipes of this server.
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

/// A request to compose a video. It has exactly one of `topic`, `script` and `storyboard`.
#[derive(Serialize, ToSchema)]
pub struct ComposeVideo {
    /// `plan` returns a storyboard and its price; `render` returns the video.
    mode: String,
    /// Slug of a recipe. GET /v1/videos/compose/recipes lists the recipes.
    #[schema(default = "explainer")]
    recipe: Option<String>,
    /// Topic of the video. A chat model writes the script.
    #[schema(max_length = 2000)]
    topic: Option<String>,
    /// The narration. Each paragraph becomes a scene. A single paragraph, and a paragraph of more
    /// than 600 characters, is split between sentences.
    #[schema(max_length = 12000)]
    script: Option<String>,
    /// A complete storyboard, for example from a plan, with or without changes.
    storyboard: Option<StoryboardBody>,
    /// Number of scenes that the chat model writes. Only with `topic`. Defaults to the recipe's
    /// `scenes`; for a recipe with visuals `own` and no `visual_model`, to the number of `images`.
    #[schema(minimum = 1, maximum = 20)]
    scenes: Option<u32>,
    /// Id or alias of the chat model that writes the script. Only with `topic`. If omitted, the
    /// default chat model is used.
    script_model: Option<String>,
    /// Id or alias of the image or video model that generates the visuals of the scenes. If
    /// omitted, the default model for the recipe's visuals is used.
    visual_model: Option<String>,
    /// Your own images as http(s) or data URLs, at most one for each scene, in the order of the
    /// scenes. Cannot be combined with `storyboard`.
    images: Option<Vec<String>>,
    /// Voice of the narration, or `"none"` for no narration.
    voice: Option<VoiceBody>,
    /// Captions of the narration, or `"none"` for no captions.
    captions: Option<CaptionsBody>,
    /// Background music, or `"none"` for no music.
    music: Option<MusicBody>,
    /// Aspect ratio, width to height: `9:16`, `16:9`, `1:1`, `4:5` or `4:3`. Defaults to the value
    /// of the storyboard or recipe.
    aspect_ratio: Option<String>,
    /// Resolution, named by the shorter side: `480p`, `720p` or `1080p`. Defaults to the value of
    /// the storyboard or recipe.
    resolution: Option<String>,
    /// Seed for reproducible results, if the models support it.
    seed: Option<u64>,
    /// Up to 16 custom key-value pairs. The job record returns them.
    metadata: Option<BTreeMap<String, String>>,
    /// An https URL that receives a webhook when the job has ended. docs/webhooks.md describes the
    /// signature.
    webhook_url: Option<String>,
}

/// A complete storyboard of a composition.
#[derive(Serialize, ToSchema)]
pub struct StoryboardBody {
    /// Title of the video.
    title: Option<String>,
    /// The scenes in their order, 1 to 20.
    scenes: Vec<SceneBody>,
    /// Voice of the narration, or `"none"` for no narration.
    voice: Option<VoiceBody>,
    /// Captions of the narration, or `"none"` for no captions.
    captions: Option<CaptionsBody>,
    /// Background music. If omitted, the video has no music.
    music: Option<MusicBody>,
    /// Aspect ratio, width to height: `9:16`, `16:9`, `1:1`, `4:5` or `4:3`. Defaults to the value
    /// of the recipe.
    aspect_ratio: Option<String>,
    /// Resolution, named by the shorter side: `480p`, `720p` or `1080p`. Defaults to the value of
    /// the recipe.
    resolution: Option<String>,
}

/// One scene of a storyboard.
#[derive(Serialize, ToSchema)]
pub struct SceneBody {
    /// Identifier of the scene, unique in the storyboard. Defaults to `scene-1`, `scene-2` and so
    /// on.
    id: Option<String>,
    /// Text that the voice speaks in this scene.
    #[schema(max_length = 600)]
    narration: Option<String>,
    /// The image or video of the scene.
    visual: VisualBody,
    /// Minimum duration in seconds. If omitted, the scene lasts as long as its narration; without
    /// narration, as long as its video, or 4 seconds for an image.
    #[schema(minimum = 1, maximum = 30)]
    duration: Option<f64>,
    /// Transition from the preceding scene: `cut`, `fade`, `slide_left`, `wipe` or `dissolve`.
    #[schema(default = "cut")]
    transition: Option<String>,
}

/// The visual of a scene. It has exactly one of `prompt`, `image` and `video`.
#[derive(Serialize, ToSchema)]
pub struct VisualBody {
    /// Prompt from which a model generates the image or video.
    prompt: Option<String>,
    /// Id or alias of the image or video model for `prompt`. Defaults to the request's
    /// `visual_model`.
    model: Option<String>,
    /// An http(s) or data URL of an image.
    image: Option<String>,
    /// An http(s) or data URL of a video.
    video: Option<String>,
    /// Camera motion over an image: `in`, `out`, `left`, `right` or `still`.
    #[schema(default = "in")]
    motion: Option<String>,
}

/// The voice of the narration.
#[derive(Serialize, ToSchema)]
pub struct VoiceBody {
    /// Id or alias of a speech model, or `built-in` for the gateway's built-in voice, which is free
    /// of charge. If omitted, the default speech model is used, or the built-in voice if there is
    /// no default model.
    model: Option<String>,
    /// Name of one of the model's voices. The built-in voice accepts espeak-ng names such as
    /// `en-us` or `de`.
    voice: Option<String>,
    /// Speed of the speech; 1 is normal speed.
    #[schema(minimum = 0.5, maximum = 2.0)]
    speed: Option<f64>,
}

/// Captions that show the narration in the video.
#[derive(Serialize, ToSchema)]
pub struct CaptionsBody {
    /// Caption style: `karaoke`, `plain` or `boxed`.
    style: Option<String>,
    /// Position of the captions in the frame: `top`, `middle` or `bottom`.
    position: Option<String>,
    /// Number of words that are shown at a time.
    #[schema(minimum = 1, maximum = 8)]
    words_per_line: Option<u32>,
}

/// Background music: either `mood` or `url`.
#[derive(Serialize, ToSchema)]
pub struct MusicBody {
    /// Mood of the music, which the gateway generates free of charge: `calm`, `bright`, `tense` or
    /// `warm`.
    mood: Option<String>,
    /// An http(s) or data URL of an audio file that replaces the generated music.
    url: Option<String>,
    /// Volume of the music from 0 to 1.
    #[schema(minimum = 0, maximum = 1)]
    volume: Option<f64>,
    /// Attenuation of the music during narration, in decibels.
    #[schema(minimum = 0, maximum = 30, default = 12)]
    duck_db: Option<f64>,
}
