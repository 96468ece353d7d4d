//! Lists the templates that are visible to a caller, and returns previews.

use std::sync::Arc;

use tollgate_accounts::Caller;
use tollgate_catalog::{Model, ModelKind, Template, VisibleModels};
use tollgate_types::{Error, ErrorCode};

use super::preview::Preview;
use super::wire::{TemplateList, TemplateRecord};
use crate::MediaState;

/// Returns the templates that are visible to the caller, optionally filtered by kind and category.
pub(super) fn list(
    state: &MediaState,
    origin: &str,
    caller: &Caller,
    kind: Option<ModelKind>,
    category: Option<&str>,
) -> TemplateList {
    let snapshot = state.media_jobs.pipeline.catalog.current();
    let visible = VisibleModels::new(&snapshot, caller.is_test(), &caller.rights);
    let wanted = |template: &&Arc<Template>| {
        kind.is_none_or(|kind| template.kind == kind)
            && category.is_none_or(|category| template.category == category)
    };
    let found = visible.templates().iter().filter(wanted);
    TemplateList {
        object: "list",
        data: found.map(|template| record(visible, origin, template)).collect(),
    }
}

fn record(visible: VisibleModels<'_>, origin: &str, template: &Template) -> TemplateRecord {
    let id = |model: &Arc<Model>| model.id.to_string();
    let supported = visible.models().filter(|model| template.supports(model));
    TemplateRecord {
        slug: template.slug.to_string(),
        object: "template",
        r#type: match template.kind {
            ModelKind::Video => "video",
            _ => "image",
        },
        title: template.title.clone(),
        description: template.description.clone(),
        category: template.category.clone(),
        version: template.version,
        canonical_prompt: template.prompt.clone(),
        default_subject: Some(template.subject.clone()).filter(|subject| !subject.is_empty()),
        recommended_model: visible.recommended(template).as_ref().map(id),
        supported_models: supported.map(id).collect(),
        default_params: serde_json::to_value(&template.params).unwrap_or_default(),
        preview_url: format!("{origin}/v1/templates/{}/preview", template.slug),
    }
}

/// Returns the preview of a template. Returns an error if the slug is unknown.
pub(super) async fn preview(state: &MediaState, slug: &str) -> Result<Preview, Error> {
    let found = state
        .media_jobs
        .pipeline
        .catalog
        .current()
        .template(slug)
        .cloned();
    let template = found.ok_or_else(|| {
        let shown: String = slug.chars().take(60).collect();
        let message = format!("Template '{shown}' does not exist. GET /v1/templates lists all templates.");
        Error::new(ErrorCode::NotFound, message).with_param("slug")
    })?;
    state.previews.of(&template).await
}
