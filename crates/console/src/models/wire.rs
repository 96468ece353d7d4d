//! The model record: OpenAI's fields and ours (contract, Model record).

use std::collections::BTreeMap;

use serde::Serialize;
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
    /// `chat`, `embedding` or `moderation`.
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
    /// Credits per 1,000,000 tokens by class, as decimal strings; `input>272000` is the price of prompts above 272,000.
    pub pricing: BTreeMap<String, String>,
    /// Generation modes; none for text.
    pub modes: Vec<String>,
    /// `dimensions` of an embedding model: the length of its longest vectors. Limits of media models; none for text.
    pub limits: BTreeMap<String, u64>,
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
            r#type: match model.kind {
                ModelKind::Chat => "chat",
                ModelKind::Embedding => "embedding",
                ModelKind::Moderation => "moderation",
            },
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
            },
            structured_output: match model.structured_output {
                StructuredOutput::JsonSchema => "json_schema",
                StructuredOutput::JsonMode => "json_mode",
                StructuredOutput::None => "none",
            },
            batch_supported: false,
            pricing: pricing.collect(),
            modes: Vec::new(),
            limits: model
                .dimensions
                .map(|dimensions| ("dimensions".to_owned(), dimensions))
                .into_iter()
                .collect(),
            simulated: model.simulated,
        }
    }
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
