//! The shapes of request and answer. What of a request is accepted, `read` says.

use std::collections::BTreeMap;

use serde::Serialize;
use tollgate_types::moderate::Moderation;
use utoipa::ToSchema;

/// A moderation request.
#[derive(Serialize, ToSchema)]
pub struct CreateModeration {
    /// Id or alias of a moderation model. Without it the service's own policy answers, or its first such model.
    model: Option<String>,
    /// What is looked at.
    input: ModerationInput,
}

/// A text, several texts of which each gets a result, or parts that get one together.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its description is used")]
pub enum ModerationInput {
    /// A text.
    Text(String),
    /// Up to 2,048 texts.
    Texts(Vec<String>),
    /// `{"type": "text", "text": …}` and `{"type": "image_url", "image_url": {"url": …}}`.
    #[schema(value_type = Vec<Object>)]
    Parts(Vec<serde_json::Value>),
}

/// What was found.
#[derive(Serialize, ToSchema)]
pub struct ModerationResults {
    /// Id of the answer.
    pub(super) id: String,
    /// The model as the request named it; `policy` when it named none and the service's own policy answered.
    pub(super) model: String,
    /// One for each input.
    pub(super) results: Vec<ModerationResult>,
}

/// What was found in one input.
#[derive(Serialize, ToSchema)]
pub struct ModerationResult {
    /// Whether anything was.
    flagged: bool,
    /// Every category that was looked for, and whether it was found.
    categories: BTreeMap<String, bool>,
    /// How surely, from 0 to 1.
    category_scores: BTreeMap<String, f64>,
    /// In which kinds of input it was looked for: `text`, `image`.
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
