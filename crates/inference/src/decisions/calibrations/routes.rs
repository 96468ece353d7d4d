//! HTTP handlers of calibrations.

use axum::Json;
use axum::extract::{Path, State};
use tollgate_edge::body::JSON_BODY;
use tollgate_edge::context::Context;
use tollgate_edge::{ApiError, ControlCaller, ErrorBody, JsonBody, Query, WorkCaller};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::service;
use super::wire::{
    Calibration, CalibrationList, CalibrationsQuery, ChooseCalibration, CreateCalibration, DeletedCalibration,
};
use crate::Inference;

/// Returns the router of `/v1/decisions/calibrations`.
pub fn routes() -> OpenApiRouter<Inference> {
    OpenApiRouter::new()
        .routes(routes!(create_calibration, list_calibrations))
        .routes(routes!(get_calibration, choose_calibration, delete_calibration))
}

/// Fits a calibration to decisions with known outcomes.
///
/// The calibration is the next version for its model. It corrects the account's decisions of this
/// model from now on, unless another calibration is selected as the default. Fitting is free of
/// charge.
#[utoipa::path(
    post, path = "/v1/decisions/calibrations", tag = "Decisions", operation_id = "create_calibration",
    request_body = CreateCalibration,
    responses((status = 200, body = Calibration), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn create_calibration(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    State(inference): State<Inference>,
    JsonBody(body): JsonBody<JSON_BODY>,
) -> Result<Json<Calibration>, ApiError> {
    let (calibrations, pipeline) = (&inference.calibrations, &inference.pipeline);
    let created = service::create(calibrations, pipeline, &ctx, caller, body).await?;
    Ok(Json(created))
}

/// Lists the calibrations of the account, newest first.
#[utoipa::path(
    get, path = "/v1/decisions/calibrations", tag = "Decisions", operation_id = "list_calibrations",
    params(CalibrationsQuery),
    responses((status = 200, body = CalibrationList), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn list_calibrations(
    ControlCaller(caller): ControlCaller,
    State(inference): State<Inference>,
    Query(query): Query<CalibrationsQuery>,
) -> Result<Json<CalibrationList>, ApiError> {
    let (calibrations, pipeline) = (&inference.calibrations, &inference.pipeline);
    let listed = service::list(calibrations, pipeline, caller.account_id(), query).await?;
    Ok(Json(listed))
}

/// Returns a calibration and its quality.
#[utoipa::path(
    get, path = "/v1/decisions/calibrations/{calibration_id}", tag = "Decisions", operation_id = "get_calibration",
    params(("calibration_id" = String, Path, description = "Id of the calibration")),
    responses((status = 200, body = Calibration), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn get_calibration(
    ControlCaller(caller): ControlCaller,
    State(inference): State<Inference>,
    Path(id): Path<String>,
) -> Result<Json<Calibration>, ApiError> {
    let found = service::get(&inference.calibrations, caller.account_id(), &id).await?;
    Ok(Json(found))
}

/// Selects a calibration as the default of its model, or removes the selection.
///
/// A selected calibration remains the default even if newer ones exist.
#[utoipa::path(
    post, path = "/v1/decisions/calibrations/{calibration_id}", tag = "Decisions", operation_id = "choose_calibration",
    params(("calibration_id" = String, Path, description = "Id of the calibration")),
    request_body = ChooseCalibration,
    responses((status = 200, body = Calibration), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn choose_calibration(
    ControlCaller(caller): ControlCaller,
    State(inference): State<Inference>,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<JSON_BODY>,
) -> Result<Json<Calibration>, ApiError> {
    let chosen = service::choose(&inference.calibrations, caller.account_id(), &id, &body).await?;
    Ok(Json(chosen))
}

/// Deletes a calibration.
///
/// Decisions that name the calibration fail afterwards (status 404). The default is then the newest
/// remaining calibration, unless another one is selected.
#[utoipa::path(
    delete, path = "/v1/decisions/calibrations/{calibration_id}", tag = "Decisions", operation_id = "delete_calibration",
    params(("calibration_id" = String, Path, description = "Id of the calibration")),
    responses((status = 200, body = DeletedCalibration), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn delete_calibration(
    ControlCaller(caller): ControlCaller,
    State(inference): State<Inference>,
    Path(id): Path<String>,
) -> Result<Json<DeletedCalibration>, ApiError> {
    let deleted = service::delete(&inference.calibrations, caller.account_id(), &id).await?;
    Ok(Json(deleted))
}
