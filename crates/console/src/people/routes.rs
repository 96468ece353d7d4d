//! Handlers of the account and its members.

use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use tollgate_edge::list::{List, path_id};
use tollgate_edge::object_body::{Members, ObjectBody, Read};
use tollgate_edge::session::{MemberSession, step_up_required};
use tollgate_edge::{ApiError, ErrorBody, Query};
use tollgate_operations::view::admin::{InvitationView, MemberView};
use tollgate_operations::view::{AccountView, LimitView};
use tollgate_operations::{
    AccountUpdate, ChangeAccount, InviteMember, ListMembers, RemoveMember, RenewInvitation, SetMemberRole,
    ShowAccount, ShowLimits,
};
use tollgate_storage::MemberRole;
use tollgate_types::{Error, MemberId};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::ConsoleApi;

const ROLES: &str = "'owner', 'admin', 'billing', 'member' or 'viewer'";

/// Returns the routes of the account and its members.
pub fn routes() -> OpenApiRouter<ConsoleApi> {
    OpenApiRouter::new()
        .routes(routes!(get_account, change_account))
        .routes(routes!(list_limits))
        .routes(routes!(list_members))
        .routes(routes!(change_member, remove_member))
        .routes(routes!(invite_member))
        .routes(routes!(renew_invitation))
}

/// Returns the account with its balance and limits.
#[utoipa::path(
    get, path = "/console/api/v1/account", tag = "Account", operation_id = "get_account",
    responses((status = 200, body = AccountView), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn get_account(
    session: MemberSession,
    State(console): State<ConsoleApi>,
) -> Result<Json<AccountView>, ApiError> {
    let id = session.account.id;
    console.perform(&session, ShowAccount { id }).await
}

/// Lists the limits of the account with their present use.
#[utoipa::path(
    get, path = "/console/api/v1/limits", tag = "Account", operation_id = "list_limits",
    responses((status = 200, body = List<LimitView>), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn list_limits(
    session: MemberSession,
    State(console): State<ConsoleApi>,
) -> Result<Json<List<LimitView>>, ApiError> {
    let account = session.account.id;
    let Json(limits) = console.perform(&session, ShowLimits { account }).await?;
    Ok(Json(List::whole(limits)))
}

/// Changes to an account.
#[derive(ToSchema)]
struct AccountPatch {
    /// Name of the account: 1 to 200 characters.
    name: String,
}

impl Read for AccountPatch {
    fn read(members: &mut Members) -> Result<Self, Error> {
        Ok(Self {
            name: members.required("name", "a string of 1 to 200 characters")?,
        })
    }
}

/// Renames the account. Requires the role `admin` or `owner`.
#[utoipa::path(
    patch, path = "/console/api/v1/account", tag = "Account", operation_id = "change_account",
    request_body = AccountPatch,
    responses((status = 200, body = AccountView), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn change_account(
    session: MemberSession,
    State(console): State<ConsoleApi>,
    ObjectBody(AccountPatch { name }): ObjectBody<AccountPatch>,
) -> Result<Json<AccountView>, ApiError> {
    let change = AccountUpdate {
        name: Some(name),
        ..AccountUpdate::default()
    };
    let id = session.account.id;
    console.perform(&session, ChangeAccount { id, change }).await
}

/// Lists the members of the account, including invited ones.
#[utoipa::path(
    get, path = "/console/api/v1/members", tag = "People", operation_id = "list_members",
    responses((status = 200, body = List<MemberView>), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn list_members(
    session: MemberSession,
    State(console): State<ConsoleApi>,
) -> Result<Json<List<MemberView>>, ApiError> {
    let account = session.account.id;
    let Json(members) = console.perform(&session, ListMembers { account }).await?;
    Ok(Json(List::whole(members)))
}

/// Changes to a member.
#[derive(ToSchema)]
struct MemberPatch {
    /// `owner`, `admin`, `billing`, `member` or `viewer`.
    role: String,
}

impl Read for MemberPatch {
    fn read(members: &mut Members) -> Result<Self, Error> {
        Ok(Self {
            role: members.required("role", ROLES)?,
        })
    }
}

/// Changes the role of a member. Requires the role `owner`; an `admin` can change members below
/// that role. The last owner cannot be demoted.
#[utoipa::path(
    patch, path = "/console/api/v1/members/{id}", tag = "People", operation_id = "change_member",
    params(("id" = String, Path, description = "Id of the member.")), request_body = MemberPatch,
    responses((status = 200, body = MemberView), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn change_member(
    session: MemberSession,
    State(console): State<ConsoleApi>,
    Path(id): Path<String>,
    ObjectBody(MemberPatch { role }): ObjectBody<MemberPatch>,
) -> Result<Json<MemberView>, ApiError> {
    let (account, id) = (session.account.id, path_id(&id, "member")?);
    check_proof(&console, &session, Some(id), Some(&role)).await?;
    console
        .perform(&session, SetMemberRole { account, id, role })
        .await
}

/// Query parameters of the removal of a member.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct RemovalQuery {
    /// Whether the keys that the member has created continue to work. They are revoked by default.
    keep_keys: bool,
}

/// Removes a member and its sessions' access to the account. Requires the role `owner`; an `admin`
/// can remove members below that role. The last owner cannot be removed.
#[utoipa::path(
    delete, path = "/console/api/v1/members/{id}", tag = "People", operation_id = "remove_member",
    params(("id" = String, Path, description = "Id of the member."), RemovalQuery),
    responses((status = 200, body = MemberView), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn remove_member(
    session: MemberSession,
    State(console): State<ConsoleApi>,
    Path(id): Path<String>,
    Query(RemovalQuery { keep_keys }): Query<RemovalQuery>,
) -> Result<Json<MemberView>, ApiError> {
    let (account, id) = (session.account.id, path_id(&id, "member")?);
    check_proof(&console, &session, Some(id), None).await?;
    console
        .perform(
            &session,
            RemoveMember {
                account,
                id,
                keep_keys,
            },
        )
        .await
}

/// An invitation to an account.
#[derive(ToSchema)]
struct NewInvitation {
    /// E-mail address of the person.
    email: String,
    /// `owner`, `admin`, `billing`, `member` or `viewer`.
    role: String,
}

impl Read for NewInvitation {
    fn read(members: &mut Members) -> Result<Self, Error> {
        Ok(Self {
            email: members.required("email", "an address such as jo@example.com")?,
            role: members.required("role", ROLES)?,
        })
    }
}

/// Invites a person to the account. The link in the response works once within 7 days. If the
/// gateway has a mail server, it also sends the link to the address.
#[utoipa::path(
    post, path = "/console/api/v1/invitations", tag = "People", operation_id = "invite_member",
    request_body = NewInvitation,
    responses((status = 200, body = InvitationView), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn invite_member(
    session: MemberSession,
    State(console): State<ConsoleApi>,
    ObjectBody(NewInvitation { email, role }): ObjectBody<NewInvitation>,
) -> Result<Json<InvitationView>, ApiError> {
    let account = session.account.id;
    check_proof(&console, &session, None, Some(&role)).await?;
    console
        .perform(&session, InviteMember { account, email, role })
        .await
}

/// Replaces the invitation of a member who has not accepted it. The earlier link stops working.
#[utoipa::path(
    post, path = "/console/api/v1/invitations/{id}/renew", tag = "People", operation_id = "renew_invitation",
    params(("id" = String, Path, description = "Id of the invited member.")),
    responses((status = 200, body = InvitationView), (status = "default", body = ErrorBody)),
    security(("session" = []))
)]
async fn renew_invitation(
    session: MemberSession,
    State(console): State<ConsoleApi>,
    Path(id): Path<String>,
) -> Result<Json<InvitationView>, ApiError> {
    let (account, id) = (session.account.id, path_id(&id, "member")?);
    check_proof(&console, &session, Some(id), None).await?;
    console.perform(&session, RenewInvitation { account, id }).await
}

/// Checks that the person has signed in recently, if a change concerns an administrator or an owner
/// of the account.
async fn check_proof(
    console: &ConsoleApi,
    session: &MemberSession,
    id: Option<MemberId>,
    role: Option<&str>,
) -> Result<(), Error> {
    if console.gate.sign_ins.sessions.is_proof_recent(&session.session) {
        return Ok(());
    }
    let members = &console.operations.storage.members;
    let current = match id {
        Some(id) => {
            let members = members.list(session.account.id).await?;
            members
                .iter()
                .find(|member| member.id == id)
                .map(|member| member.role)
        }
        None => None,
    };
    let is_high = |role: &MemberRole| matches!(role, MemberRole::Owner | MemberRole::Admin);
    let mut roles = role.and_then(MemberRole::parse).into_iter().chain(current);
    match roles.any(|role| is_high(&role)) {
        true => Err(step_up_required()),
        false => Ok(()),
    }
}
