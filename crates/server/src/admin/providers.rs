//! Providers and their health, as this server sees them.

use axum::Json;
use axum::extract::State;
use tollgate_edge::{ApiError, ErrorBody, Operator};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AdminApi;
use super::answer::{List, carried_out};
use crate::control::Command;
use crate::control::view::providers::ProviderView;

/// The routes of this group.
pub(super) fn routes() -> OpenApiRouter<AdminApi> {
    OpenApiRouter::new().routes(routes!(list_providers))
}

/// Providers in use, which models they have, and how the last calls went. Each server knows of its own calls alone.
#[utoipa::path(
    get, path = "/admin/v1/providers", tag = "Providers", operation_id = "list_providers",
    responses((status = 200, body = List<ProviderView>), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn list_providers(
    operator: Operator,
    State(api): State<AdminApi>,
) -> Result<Json<List<ProviderView>>, ApiError> {
    let providers = carried_out!(api, operator, Command::ListProviders, Providers);
    Ok(Json(List::whole(providers)))
}
