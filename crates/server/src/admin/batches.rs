//! Endpoints for batches of all accounts.

use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use tollgate_edge::list::List;
use tollgate_edge::{ApiError, ErrorBody, Operator, Query};
use tollgate_types::{BatchId, Error, ErrorCode, MessageBatchId};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AdminApi;
use super::query;
use tollgate_operations::batches::BatchView;
use tollgate_operations::{ListBatches, ShowBatch};

/// Returns the router of this group.
pub(super) fn routes() -> OpenApiRouter<AdminApi> {
    OpenApiRouter::new()
        .routes(routes!(list_batches))
        .routes(routes!(get_batch))
}

/// Query parameters of the list of batches.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct BatchesQuery {
    /// Only batches of this account (default: all).
    account: Option<String>,
    /// Maximum number of batches per page, 1 to 100 (default: 20).
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// The `id` of the last batch of the previous page.
    after: Option<String>,
}

/// Lists batches of one account or of all with their progress, newest first.
#[utoipa::path(
    get, path = "/admin/v1/batches", tag = "Batches", operation_id = "list_batches",
    params(BatchesQuery),
    responses((status = 200, body = List<BatchView>), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn list_batches(
    operator: Operator,
    State(api): State<AdminApi>,
    Query(query): Query<BatchesQuery>,
) -> Result<Json<List<BatchView>>, ApiError> {
    let limit = query::limit(query.limit)?;
    let before = query.after.as_deref().map(batch_id).transpose();
    let unknown = |_| {
        let message = "'after' is not the id of a batch.";
        Error::new(ErrorCode::InvalidParameter, message).with_param("after")
    };
    let command = ListBatches {
        account: query::id("account", query.account)?,
        before: before.map_err(unknown)?,
        limit: limit + 1,
    };
    let found = api.perform(&operator, command).await?;
    Ok(Json(List::page(found, limit)))
}

/// Returns a batch of any account.
#[utoipa::path(
    get, path = "/admin/v1/batches/{id}", tag = "Batches", operation_id = "get_batch",
    params(("id" = String, Path, description = "Id of the batch.")),
    responses((status = 200, body = BatchView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn get_batch(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(id): Path<String>,
) -> Result<Json<BatchView>, ApiError> {
    let id = batch_id(&id).map_err(|()| Error::new(ErrorCode::NotFound, "The batch does not exist."))?;
    Ok(Json(api.perform(&operator, ShowBatch { id }).await?))
}

/// Parses the id of a batch of either API: `batch_…` or `msgbatch_…`.
fn batch_id(text: &str) -> Result<BatchId, ()> {
    let of_messages = |_| {
        text.parse::<MessageBatchId>()
            .map(|id| BatchId::from_u128(id.as_u128()))
    };
    text.parse().or_else(of_messages).map_err(|_| ())
}
