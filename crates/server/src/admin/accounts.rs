//! Accounts, their limits and keys.

use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use tollgate_edge::{ApiError, ErrorBody, Operator, Query};
use tollgate_storage::{AccountState, Compat, KeyMode};
use tollgate_types::{Error, Timestamp};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AdminApi;
use super::answer::{List, carried_out, id};
use super::body::{Body, Members, Read, missing};
use super::query;
use crate::control::view::{AccountView, CreatedKeyView, KeyView};
use crate::control::{AccountWish, Command};

/// The routes of this group.
pub(super) fn routes() -> OpenApiRouter<AdminApi> {
    OpenApiRouter::new()
        .routes(routes!(list_accounts, create_account))
        .routes(routes!(get_account, change_account))
        .routes(routes!(advance_clock))
        .routes(routes!(list_keys, create_key))
        .routes(routes!(change_key, revoke_key))
}

/// Which accounts.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct AccountsQuery {
    /// Accounts on a page, 1 to 100; 20 when it is not said.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// The `id` of the last account of the page before.
    after: Option<String>,
}

/// Accounts in order of their making.
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
    let command = Command::ListAccounts {
        after: query::id("after", query.after)?,
        limit: Some(limit + 1),
    };
    let accounts = carried_out!(api, operator, command, Accounts);
    Ok(Json(List::page(accounts, limit)))
}

/// An account to be made.
#[derive(Debug, ToSchema)]
struct NewAccount {
    /// For people: 1 to 200 characters.
    name: String,
    /// Whether it has a test clock, which can be advanced: false when it is not said.
    #[schema(nullable = false)]
    test_clock: Option<bool>,
}

impl Read for NewAccount {
    fn read(members: &mut Members) -> Result<Self, Error> {
        let name = members.required("name", "a name of 1 to 200 characters")?;
        let test_clock = members.optional("test_clock", "true or false")?;
        Ok(Self { name, test_clock })
    }
}

/// Makes an account without credits and keys.
#[utoipa::path(
    post, path = "/admin/v1/accounts", tag = "Accounts", operation_id = "create_account", request_body = NewAccount,
    responses((status = 200, body = AccountView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn create_account(
    operator: Operator,
    State(api): State<AdminApi>,
    Body(new): Body<NewAccount>,
) -> Result<Json<AccountView>, ApiError> {
    let command = Command::CreateAccount {
        name: new.name,
        test_clock: new.test_clock.unwrap_or_default(),
    };
    Ok(Json(carried_out!(api, operator, command, Account)))
}

/// An account with its balance.
#[utoipa::path(
    get, path = "/admin/v1/accounts/{id}", tag = "Accounts", operation_id = "get_account",
    params(("id" = String, Path, description = "The account.")),
    responses((status = 200, body = AccountView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn get_account(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
) -> Result<Json<AccountView>, ApiError> {
    let id = id(&account, "account")?;
    Ok(Json(carried_out!(
        api,
        operator,
        Command::ShowAccount { id },
        Account
    )))
}

/// What is to become of an account; what is left out stays. A limit of null is taken away: the default applies.
#[derive(Debug, ToSchema)]
#[expect(
    dead_code,
    reason = "it describes the body; what is read is the command's own type"
)]
struct AccountPatch {
    /// For people: 1 to 200 characters.
    #[schema(nullable = false)]
    name: Option<String>,
    /// `active` or `suspended`: whether its keys work.
    #[schema(nullable = false)]
    state: Option<String>,
    /// Requests per minute, above 0.
    rpm: Option<u32>,
    /// Tokens per minute, above 0.
    tpm: Option<u64>,
    /// Keys that are not revoked.
    keys: Option<u32>,
    /// GPUs at once. Nothing counts them yet.
    gpus: Option<u32>,
    /// Hosted agents. Nothing counts them yet.
    agents: Option<u32>,
    /// Saved chats. Nothing counts them yet.
    chats: Option<u32>,
    /// Files that are kept.
    files: Option<u32>,
    /// GiB of all of them together.
    files_gib: Option<u32>,
    /// Tokens that its unfinished batches may consume together.
    batch_tokens: Option<u64>,
}

impl Read for AccountWish {
    fn read(members: &mut Members) -> Result<Self, Error> {
        let state = members.word("state", "'active' or 'suspended'", AccountState::parse)?;
        Ok(Self {
            name: members.optional("name", "a name of 1 to 200 characters")?,
            suspended: state.map(|state| state == AccountState::Suspended),
            rpm: members.limit("rpm")?,
            tpm: members.limit("tpm")?,
            keys: members.limit("keys")?,
            gpus: members.limit("gpus")?,
            agents: members.limit("agents")?,
            chats: members.limit("chats")?,
            files: members.limit("files")?,
            files_gib: members.limit("files_gib")?,
            batch_tokens: members.limit("batch_tokens")?,
        })
    }
}

/// Changes an account. All of it happens, or nothing.
#[utoipa::path(
    patch, path = "/admin/v1/accounts/{id}", tag = "Accounts", operation_id = "change_account",
    params(("id" = String, Path, description = "The account.")), request_body = AccountPatch,
    responses((status = 200, body = AccountView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn change_account(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
    Body(change): Body<AccountWish>,
) -> Result<Json<AccountView>, ApiError> {
    let id = id(&account, "account")?;
    let command = Command::ChangeAccount { id, change };
    Ok(Json(carried_out!(api, operator, command, Account)))
}

/// To when a test clock is advanced.
#[derive(Debug, ToSchema)]
struct NewTime {
    /// A time ahead of that which the account's clock shows, by 366 days at the most: RFC 3339, or a date.
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

/// Advances the test clock of an account. What falls due on the way happens, in its order, before it is answered.
#[utoipa::path(
    post, path = "/admin/v1/accounts/{id}/advance", tag = "Accounts", operation_id = "advance_clock",
    params(("id" = String, Path, description = "The account.")), request_body = NewTime,
    responses((status = 200, body = AccountView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn advance_clock(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
    Body(NewTime { to }): Body<NewTime>,
) -> Result<Json<AccountView>, ApiError> {
    let account = id(&account, "account")?;
    let command = Command::AdvanceClock { account, to };
    Ok(Json(carried_out!(api, operator, command, Account)))
}

/// The keys of an account.
#[utoipa::path(
    get, path = "/admin/v1/accounts/{id}/keys", tag = "Accounts", operation_id = "list_keys",
    params(("id" = String, Path, description = "The account.")),
    responses((status = 200, body = List<KeyView>), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn list_keys(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
) -> Result<Json<List<KeyView>>, ApiError> {
    let account = id(&account, "account")?;
    let keys = carried_out!(api, operator, Command::ListKeys { account }, Keys);
    Ok(Json(List::whole(keys)))
}

/// A key to be made.
#[derive(Debug, ToSchema)]
struct NewKey {
    /// For people, such as the environment that it is for: 1 to 100 characters; `default` when it is not said.
    name: Option<String>,
    /// Days until it stops to work, 1 to 36500; without it, it works until it is revoked.
    expires_in_days: Option<u32>,
    /// `strict` (when it is not said) or `lenient`: what becomes of what a model cannot use.
    #[schema(value_type = Option<String>)]
    compat: Option<Compat>,
    /// `live` (when it is not said) or `test`, which reaches simulated models only and spends nothing.
    #[schema(value_type = Option<String>)]
    mode: Option<KeyMode>,
    /// Whether pictures are waited for as with `sync: true`, unless the request says otherwise; false when it is not said.
    sync: Option<bool>,
}

impl Read for NewKey {
    fn read(members: &mut Members) -> Result<Self, Error> {
        Ok(Self {
            name: members.optional("name", "a name of 1 to 100 characters")?,
            expires_in_days: members.optional("expires_in_days", "a whole number of days")?,
            compat: members.word("compat", "'strict' or 'lenient'", Compat::parse)?,
            mode: members.word("mode", "'live' or 'test'", KeyMode::parse)?,
            sync: members.optional("sync", "true or false")?,
        })
    }
}

/// Makes a key and answers it. It is shown this once and cannot be read again.
#[utoipa::path(
    post, path = "/admin/v1/accounts/{id}/keys", tag = "Accounts", operation_id = "create_key",
    params(("id" = String, Path, description = "The account.")), request_body = NewKey,
    responses((status = 200, body = CreatedKeyView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn create_key(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
    Body(new): Body<NewKey>,
) -> Result<Json<CreatedKeyView>, ApiError> {
    let command = Command::CreateKey {
        account: id(&account, "account")?,
        name: new.name.unwrap_or_else(|| "default".to_owned()),
        expires_in_days: new.expires_in_days,
        lenient: new.compat == Some(Compat::Lenient),
        test: new.mode == Some(KeyMode::Test),
        sync: new.sync == Some(true),
    };
    Ok(Json(carried_out!(api, operator, command, CreatedKey)))
}

/// What is to become of a key: one of these at least. What is not said stays.
#[derive(Debug, ToSchema)]
struct KeyPatch {
    /// `strict` or `lenient`.
    #[schema(value_type = Option<String>)]
    compat: Option<Compat>,
    /// Whether pictures are waited for as with `sync: true`, unless the request says otherwise.
    sync: Option<bool>,
}

impl Read for KeyPatch {
    fn read(members: &mut Members) -> Result<Self, Error> {
        let what = "'strict' or 'lenient'";
        let change = Self {
            compat: members.word("compat", what, Compat::parse)?,
            sync: members.optional("sync", "true or false")?,
        };
        match (change.compat, change.sync) {
            (None, None) => Err(missing("compat", what)),
            _ => Ok(change),
        }
    }
}

/// Changes how lenient a key is, and whether pictures are waited for.
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
    Body(change): Body<KeyPatch>,
) -> Result<Json<KeyView>, ApiError> {
    let command = Command::ChangeKey {
        id: id(&key, "key")?,
        lenient: change.compat.map(|compat| compat == Compat::Lenient),
        sync: change.sync,
    };
    Ok(Json(carried_out!(api, operator, command, Key)))
}

/// Revokes a key for ever.
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
    let id = id(&key, "key")?;
    Ok(Json(carried_out!(api, operator, Command::RevokeKey { id }, Key)))
}
