//! Endpoints for current prices, their history, and the check of new prices.

use axum::Json;
use axum::extract::{Path, State};
use tollgate_edge::list::List;
use tollgate_edge::object_body::{Members, ObjectBody, Read};
use tollgate_edge::{ApiError, ErrorBody, Operator};
use tollgate_types::Error;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AdminApi;
use tollgate_operations::view::prices::{PriceChangeView, PriceCheckView, PriceView};
use tollgate_operations::{CheckPrices, ListPrices, ShowPrices};

/// Returns the router of this group.
pub(super) fn routes() -> OpenApiRouter<AdminApi> {
    OpenApiRouter::new()
        .routes(routes!(list_prices))
        .routes(routes!(get_price_history))
        .routes(routes!(check_prices))
}

/// Lists the current prices of every model that has or had prices.
#[utoipa::path(
    get, path = "/admin/v1/prices", tag = "Prices", operation_id = "list_prices",
    responses((status = 200, body = List<PriceView>), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn list_prices(
    operator: Operator,
    State(api): State<AdminApi>,
) -> Result<Json<List<PriceView>>, ApiError> {
    let prices = api.perform(&operator, ListPrices).await?;
    Ok(Json(List::whole(prices)))
}

/// Returns the last 100 price changes of a model, newest first.
#[utoipa::path(
    get, path = "/admin/v1/prices/{*model}", tag = "Prices", operation_id = "get_price_history",
    params(("model" = String, Path, description = "The model's id, slashes included.")),
    responses((status = 200, body = List<PriceChangeView>), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn get_price_history(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(model): Path<String>,
) -> Result<Json<List<PriceChangeView>>, ApiError> {
    let command = ShowPrices { model };
    let changes = api.perform(&operator, command).await?;
    Ok(Json(List::whole(changes)))
}

/// Options of the price check.
#[derive(Debug, ToSchema)]
struct PriceCheck {
    /// Whether to accept the new prices, so that the next reload applies them (default: false).
    force: Option<bool>,
}

impl Read for PriceCheck {
    fn read(members: &mut Members) -> Result<Self, Error> {
        let force = members.optional("force", "true or false")?;
        Ok(Self { force })
    }
}

/// Compares the prices in the server's settings file with the current ones.
#[utoipa::path(
    post, path = "/admin/v1/price-checks", tag = "Prices", operation_id = "check_prices", request_body = PriceCheck,
    responses((status = 200, body = PriceCheckView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn check_prices(
    operator: Operator,
    State(api): State<AdminApi>,
    ObjectBody(check): ObjectBody<PriceCheck>,
) -> Result<Json<PriceCheckView>, ApiError> {
    let command = CheckPrices {
        proposed: api
            .settings
            .prices(&api.app_state.provider_status.entries())
            .await?,
        force: check.force.unwrap_or(false),
    };
    Ok(Json(api.perform(&operator, command).await?))
}
