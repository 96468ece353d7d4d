//! Handlers.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, RawQuery, State};
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tollgate_accounts::Caller;
use tollgate_catalog::{Catalog, Snapshot};
use tollgate_edge::context::Context;
use tollgate_edge::{ApiError, ControlCaller, ErrorBody, Family, RequestContext};
use tollgate_types::{Error, ErrorCode};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::dialects::{self, Dialect, MessagesQuery};
use super::wire::{ModelList, ModelRecord};
use crate::Console;

/// The routes of this group.
pub fn routes() -> OpenApiRouter<Console> {
    OpenApiRouter::new()
        .routes(routes!(list_models))
        .routes(routes!(get_model))
        .route("/v1beta/models", get(list_content_models))
        .route("/v1beta/models/{*model}", get(get_content_model))
}

/// Whose shape a request wants.
fn dialect(ctx: &RequestContext, headers: &HeaderMap) -> Dialect {
    match ctx.family {
        Family::GenerateContent => Dialect::GenerateContent,
        _ if headers.contains_key("anthropic-version") => Dialect::Messages,
        _ => Dialect::Common,
    }
}

/// Lists the models that can be called. A 200 shows that the key works. Clients of messages (`anthropic-version`) get
/// their fields besides, in pages (`limit`, `after_id`, `before_id`), those of generated content (`x-goog-api-key`, `x-goog-api-client`) get their own list, which is
/// also at `/v1beta/models`, with `pageSize` and `pageToken`.
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

/// A name twice, or bytes that are no text.
fn unreadable(_: QueryRejection) -> Error {
    let message = "The query string cannot be read: send 'limit', 'after_id' and 'before_id' once each.";
    Error::new(ErrorCode::InvalidParameter, message)
}

async fn list_content_models(
    ControlCaller(caller): ControlCaller,
    State(catalog): State<Arc<Catalog>>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let page = dialects::content_page(&records(&catalog, &caller), query.as_deref())?;
    Ok(Json(page).into_response())
}

/// What the caller can reach.
fn visible<'a>(catalog: &'a Snapshot, caller: &Caller) -> &'a Snapshot {
    match caller.is_test() {
        true => catalog.for_tests(),
        false => catalog,
    }
}

fn records(catalog: &Catalog, caller: &Caller) -> Vec<ModelRecord> {
    let catalog = catalog.current();
    let models = visible(&catalog, caller).models().iter();
    models.map(|model| ModelRecord::from(&**model)).collect()
}

/// One model, by id or alias. Ids contain a slash, which may be sent as it is or encoded.
#[utoipa::path(
    get, path = "/v1/models/{*model}", tag = "Models", operation_id = "get_model",
    params(("model" = String, Path, description = "Id or alias, such as openai/gpt-4o-mini")),
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
    let record = record(&catalog, &caller, name)?;
    Ok(match dialect(&ctx, &headers) {
        Dialect::Common => Json(record).into_response(),
        Dialect::Messages => Json(dialects::messages_record(&record)).into_response(),
        Dialect::GenerateContent => Json(dialects::content_record(&record)).into_response(),
    })
}

async fn get_content_model(
    ControlCaller(caller): ControlCaller,
    State(catalog): State<Arc<Catalog>>,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    Ok(Json(dialects::content_record(&record(&catalog, &caller, name)?)).into_response())
}

/// The record of a model, under the name by which it was asked for.
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
