//! Handlers of saved chats for sessions.

use std::collections::VecDeque;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Deserialize;
use tollgate_edge::list::{Done, path_id};
use tollgate_edge::object_body::{self, ObjectBody};
use tollgate_edge::session::MemberSession;
use tollgate_edge::{ApiError, ErrorBody, JsonBody, Query};
use tollgate_operations::{MemberPermission, check_not_suspended};
use tollgate_types::{ChatId, Error, ErrorCode};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::service::Editor;
use super::wire::{ChatBody, ChatList, ChatPatch, ChatPut, Deleted, WholeChat};
use crate::ConsoleApi;
use crate::usage::wire::{id, page_limit};

/// Maximum size of the body of a save: a chat of the maximum size in one save.
const MAX_BODY: usize = 5 << 20;
/// Maximum length of a search in characters.
const MAX_SEARCH_CHARS: usize = 200;

/// Returns the routes of saved chats.
pub fn routes() -> OpenApiRouter<ConsoleApi> {
    OpenApiRouter::new()
        .routes(routes!(list_chats, delete_chats))
        .routes(routes!(export_chats))
        .routes(routes!(get_chat, save_chat, rename_chat, delete_chat))
}

/// Checks that the member may read contents.
fn check_reader(session: &MemberSession) -> Result<(), Error> {
    MemberPermission::Use.check(session.member.role)
}

/// Checks that the member may change contents.
fn check_writer(session: &MemberSession) -> Result<Editor, Error> {
    check_reader(session)?;
    check_not_suspended(&session.account)?;
    Ok(Editor {
        member: session.member.id,
        is_manager: MemberPermission::Manage.check(session.member.role).is_ok(),
    })
}

fn chat_id(text: &str) -> Result<ChatId, Error> {
    path_id(text, "chat")
}

/// A page of saved chats.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct ChatsQuery {
    /// Filter by a part of the title, in upper or lower case.
    search: Option<String>,
    /// Number of chats per page: 1 to 100, default 20.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// Cursor: the `id` of the previous page's last chat.
    after: Option<String>,
}

/// Lists the saved chats of the account, most recently changed first. Roles that read no contents
/// cannot use any path of saved chats.
#[utoipa::path(
    get, path = "/console/api/v1/chats", tag = "Chats", operation_id = "list_chats", params(ChatsQuery),
    responses((status = 200, body = ChatList), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn list_chats(
    session: MemberSession,
    State(console): State<ConsoleApi>,
    Query(query): Query<ChatsQuery>,
) -> Result<Json<ChatList>, ApiError> {
    check_reader(&session)?;
    let search = query.search.unwrap_or_default();
    if search.chars().count() > MAX_SEARCH_CHARS {
        let message = "'search' must have at most 200 characters.";
        return Err(Error::new(ErrorCode::InvalidParameter, message)
            .with_param("search")
            .into());
    }
    let (after, limit) = (id("after", query.after)?, page_limit(query.limit)?);
    Ok(Json(
        console
            .chats
            .list(&session.account, after, limit, &search)
            .await?,
    ))
}

/// Returns a saved chat with its turns.
#[utoipa::path(
    get, path = "/console/api/v1/chats/{id}", tag = "Chats", operation_id = "get_chat",
    params(("id" = String, Path, description = "Id of the chat: `chat_…`.")),
    responses((status = 200, body = WholeChat), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn get_chat(
    session: MemberSession,
    State(console): State<ConsoleApi>,
    Path(id): Path<String>,
) -> Result<Json<WholeChat>, ApiError> {
    check_reader(&session)?;
    Ok(Json(console.chats.get(session.account.id, chat_id(&id)?).await?))
}

/// Saves a chat. The client chooses the id of a new chat: `chat_` and a UUIDv7 in hexadecimal. A
/// repeated save returns the same result. Fails with `conflict` if the chat has another revision,
/// with `chat_limit_reached` if the account has too many chats, and with `request_too_large` if the
/// chat would have more than 500 turns or 4 MiB. Only the member who saved the chat first, admins
/// and owners may change it.
#[utoipa::path(
    put, path = "/console/api/v1/chats/{id}", tag = "Chats", operation_id = "save_chat",
    params(("id" = String, Path, description = "Id of the chat: `chat_…`.")), request_body = ChatPut,
    responses((status = 200, body = ChatBody), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn save_chat(
    session: MemberSession,
    State(console): State<ConsoleApi>,
    Path(id): Path<String>,
    JsonBody(body): JsonBody<MAX_BODY>,
) -> Result<Json<ChatBody>, ApiError> {
    let editor = check_writer(&session)?;
    let (id, put) = (chat_id(&id)?, object_body::read::<ChatPut>(&body)?);
    Ok(Json(console.chats.save(&session.account, id, editor, put).await?))
}

/// Renames a chat. Its revision stays unchanged.
#[utoipa::path(
    patch, path = "/console/api/v1/chats/{id}", tag = "Chats", operation_id = "rename_chat",
    params(("id" = String, Path, description = "Id of the chat: `chat_…`.")), request_body = ChatPatch,
    responses((status = 200, body = ChatBody), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn rename_chat(
    session: MemberSession,
    State(console): State<ConsoleApi>,
    Path(id): Path<String>,
    ObjectBody(ChatPatch { title }): ObjectBody<ChatPatch>,
) -> Result<Json<ChatBody>, ApiError> {
    let editor = check_writer(&session)?;
    let (account, id) = (session.account.id, chat_id(&id)?);
    Ok(Json(console.chats.rename(account, id, editor, &title).await?))
}

/// Deletes a chat immediately.
#[utoipa::path(
    delete, path = "/console/api/v1/chats/{id}", tag = "Chats", operation_id = "delete_chat",
    params(("id" = String, Path, description = "Id of the chat: `chat_…`.")),
    responses((status = 200, body = Done), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn delete_chat(
    session: MemberSession,
    State(console): State<ConsoleApi>,
    Path(id): Path<String>,
) -> Result<Json<Done>, ApiError> {
    let editor = check_writer(&session)?;
    console
        .chats
        .delete(session.account.id, chat_id(&id)?, editor)
        .await?;
    Ok(Json(Done { done: true }))
}

/// Deletes all chats that the member has saved; all chats of the account for admins and owners.
#[utoipa::path(
    delete, path = "/console/api/v1/chats", tag = "Chats", operation_id = "delete_chats",
    responses((status = 200, body = Deleted), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn delete_chats(
    session: MemberSession,
    State(console): State<ConsoleApi>,
) -> Result<Json<Deleted>, ApiError> {
    let editor = check_writer(&session)?;
    let deleted = console.chats.delete_all(session.account.id, editor).await?;
    Ok(Json(Deleted { deleted }))
}

/// Exports all chats of the account as JSON lines: one chat with its turns in each line.
#[utoipa::path(
    get, path = "/console/api/v1/chats/export", tag = "Chats", operation_id = "export_chats",
    responses((status = 200, content((String = "application/jsonl"))), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn export_chats(
    session: MemberSession,
    State(console): State<ConsoleApi>,
) -> Result<Response, ApiError> {
    check_reader(&session)?;
    let (account, chats) = (session.account.id, console.chats);
    // The list is read first, because chats that change move to its beginning.
    let mut ids = VecDeque::new();
    loop {
        let next = chats.ids_after(account, ids.back().copied()).await?;
        if next.is_empty() {
            break;
        }
        ids.extend(next);
    }
    let lines = stream::try_unfold((chats, ids), move |(chats, mut ids)| async move {
        while let Some(id) = ids.pop_front() {
            let chat = match chats.get(account, id).await {
                Ok(chat) => chat,
                // The chat was deleted during the export.
                Err(error) if error.code == ErrorCode::NotFound => continue,
                Err(error) => return Err(error),
            };
            let mut line = serde_json::to_vec(&chat).map_err(Error::internal)?;
            line.push(b'\n');
            return Ok(Some((Bytes::from(line), (chats, ids))));
        }
        Ok(None)
    });
    let headers = [
        (CONTENT_TYPE, "application/jsonl"),
        (CONTENT_DISPOSITION, "attachment; filename=\"chats.jsonl\""),
    ];
    Ok((headers, Body::from_stream(lines)).into_response())
}
