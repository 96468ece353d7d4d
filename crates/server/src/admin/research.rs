//! Endpoints for research jobs of all accounts, and for the sources of research.

use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use tollgate_edge::list::List;
use tollgate_edge::{ApiError, ErrorBody, Operator, Query};
use tollgate_types::{Error, ErrorCode};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AdminApi;
use super::query;
use tollgate_operations::research::{ResearchJobView, SourcesView};
use tollgate_operations::{ListResearchJobs, ShowResearchJob, ShowResearchSources};

/// Returns the router of this group.
pub(super) fn routes() -> OpenApiRouter<AdminApi> {
    OpenApiRouter::new()
        .routes(routes!(list_research_jobs))
        .routes(routes!(get_research_job))
        .routes(routes!(get_research_sources))
}

/// Query parameters of the list of research jobs.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ResearchJobsQuery {
    /// Only jobs of this account (default: all).
    account: Option<String>,
    /// Maximum number of jobs per page, 1 to 100 (default: 20).
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// The `id` of the last job of the previous page.
    after: Option<String>,
}

/// Lists queued and running research jobs of one account or of all, newest first.
#[utoipa::path(
    get, path = "/admin/v1/research/jobs", tag = "Research", operation_id = "list_research_jobs",
    params(ResearchJobsQuery),
    responses((status = 200, body = List<ResearchJobView>), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn list_research_jobs(
    operator: Operator,
    State(api): State<AdminApi>,
    Query(query): Query<ResearchJobsQuery>,
) -> Result<Json<List<ResearchJobView>>, ApiError> {
    let limit = query::limit(query.limit)?;
    let command = ListResearchJobs {
        account: query::id("account", query.account)?,
        before: query::id("after", query.after)?,
        limit: limit + 1,
    };
    let found = api.perform(&operator, command).await?;
    Ok(Json(List::page(found, limit)))
}

/// Returns a research job of any account, ended or not.
#[utoipa::path(
    get, path = "/admin/v1/research/jobs/{id}", tag = "Research", operation_id = "get_research_job",
    params(("id" = String, Path, description = "Id of the job.")),
    responses((status = 200, body = ResearchJobView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn get_research_job(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(id): Path<String>,
) -> Result<Json<ResearchJobView>, ApiError> {
    let id = id
        .parse()
        .map_err(|_| Error::new(ErrorCode::NotFound, "The research job does not exist."))?;
    Ok(Json(api.perform(&operator, ShowResearchJob { id }).await?))
}

/// Returns the web search services with their health, and the corpora with their indexes, of the
/// node that responds.
#[utoipa::path(
    get, path = "/admin/v1/research/sources", tag = "Research", operation_id = "get_research_sources",
    responses((status = 200, body = SourcesView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn get_research_sources(
    operator: Operator,
    State(api): State<AdminApi>,
) -> Result<Json<SourcesView>, ApiError> {
    Ok(Json(api.perform(&operator, ShowResearchSources).await?))
}
