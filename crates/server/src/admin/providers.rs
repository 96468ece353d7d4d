//! Endpoint for providers and their health, as this node sees them.

use axum::Json;
use axum::extract::State;
use tollgate_edge::list::List;
use tollgate_edge::{ApiError, ErrorBody, Operator};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AdminApi;
use tollgate_operations::ListProviders;
use tollgate_operations::view::providers::ProviderView;

/// Returns the router of this group.
pub(super) fn routes() -> OpenApiRouter<AdminApi> {
    OpenApiRouter::new().routes(routes!(list_providers))
}

/// Lists providers with their models. The health of a model reflects only the calls of the node
/// that responds.
#[utoipa::path(
    get, path = "/admin/v1/providers", tag = "Providers", operation_id = "list_providers",
    responses((status = 200, body = List<ProviderView>), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn list_providers(
    operator: Operator,
    State(api): State<AdminApi>,
) -> Result<Json<List<ProviderView>>, ApiError> {
    let providers = api.perform(&operator, ListProviders).await?;
    Ok(Json(List::whole(providers)))
}
