//! Commands on the members of accounts, their invitations, and sign-in links.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::to_value;
use tollgate_accounts::sign_in;
use tollgate_storage::{AuditFilter, LinkPurpose, LinkTarget, Member, MemberRole, StorageErrorKind};
use tollgate_types::{AccountId, AdminId, Error, ErrorCode, MemberId, Retry, Timestamp};
use tollgate_upstream::Mail;

use crate::accounts::{find, no_such_account};
use crate::audited::{Authority, DONE};
use crate::credits::invalid;
use crate::operation::{Completed, Declaration, Operation};
use crate::permission::{MemberPermission, Permission};
use crate::view::admin::{InvitationView, MemberView, SignInLinkView};
use crate::{Actor, Operations, keys};

/// Action of invitations in the audit log.
const INVITED: &str = "member.invite";
/// Maximum number of invitations that the members of an account may send per
/// [`INVITATION_PERIOD`].
const MAX_INVITATIONS: usize = 50;
/// Number of entries of the audit log that one query reads.
const AUDIT_PAGE: u32 = 200;
const INVITATION_PERIOD: Duration = Duration::from_secs(24 * 60 * 60);
/// Lifetime of an invitation.
const INVITATION_LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Lists the members of an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListMembers {
    pub account: AccountId,
}

impl Operation for ListMembers {
    const NAME: &'static str = "list_members";
    type Reply = Vec<MemberView>;

    fn declaration(&self) -> Declaration {
        Declaration::read()
            .for_members(MemberPermission::Read)
            .of_account(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        find(operations, self.account).await?;
        let members = operations.storage.members.list(self.account).await;
        Ok(views(operations, self.account, &members?).await?.into())
    }
}

/// Adds a member to an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AddMember {
    pub account: AccountId,
    /// E-mail address of the member.
    pub email: String,
    /// `owner`, `admin`, `billing`, `member` or `viewer`.
    pub role: String,
}

impl Operation for AddMember {
    const NAME: &'static str = "add_member";
    type Reply = MemberView;

    fn declaration(&self) -> Declaration {
        Declaration::change("member.add", Permission::Members).extending(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let member = add(operations, self.account, &self.email, &self.role).await?;
        Ok(view(operations, &member).await?.into())
    }
}

/// Changes the role of a member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetMemberRole {
    pub account: AccountId,
    /// Id of the member.
    pub id: MemberId,
    /// `owner`, `admin`, `billing`, `member` or `viewer`.
    pub role: String,
}

impl Operation for SetMemberRole {
    const NAME: &'static str = "set_member_role";
    type Reply = MemberView;

    fn declaration(&self) -> Declaration {
        let declared = Declaration::change("member.change", Permission::Members);
        let declared = declared.for_members(MemberPermission::Manage);
        declared.of_account(self.account).of_object(self.id)
    }

    async fn execute(self, operations: &Operations, actor: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let role = member_role(&self.role)?;
        check_rank(actor, role)?;
        check_rank(actor, role_of(operations, self.account, self.id).await?)?;
        let before = operations
            .storage
            .members
            .set_role(self.account, self.id, role)
            .await;
        let before = before.map_err(not_changed)?;
        let reply = view(
            operations,
            &Member {
                role,
                ..before.clone()
            },
        )
        .await?;
        let before = MemberView {
            role: before.role.as_str().to_owned(),
            ..reply.clone()
        };
        Ok(Completed {
            before: to_value(before).ok(),
            is_removal: false,
            reply,
        })
    }
}

/// Removes a member from an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemoveMember {
    pub account: AccountId,
    /// Id of the member.
    pub id: MemberId,
    /// Whether keys that the member has created continue to work. Otherwise they are revoked.
    #[serde(default)]
    pub keep_keys: bool,
}

impl Operation for RemoveMember {
    const NAME: &'static str = "remove_member";
    type Reply = MemberView;

    fn declaration(&self) -> Declaration {
        let declared = Declaration::change("member.remove", Permission::Members);
        let declared = declared.for_members(MemberPermission::Manage);
        declared.of_account(self.account).of_object(self.id)
    }

    async fn execute(self, operations: &Operations, actor: &Actor) -> Result<Completed<Self::Reply>, Error> {
        check_rank(actor, role_of(operations, self.account, self.id).await?)?;
        let removed = operations.storage.members.remove(self.account, self.id).await;
        let removed = removed.map_err(not_changed)?;
        if !self.keep_keys {
            keys::revoke_keys_of(operations, self.account, self.id).await?;
        }
        let reply = view(operations, &removed).await?;
        Ok(Completed {
            before: to_value(&reply).ok(),
            is_removal: true,
            reply,
        })
    }
}

fn not_changed(error: tollgate_storage::StorageError) -> Error {
    match error.kind {
        StorageErrorKind::NotFound => no_such_member(),
        StorageErrorKind::Conflict => {
            let message = "This member is the last owner of the account. Make another member an owner first.";
            Error::new(ErrorCode::Conflict, message)
        }
        _ => Error::internal(error),
    }
}

fn member_role(role: &str) -> Result<MemberRole, Error> {
    let message = "'role' must be 'owner', 'admin', 'billing', 'member' or 'viewer'.";
    MemberRole::parse(role).ok_or_else(|| invalid("role", message))
}

/// Invites a person to an account. Creates the member, and a link that accepts the invitation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InviteMember {
    pub account: AccountId,
    /// E-mail address of the person.
    pub email: String,
    /// `owner`, `admin`, `billing`, `member` or `viewer`.
    pub role: String,
}

impl Operation for InviteMember {
    const NAME: &'static str = "invite_member";
    type Reply = InvitationView;

    fn declaration(&self) -> Declaration {
        let declared = Declaration::change(INVITED, Permission::Members);
        declared
            .for_members(MemberPermission::Manage)
            .extending(self.account)
    }

    async fn execute(self, operations: &Operations, actor: &Actor) -> Result<Completed<Self::Reply>, Error> {
        check_rank(actor, member_role(&self.role)?)?;
        check_invitations(operations, actor, self.account).await?;
        let member = add(operations, self.account, &self.email, &self.role).await?;
        Ok(invite(operations, &member).await?.into())
    }
}

/// Replaces the invitation of a member who has not accepted it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RenewInvitation {
    pub account: AccountId,
    /// Id of the member.
    pub id: MemberId,
}

impl Operation for RenewInvitation {
    const NAME: &'static str = "renew_invitation";
    type Reply = InvitationView;

    fn declaration(&self) -> Declaration {
        let declared = Declaration::change(INVITED, Permission::Members);
        declared
            .for_members(MemberPermission::Manage)
            .extending(self.account)
            .of_object(self.id)
    }

    async fn execute(self, operations: &Operations, actor: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let member = member(operations, self.account, self.id).await?;
        check_rank(actor, member.role)?;
        check_invitations(operations, actor, self.account).await?;
        if member.person.is_some() {
            let message = "The member has accepted an invitation. The person can sign in.";
            return Err(Error::new(ErrorCode::Conflict, message));
        }
        Ok(invite(operations, &member).await?.into())
    }
}

/// The identity that a sign-in link signs in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignInTarget {
    /// A member of an account.
    Member(MemberId),
    /// The first owner of an account. If it has none, the visitor becomes its owner.
    Account(AccountId),
    /// The administrator with this name.
    Admin(String),
}

/// Creates a link that signs in to the console once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CreateSignInLink {
    /// The identity that the link signs in.
    pub target: SignInTarget,
    /// Lifetime of the link, in seconds.
    pub lifetime_seconds: u64,
}

impl Operation for CreateSignInLink {
    const NAME: &'static str = "create_sign_in_link";
    type Reply = SignInLinkView;

    fn declaration(&self) -> Declaration {
        let declared = Declaration::change("sign_in_link.create", Permission::Admins);
        match &self.target {
            SignInTarget::Member(id) => declared.of_object(id),
            SignInTarget::Account(id) => declared.extending(*id).of_object(id),
            SignInTarget::Admin(name) => declared.of_object(name.chars().take(64).collect::<String>()),
        }
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let (target, is_admin) = match &self.target {
            SignInTarget::Member(id) => (LinkTarget::Member(*id), false),
            SignInTarget::Account(id) => (LinkTarget::Owner(*id), false),
            SignInTarget::Admin(name) => (LinkTarget::Admin(active_admin(operations, name).await?), true),
        };
        let lifetime = Duration::from_secs(self.lifetime_seconds);
        let (link, token) = operations
            .sign_ins
            .create_link(LinkPurpose::SignIn, target, lifetime)
            .await?;
        let view = SignInLinkView {
            url: operations.sign_in_url(is_admin, token.reveal()),
            expires_at: link.expires_at.to_rfc3339(),
        };
        Ok(view.into())
    }
}

async fn active_admin(operations: &Operations, name: &str) -> Result<AdminId, Error> {
    let admins = operations.admins.list().await?;
    let found = admins
        .iter()
        .find(|admin| admin.name == name && admin.revoked_at.is_none());
    let found = found.map(|admin| admin.id);
    found.ok_or_else(|| {
        Error::new(
            ErrorCode::NotFound,
            format!("No active administrator has the name '{name}'."),
        )
    })
}

/// Adds a member to an account.
async fn add(operations: &Operations, account: AccountId, email: &str, role: &str) -> Result<Member, Error> {
    let now = operations.clock.now();
    let member = Member {
        id: MemberId::from_u128(operations.ids.next(now)),
        account,
        person: None,
        email: sign_in::address(email)?,
        role: member_role(role)?,
        created_at: now,
    };
    let added = operations.storage.members.add(member.clone()).await;
    added.map_err(|error| match error.kind {
        StorageErrorKind::Conflict => {
            let message = "The account already has a member with this e-mail address.";
            Error::new(ErrorCode::Conflict, message).with_param("email")
        }
        _ => no_such_account(error),
    })?;
    Ok(member)
}

/// Creates the invitation link of a member and sends it to the member's address, if e-mail is
/// configured.
async fn invite(operations: &Operations, member: &Member) -> Result<InvitationView, Error> {
    let target = LinkTarget::Member(member.id);
    let (link, token) = operations
        .sign_ins
        .create_link(LinkPurpose::Invitation, target, INVITATION_LIFETIME)
        .await?;
    let url = operations.sign_in_url(false, token.reveal());
    let mailed = send_invitation(operations, member, &url).await;
    Ok(InvitationView {
        member: view(operations, member).await?,
        url,
        expires_at: link.expires_at.to_rfc3339(),
        mailed,
    })
}

/// Checks that members have not sent too many invitations, because invitations send e-mails to
/// addresses that anyone can enter.
async fn check_invitations(operations: &Operations, actor: &Actor, account: AccountId) -> Result<(), Error> {
    if matches!(actor.authority(), Authority::Operator { .. }) {
        return Ok(());
    }
    let filter = AuditFilter {
        account: Some(account),
        action: Some(INVITED.to_owned()),
        since: Some(operations.clock.now().minus(INVITATION_PERIOD)),
        ..AuditFilter::default()
    };
    let (mut sent, mut before) = (0, None);
    while sent < MAX_INVITATIONS {
        let log = &operations.storage.audit_log;
        let page = log.list(filter.clone(), before, AUDIT_PAGE).await?;
        sent += page.iter().filter(|entry| entry.outcome == DONE).count();
        before = page.last().map(|entry| entry.id);
        if page.len() < AUDIT_PAGE as usize {
            break;
        }
    }
    if sent < MAX_INVITATIONS {
        return Ok(());
    }
    let message = "An account can send 50 invitations per day. Try again later, or ask the operator of this service to add the members.";
    let retry = Retry::After(Duration::from_secs(60 * 60));
    Err(Error::new(ErrorCode::RateLimitExceeded, message).with_retry(retry))
}

/// Sends an invitation by e-mail and returns whether a mail server has accepted it. A failure is
/// logged; the inviter can pass on the link.
async fn send_invitation(operations: &Operations, member: &Member, url: &str) -> bool {
    let Some(mailer) = &operations.notices.mailer else {
        return false;
    };
    let account = match find(operations, member.account).await {
        Ok(account) => account.name,
        Err(_) => return false,
    };
    let service = &operations.notices.sender;
    let account: String = account.chars().filter(|c| !c.is_control()).collect();
    let mail = Mail {
        id: member.id.to_string(),
        to: member.email.clone(),
        subject: format!("Invitation to {account} on {service}"),
        text: format!(
            "You are invited to the account {account} on {service}, with the role {}.\n\n\
             Open this link to accept the invitation. It works once and expires in 7 days:\n\n{url}\n",
            member.role.as_str()
        ),
    };
    let sent = mailer.send(&mail).await;
    if let Err(error) = &sent {
        tracing::warn!(%error, account.id = %member.account, "cannot send an invitation by e-mail");
    }
    sent.is_ok()
}

/// Returns the view of a member.
async fn view(operations: &Operations, member: &Member) -> Result<MemberView, Error> {
    let mut views = views(operations, member.account, std::slice::from_ref(member)).await?;
    views
        .pop()
        .ok_or_else(|| Error::internal("the view of a member is missing"))
}

/// Returns the views of members of one account.
async fn views(
    operations: &Operations,
    account: AccountId,
    members: &[Member],
) -> Result<Vec<MemberView>, Error> {
    let people = &operations.storage.people;
    let (now, invitations) = (operations.clock.now(), people.invitations(account).await?);
    let mut views = Vec::with_capacity(members.len());
    for member in members {
        let person = match member.person {
            Some(person) => people.get(person).await?,
            None => None,
        };
        let name = person.map(|person| person.name).unwrap_or_default();
        let invitation = invitations
            .iter()
            .find(|invitation| invitation.member == member.id);
        let expires_at: Option<Timestamp> = invitation.map(|invitation| invitation.expires_at);
        views.push(MemberView::of(member, &name, expires_at, now));
    }
    Ok(views)
}

async fn member(operations: &Operations, account: AccountId, id: MemberId) -> Result<Member, Error> {
    let members = operations.storage.members.list(account).await?;
    let found = members.into_iter().find(|member| member.id == id);
    found.ok_or_else(no_such_member)
}

async fn role_of(operations: &Operations, account: AccountId, id: MemberId) -> Result<MemberRole, Error> {
    Ok(member(operations, account, id).await?.role)
}

/// Checks that the actor may give or take a role. Only owners and operators change administrators
/// and owners.
fn check_rank(actor: &Actor, role: MemberRole) -> Result<(), Error> {
    let required = match role {
        MemberRole::Owner | MemberRole::Admin => MemberPermission::Own,
        MemberRole::Billing | MemberRole::Member | MemberRole::Viewer => MemberPermission::Manage,
    };
    match actor.authority() {
        Authority::Operator { .. } => Ok(()),
        Authority::Member { role: own, .. } => required.check(own),
    }
}

fn no_such_member() -> Error {
    Error::new(ErrorCode::NotFound, "The account has no member with this id.")
}
