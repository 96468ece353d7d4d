//! HTTP handlers of the Files API.

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

use super::upload::MAX_FORM_BYTES;
use super::wire::{CreateFile, DeletedFile, FileBody, FileList, FilesQuery, Page};
use super::{service, upload};
use crate::Inference;

/// Returns the router of `/v1/files`.
pub fn routes() -> OpenApiRouter<Inference> {
    OpenApiRouter::new()
        .routes(routes!(create_file, list_files))
        .routes(routes!(get_file, delete_file))
        .routes(routes!(get_file_content))
}

/// Uploads a file for use in later requests.
///
/// The body is a multipart form; the file may have up to 512 MiB. Requests with the
/// `anthropic-version` header receive the response in the shape of Anthropic's Files API.
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
    form: Upload<MAX_FORM_BYTES>,
) -> Result<Json<FileBody>, ApiError> {
    let file = upload::receive(&inference.files, &caller.account, form, ctx.dialect).await?;
    Ok(Json(FileBody::of(file, ctx.dialect)))
}

/// Lists the files of the account, one page at a time.
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
    let page = Page::read(pairs, ctx.dialect)?;
    let (files, has_more) = service::list(&inference.files, caller.account_id(), page).await?;
    Ok(Json(FileList::of(files, has_more, ctx.dialect)))
}

/// Returns the metadata of a file.
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
    Ok(Json(FileBody::of(file, ctx.dialect)))
}

/// Deletes a file.
///
/// Requests can no longer use its id. The content is erased shortly afterwards. A file that an
/// unfinished batch needs cannot be deleted (status 409).
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
    Ok(Json(DeletedFile::of(id, ctx.dialect)))
}

/// Returns the content of a file, or with the `Range` header a part of it.
#[utoipa::path(
    get, path = "/v1/files/{file_id}/content", tag = "Files", operation_id = "get_file_content",
    params(("file_id" = String, Path, description = "Id of the file")),
    responses(
        (status = 200, description = "The complete content of the file", content_type = "application/octet-stream", body = Vec<u8>),
        (status = 206, description = "The requested byte range", content_type = "application/octet-stream", body = Vec<u8>),
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
