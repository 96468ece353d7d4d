//! Endpoints for administrators, the members of accounts, and the audit log.

use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use tollgate_edge::list::{List, path_id};
use tollgate_edge::object_body::{Members, ObjectBody, Read};
use tollgate_edge::{ApiError, ErrorBody, Operator, Query};
use tollgate_types::Error;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AdminApi;
use super::query;
use tollgate_operations::view::admin::{AdminView, AuditView, CreatedAdminView, MemberView};
use tollgate_operations::{
    AddMember, CreateAdmin, ListAdmins, ListAudit, ListMembers, RemoveMember, RevokeAdmin, SetMemberRole,
};

/// Returns the router of this group.
pub(super) fn routes() -> OpenApiRouter<AdminApi> {
    OpenApiRouter::new()
        .routes(routes!(get_own_admin))
        .routes(routes!(list_admins, create_admin))
        .routes(routes!(revoke_admin))
        .routes(routes!(list_audit_log))
        .routes(routes!(list_members, add_member))
        .routes(routes!(change_member, remove_member))
}

/// Returns the administrator whose token authenticates the request.
#[utoipa::path(
    get, path = "/admin/v1/me", tag = "People", operation_id = "get_own_admin",
    responses((status = 200, body = AdminView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn get_own_admin(operator: Operator) -> Json<AdminView> {
    Json(AdminView::of(&operator.admin))
}

/// Lists administrators, including revoked ones.
#[utoipa::path(
    get, path = "/admin/v1/admins", tag = "People", operation_id = "list_admins",
    responses((status = 200, body = List<AdminView>), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn list_admins(
    operator: Operator,
    State(api): State<AdminApi>,
) -> Result<Json<List<AdminView>>, ApiError> {
    let admins = api.perform(&operator, ListAdmins).await?;
    Ok(Json(List::whole(admins)))
}

/// An administrator to create.
#[derive(Debug, ToSchema)]
struct NewAdmin {
    /// Name in the audit log: 1 to 64 lower-case letters, digits, and any of `.` `_` `@` `-`.
    name: String,
    /// `viewer`, `support`, `billing` or `owner`.
    role: String,
}

impl Read for NewAdmin {
    fn read(members: &mut Members) -> Result<Self, Error> {
        Ok(Self {
            name: members.required("name", "a string of 1 to 64 characters")?,
            role: members.required("role", "'viewer', 'support', 'billing' or 'owner'")?,
        })
    }
}

/// Creates an administrator and returns the token. The token is returned only once; store it now.
#[utoipa::path(
    post, path = "/admin/v1/admins", tag = "People", operation_id = "create_admin", request_body = NewAdmin,
    responses((status = 200, body = CreatedAdminView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn create_admin(
    operator: Operator,
    State(api): State<AdminApi>,
    ObjectBody(NewAdmin { name, role }): ObjectBody<NewAdmin>,
) -> Result<Json<CreatedAdminView>, ApiError> {
    let command = CreateAdmin { name, role };
    Ok(Json(api.perform(&operator, command).await?))
}

/// Revokes an administrator permanently, with immediate effect on every node.
#[utoipa::path(
    delete, path = "/admin/v1/admins/{id}", tag = "People", operation_id = "revoke_admin",
    params(("id" = String, Path, description = "Id of the administrator.")),
    responses((status = 200, body = AdminView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn revoke_admin(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(admin): Path<String>,
) -> Result<Json<AdminView>, ApiError> {
    let id = path_id(&admin, "administrator")?;
    Ok(Json(api.perform(&operator, RevokeAdmin { id }).await?))
}

/// Query parameters of the audit log.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct AuditQuery {
    /// Only entries about this account.
    account: Option<String>,
    /// Only entries of this actor: the name of an administrator, `cli` for the command line, or
    /// `settings` for the settings file.
    actor: Option<String>,
    /// Only entries with this action, such as `credits.grant`.
    action: Option<String>,
    /// Only entries at or after this time: RFC 3339 (`2026-11-20T00:00:00Z`) or a date in UTC
    /// (`2026-11-20`).
    since: Option<String>,
    /// Maximum number of entries per page, 1 to 100 (default: 20).
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// The `id` of the last entry of the previous page.
    after: Option<String>,
}

/// Lists changes and attempted changes with their actors, newest first.
#[utoipa::path(
    get, path = "/admin/v1/audit-log", tag = "People", operation_id = "list_audit_log", params(AuditQuery),
    responses((status = 200, body = List<AuditView>), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn list_audit_log(
    operator: Operator,
    State(api): State<AdminApi>,
    Query(query): Query<AuditQuery>,
) -> Result<Json<List<AuditView>>, ApiError> {
    let limit = query::limit(query.limit)?;
    let command = ListAudit {
        account: query::id("account", query.account)?,
        actor: query.actor,
        action: query.action,
        since: query::instant("since", query.since)?,
        before: query::id("after", query.after)?,
        limit: limit + 1,
    };
    let entries = api.perform(&operator, command).await?;
    Ok(Json(List::page(entries, limit)))
}

/// Lists the members of an account.
#[utoipa::path(
    get, path = "/admin/v1/accounts/{id}/members", tag = "People", operation_id = "list_members",
    params(("id" = String, Path, description = "Id of the account.")),
    responses((status = 200, body = List<MemberView>), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn list_members(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
) -> Result<Json<List<MemberView>>, ApiError> {
    let account = path_id(&account, "account")?;
    let members = api.perform(&operator, ListMembers { account }).await?;
    Ok(Json(List::whole(members)))
}

/// A member to add.
#[derive(Debug, ToSchema)]
struct NewMember {
    /// E-mail address, unique within the account.
    email: String,
    /// `owner`, `admin`, `member` or `viewer`.
    role: String,
}

impl Read for NewMember {
    fn read(members: &mut Members) -> Result<Self, Error> {
        Ok(Self {
            email: members.required("email", "an address such as jo@example.com")?,
            role: members.required("role", MEMBER_ROLES)?,
        })
    }
}

const MEMBER_ROLES: &str = "'owner', 'admin', 'member' or 'viewer'";

/// Adds a member to an account.
#[utoipa::path(
    post, path = "/admin/v1/accounts/{id}/members", tag = "People", operation_id = "add_member",
    params(("id" = String, Path, description = "Id of the account.")), request_body = NewMember,
    responses((status = 200, body = MemberView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn add_member(
    operator: Operator,
    State(api): State<AdminApi>,
    Path(account): Path<String>,
    ObjectBody(NewMember { email, role }): ObjectBody<NewMember>,
) -> Result<Json<MemberView>, ApiError> {
    let command = AddMember {
        account: path_id(&account, "account")?,
        email,
        role,
    };
    Ok(Json(api.perform(&operator, command).await?))
}

/// Changes to a member.
#[derive(Debug, ToSchema)]
struct MemberPatch {
    /// `owner`, `admin`, `member` or `viewer`.
    role: String,
}

impl Read for MemberPatch {
    fn read(members: &mut Members) -> Result<Self, Error> {
        let role = members.required("role", MEMBER_ROLES)?;
        Ok(Self { role })
    }
}

/// Changes the role of a member. The last owner of an account cannot be demoted.
#[utoipa::path(
    patch, path = "/admin/v1/accounts/{id}/members/{member}", tag = "People", operation_id = "change_member",
    params(("id" = String, Path, description = "Id of the account."), ("member" = String, Path, description = "Id of the member.")),
    request_body = MemberPatch,
    responses((status = 200, body = MemberView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn change_member(
    operator: Operator,
    State(api): State<AdminApi>,
    Path((account, member)): Path<(String, String)>,
    ObjectBody(MemberPatch { role }): ObjectBody<MemberPatch>,
) -> Result<Json<MemberView>, ApiError> {
    let command = SetMemberRole {
        account: path_id(&account, "account")?,
        id: path_id(&member, "member")?,
        role,
    };
    Ok(Json(api.perform(&operator, command).await?))
}

/// Query parameters of the removal of a member.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct RemovalQuery {
    /// Whether the keys that the member has created in the console continue to work. They are
    /// revoked by default.
    keep_keys: bool,
}

/// Removes a member from an account. The last owner cannot be removed.
#[utoipa::path(
    delete, path = "/admin/v1/accounts/{id}/members/{member}", tag = "People", operation_id = "remove_member",
    params(
        ("id" = String, Path, description = "Id of the account."),
        ("member" = String, Path, description = "Id of the member."),
        RemovalQuery
    ),
    responses((status = 200, body = MemberView), (status = "default", body = ErrorBody)),
    security(("bearer" = []))
)]
async fn remove_member(
    operator: Operator,
    State(api): State<AdminApi>,
    Path((account, member)): Path<(String, String)>,
    Query(RemovalQuery { keep_keys }): Query<RemovalQuery>,
) -> Result<Json<MemberView>, ApiError> {
    let command = RemoveMember {
        account: path_id(&account, "account")?,
        id: path_id(&member, "member")?,
        keep_keys,
    };
    Ok(Json(api.perform(&operator, command).await?))
}
