//! Templates: tested prompts with the other parameters of an image or video request. A caller names
//! a template and adds only the subject.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::coverage::matches;
use crate::load::LoadError;
use crate::media::{parse_ratio, resolution};
use crate::model::{Model, ModelKind};

const IMAGES: &str = include_str!("../data/templates/images.toml");
const VIDEOS: &str = include_str!("../data/templates/videos.toml");

/// Placeholder in a template's prompt for the caller's prompt.
pub const PLACEHOLDER: &str = "{prompt}";
/// Maximum length of a template's prompt, in characters.
const MAX_PROMPT_CHARS: usize = 8_000;
/// Maximum length of title, description, category and subject, in characters.
const MAX_TEXT_CHARS: usize = 1_000;

/// A `[templates."slug"]` block. It adds a template, or overrides settings of a default template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TemplateEntry {
    /// Kind of the output: `image` or `video`.
    #[serde(rename = "type")]
    pub kind: Option<ModelKind>,
    /// Name for display. Default: the slug.
    pub title: Option<String>,
    /// Purpose of the template.
    pub description: Option<String>,
    /// Category in lists. Default: `other`.
    pub category: Option<String>,
    /// Version, which increases with each change. Default: 1.
    pub version: Option<u32>,
    /// Prompt of the template. The caller's prompt replaces [`PLACEHOLDER`], or is appended if the
    /// prompt has none.
    pub prompt: Option<String>,
    /// Text that replaces [`PLACEHOLDER`] in requests without a prompt.
    pub subject: Option<String>,
    /// Patterns of recommended model ids, best first.
    pub recommended_models: Option<Vec<String>>,
    /// Patterns of the model ids that support the template. Default: every model of its kind.
    pub supported_models: Option<Vec<String>>,
    /// Defaults for parameters that the request omits.
    pub params: Option<TemplateParams>,
    /// Whether requests can use the template. Default: `true`.
    pub enabled: Option<bool>,
}

/// Defaults for parameters that a request omits. The names are those of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TemplateParams {
    /// Ratio of width to height, such as `16:9`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aspect_ratio: Option<String>,
    /// Resolution, such as `1k` or `720p`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution: Option<String>,
    /// Content that the output must not show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub negative_prompt: Option<String>,
    /// Quality of images, such as `high`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quality: Option<String>,
    /// Number of images per request, 1 to 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_images: Option<u32>,
    /// Encoding of images: `png`, `jpeg` or `webp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_format: Option<String>,
    /// Duration of a video in seconds, 1 to 600.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<u32>,
    /// Whether a video has audio.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generate_audio: Option<bool>,
}

/// An enabled template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Name of the template in requests.
    pub slug: Arc<str>,
    /// Kind of its output: `Image` or `Video`.
    pub kind: ModelKind,
    /// Name for display; not unique.
    pub title: String,
    /// Purpose of the template.
    pub description: String,
    /// Category in lists.
    pub category: String,
    /// Version, which increases with each change.
    pub version: u32,
    /// Prompt of the template, with or without [`PLACEHOLDER`].
    pub prompt: String,
    /// Text that replaces [`PLACEHOLDER`] in requests without a prompt.
    pub subject: String,
    /// Defaults for parameters that the request omits.
    pub params: TemplateParams,
    recommended: Vec<String>,
    supported: Vec<String>,
}

impl Template {
    /// Returns the prompt for the model. Without `user_prompt`, the subject is `shown` (a
    /// description of the caller's input media), or else the template's default subject.
    pub fn blend(&self, user_prompt: Option<&str>, shown: Option<&str>) -> String {
        let user_prompt = user_prompt.map(|user_prompt| user_prompt.trim().trim_end_matches('.'));
        let user_prompt = user_prompt.filter(|user_prompt| !user_prompt.is_empty());
        let subject = user_prompt.or(shown).unwrap_or(&self.subject);
        match (self.prompt.split_once(PLACEHOLDER), user_prompt) {
            (Some((before, after)), _) => format!("{before}{subject}{after}"),
            (None, Some(user_prompt)) => format!("{} {user_prompt}.", self.prompt),
            (None, None) => self.prompt.clone(),
        }
    }

    /// Whether the template supports a model.
    pub fn supports(&self, model: &Model) -> bool {
        let is_named = |pattern: &String| matches(pattern, &model.id);
        model.kind == self.kind && self.supported.iter().any(is_named)
    }

    /// Returns the best supported model for the template: the newest model that matches the first
    /// matching pattern of the recommended models, else `default_model`, else any. `models` must be
    /// sorted by id.
    pub fn recommended<'m>(
        &self,
        models: &'m [Arc<Model>],
        default_model: Option<&'m Arc<Model>>,
    ) -> Option<&'m Arc<Model>> {
        let fits = |model: &&Arc<Model>| self.supports(model);
        let named = self.recommended.iter().find_map(|pattern| {
            let named = models.iter().filter(fits).rev();
            named
                .filter(|model| matches(pattern, &model.id))
                .max_by_key(|model| model.release_date.clone())
        });
        let default_model = default_model.filter(fits);
        named.or(default_model).or_else(|| models.iter().find(fits))
    }
}

/// Returns the enabled templates, default ones and those of the configuration, sorted by slug.
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

/// Parses the default templates in the binary.
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
    /// Returns these settings, overridden by the settings that `other` has.
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

/// Validates a block and returns its template; the error names the invalid setting.
fn read(slug: &str, entry: &TemplateEntry) -> Result<Template, LoadError> {
    let fault = |key: &str, message: &str| {
        Err(LoadError {
            path: format!("templates.\"{slug}\"{key}"),
            message: message.to_owned(),
        })
    };
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if slug.is_empty() || slug.len() > 64 || !slug.chars().all(is_plain) {
        return fault(
            "",
            "a slug must have 1 to 64 lowercase letters, digits and hyphens",
        );
    }
    let kind = match entry.kind {
        Some(kind @ (ModelKind::Image | ModelKind::Video)) => kind,
        _ => return fault(".type", "set type = \"image\" or type = \"video\""),
    };
    let trimmed = |text: &Option<String>| text.as_deref().unwrap_or_default().trim().to_owned();
    let (prompt, subject) = (trimmed(&entry.prompt), trimmed(&entry.subject));
    if prompt.is_empty() || prompt.chars().count() > MAX_PROMPT_CHARS {
        return fault(".prompt", "set a prompt of 1 to 8000 characters");
    }
    match prompt.matches(PLACEHOLDER).count() {
        0 => {}
        1 if subject.is_empty() => {
            return fault(
                ".subject",
                "set the text for {prompt} in requests without a prompt",
            );
        }
        1 => {}
        _ => return fault(".prompt", "must contain {prompt} at most once"),
    }
    for (key, text) in [
        (".title", &entry.title),
        (".description", &entry.description),
        (".category", &entry.category),
        (".subject", &entry.subject),
    ] {
        let is_good = |text: &String| !text.trim().is_empty() && text.chars().count() <= MAX_TEXT_CHARS;
        if text.as_ref().is_some_and(|text| !is_good(text)) {
            return fault(key, "must have 1 to 1000 characters");
        }
    }
    let supported = entry
        .supported_models
        .clone()
        .unwrap_or_else(|| vec!["*".to_owned()]);
    if supported.is_empty() {
        return fault(
            ".supported_models",
            "must name a model; to disable the template, set enabled = false",
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
    /// Checks the parameters for this kind of template. The error is the first invalid parameter
    /// and the expected value.
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
                return Err((key, "is not valid for this type of template; remove it"));
            }
        }
        let user_prompt =
            |text: &Option<String>, is_good: fn(&str) -> bool| text.as_deref().is_none_or(is_good);
        for (key, is_good, message) in [
            (
                "aspect_ratio",
                user_prompt(&self.aspect_ratio, |text| parse_ratio(text).is_some()),
                "expected a ratio such as \"16:9\", with numbers from 1 to 100",
            ),
            (
                "resolution",
                user_prompt(&self.resolution, |text| resolution(text).is_some()),
                "expected a resolution such as \"1k\" or \"720p\"",
            ),
            (
                "negative_prompt",
                user_prompt(&self.negative_prompt, |text| !text.trim().is_empty()),
                "must not be empty",
            ),
            (
                "quality",
                user_prompt(&self.quality, |text| !text.trim().is_empty()),
                "must not be empty",
            ),
            (
                "output_format",
                user_prompt(&self.output_format, |text| {
                    ["png", "jpeg", "webp"].contains(&text)
                }),
                "must be \"png\", \"jpeg\" or \"webp\"",
            ),
            (
                "num_images",
                self.num_images.is_none_or(|count| (1..=4).contains(&count)),
                "must be 1 to 4",
            ),
            (
                "duration",
                self.duration.is_none_or(|seconds| (1..=600).contains(&seconds)),
                "must be an integer from 1 to 600",
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
