//! Request and response schemas for the OpenAPI document. The module `read` validates requests.

use std::collections::BTreeMap;

use serde::Serialize;
use tollgate_types::moderate::Moderation;
use utoipa::ToSchema;

/// Request body of `POST /v1/moderations`.
#[derive(Serialize, ToSchema)]
pub struct CreateModeration {
    /// Id or alias of a moderation model. If omitted, the gateway applies its content policy or,
    /// without a policy, the model `omni-moderation-latest`.
    model: Option<String>,
    /// Texts or images to classify.
    input: ModerationInput,
}

/// A string, an array of strings with one result each, or an array of parts with one result
/// together.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only describes the schema")]
pub enum ModerationInput {
    /// One text, with one result.
    Text(String),
    /// Up to 2,048 texts. Each one has its own result.
    Texts(Vec<String>),
    /// Up to 2,048 parts: `{"type": "text", "text": …}` or
    /// `{"type": "image_url", "image_url": {"url": …}}`.
    #[schema(value_type = Vec<Object>)]
    Parts(Vec<serde_json::Value>),
}

/// Response body of `POST /v1/moderations`.
#[derive(Serialize, ToSchema)]
pub struct ModerationResults {
    /// Unique id of the moderation.
    pub(super) id: String,
    /// Model name as sent in the request. If the request names no model: `policy` if the content
    /// policy was applied, otherwise `omni-moderation-latest`.
    pub(super) model: String,
    /// Results in the order of the inputs.
    pub(super) results: Vec<ModerationResult>,
}

/// Result for one input.
#[derive(Serialize, ToSchema)]
pub struct ModerationResult {
    /// Whether any category is flagged.
    flagged: bool,
    /// Map of category to whether it is flagged.
    categories: BTreeMap<String, bool>,
    /// Map of category to a confidence score from 0 to 1.
    category_scores: BTreeMap<String, f64>,
    /// Map of category to the input types that it applies to: `text`, `image`.
    category_applied_input_types: BTreeMap<String, Vec<String>>,
}

impl From<Moderation> for ModerationResult {
    fn from(found: Moderation) -> Self {
        let mut result = Self {
            flagged: found.flagged,
            categories: BTreeMap::new(),
            category_scores: BTreeMap::new(),
            category_applied_input_types: BTreeMap::new(),
        };
        for category in found.categories {
            let name = category.name;
            result.categories.insert(name.clone(), category.flagged);
            result.category_scores.insert(name.clone(), category.score);
            result
                .category_applied_input_types
                .insert(name, category.applied_to);
        }
        result
    }
}
