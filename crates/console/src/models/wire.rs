//! The model record: OpenAI's fields and the service's additional ones.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use tollgate_catalog::{MediaEntry, Modality, Model, ModelKind, StructuredOutput};
use utoipa::ToSchema;

/// Models that the API key can use.
#[derive(Serialize, ToSchema)]
pub struct ModelList {
    /// Always `list`.
    #[schema(value_type = String)]
    pub object: &'static str,
    /// Models, ordered by id.
    pub data: Vec<ModelRecord>,
}

/// A page of models in Google's format.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContentModelList {
    /// Models, ordered by id.
    pub models: Vec<ContentModel>,
    /// `pageToken` of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_page_token: Option<String>,
}

/// A model in Google's format.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContentModel {
    /// `models/` and the model id.
    pub name: String,
    /// Human-readable name.
    pub display_name: String,
    /// Actions that the model serves, such as `generateContent`.
    #[schema(value_type = Vec<String>)]
    pub supported_generation_methods: Vec<&'static str>,
    /// Maximum number of input and output tokens together; absent if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_token_limit: Option<u64>,
    /// Maximum number of output tokens per response; absent if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_token_limit: Option<u64>,
}

/// A model of the catalog.
#[derive(Serialize, ToSchema)]
pub struct ModelRecord {
    /// Model id, as sent in the `model` field.
    pub id: String,
    /// Always `model`.
    #[schema(value_type = String)]
    pub object: &'static str,
    /// Release date in seconds since the Unix epoch; 0 if it is not verified.
    pub created: i64,
    /// Provider that created the model.
    pub owned_by: String,
    /// `chat`, `embedding`, `moderation`, `image`, `video`, `speech`, `transcription` or
    /// `decision`.
    #[schema(value_type = String)]
    pub r#type: &'static str,
    /// Human-readable name.
    pub display_name: String,
    /// Release date (ISO 8601), or `-` if it is not verified.
    pub release_date: String,
    /// Maximum number of input and output tokens together.
    pub context_window: Option<u64>,
    /// Maximum number of output tokens per response.
    pub max_output_tokens: Option<u64>,
    /// Modalities that the model accepts and returns.
    pub modalities: Modalities,
    /// API paths that serve the model.
    #[schema(value_type = Vec<String>)]
    pub endpoints: Vec<&'static str>,
    /// `json_schema`, `json_mode` or `none`.
    #[schema(value_type = String)]
    pub structured_output: &'static str,
    /// Whether the Batch API accepts the model.
    pub batch_supported: bool,
    /// Prices in credits, as decimal strings by class: per 1,000,000 tokens or characters, per
    /// image (`image`), or per second (`video`, `audio`). `input>272000` is the price of input
    /// tokens in prompts above 272,000 tokens.
    pub pricing: BTreeMap<String, String>,
    /// Supported values of `mode` for video models; empty for other models.
    pub modes: Vec<String>,
    /// Limits of the model. `dimensions` is the maximum vector length of an embedding model. Image
    /// and video models have supported values, the default first (`resolutions`, `aspect_ratios`,
    /// `sizes`, `qualities`, `durations` in seconds), maximums (`max_images`, `max_input_images`,
    /// `max_references`, `max_reference_resolution`, `max_prompt_characters`), supported features
    /// (`masks`, `variations`, `image_sets`, `negative_prompts`, `audio`), and `factors`: the
    /// number of standard images or seconds that a value counts as. Empty for text models.
    pub limits: BTreeMap<String, Value>,
    /// Whether the model's responses are simulated.
    pub simulated: bool,
}

/// Modalities that a model accepts and returns.
#[derive(Serialize, ToSchema)]
pub struct Modalities {
    /// Supported input modalities.
    #[schema(value_type = Vec<String>)]
    pub input: Vec<Modality>,
    /// Supported output modalities.
    #[schema(value_type = Vec<String>)]
    pub output: Vec<Modality>,
}

impl From<&Model> for ModelRecord {
    fn from(model: &Model) -> Self {
        let release_date = model.release_date.clone().unwrap_or_else(|| "-".to_owned());
        let pricing = model
            .prices
            .entries()
            .map(|(name, price)| (name, price.to_string()));
        Self {
            id: model.id.to_string(),
            object: "model",
            created: midnight(&release_date),
            owned_by: model.id.split('/').next().unwrap_or_default().to_owned(),
            r#type: model.kind.as_str(),
            display_name: model.display_name.clone(),
            release_date,
            context_window: model.context_window,
            max_output_tokens: model.max_output_tokens,
            modalities: Modalities {
                input: model.claimed_input().to_vec(),
                output: model.output.clone(),
            },
            endpoints: match model.kind {
                ModelKind::Chat => vec![
                    "/v1/chat/completions",
                    "/v1/completions",
                    "/v1/messages",
                    "/v1/responses",
                    "/v1/models/{model}:generateContent",
                ],
                ModelKind::Embedding => vec!["/v1/embeddings", "/v1/models/{model}:embedContent"],
                ModelKind::Moderation => vec!["/v1/moderations"],
                ModelKind::Image => list_image_endpoints(&model.media.entry),
                ModelKind::Video => vec!["/v1/videos/generations"],
                ModelKind::Speech => vec!["/v1/audio/speech"],
                ModelKind::Transcription => match can_translate(model) {
                    true => vec!["/v1/audio/transcriptions", "/v1/audio/translations"],
                    false => vec!["/v1/audio/transcriptions"],
                },
                ModelKind::Decision => vec!["/v1/decisions"],
            },
            structured_output: match model.claimed_structured_output() {
                StructuredOutput::JsonSchema => "json_schema",
                StructuredOutput::JsonMode => "json_mode",
                StructuredOutput::None => "none",
            },
            batch_supported: matches!(model.kind, ModelKind::Chat | ModelKind::Embedding),
            pricing: pricing.collect(),
            modes: model.media.entry.modes.clone(),
            limits: limits(model),
            simulated: model.simulated,
        }
    }
}

/// Returns the paths of an image model. Edits and variations are included only if the catalog
/// confirms that the model supports them.
fn list_image_endpoints(known: &MediaEntry) -> Vec<&'static str> {
    let edits = known.max_input_images.is_some_and(|max| max > 0) || known.masks == Some(true);
    let paths = [
        ("/v1/images/generations", true),
        ("/v1/images/edits", edits),
        ("/v1/images/variations", known.variations == Some(true)),
    ];
    let listed = paths.into_iter().filter(|(_, is_known)| *is_known);
    listed.map(|(path, _)| path).collect()
}

/// Whether the model can translate speech into English.
fn can_translate(model: &Model) -> bool {
    let names = || {
        model
            .candidates
            .iter()
            .map(|candidate| &*candidate.upstream_model)
    };
    model.simulated || names().any(is_translator)
}

/// Whether the name belongs to a Whisper model that can translate. English-only, distilled and
/// `turbo` models cannot. Source:
/// <https://github.com/openai/whisper#available-models-and-languages>.
fn is_translator(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words: Vec<&str> = name.split(['/', '-', '_', '.', ':']).collect();
    let has = |word: &str| words.contains(&word);
    has("whisper") && !["turbo", "en", "distil"].into_iter().any(has)
}

/// Returns the limits that the catalog has for a model.
fn limits(model: &Model) -> BTreeMap<String, Value> {
    let mut limits: BTreeMap<String, Value> = BTreeMap::new();
    if let Some(dimensions) = model.dimensions {
        limits.insert("dimensions".to_owned(), dimensions.into());
    }
    let Ok(Value::Object(known)) = serde_json::to_value(&model.media.entry) else {
        return limits;
    };
    let is_set = |value: &Value| match value {
        Value::Null => false,
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    };
    limits.extend(
        known
            .into_iter()
            .filter(|(name, value)| name != "modes" && is_set(value)),
    );
    limits
}

/// Returns midnight UTC of an ISO date, in seconds since the Unix epoch; 0 for other text.
fn midnight(date: &str) -> i64 {
    let parsed = date.parse::<jiff::civil::Date>().ok();
    let zoned = parsed.and_then(|date| date.to_zoned(jiff::tz::TimeZone::UTC).ok());
    zoned.map_or(0, |zoned| zoned.timestamp().as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_become_seconds() {
        assert_eq!(midnight("1970-01-02"), 86_400);
        assert_eq!(midnight("-"), 0);
    }

    #[test]
    fn image_models_list_the_paths_they_are_known_to_serve() {
        let entry = |max_input_images, masks, variations| MediaEntry {
            max_input_images,
            masks,
            variations,
            ..MediaEntry::default()
        };
        let (edits, variations) = ("/v1/images/edits", "/v1/images/variations");
        for (entry, expected) in [
            (entry(None, None, None), &[][..]),
            (entry(Some(0), Some(false), Some(false)), &[]),
            (entry(Some(1), None, None), &[edits]),
            (entry(None, Some(true), None), &[edits]),
            (entry(None, None, Some(true)), &[variations]),
            (entry(Some(14), Some(true), Some(true)), &[edits, variations]),
        ] {
            let listed = list_image_endpoints(&entry);
            assert_eq!(listed[0], "/v1/images/generations");
            assert_eq!(&listed[1..], expected, "{entry:?}");
        }
    }

    #[test]
    fn whisper_translates_where_it_is_trained_for_it() {
        for (name, expected) in [
            ("whisper-1", true),
            ("openai/whisper-large-v3", true),
            ("Systran/faster-whisper-small", true),
            ("whisper-large-v3-turbo", false),
            ("whisper-small.en", false),
            ("distil-whisper-large-v3", false),
            ("gpt-4o-transcribe", false),
            ("nvidia/canary-1b", false),
        ] {
            assert_eq!(is_translator(name), expected, "{name}");
        }
    }
}
