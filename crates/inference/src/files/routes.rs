//! Handlers.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::response::Response;
use tollgate_edge::context::Context;
use tollgate_edge::object::{self, Object};
use tollgate_edge::{ApiError, ControlCaller, ErrorBody, Query, Upload, WorkCaller};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::upload::MOST_FORM;
use super::wire::{CreateFile, DeletedFile, FileBody, FileList, FilesQuery, Page};
use super::{service, upload};
use crate::Inference;

/// The routes of this group.
pub fn routes() -> OpenApiRouter<Inference> {
    OpenApiRouter::new()
        .routes(routes!(create_file, list_files))
        .routes(routes!(get_file, delete_file))
        .routes(routes!(get_file_content))
}

/// Keeps a file, which requests then name by its id. It comes as a form, and may have 512 MiB. With `anthropic-version` the file is
/// told of in the shape that Anthropic's clients know.
#[utoipa::path(
    post, path = "/v1/files", tag = "Files", operation_id = "create_file",
    request_body(content = CreateFile, content_type = "multipart/form-data"),
    responses((status = 200, body = FileBody), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn create_file(
    WorkCaller(caller): WorkCaller,
    Context(ctx): Context,
    State(inference): State<Inference>,
    form: Upload<MOST_FORM>,
) -> Result<Json<FileBody>, ApiError> {
    let file = upload::receive(&inference.files, &caller.account, form, ctx.family).await?;
    Ok(Json(FileBody::of(file, ctx.family)))
}

/// Files of the account, page by page.
#[utoipa::path(
    get, path = "/v1/files", tag = "Files", operation_id = "list_files",
    params(FilesQuery),
    responses((status = 200, body = FileList), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn list_files(
    ControlCaller(caller): ControlCaller,
    Context(ctx): Context,
    State(inference): State<Inference>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Json<FileList>, ApiError> {
    let page = Page::read(pairs, ctx.family)?;
    let (files, has_more) = service::list(&inference.files, caller.account_id(), page).await?;
    Ok(Json(FileList::of(files, has_more, ctx.family)))
}

/// What is known of a file.
#[utoipa::path(
    get, path = "/v1/files/{file_id}", tag = "Files", operation_id = "get_file",
    params(("file_id" = String, Path, description = "Id of the file")),
    responses((status = 200, body = FileBody), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn get_file(
    ControlCaller(caller): ControlCaller,
    Context(ctx): Context,
    State(inference): State<Inference>,
    Path(id): Path<String>,
) -> Result<Json<FileBody>, ApiError> {
    let file = inference.files.get(caller.account_id(), &id, "file_id").await?;
    Ok(Json(FileBody::of(file, ctx.family)))
}

/// Deletes a file. Requests cannot name it any more; its bytes are gone soon after.
#[utoipa::path(
    delete, path = "/v1/files/{file_id}", tag = "Files", operation_id = "delete_file",
    params(("file_id" = String, Path, description = "Id of the file")),
    responses((status = 200, body = DeletedFile), (status = "default", body = ErrorBody)),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn delete_file(
    ControlCaller(caller): ControlCaller,
    Context(ctx): Context,
    State(inference): State<Inference>,
    Path(id): Path<String>,
) -> Result<Json<DeletedFile>, ApiError> {
    service::delete(&inference.files, &inference.batches, caller.account_id(), &id).await?;
    Ok(Json(DeletedFile::of(id, ctx.family)))
}

/// The bytes of a file, or with `range` a part of them.
#[utoipa::path(
    get, path = "/v1/files/{file_id}/content", tag = "Files", operation_id = "get_file_content",
    params(("file_id" = String, Path, description = "Id of the file")),
    responses(
        (status = 200, description = "The file", content_type = "application/octet-stream", body = Vec<u8>),
        (status = 206, description = "A part of it", content_type = "application/octet-stream", body = Vec<u8>),
        (status = "default", body = ErrorBody)
    ),
    security(("bearer" = []), ("x-api-key" = []))
)]
async fn get_file_content(
    ControlCaller(caller): ControlCaller,
    State(inference): State<Inference>,
    Path(id): Path<String>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let file = inference.files.get(caller.account_id(), &id, "file_id").await?;
    let object = Object {
        bytes: file.bytes,
        sha256: &file.sha256,
        media_type: &file.media_type,
        disposition: "attachment",
        filename: &file.filename,
    };
    let open = async |range| inference.files.open(&file, range).await;
    let mut response = object::respond(&object, &method, &headers, open).await?;
    let private = HeaderValue::from_static("private, no-store");
    response.headers_mut().insert(CACHE_CONTROL, private);
    Ok(response)
}
