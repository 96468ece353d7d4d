//! Endpoints for accounts, their limits and keys.

use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tollgate_edge::list::{List, path_id};
use tollgate_edge::object_body::{Members, ObjectBody, Read, missing};
use tollgate_edge::{ApiError, ErrorBody, Operator, Query};
use tollgate_storage::{AccountState, Compat, KeyMode};
use tollgate_types::{Error, Timestamp};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AdminApi;
use super::query;
use tollgate_operations::view::{AccountView, CreatedKeyView, KeyView};
use tollgate_operations::{
    AccountUpdate, AdvanceClock, ChangeAccount, ChangeKey, CloseAccount, CreateAccount, CreateKey,
    ListAccounts, ListKeys, NewLimit, RevokeKey, RotateKey, Selection, ShowAccount,
};

/// Returns the router of this group.
pub(super) fn routes() -> OpenApiRouter<AdminApi> {
    OpenApiRouter::new()
        .routes(routes!(list_accounts, create_account))
        .routes(routes!(get_account, change_account))
        .routes(routes!(close_account))
        .routes(routes!(advance_clock))
        .routes(routes!(list_keys, create_key))
        .routes(routes!(change_key, revoke_key))
        .routes(routes!(rotate_key))
}

/// Query parameters of the list of accounts.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct AccountsQuery {
    /// Maximum number of accounts per page, 1 to 100 (default: 20).
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// The `id` of the last account of the previous page.
    after: Option<String>,
    /// Only accounts whose names contain this text, ignoring case.
    name: Option<String>,
}

/// Lists accounts, oldest first.
#[utoipa::path(
    get, path = "/admin/v1/accounts", tag = "Accounts", operation_id = "list_accounts", params(AccountsQuery),
    responses((status = 200, body = List<AccountView>), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn list_accounts(
    operator: Operator,
    State(api): State<AdminApi>,
    Query(query): Query<AccountsQuery>,
) -> Result<Json<List<AccountView>>, ApiError> {
    let limit = query::limit(query.limit)?;
    let command = ListAccounts {
        after: query::id("after", query.after)?,
        limit: Some(limit + 1),
        name: query.name,
    };
    let accounts = api.perform(&operator, command).await?;
    Ok(Json(List::page(accounts, limit)))
}

/// An account to create.
#[derive(Debug, ToSchema)]
struct NewAccount {
    /// Display name (1–200 characters).
    name: String,
    /// Whether the account has a test clock (default: false).
    #[schema(nullable = false)]
    test_clock: Option<bool>,
}

impl Read for NewAccount {
    fn read(members: &mut Members) -> Result<Self, Error> {
        let name = members.required("name", "a string of 1 to 200 characters")?;
        let test_clock = members.optional("test_clock", "true or false")?;
        Ok(Self { name, test_clock })
    }
}

/// Creates an account without credits or keys.
#[utoipa::path(
    post, path = "/admin/v1/accounts", tag = "Accounts", operation_id = "create_account", request_body = NewAccount,
    responses((status = 200, body = AccountView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn create_account(
    operator: Operator,
    State(api): State<AdminApi>,
    ObjectBody(new): ObjectBody<NewAccount>,
) -> Result<Json<AccountView>, ApiError> {
    let command = CreateAccount {
        name: new.name,
        test_clock: new.test_clock.unwrap_or_default(),
    };
    Ok(Json(api.perform(&operator, command).await?))
}

/// Returns an account with its balance and effective limits.
#[utoipa::path(
    get, path = "/admin/v1/accounts/{id}", tag = "Accounts", operation_id = "get_account",
    params(("id" = String, Path, description = "Id of the account.")),
    responses((status = 200, body = AccountView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn get_account(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
) -> Result<Json<AccountView>, ApiError> {
    let id = path_id(&account, "account")?;
    Ok(Json(api.perform(&operator, ShowAccount { id }).await?))
}

/// Changes to an account. Omitted fields stay unchanged. A limit of null removes the override, so
/// that the default applies.
#[derive(Debug, ToSchema)]
#[expect(
    dead_code,
    reason = "it only documents the body; the handler reads the command's own type"
)]
struct AccountPatch {
    /// Display name (1–200 characters).
    #[schema(nullable = false)]
    name: Option<String>,
    /// `active` or `suspended`.
    #[schema(nullable = false)]
    state: Option<String>,
    /// Maximum number of requests per minute, above 0.
    rpm: Option<u32>,
    /// Maximum number of tokens per minute, above 0.
    tpm: Option<u64>,
    /// Maximum number of unrevoked keys.
    keys: Option<u32>,
    /// Maximum number of concurrent GPUs. Not enforced yet.
    gpus: Option<u32>,
    /// Maximum number of hosted agents. Not enforced yet.
    agents: Option<u32>,
    /// Maximum number of saved chats. Not enforced yet.
    chats: Option<u32>,
    /// Maximum number of stored files.
    files: Option<u32>,
    /// Maximum total size of stored files, in GiB.
    files_gib: Option<u32>,
    /// Maximum sum of the estimated tokens of all unfinished batches.
    batch_tokens: Option<u64>,
}

/// An [`AccountPatch`] that was read from a request body.
#[derive(Debug)]
pub(super) struct ReadUpdate(pub(super) AccountUpdate);

impl Read for ReadUpdate {
    fn read(members: &mut Members) -> Result<Self, Error> {
        let changeable =
            |name: &str| AccountState::parse(name).filter(|state| *state != AccountState::Closed);
        let state = members.word("state", "'active' or 'suspended'", changeable)?;
        let update = AccountUpdate {
            name: members.optional("name", "a string of 1 to 200 characters")?,
            suspended: state.map(|state| state == AccountState::Suspended),
            rpm: limit(members, "rpm")?,
            tpm: limit(members, "tpm")?,
            keys: limit(members, "keys")?,
            gpus: limit(members, "gpus")?,
            agents: limit(members, "agents")?,
            chats: limit(members, "chats")?,
            files: limit(members, "files")?,
            files_gib: limit(members, "files_gib")?,
            batch_tokens: limit(members, "batch_tokens")?,
        };
        Ok(Self(update))
    }
}

/// Changes an account. Either all changes apply, or none.
#[utoipa::path(
    patch, path = "/admin/v1/accounts/{id}", tag = "Accounts", operation_id = "change_account",
    params(("id" = String, Path, description = "Id of the account.")), request_body = AccountPatch,
    responses((status = 200, body = AccountView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn change_account(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
    ObjectBody(ReadUpdate(change)): ObjectBody<ReadUpdate>,
) -> Result<Json<AccountView>, ApiError> {
    let id = path_id(&account, "account")?;
    let command = ChangeAccount { id, change };
    Ok(Json(api.perform(&operator, command).await?))
}

/// Closes a suspended account: revokes its keys and removes its personal data. The ledger, usage
/// rows and statements are retained. Fails with 409 while calls, jobs or subscriptions are open.
#[utoipa::path(
    post, path = "/admin/v1/accounts/{id}/close", tag = "Accounts", operation_id = "close_account",
    params(("id" = String, Path, description = "Id of the account.")),
    responses((status = 200, body = AccountView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn close_account(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
) -> Result<Json<AccountView>, ApiError> {
    let id = path_id(&account, "account")?;
    Ok(Json(api.perform(&operator, CloseAccount { id }).await?))
}

/// New time of a test clock.
#[derive(Debug, ToSchema)]
struct NewTime {
    /// New clock time, at most 366 days ahead: RFC 3339, or a date in UTC.
    #[schema(value_type = String)]
    to: Timestamp,
}

impl Read for NewTime {
    fn read(members: &mut Members) -> Result<Self, Error> {
        let to = members.instant("to")?;
        let to = to.ok_or_else(|| missing("to", "a time such as 2027-01-01T00:00:00Z"))?;
        Ok(Self { to })
    }
}

/// Advances the test clock of an account. The server processes all events that are due until then,
/// in order, before it responds.
#[utoipa::path(
    post, path = "/admin/v1/accounts/{id}/advance", tag = "Accounts", operation_id = "advance_clock",
    params(("id" = String, Path, description = "Id of the account.")), request_body = NewTime,
    responses((status = 200, body = AccountView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn advance_clock(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
    ObjectBody(NewTime { to }): ObjectBody<NewTime>,
) -> Result<Json<AccountView>, ApiError> {
    let account = path_id(&account, "account")?;
    let command = AdvanceClock { account, to };
    Ok(Json(api.perform(&operator, command).await?))
}

/// Lists the keys of an account, including expired and revoked ones.
#[utoipa::path(
    get, path = "/admin/v1/accounts/{id}/keys", tag = "Accounts", operation_id = "list_keys",
    params(("id" = String, Path, description = "Id of the account.")),
    responses((status = 200, body = List<KeyView>), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn list_keys(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
) -> Result<Json<List<KeyView>>, ApiError> {
    let account = path_id(&account, "account")?;
    let keys = api.perform(&operator, ListKeys { account }).await?;
    Ok(Json(List::whole(keys)))
}

/// The values of `compat`, for error messages.
const COMPAT: &str = "'strict', 'standard' or 'lenient'";
/// The values of `models`, for error messages.
const MODELS: &str = "an array of model ids and patterns such as 'acme/*', or null for all models";
/// The values of `scopes`, for error messages.
const SCOPES: &str = "an array of scopes, or null for all scopes";

/// A key to create.
#[derive(Debug, ToSchema)]
struct NewKey {
    /// Display name, such as `staging`: 1 to 100 characters (default: `default`).
    name: Option<String>,
    /// Number of days until the key expires, 1 to 36500 (default: never).
    expires_in_days: Option<u32>,
    /// Compatibility level: `strict`, `standard` (default) or `lenient`. It determines how far
    /// requests are adapted to a model.
    #[schema(value_type = Option<String>)]
    compat: Option<Compat>,
    /// `live` (default) or `test`. Test keys reach only simulated models and spend no credits.
    #[schema(value_type = Option<String>)]
    mode: Option<KeyMode>,
    /// Whether image requests wait for the images by default instead of returning a job (default:
    /// false).
    sync: Option<bool>,
    /// Models that the key may use, 1 to 100: ids such as `acme/large`, and patterns such as
    /// `acme/*` (default: null for all models).
    models: Option<Vec<String>>,
    /// Scopes of the key: `text`, `embeddings`, `images`, `video`, `audio`, `decisions`,
    /// `research`, `realtime`, `files`, `batches`, `gpu`, `agents`, `account` and `webhooks`
    /// (default: null for all scopes).
    scopes: Option<Vec<String>>,
}

impl Read for NewKey {
    fn read(members: &mut Members) -> Result<Self, Error> {
        Ok(Self {
            name: members.optional("name", "a string of 1 to 100 characters")?,
            expires_in_days: members.optional("expires_in_days", "a whole number from 1 to 36500")?,
            compat: members.word("compat", COMPAT, Compat::parse)?,
            mode: members.word("mode", "'live' or 'test'", KeyMode::parse)?,
            sync: members.optional("sync", "true or false")?,
            models: members.optional("models", MODELS)?,
            scopes: members.optional("scopes", SCOPES)?,
        })
    }
}

/// Creates a key and returns it. The key is returned only once; store it now.
#[utoipa::path(
    post, path = "/admin/v1/accounts/{id}/keys", tag = "Accounts", operation_id = "create_key",
    params(("id" = String, Path, description = "Id of the account.")), request_body = NewKey,
    responses((status = 200, body = CreatedKeyView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn create_key(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
    ObjectBody(new): ObjectBody<NewKey>,
) -> Result<Json<CreatedKeyView>, ApiError> {
    let command = CreateKey {
        account: path_id(&account, "account")?,
        name: new.name.unwrap_or_else(|| "default".to_owned()),
        expires_in_days: new.expires_in_days,
        compat: new.compat.map(|compat| compat.as_str().to_owned()),
        test: new.mode == Some(KeyMode::Test),
        sync: new.sync == Some(true),
        models: new.models.into(),
        scopes: new.scopes.into(),
    };
    Ok(Json(api.perform(&operator, command).await?))
}

/// Changes to a key, at least one. Omitted fields stay unchanged.
#[derive(Debug, ToSchema)]
struct KeyPatch {
    /// Compatibility level: `strict`, `standard` or `lenient`. It determines how far requests are
    /// adapted to a model.
    #[schema(value_type = Option<String>)]
    compat: Option<Compat>,
    /// Whether image requests wait for the images by default instead of returning a job.
    sync: Option<bool>,
    /// Models that the key may use, as at its creation; null for all models.
    #[schema(value_type = Option<Vec<String>>)]
    models: Option<Option<Vec<String>>>,
    /// Scopes of the key, as at its creation; null for all scopes.
    #[schema(value_type = Option<Vec<String>>)]
    scopes: Option<Option<Vec<String>>>,
}

impl Read for KeyPatch {
    fn read(members: &mut Members) -> Result<Self, Error> {
        let change = Self {
            compat: members.word("compat", COMPAT, Compat::parse)?,
            sync: members.optional("sync", "true or false")?,
            models: members.nullable("models", MODELS)?,
            scopes: members.nullable("scopes", SCOPES)?,
        };
        match change {
            Self {
                compat: None,
                sync: None,
                models: None,
                scopes: None,
            } => {
                let what = format!("{COMPAT}, unless 'sync', 'models' or 'scopes' is set");
                Err(missing("compat", &what))
            }
            _ => Ok(change),
        }
    }
}

/// Changes the compatibility level or the rights of a key, or whether its image requests wait for
/// the images by default.
#[utoipa::path(
    patch, path = "/admin/v1/keys/{id}", tag = "Accounts", operation_id = "change_key",
    params(("id" = String, Path, description = "The key's id, not the key itself.")), request_body = KeyPatch,
    responses((status = 200, body = KeyView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn change_key(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(key): Path<String>,
    ObjectBody(change): ObjectBody<KeyPatch>,
) -> Result<Json<KeyView>, ApiError> {
    let command = ChangeKey {
        id: path_id(&key, "key")?,
        account: None,
        name: None,
        compat: change.compat.map(|compat| compat.as_str().to_owned()),
        sync: change.sync,
        models: change.models.map(Selection::from),
        scopes: change.scopes.map(Selection::from),
    };
    Ok(Json(api.perform(&operator, command).await?))
}

/// Revokes a key permanently.
#[utoipa::path(
    delete, path = "/admin/v1/keys/{id}", tag = "Accounts", operation_id = "revoke_key",
    params(("id" = String, Path, description = "The key's id, not the key itself.")),
    responses((status = 200, body = KeyView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn revoke_key(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(key): Path<String>,
) -> Result<Json<KeyView>, ApiError> {
    let id = path_id(&key, "key")?;
    let command = RevokeKey { id, account: None };
    Ok(Json(api.perform(&operator, command).await?))
}

/// The replacement of a key.
#[derive(Debug, ToSchema)]
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
/// place of the old key among the keys of the account.
#[utoipa::path(
    post, path = "/admin/v1/accounts/{id}/keys/{key}/rotate", tag = "Accounts", operation_id = "rotate_key",
    params(
        ("id" = String, Path, description = "Id of the account."),
        ("key" = String, Path, description = "The key's id, not the key itself.")
    ),
    request_body = Rotation,
    responses((status = 200, body = CreatedKeyView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn rotate_key(
    operator: Operator,
    State(api): State<AdminApi>,
    Path((account, key)): Path<(String, String)>,
    ObjectBody(Rotation { overlap_hours }): ObjectBody<Rotation>,
) -> Result<Json<CreatedKeyView>, ApiError> {
    let command = RotateKey {
        id: path_id(&key, "key")?,
        account: path_id(&account, "account")?,
        overlap_hours,
    };
    Ok(Json(api.perform(&operator, command).await?))
}

/// Reads an optional limit of an account; null removes the override.
fn limit<T: DeserializeOwned>(members: &mut Members, name: &str) -> Result<Option<NewLimit<T>>, Error> {
    let limit = members.nullable(name, "a whole number, or null for the default")?;
    Ok(limit.map(|own| own.map_or(NewLimit::Default, NewLimit::Own)))
}
