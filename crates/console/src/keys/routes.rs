//! Handlers of API keys.

use axum::Json;
use axum::extract::{Path, State};
use tollgate_edge::list::{List, path_id};
use tollgate_edge::object_body::{Members, ObjectBody, Read};
use tollgate_edge::session::MemberSession;
use tollgate_edge::{ApiError, ErrorBody};
use tollgate_operations::view::{CreatedKeyView, KeyView};
use tollgate_operations::{ChangeKey, CreateKey, ListKeys, RevokeKey, RotateKey, Selection};
use tollgate_storage::{Compat, KeyMode};
use tollgate_types::Error;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::ConsoleApi;

const COMPAT: &str = "'strict', 'standard' or 'lenient'";
const MODELS: &str = "an array of model ids and patterns such as 'acme/*', or null for all models";
const SCOPES: &str = "an array of scopes, or null for all scopes";

/// Returns the routes of API keys.
pub fn routes() -> OpenApiRouter<ConsoleApi> {
    OpenApiRouter::new()
        .routes(routes!(list_keys, create_key))
        .routes(routes!(change_key, revoke_key))
        .routes(routes!(rotate_key))
}

/// Lists the keys of the account, including expired, replaced and revoked ones.
#[utoipa::path(
    get, path = "/console/api/v1/keys", tag = "Keys", operation_id = "list_keys",
    responses((status = 200, body = List<KeyView>), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn list_keys(
    session: MemberSession,
    State(console): State<ConsoleApi>,
) -> Result<Json<List<KeyView>>, ApiError> {
    let account = session.account.id;
    let Json(keys) = console.perform(&session, ListKeys { account }).await?;
    Ok(Json(List::whole(keys)))
}

/// A key to create.
#[derive(ToSchema)]
struct NewKey {
    /// Display name: 1 to 100 characters.
    name: String,
    /// Days until the key expires, 1 to 36500; never if omitted.
    expires_in_days: Option<u32>,
    /// Compatibility level: `strict`, `standard` (default) or `lenient`.
    #[schema(value_type = Option<String>)]
    compat: Option<Compat>,
    /// `live` (default) or `test`. Test keys reach only simulated models and spend no credits.
    #[schema(value_type = Option<String>)]
    mode: Option<KeyMode>,
    /// Whether image requests wait for the images by default instead of returning a job.
    sync: Option<bool>,
    /// Models that the key may use, 1 to 100: ids such as `acme/large`, and patterns such as
    /// `acme/*`. All models if omitted or null.
    models: Option<Vec<String>>,
    /// Scopes of the key: `text`, `embeddings`, `images`, `video`, `audio`, `decisions`,
    /// `research`, `realtime`, `files`, `batches`, `gpu`, `agents`, `account` and `webhooks`. All
    /// scopes if omitted or null; `webhooks` requires the role `admin`.
    scopes: Option<Vec<String>>,
}

impl Read for NewKey {
    fn read(members: &mut Members) -> Result<Self, Error> {
        Ok(Self {
            name: members.required("name", "a string of 1 to 100 characters")?,
            expires_in_days: members.optional("expires_in_days", "a whole number of days from 1")?,
            compat: members.word("compat", COMPAT, Compat::parse)?,
            mode: members.word("mode", "'live' or 'test'", KeyMode::parse)?,
            sync: members.optional("sync", "true or false")?,
            models: members.optional("models", MODELS)?,
            scopes: members.optional("scopes", SCOPES)?,
        })
    }
}

/// Creates a key and returns it. The key is returned only once.
#[utoipa::path(
    post, path = "/console/api/v1/keys", tag = "Keys", operation_id = "create_key", request_body = NewKey,
    responses((status = 200, body = CreatedKeyView), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn create_key(
    session: MemberSession,
    State(console): State<ConsoleApi>,
    ObjectBody(new): ObjectBody<NewKey>,
) -> Result<Json<CreatedKeyView>, ApiError> {
    let command = CreateKey {
        account: session.account.id,
        name: new.name,
        expires_in_days: new.expires_in_days,
        compat: new.compat.map(|compat| compat.as_str().to_owned()),
        test: new.mode == Some(KeyMode::Test),
        sync: new.sync == Some(true),
        models: new.models.into(),
        scopes: new.scopes.into(),
    };
    console.perform(&session, command).await
}

/// Changes to a key. Omitted fields stay unchanged.
#[derive(ToSchema)]
struct KeyPatch {
    /// Display name: 1 to 100 characters.
    name: Option<String>,
    /// Compatibility level: `strict`, `standard` or `lenient`.
    #[schema(value_type = Option<String>)]
    compat: Option<Compat>,
    /// Whether image requests wait for the images by default instead of returning a job.
    sync: Option<bool>,
    /// Models that the key may use, as at its creation; null for all.
    #[schema(value_type = Option<Vec<String>>)]
    models: Option<Option<Vec<String>>>,
    /// Scopes of the key, as at its creation; null for all.
    #[schema(value_type = Option<Vec<String>>)]
    scopes: Option<Option<Vec<String>>>,
}

impl Read for KeyPatch {
    fn read(members: &mut Members) -> Result<Self, Error> {
        Ok(Self {
            name: members.optional("name", "a string of 1 to 100 characters")?,
            compat: members.word("compat", COMPAT, Compat::parse)?,
            sync: members.optional("sync", "true or false")?,
            models: members.nullable("models", MODELS)?,
            scopes: members.nullable("scopes", SCOPES)?,
        })
    }
}

/// Changes a key. Members with the role `member` can change the keys that they have created.
#[utoipa::path(
    patch, path = "/console/api/v1/keys/{id}", tag = "Keys", operation_id = "change_key",
    params(("id" = String, Path, description = "The key's id, not the key itself.")), request_body = KeyPatch,
    responses((status = 200, body = KeyView), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn change_key(
    session: MemberSession,
    State(console): State<ConsoleApi>,
    Path(id): Path<String>,
    ObjectBody(patch): ObjectBody<KeyPatch>,
) -> Result<Json<KeyView>, ApiError> {
    let command = ChangeKey {
        id: path_id(&id, "key")?,
        account: Some(session.account.id),
        name: patch.name,
        compat: patch.compat.map(|compat| compat.as_str().to_owned()),
        sync: patch.sync,
        models: patch.models.map(Selection::from),
        scopes: patch.scopes.map(Selection::from),
    };
    console.perform(&session, command).await
}

/// Revokes a key permanently. Members with the role `member` can revoke the keys that they have
/// created.
#[utoipa::path(
    delete, path = "/console/api/v1/keys/{id}", tag = "Keys", operation_id = "revoke_key",
    params(("id" = String, Path, description = "The key's id, not the key itself.")),
    responses((status = 200, body = KeyView), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn revoke_key(
    session: MemberSession,
    State(console): State<ConsoleApi>,
    Path(id): Path<String>,
) -> Result<Json<KeyView>, ApiError> {
    let command = RevokeKey {
        id: path_id(&id, "key")?,
        account: Some(session.account.id),
    };
    console.perform(&session, command).await
}

/// The replacement of a key.
#[derive(ToSchema)]
struct Rotation {
    /// Hours for which the old key still works: 0 to 720.
    overlap_hours: u32,
}

impl Read for Rotation {
    fn read(members: &mut Members) -> Result<Self, Error> {
        Ok(Self {
            overlap_hours: members.required("overlap_hours", "a whole number of hours from 0 to 720")?,
        })
    }
}

/// Replaces a key by a new one with the same settings, and returns the new key once. It takes the
/// place of the old key among the keys of the account, so an account with the maximum number of
/// keys can rotate them. Members with the role `member` can rotate the keys that they have created.
#[utoipa::path(
    post, path = "/console/api/v1/keys/{id}/rotate", tag = "Keys", operation_id = "rotate_key",
    params(("id" = String, Path, description = "The key's id, not the key itself.")), request_body = Rotation,
    responses((status = 200, body = CreatedKeyView), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn rotate_key(
    session: MemberSession,
    State(console): State<ConsoleApi>,
    Path(id): Path<String>,
    ObjectBody(Rotation { overlap_hours }): ObjectBody<Rotation>,
) -> Result<Json<CreatedKeyView>, ApiError> {
    let command = RotateKey {
        id: path_id(&id, "key")?,
        account: session.account.id,
        overlap_hours,
    };
    console.perform(&session, command).await
}
