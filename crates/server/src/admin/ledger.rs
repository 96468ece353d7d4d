//! Endpoints for exports of the ledger and of usage, and for the ledger check.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use serde::Deserialize;
use tollgate_edge::{ApiError, ErrorBody, Operator, Query};
use tollgate_types::{Error, ErrorCode};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AdminApi;
use super::query;
use crate::wiring::AppState;
use tollgate_operations::export::{Export, ExportPage, Format, Kind};
use tollgate_operations::view::CheckView;
use tollgate_operations::{Actor, CheckLedger};

/// Returns the router of this group.
pub(super) fn routes() -> OpenApiRouter<AdminApi> {
    OpenApiRouter::new()
        .routes(routes!(check_ledger))
        .routes(routes!(export_ledger))
        .routes(routes!(export_usage))
}

/// Query parameters of the ledger check.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct CheckQuery {
    /// Whether to recompute the cost of every usage row too (default: false).
    reprice: bool,
}

/// Checks all ledger invariants. The check reads every transfer.
#[utoipa::path(
    get, path = "/admin/v1/ledger/check", tag = "Credits", operation_id = "check_ledger", params(CheckQuery),
    responses((status = 200, body = CheckView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn check_ledger(
    operator: Operator,
    State(api): State<AdminApi>,
    Query(query): Query<CheckQuery>,
) -> Result<Json<CheckView>, ApiError> {
    let command = CheckLedger {
        reprice: query.reprice,
    };
    Ok(Json(api.perform(&operator, command).await?))
}

/// Query parameters of an export.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct ExportQuery {
    /// Only rows of this account (default: all).
    account: Option<String>,
    /// Only rows created at or after this time: RFC 3339, or a date in UTC.
    from: Option<String>,
    /// Only rows created before this time: RFC 3339, or a date in UTC.
    to: Option<String>,
    /// Format of the rows: `csv` (default) or `jsonl`.
    format: Option<String>,
}

/// Exports all transfers, ordered by account, as CSV with a header or as JSON lines.
#[utoipa::path(
    get, path = "/admin/v1/ledger/export", tag = "Credits", operation_id = "export_ledger", params(ExportQuery),
    responses(
        (status = 200, content((String = "text/csv"), (String = "application/jsonl"))),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []))
)]
async fn export_ledger(
    operator: Operator,
    State(api): State<AdminApi>,
    Query(query): Query<ExportQuery>,
) -> Result<Response, ApiError> {
    export(&api, &operator, Kind::Transfers, query).await
}

/// Exports usage, one row per call, ordered by account and newest first, as CSV with a header or as
/// JSON lines. The rows contain no text of prompts or responses.
#[utoipa::path(
    get, path = "/admin/v1/usage/export", tag = "Credits", operation_id = "export_usage", params(ExportQuery),
    responses(
        (status = 200, content((String = "text/csv"), (String = "application/jsonl"))),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []))
)]
async fn export_usage(
    operator: Operator,
    State(api): State<AdminApi>,
    Query(query): Query<ExportQuery>,
) -> Result<Response, ApiError> {
    export(&api, &operator, Kind::Usage, query).await
}

async fn export(
    api: &AdminApi,
    operator: &Operator,
    kind: Kind,
    query: ExportQuery,
) -> Result<Response, ApiError> {
    let format = match query.format.as_deref() {
        None | Some("csv") => Format::Csv,
        Some("jsonl") => Format::Jsonl,
        Some(_) => {
            let error = Error::new(ErrorCode::InvalidParameter, "'format' must be 'csv' or 'jsonl'.");
            return Err(error.with_param("format").into());
        }
    };
    let account = query::id("account", query.account)?;
    let (from, to) = (
        query::instant("from", query.from)?,
        query::instant("to", query.to)?,
    );
    let running = Running {
        app_state: api.app_state.clone(),
        actor: Actor::admin(&operator.admin, operator.request),
        export: Export::new(kind, format, account, from, to),
    };
    let first = running.export.first();
    // The first step runs before the response starts, so that an invalid request receives an error
    // response.
    let (rows, state) = running.step(first).await?;
    let rest = stream::try_unfold(state, |(running, next)| async move {
        match next {
            Some(page) => {
                let step = running.step(page).await;
                // The response has started, so the error aborts the connection; only the log
                // contains the reason.
                step.map(Some)
                    .inspect_err(|error| tracing::error!(%error, "export aborted"))
            }
            None => Ok(None),
        }
    });
    let body = stream::iter([Ok::<_, Error>(rows)]).chain(rest);
    let (content_type, extension) = match format {
        Format::Csv => ("text/csv; charset=utf-8", "csv"),
        Format::Jsonl => ("application/jsonl", "jsonl"),
    };
    let name = match kind {
        Kind::Transfers => "ledger",
        Kind::Usage => "usage",
    };
    let headers = [
        (CONTENT_TYPE, content_type.to_owned()),
        (
            CONTENT_DISPOSITION,
            format!("attachment; filename=\"{name}.{extension}\""),
        ),
    ];
    Ok((headers, Body::from_stream(body)).into_response())
}

/// A running export.
struct Running {
    app_state: Arc<AppState>,
    actor: Actor,
    export: Export,
}

type Step = (Vec<u8>, (Running, Option<ExportPage>));

impl Running {
    async fn step(mut self, page: ExportPage) -> Result<Step, Error> {
        let reply = self.app_state.operations.execute(&self.actor, page).await?;
        let (rows, next) = self.export.take(&reply)?;
        Ok((rows, (self, next)))
    }
}
