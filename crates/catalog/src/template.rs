//! Templates: prompts that are known to work, with what else a picture or a film of their kind is asked with. A caller names
//! one and says only what is to be seen.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::coverage::matches;
use crate::load::LoadError;
use crate::media::{parse_ratio, resolution};
use crate::model::{Model, ModelKind};

const IMAGES: &str = include_str!("../data/templates/images.toml");
const VIDEOS: &str = include_str!("../data/templates/videos.toml");

/// Where the caller's prompt goes.
pub const PLACE: &str = "{prompt}";
/// Most characters of a prompt.
const MOST_PROMPT: usize = 8_000;
/// Most characters of every other text.
const MOST_TEXT: usize = 1_000;

/// A `[templates."slug"]` block. It adds a template, or changes of one that comes with the binary what it says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TemplateEntry {
    /// `image` or `video`.
    #[serde(rename = "type")]
    pub kind: Option<ModelKind>,
    /// Name for people.
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// What it stands with in lists.
    pub category: Option<String>,
    /// Rises with each change.
    pub version: Option<u32>,
    /// The canonical prompt; the caller's goes where [`PLACE`] is, or behind it.
    pub prompt: Option<String>,
    /// What stands there when the caller says nothing.
    pub subject: Option<String>,
    /// Patterns of model ids, the best one first.
    pub recommended_models: Option<Vec<String>>,
    /// Patterns of the model ids that may be used with it; every model of its kind when it is not said.
    pub supported_models: Option<Vec<String>>,
    /// What is asked for where the caller does not say it.
    pub params: Option<TemplateParams>,
    /// Whether it is offered.
    pub enabled: Option<bool>,
}

/// What is asked for where the caller does not say it, by the names of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TemplateParams {
    /// Ratio of width to height.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aspect_ratio: Option<String>,
    /// Step of size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution: Option<String>,
    /// What is not to be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub negative_prompt: Option<String>,
    /// Step of quality, of pictures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quality: Option<String>,
    /// How many pictures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_images: Option<u32>,
    /// How pictures are encoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_format: Option<String>,
    /// Seconds of a film.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<u32>,
    /// Whether a film has sound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generate_audio: Option<bool>,
}

/// A template that is offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// What callers name it by.
    pub slug: Arc<str>,
    /// What it makes: `Image` or `Video`.
    pub kind: ModelKind,
    /// Name for people.
    pub title: String,
    /// What it is for.
    pub description: String,
    /// What it stands with in lists.
    pub category: String,
    /// Rises with each change.
    pub version: u32,
    /// The canonical prompt.
    pub prompt: String,
    /// What is to be seen when the caller says nothing.
    pub subject: String,
    /// What is asked for where the caller does not say it.
    pub params: TemplateParams,
    recommended: Vec<String>,
    supported: Vec<String>,
}

impl Template {
    /// The prompt that a model is sent. `said` is the caller's; without one the template's own subject is seen, or `shown`
    /// where the caller shows something instead.
    pub fn blend(&self, said: Option<&str>, shown: Option<&str>) -> String {
        let said = said.map(|said| said.trim().trim_end_matches('.'));
        let said = said.filter(|said| !said.is_empty());
        let subject = said.or(shown).unwrap_or(&self.subject);
        match (self.prompt.split_once(PLACE), said) {
            (Some((before, after)), _) => format!("{before}{subject}{after}"),
            (None, Some(said)) => format!("{} {said}.", self.prompt),
            (None, None) => self.prompt.clone(),
        }
    }

    /// Whether a model may be used with it.
    pub fn supports(&self, model: &Model) -> bool {
        let is_named = |pattern: &String| matches(pattern, &model.id);
        model.kind == self.kind && self.supported.iter().any(is_named)
    }

    /// The best of these models for it, which are in the order of their ids: what its list names first, of several the newest,
    /// else `usual`, else any.
    pub fn recommended<'m>(
        &self,
        models: &'m [Arc<Model>],
        usual: Option<&'m Arc<Model>>,
    ) -> Option<&'m Arc<Model>> {
        let fits = |model: &&Arc<Model>| self.supports(model);
        let named = self.recommended.iter().find_map(|pattern| {
            let named = models.iter().filter(fits).rev();
            named
                .filter(|model| matches(pattern, &model.id))
                .max_by_key(|model| model.release_date.clone())
        });
        let usual = usual.filter(fits);
        named.or(usual).or_else(|| models.iter().find(fits))
    }
}

/// The templates that come with the binary and those of the operator, by slug.
pub(crate) fn load(own: &BTreeMap<String, TemplateEntry>) -> Result<Vec<Arc<Template>>, LoadError> {
    let mut entries = builtin()?;
    for (slug, entry) in own {
        let changed = entries.remove(slug).unwrap_or_default().changed_by(entry);
        entries.insert(slug.clone(), changed);
    }
    let offered = entries.iter().filter(|(_, entry)| entry.enabled != Some(false));
    offered
        .map(|(slug, entry)| read(slug, entry).map(Arc::new))
        .collect()
}

/// What comes with the binary.
fn builtin() -> Result<BTreeMap<String, TemplateEntry>, LoadError> {
    let mut entries = BTreeMap::new();
    for (kind, text) in [(ModelKind::Image, IMAGES), (ModelKind::Video, VIDEOS)] {
        let file: BTreeMap<String, TemplateEntry> = toml::from_str(text).map_err(|error| LoadError {
            path: "default templates".to_owned(),
            message: error.to_string(),
        })?;
        let of_kind = |(slug, entry)| {
            let kind = Some(kind);
            (slug, TemplateEntry { kind, ..entry })
        };
        entries.extend(file.into_iter().map(of_kind));
    }
    Ok(entries)
}

impl TemplateEntry {
    /// The same with what the other one says.
    fn changed_by(self, other: &TemplateEntry) -> Self {
        let other = other.clone();
        Self {
            kind: other.kind.or(self.kind),
            title: other.title.or(self.title),
            description: other.description.or(self.description),
            category: other.category.or(self.category),
            version: other.version.or(self.version),
            prompt: other.prompt.or(self.prompt),
            subject: other.subject.or(self.subject),
            recommended_models: other.recommended_models.or(self.recommended_models),
            supported_models: other.supported_models.or(self.supported_models),
            params: other.params.or(self.params),
            enabled: other.enabled.or(self.enabled),
        }
    }
}

/// A block that can be offered, or what is wrong with it.
fn read(slug: &str, entry: &TemplateEntry) -> Result<Template, LoadError> {
    let fault = |key: &str, message: &str| {
        Err(LoadError {
            path: format!("templates.\"{slug}\"{key}"),
            message: message.to_owned(),
        })
    };
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if slug.is_empty() || slug.len() > 64 || !slug.chars().all(is_plain) {
        return fault("", "a slug is 1 to 64 small letters, digits and hyphens");
    }
    let kind = match entry.kind {
        Some(kind @ (ModelKind::Image | ModelKind::Video)) => kind,
        _ => return fault(".type", "say type = \"image\" or type = \"video\""),
    };
    let trimmed = |text: &Option<String>| text.as_deref().unwrap_or_default().trim().to_owned();
    let (prompt, subject) = (trimmed(&entry.prompt), trimmed(&entry.subject));
    if prompt.is_empty() || prompt.chars().count() > MOST_PROMPT {
        return fault(".prompt", "a prompt of 1 to 8000 characters is needed");
    }
    match prompt.matches(PLACE).count() {
        0 => {}
        1 if subject.is_empty() => {
            return fault(
                ".subject",
                "say what stands for {prompt} when a caller says nothing",
            );
        }
        1 => {}
        _ => return fault(".prompt", "has {prompt}, where the caller's goes, once"),
    }
    for (key, text) in [
        (".title", &entry.title),
        (".description", &entry.description),
        (".category", &entry.category),
        (".subject", &entry.subject),
    ] {
        let is_good = |text: &String| !text.trim().is_empty() && text.chars().count() <= MOST_TEXT;
        if text.as_ref().is_some_and(|text| !is_good(text)) {
            return fault(key, "is a text of 1 to 1000 characters");
        }
    }
    let supported = entry
        .supported_models
        .clone()
        .unwrap_or_else(|| vec!["*".to_owned()]);
    if supported.is_empty() {
        return fault(
            ".supported_models",
            "names no model; with enabled = false the template is not offered",
        );
    }
    let params = entry.params.clone().unwrap_or_default();
    if let Err((key, message)) = params.check(kind) {
        return fault(&format!(".params.{key}"), message);
    }
    Ok(Template {
        slug: slug.into(),
        kind,
        title: entry.title.clone().unwrap_or_else(|| slug.to_owned()),
        description: trimmed(&entry.description),
        category: entry.category.clone().unwrap_or_else(|| "other".to_owned()),
        version: entry.version.unwrap_or(1),
        prompt,
        subject,
        params,
        recommended: entry.recommended_models.clone().unwrap_or_default(),
        supported,
    })
}

impl TemplateParams {
    /// The first of them that no request of this kind could have, and what to write instead.
    fn check(&self, kind: ModelKind) -> Result<(), (&'static str, &'static str)> {
        let is_image = kind == ModelKind::Image;
        for (key, is_said, belongs) in [
            ("quality", self.quality.is_some(), is_image),
            ("num_images", self.num_images.is_some(), is_image),
            ("output_format", self.output_format.is_some(), is_image),
            ("duration", self.duration.is_some(), !is_image),
            ("generate_audio", self.generate_audio.is_some(), !is_image),
        ] {
            if is_said && !belongs {
                return Err((key, "belongs to the other type of template"));
            }
        }
        let said = |text: &Option<String>, is_good: fn(&str) -> bool| text.as_deref().is_none_or(is_good);
        for (key, is_good, message) in [
            (
                "aspect_ratio",
                said(&self.aspect_ratio, |text| parse_ratio(text).is_some()),
                "is written like \"16:9\"",
            ),
            (
                "resolution",
                said(&self.resolution, |text| resolution(text).is_some()),
                "is a step of size such as \"1k\" or \"720p\"",
            ),
            (
                "negative_prompt",
                said(&self.negative_prompt, |text| !text.trim().is_empty()),
                "is a text that is not empty",
            ),
            (
                "quality",
                said(&self.quality, |text| !text.trim().is_empty()),
                "is a text that is not empty",
            ),
            (
                "output_format",
                said(&self.output_format, |text| {
                    ["png", "jpeg", "webp"].contains(&text)
                }),
                "is \"png\", \"jpeg\" or \"webp\"",
            ),
            (
                "num_images",
                self.num_images.is_none_or(|count| (1..=4).contains(&count)),
                "is 1 to 4",
            ),
            (
                "duration",
                self.duration.is_none_or(|seconds| (1..=600).contains(&seconds)),
                "is a whole number of seconds from 1 to 600",
            ),
        ] {
            if !is_good {
                return Err((key, message));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
