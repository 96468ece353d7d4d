//! Query parameters and response schemas of the template endpoints.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// A prompt template for images or videos.
#[derive(Debug, Serialize, ToSchema)]
pub struct TemplateRecord {
    /// Identifier of the template, used as `template` in a request.
    pub slug: String,
    /// Always `template`.
    #[schema(value_type = String)]
    pub object: &'static str,
    /// Output of the template: `image` or `video`.
    #[schema(value_type = String)]
    pub r#type: &'static str,
    /// Name of the template for display.
    pub title: String,
    /// Description of the template's purpose.
    pub description: String,
    /// Category of the template, such as `product`.
    pub category: String,
    /// Version of the template; increases with each change.
    pub version: u32,
    /// Prompt that the model receives. The request's prompt replaces `{prompt}`, or is appended.
    pub canonical_prompt: String,
    /// Subject that is used if a request has neither a prompt nor input media. Null if the template
    /// has no subject.
    pub default_subject: Option<String>,
    /// Id of the model that is used if a request names none; null if no model supports the
    /// template.
    pub recommended_model: Option<String>,
    /// Ids of the models that support the template.
    pub supported_models: Vec<String>,
    /// Parameters that apply if a request does not set them. Parameters that the chosen model does
    /// not support are omitted.
    #[schema(value_type = Object)]
    pub default_params: Value,
    /// URL of a preview image in JPEG format. No API key is required.
    pub preview_url: String,
}

/// A list of templates, sorted by slug.
#[derive(Debug, Serialize, ToSchema)]
pub struct TemplateList {
    /// Always `list`.
    #[schema(value_type = String)]
    pub object: &'static str,
    /// The matching templates, sorted by slug.
    pub data: Vec<TemplateRecord>,
}

/// Filters of the template list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct TemplateQuery {
    /// Selects templates of this category, such as `product`.
    pub category: Option<String>,
}
