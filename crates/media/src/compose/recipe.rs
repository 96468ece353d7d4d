//! Recipes: the default settings of compositions.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use tollgate_catalog::ModelKind;
use tollgate_media_tools::{CaptionPosition, CaptionStyle, Mood, Motion, Transition};

const RECIPES: &str = include_str!("../../data/recipes.toml");
/// Recipe of requests that name no recipe.
pub(super) const DEFAULT_RECIPE: &str = "explainer";

/// Default source of the visuals of the scenes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Visuals {
    /// Generated images, shown with camera motion.
    Images,
    /// Generated videos, one for each scene.
    Videos,
    /// Images of the caller.
    Own,
}

impl Visuals {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Visuals::Images => "images",
            Visuals::Videos => "videos",
            Visuals::Own => "own",
        }
    }

    /// Returns the kind of model that generates the visuals; `None` for images of the caller.
    pub(super) const fn kind(self) -> Option<ModelKind> {
        match self {
            Visuals::Images => Some(ModelKind::Image),
            Visuals::Videos => Some(ModelKind::Video),
            Visuals::Own => None,
        }
    }
}

/// Default settings of a composition. `data/recipes.toml` contains the recipes.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) slug: String,
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) version: u32,
    pub(crate) visuals: Visuals,
    /// Number of scenes of a generated script.
    pub(crate) scenes: u32,
    /// Tone of a generated script, as a phrase for the model's prompt.
    pub(crate) tone: String,
    /// Style that is appended to every visual prompt.
    pub(crate) look: String,
    /// Camera motions of images, assigned to the scenes in turn.
    pub(crate) motions: Vec<Motion>,
    pub(crate) transition: Transition,
    pub(crate) style: CaptionStyle,
    pub(crate) position: CaptionPosition,
    pub(crate) words_per_line: u32,
    pub(crate) mood: Mood,
    pub(crate) volume: f64,
    pub(crate) aspect_ratio: String,
    pub(crate) resolution: String,
}

/// All recipes, sorted by slug.
#[derive(Clone, Debug, Default)]
pub struct Recipes(Arc<Vec<Recipe>>);

impl Recipes {
    /// Loads the recipes that are compiled into the binary. If they are invalid, logs an error and
    /// returns no recipes.
    pub fn load() -> Self {
        Self::read().unwrap_or_else(|error| {
            tracing::error!(error, "cannot parse the built-in recipes");
            Self::default()
        })
    }

    fn read() -> Result<Self, String> {
        let entries: BTreeMap<String, Entry> = toml::from_str(RECIPES).map_err(|error| error.to_string())?;
        let recipes = entries.into_iter().map(|(slug, entry)| entry.read(slug));
        Ok(Self(Arc::new(recipes.collect::<Result<_, _>>()?)))
    }

    pub(super) fn all(&self) -> &[Recipe] {
        &self.0
    }

    pub(super) fn find(&self, slug: &str) -> Option<&Recipe> {
        self.0.iter().find(|recipe| recipe.slug == slug)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    title: String,
    description: String,
    version: u32,
    visuals: Visuals,
    scenes: u32,
    tone: String,
    look: String,
    motions: Vec<String>,
    transition: String,
    captions: CaptionEntry,
    music: MusicEntry,
    aspect_ratio: String,
    resolution: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaptionEntry {
    style: String,
    position: String,
    words_per_line: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MusicEntry {
    mood: String,
    volume: f64,
}

impl Entry {
    fn read(self, slug: String) -> Result<Recipe, String> {
        let fault = |what: &str, name: &str| format!("recipe {slug}: '{name}' is not a valid {what}");
        let motions = self.motions.iter();
        let motions = motions.map(|name| Motion::parse(name).ok_or_else(|| fault("motion", name)));
        Ok(Recipe {
            motions: motions.collect::<Result<_, _>>()?,
            transition: Transition::parse(&self.transition)
                .ok_or_else(|| fault("transition", &self.transition))?,
            style: CaptionStyle::parse(&self.captions.style)
                .ok_or_else(|| fault("style", &self.captions.style))?,
            position: CaptionPosition::parse(&self.captions.position)
                .ok_or_else(|| fault("position", &self.captions.position))?,
            mood: Mood::parse(&self.music.mood).ok_or_else(|| fault("mood", &self.music.mood))?,
            slug: slug.clone(),
            title: self.title,
            description: self.description,
            version: self.version,
            visuals: self.visuals,
            scenes: self.scenes,
            tone: self.tone,
            look: self.look,
            words_per_line: self.captions.words_per_line,
            volume: self.music.volume,
            aspect_ratio: self.aspect_ratio,
            resolution: self.resolution,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compose::storyboard::{RATIOS, STEPS};

    #[test]
    fn all_recipes_are_valid() {
        let recipes = Recipes::read().unwrap();
        assert!(recipes.all().len() >= 8);
        assert!(recipes.find(DEFAULT_RECIPE).is_some() && recipes.find("nothing").is_none());
        for recipe in recipes.all() {
            assert!((2..=20).contains(&recipe.scenes), "{}", recipe.slug);
            assert!(!recipe.motions.is_empty() && (1..=8).contains(&recipe.words_per_line));
            assert!(RATIOS.iter().any(|(ratio, _)| *ratio == recipe.aspect_ratio));
            assert!(STEPS.iter().any(|(step, _)| *step == recipe.resolution));
        }
    }
}
