//! Queries and answers.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// A template.
#[derive(Debug, Serialize, ToSchema)]
pub struct TemplateRecord {
    /// What a request names it by, as `template`.
    pub slug: String,
    /// Always `template`.
    #[schema(value_type = String)]
    pub object: &'static str,
    /// What it makes: `image` or `video`.
    #[schema(value_type = String)]
    pub r#type: &'static str,
    /// Name for people.
    pub title: String,
    /// What it is for.
    pub description: String,
    /// What it stands with.
    pub category: String,
    /// Rises with each change.
    pub version: u32,
    /// What a model is sent; the request's prompt goes where `{prompt}` is, or behind it.
    pub canonical_prompt: String,
    /// What stands there when a request has neither a prompt nor a picture.
    pub default_subject: Option<String>,
    /// The model that serves who names none; null where there is none for it.
    pub recommended_model: Option<String>,
    /// Ids of the models that may be used with it.
    pub supported_models: Vec<String>,
    /// What is asked for where a request does not say it. What the chosen model cannot do is left out.
    #[schema(value_type = Object)]
    pub default_params: Value,
    /// Address of a small JPEG; it needs no key.
    pub preview_url: String,
}

/// Templates, by slug.
#[derive(Debug, Serialize, ToSchema)]
pub struct TemplateList {
    /// Always `list`.
    #[schema(value_type = String)]
    pub object: &'static str,
    /// All of them.
    pub data: Vec<TemplateRecord>,
}

/// Which templates.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct TemplateQuery {
    /// Of this category, such as `product`.
    pub category: Option<String>,
}
