//! Handlers.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use tollgate_catalog::Catalog;
use tollgate_edge::{ApiError, ControlCaller, ErrorBody};
use tollgate_types::{Error, ErrorCode};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::wire::{ModelList, ModelRecord};
use crate::Console;

/// The routes of this group.
pub fn routes() -> OpenApiRouter<Console> {
    OpenApiRouter::new()
        .routes(routes!(list_models))
        .routes(routes!(get_model))
}

/// Lists the models that can be called. A 200 shows that the key works.
#[utoipa::path(
    get, path = "/v1/models", tag = "Models", operation_id = "list_models",
    responses((status = 200, body = ModelList), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn list_models(_: ControlCaller, State(catalog): State<Arc<Catalog>>) -> Json<ModelList> {
    let data = catalog
        .current()
        .models()
        .iter()
        .map(|model| ModelRecord::from(&**model))
        .collect();
    Json(ModelList { object: "list", data })
}

/// One model, by id or alias. Ids contain a slash, which may be sent as it is or encoded.
#[utoipa::path(
    get, path = "/v1/models/{*model}", tag = "Models", operation_id = "get_model",
    params(("model" = String, Path, description = "Id or alias, such as openai/gpt-4o-mini")),
    responses((status = 200, body = ModelRecord), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn get_model(
    _: ControlCaller,
    State(catalog): State<Arc<Catalog>>,
    Path(name): Path<String>,
) -> Result<Json<ModelRecord>, ApiError> {
    let found = catalog
        .current()
        .resolve(&name)
        .map(|model| ModelRecord::from(&**model));
    let record = found.ok_or_else(|| {
        let shown: String = name.chars().take(120).collect();
        let message =
            format!("The model '{shown}' does not exist. GET /v1/models lists the models of this service.");
        Error::new(ErrorCode::ModelNotFound, message).with_param("model")
    })?;
    Ok(Json(ModelRecord { id: name, ..record }))
}
