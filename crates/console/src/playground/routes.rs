//! Handlers of saved chats for API keys.

use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use tollgate_edge::list::path_id;
use tollgate_edge::{ApiError, ControlCaller, ErrorBody, Query};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Console;
use crate::chats::SavedChats;
use crate::chats::wire::{ConversationList, WholeConversation};
use crate::usage::wire::{id, page_limit};

/// Returns the routes of saved chats for API keys.
pub fn routes() -> OpenApiRouter<Console> {
    OpenApiRouter::new()
        .routes(routes!(list_conversations))
        .routes(routes!(get_conversation))
}

/// A page of saved chats.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct ConversationsQuery {
    /// Number of conversations per page: 1 to 100, default 20.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// Cursor: the `id` of the previous page's last conversation.
    after: Option<String>,
}

/// Lists the chats that members of the account have saved in the playground, most recently changed
/// first.
#[utoipa::path(
    get, path = "/v1/playground/conversations", tag = "Account", operation_id = "list_conversations",
    params(ConversationsQuery),
    responses((status = 200, body = ConversationList), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn list_conversations(
    ControlCaller(caller): ControlCaller,
    State(chats): State<SavedChats>,
    Query(query): Query<ConversationsQuery>,
) -> Result<Json<ConversationList>, ApiError> {
    let (after, limit) = (id("after", query.after)?, page_limit(query.limit)?);
    Ok(Json(
        chats.conversations(caller.account_id(), after, limit).await?,
    ))
}

/// Returns a saved chat with its messages.
#[utoipa::path(
    get, path = "/v1/playground/conversations/{id}", tag = "Account", operation_id = "get_conversation",
    params(("id" = String, Path, description = "Id of the conversation: `chat_…`.")),
    responses((status = 200, body = WholeConversation), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn get_conversation(
    ControlCaller(caller): ControlCaller,
    State(chats): State<SavedChats>,
    Path(id): Path<String>,
) -> Result<Json<WholeConversation>, ApiError> {
    let id = path_id(&id, "conversation")?;
    Ok(Json(chats.conversation(caller.account_id(), id).await?))
}
