//! The model record: OpenAI's fields and ours (contract, Model record).

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use tollgate_catalog::{Modality, Model, ModelKind, StructuredOutput};
use utoipa::ToSchema;

/// Every model.
#[derive(Serialize, ToSchema)]
pub struct ModelList {
    /// Always `list`.
    #[schema(value_type = String)]
    pub object: &'static str,
    /// The models, by id.
    pub data: Vec<ModelRecord>,
}

/// A model.
#[derive(Serialize, ToSchema)]
pub struct ModelRecord {
    /// What to send as `model`.
    pub id: String,
    /// Always `model`.
    #[schema(value_type = String)]
    pub object: &'static str,
    /// Release date in seconds since the epoch, 0 where it is not verified.
    pub created: i64,
    /// The maker.
    pub owned_by: String,
    /// `chat`, `embedding`, `moderation`, `image`, `video`, `speech`, `transcription` or `decision`.
    #[schema(value_type = String)]
    pub r#type: &'static str,
    /// Name for people.
    pub display_name: String,
    /// ISO date, or `-` where it is not verified.
    pub release_date: String,
    /// Input and output together, in tokens.
    pub context_window: Option<u64>,
    /// Most tokens of one answer.
    pub max_output_tokens: Option<u64>,
    /// What it takes and gives.
    pub modalities: Modalities,
    /// Paths that serve it.
    #[schema(value_type = Vec<String>)]
    pub endpoints: Vec<&'static str>,
    /// `json_schema`, `json_mode` or `none`.
    #[schema(value_type = String)]
    pub structured_output: &'static str,
    /// Whether the Batch API takes it.
    pub batch_supported: bool,
    /// Credits as decimal strings, by class: per 1,000,000 tokens or characters, per picture (`image`), per second
    /// (`video`, `audio`). `input>272000` is the price of prompts above 272,000 tokens.
    pub pricing: BTreeMap<String, String>,
    /// What a film can be made from, as `mode` says it; none for other models.
    pub modes: Vec<String>,
    /// `dimensions` of an embedding model: the length of its longest vectors. Of models that make pictures or films, what
    /// they can be asked for, the usual one first: `resolutions`, `aspect_ratios`, `sizes`, `qualities`, `durations` (in
    /// seconds), `max_images`, `max_input_images`, `max_references`, `max_reference_resolution`, and `factors`: how many
    /// plain pictures or seconds one counts for. None for text.
    pub limits: BTreeMap<String, Value>,
    /// Whether its answers are simulated.
    pub simulated: bool,
}

/// What a model takes and gives.
#[derive(Serialize, ToSchema)]
pub struct Modalities {
    /// What it takes.
    #[schema(value_type = Vec<String>)]
    pub input: Vec<Modality>,
    /// What it gives.
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
                input: model.input.clone(),
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
                ModelKind::Image => vec!["/v1/images/generations"],
                ModelKind::Video => vec!["/v1/videos/generations"],
                ModelKind::Speech => vec!["/v1/audio/speech"],
                ModelKind::Transcription => vec!["/v1/audio/transcriptions"],
                ModelKind::Decision => vec!["/v1/decisions"],
            },
            structured_output: match model.structured_output {
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

/// What a model can be asked for, as far as it is known.
fn limits(model: &Model) -> BTreeMap<String, Value> {
    let mut limits: BTreeMap<String, Value> = BTreeMap::new();
    if let Some(dimensions) = model.dimensions {
        limits.insert("dimensions".to_owned(), dimensions.into());
    }
    let Ok(Value::Object(known)) = serde_json::to_value(&model.media.entry) else {
        return limits;
    };
    let is_said = |value: &Value| match value {
        Value::Null => false,
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    };
    limits.extend(
        known
            .into_iter()
            .filter(|(name, value)| name != "modes" && is_said(value)),
    );
    limits
}

/// Midnight UTC of an ISO date, in seconds since the epoch; 0 for anything else.
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
}
