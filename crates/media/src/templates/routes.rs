//! HTTP handlers of the template endpoints.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use tollgate_catalog::ModelKind;
use tollgate_edge::{ApiError, ControlCaller, ErrorBody, Origin, Query};
use tollgate_types::Error;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::service;
use super::wire::{TemplateList, TemplateQuery};
use crate::MediaState;

/// Header that allows pages of other origins to embed the preview.
const CROSS_ORIGIN: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Returns the router of the template endpoints.
pub fn routes() -> OpenApiRouter<MediaState> {
    OpenApiRouter::new()
        .routes(routes!(list_templates))
        .routes(routes!(list_image_templates))
        .routes(routes!(list_video_templates))
        .routes(routes!(get_template_preview))
}

/// Lists the templates for images and videos.
#[utoipa::path(
    get, path = "/v1/templates", tag = "Templates", operation_id = "list_templates", params(TemplateQuery),
    responses((status = 200, body = TemplateList), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn list_templates(
    ControlCaller(caller): ControlCaller,
    Origin(origin): Origin,
    State(state): State<MediaState>,
    Query(query): Query<TemplateQuery>,
) -> Result<Json<TemplateList>, ApiError> {
    let category = query.category.as_deref();
    Ok(Json(service::list(&state, &origin, &caller, None, category)))
}

/// Lists the built-in and the operator's templates for images.
#[utoipa::path(
    get, path = "/v1/images/templates", tag = "Templates", operation_id = "list_image_templates",
    params(TemplateQuery),
    responses((status = 200, body = TemplateList), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn list_image_templates(
    ControlCaller(caller): ControlCaller,
    Origin(origin): Origin,
    State(state): State<MediaState>,
    Query(query): Query<TemplateQuery>,
) -> Result<Json<TemplateList>, ApiError> {
    let (kind, category) = (Some(ModelKind::Image), query.category.as_deref());
    Ok(Json(service::list(&state, &origin, &caller, kind, category)))
}

/// Lists the built-in and the operator's templates for videos.
#[utoipa::path(
    get, path = "/v1/videos/templates", tag = "Templates", operation_id = "list_video_templates",
    params(TemplateQuery),
    responses((status = 200, body = TemplateList), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn list_video_templates(
    ControlCaller(caller): ControlCaller,
    Origin(origin): Origin,
    State(state): State<MediaState>,
    Query(query): Query<TemplateQuery>,
) -> Result<Json<TemplateList>, ApiError> {
    let (kind, category) = (Some(ModelKind::Video), query.category.as_deref());
    Ok(Json(service::list(&state, &origin, &caller, kind, category)))
}

/// Returns the preview image of a template.
///
/// The preview is a small JPEG that the gateway draws. No API key is required.
#[utoipa::path(
    get, path = "/v1/templates/{slug}/preview", tag = "Templates", operation_id = "get_template_preview",
    params(("slug" = String, Path, description = "Slug of the template")),
    responses(
        (status = 200, description = "The preview image", content_type = "image/jpeg", body = Vec<u8>),
        (status = "default", body = ErrorBody)
    ),
    security(())
)]
async fn get_template_preview(
    State(state): State<MediaState>,
    Path(slug): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let preview = service::preview(&state, &slug).await?;
    let known = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let is_known = known.is_some_and(|known| known.split(',').any(|one| one.trim() == preview.tag));
    let mut response = match is_known {
        true => Response::new(Body::empty()),
        false => Response::new(Body::from(preview.bytes)),
    };
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let tag = HeaderValue::try_from(preview.tag).map_err(|error| Error::internal(error.to_string()))?;
    let plain = HeaderValue::from_static;
    response.headers_mut().extend([
        (CONTENT_TYPE, plain("image/jpeg")),
        (ETAG, tag),
        (CACHE_CONTROL, plain("public, max-age=86400")),
        (X_CONTENT_TYPE_OPTIONS, plain("nosniff")),
        (CROSS_ORIGIN, plain("cross-origin")),
        (ACCESS_CONTROL_ALLOW_ORIGIN, plain("*")),
    ]);
    Ok(response)
}
