//! Endpoint for the models of the catalog.

use axum::Json;
use axum::extract::State;
use tollgate_edge::list::List;
use tollgate_edge::{ApiError, ErrorBody, Operator};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AdminApi;
use tollgate_operations::ListModels;
use tollgate_operations::view::ModelView;

/// Returns the router of this group.
pub(super) fn routes() -> OpenApiRouter<AdminApi> {
    OpenApiRouter::new().routes(routes!(list_models))
}

/// Lists the available models with their prices and targets.
#[utoipa::path(
    get, path = "/admin/v1/models", tag = "Providers", operation_id = "list_models",
    responses((status = 200, body = List<ModelView>), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn list_models(
    operator: Operator,
    State(api): State<AdminApi>,
) -> Result<Json<List<ModelView>>, ApiError> {
    let models = api.perform(&operator, ListModels).await?;
    Ok(Json(List::whole(models)))
}
