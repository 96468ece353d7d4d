//! Handlers of the models API.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, RawQuery, State};
use axum::http::header::ALLOW;
use axum::http::{HeaderMap, HeaderValue, Uri};
use axum::response::{IntoResponse, Response};
use tollgate_accounts::Caller;
use tollgate_catalog::{Catalog, Snapshot, VisibleModels};
use tollgate_edge::context::Context;
use tollgate_edge::{
    Action, ApiError, ClientDialect, ControlCaller, ErrorBody, RequestContext, request_layer,
};
use tollgate_types::{Error, ErrorCode};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::dialects::{self, Dialect, MessagesQuery};
use super::wire::{ContentModel, ContentModelList, ModelList, ModelRecord};
use crate::Console;

/// Returns the routes of the models API.
pub fn routes() -> OpenApiRouter<Console> {
    OpenApiRouter::new()
        .routes(routes!(list_models))
        .routes(routes!(get_model))
        .routes(routes!(list_content_models))
        .routes(routes!(get_content_model))
}

/// Returns the response format that the request's headers select.
fn dialect(ctx: &RequestContext, headers: &HeaderMap) -> Dialect {
    match ctx.dialect {
        ClientDialect::GenerateContent => Dialect::GenerateContent,
        _ if headers.contains_key("anthropic-version") => Dialect::Messages,
        _ => Dialect::Common,
    }
}

/// Lists models.
///
/// Returns the models that the key can call. A 200 response confirms that the key is valid. The
/// response to a request with `anthropic-version` also has Anthropic's fields, in pages (`limit`,
/// `after_id`, `before_id`). The response to a request with `x-goog-api-key` or `x-goog-api-client`
/// has Google's format, which `/v1beta/models` also returns, with `pageSize` and `pageToken`.
#[utoipa::path(
    get, path = "/v1/models", tag = "Models", operation_id = "list_models",
    responses((status = 200, body = ModelList), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn list_models(
    ControlCaller(caller): ControlCaller,
    Context(ctx): Context,
    State(catalog): State<Arc<Catalog>>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, ApiError> {
    let data = records(&catalog, &caller);
    Ok(match dialect(&ctx, &headers) {
        Dialect::Common => Json(ModelList { object: "list", data }).into_response(),
        Dialect::Messages => {
            let query = Query::<MessagesQuery>::try_from_uri(&uri).map_err(unreadable)?;
            Json(dialects::messages_page(&data, &query)?).into_response()
        }
        Dialect::GenerateContent => Json(dialects::content_page(&data, uri.query())?).into_response(),
    })
}

/// Returns the error for a repeated parameter, or for a query that is not UTF-8.
fn unreadable(_: QueryRejection) -> Error {
    let message =
        "The query string is malformed: send 'limit', 'after_id' and 'before_id' at most once each.";
    Error::new(ErrorCode::InvalidParameter, message)
}

/// Lists models in Google's format.
#[utoipa::path(
    get, path = "/v1beta/models", tag = "Models", operation_id = "list_content_models",
    params(
        ("pageSize" = Option<u32>, Query, description = "Models per page: at most 1000, default 50"),
        ("pageToken" = Option<String>, Query, description = "`nextPageToken` of the previous page")
    ),
    responses((status = 200, body = ContentModelList), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn list_content_models(
    ControlCaller(caller): ControlCaller,
    State(catalog): State<Arc<Catalog>>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let page = dialects::content_page(&records(&catalog, &caller), query.as_deref())?;
    Ok(Json(page).into_response())
}

/// Returns the models that the caller can use.
fn visible<'a>(catalog: &'a Snapshot, caller: &'a Caller) -> VisibleModels<'a> {
    VisibleModels::new(catalog, caller.is_test(), &caller.rights)
}

fn records(catalog: &Catalog, caller: &Caller) -> Vec<ModelRecord> {
    let catalog = catalog.current();
    let models = visible(&catalog, caller).models();
    models.map(|model| ModelRecord::from(&**model)).collect()
}

/// Returns a model by id or alias. The slash of an id may be sent verbatim or percent-encoded.
#[utoipa::path(
    get, path = "/v1/models/{*model}", tag = "Models", operation_id = "get_model",
    params(("model" = String, Path, description = "Id or alias of a model, such as openai/gpt-4o-mini")),
    responses((status = 200, body = ModelRecord), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn get_model(
    ControlCaller(caller): ControlCaller,
    Context(ctx): Context,
    State(catalog): State<Arc<Catalog>>,
    headers: HeaderMap,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    if Action::of(&name).is_some() {
        return Ok(only_post().await);
    }
    let record = record(&catalog, &caller, name)?;
    Ok(match dialect(&ctx, &headers) {
        Dialect::Common => Json(record).into_response(),
        Dialect::Messages => Json(dialects::messages_record(&record)).into_response(),
        Dialect::GenerateContent => Json(dialects::content_record(&record)).into_response(),
    })
}

/// Returns a model by id or alias in Google's format.
#[utoipa::path(
    get, path = "/v1beta/models/{*model}", tag = "Models", operation_id = "get_content_model",
    params(("model" = String, Path, description = "Id or alias of a model, such as google/gemini-3.5-flash")),
    responses((status = 200, body = ContentModel), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn get_content_model(
    ControlCaller(caller): ControlCaller,
    State(catalog): State<Arc<Catalog>>,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    if Action::of(&name).is_some() {
        return Ok(only_post().await);
    }
    Ok(Json(dialects::content_record(&record(&catalog, &caller, name)?)).into_response())
}

/// Refuses GET for a path with an action, which requires POST.
async fn only_post() -> Response {
    let mut response = request_layer::method_not_allowed().await.into_response();
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static("POST"));
    response
}

/// Returns the record of a model, under the name that the request used.
fn record(catalog: &Catalog, caller: &Caller, name: String) -> Result<ModelRecord, Error> {
    let found = visible(&catalog.current(), caller)
        .resolve(&name)
        .map(|model| ModelRecord::from(&**model));
    let record = found.ok_or_else(|| {
        let shown: String = name.chars().take(120).collect();
        let message =
            format!("The model '{shown}' does not exist. GET /v1/models lists the models of this service.");
        Error::new(ErrorCode::ModelNotFound, message).with_param("model")
    })?;
    Ok(ModelRecord { id: name, ..record })
}
