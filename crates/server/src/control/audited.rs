//! Every change leaves a line in the audit log, whoever makes it and however it ends. The line is written after the change
//! and before the answer: what was answered is in the log.

use serde_json::Value;
use tollgate_storage::{Admin, AuditEntry, Role};
use tollgate_types::{AccountId, AdminId, AuditId, Error, RequestId};

use super::permission::Permission;
use super::{Command, Reply, SubscriptionWish, execute};
use crate::wiring::Domains;

/// What entries of changes that were made say.
const DONE: &str = "done";

/// Who does something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    name: String,
    id: Option<AdminId>,
    role: Role,
    request: Option<RequestId>,
}

impl Actor {
    /// Whoever may read the data directory: the command line, here or over the socket.
    pub fn command_line() -> Self {
        Self {
            name: "cli".to_owned(),
            id: None,
            role: Role::Owner,
            request: None,
        }
    }

    /// The settings file of a server.
    pub fn settings() -> Self {
        Self {
            name: "settings".to_owned(),
            ..Self::command_line()
        }
    }

    /// An administrator, by a request.
    pub fn admin(admin: &Admin, request: RequestId) -> Self {
        Self {
            name: admin.name.clone(),
            id: Some(admin.id),
            role: admin.role,
            request: Some(request),
        }
    }

    /// The name in the audit log.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// What a command answers, and what was there before it, where that is known.
pub(super) struct Carried {
    pub(super) reply: Reply,
    pub(super) before: Option<Value>,
    /// Whether what the answer shows is gone.
    pub(super) is_gone: bool,
}

impl From<Reply> for Carried {
    fn from(reply: Reply) -> Self {
        Self {
            reply,
            before: None,
            is_gone: false,
        }
    }
}

/// What is written down of a change.
#[derive(Default)]
pub(crate) struct Deed {
    pub(crate) action: &'static str,
    pub(crate) account: Option<AccountId>,
    pub(crate) object: String,
    pub(crate) before: Option<Value>,
    pub(crate) after: Option<Value>,
}

/// Carries out a command if the actor may, and writes down what was changed, or that it was tried.
pub async fn perform(domains: &Domains, actor: &Actor, command: Command) -> Result<Reply, Error> {
    let deed = deed(&command);
    let done = match Permission::check(actor.role, &command) {
        Ok(()) => execute::carry_out(domains, actor, command).await,
        Err(denied) => Err(denied),
    };
    let Some(deed) = deed else {
        return done.map(|carried| carried.reply);
    };
    match done {
        Ok(Carried {
            reply,
            before,
            is_gone,
        }) => {
            let account = deed.account.or_else(|| reply.account());
            let object = Some(deed.object).filter(|object| !object.is_empty());
            let made = Deed {
                account,
                object: object.unwrap_or_else(|| reply.object()),
                before,
                after: reply.recorded().filter(|_| !is_gone),
                ..deed
            };
            write_down(domains, actor, made, DONE).await?;
            Ok(reply)
        }
        Err(error) => {
            // The failure is the answer, whether it could be written down or not.
            let _ = write_down(domains, actor, deed, error.code.as_str()).await;
            Err(error)
        }
    }
}

/// Writes a line into the audit log. One that cannot be written there is in the server's log.
pub(crate) async fn write_down(
    domains: &Domains,
    actor: &Actor,
    deed: Deed,
    outcome: &str,
) -> Result<(), Error> {
    let at = domains.clock.now();
    let text = |value: Option<Value>| value.map(|value| value.to_string());
    let entry = AuditEntry {
        id: AuditId::from_u128(domains.ids.next(at)),
        at,
        actor: actor.name.clone(),
        actor_id: actor.id,
        role: actor.role.as_str().to_owned(),
        action: deed.action.to_owned(),
        account: deed.account,
        object: deed.object,
        before: text(deed.before),
        after: text(deed.after),
        request: actor.request,
        outcome: outcome.to_owned(),
    };
    let written = domains.storage.audit_log.append(entry.clone()).await;
    written.map_err(|error| {
        tracing::error!(%error, ?entry, "the audit log could not be written");
        Error::internal(error)
    })
}

/// What is written down of a command before it is carried out; nothing of one that only looks.
fn deed(command: &Command) -> Option<Deed> {
    let of = |action, account, object: String| {
        Some(Deed {
            action,
            account,
            object,
            ..Deed::default()
        })
    };
    let new = String::new;
    match command {
        Command::CreateAccount { .. } => of("account.create", None, new()),
        Command::AdvanceClock { account, .. } => of("account.advance", Some(*account), account.to_string()),
        Command::ChangeAccount { id, .. } => of("account.change", Some(*id), id.to_string()),
        Command::CreateKey { account, .. } => of("key.create", Some(*account), new()),
        Command::ChangeKey { id, .. } => of("key.change", None, id.to_string()),
        Command::RevokeKey { id } => of("key.revoke", None, id.to_string()),
        Command::Grant { account, .. } => of("credits.grant", Some(*account), new()),
        Command::Refund { request, .. } => of("credits.refund", None, request.to_string()),
        Command::RefundGrant { id } => of("credits.refund_grant", None, id.to_string()),
        Command::Subscribe { account, .. } => of("subscription.create", Some(*account), new()),
        Command::OpenSubscription { account, .. } => of("subscription.open", Some(*account), new()),
        Command::ChangeSubscription { id, wish } => {
            let action = match wish {
                SubscriptionWish::Cancel => "subscription.cancel",
                SubscriptionWish::Resume => "subscription.resume",
                SubscriptionWish::Renew => "subscription.renew",
            };
            of(action, None, id.to_string())
        }
        Command::ChangePlan { id, .. } => of("subscription.change_plan", None, id.to_string()),
        Command::TopUps { wish } => {
            let (action, account) = wish.deed()?;
            of(action, account, new())
        }
        Command::Alerts { wish } => {
            let (action, account) = wish.deed()?;
            of(action, Some(account), new())
        }
        Command::AddMember { account, .. } => of("member.add", Some(*account), new()),
        Command::SetMemberRole { account, id, .. } => of("member.change", Some(*account), id.to_string()),
        Command::RemoveMember { account, id } => of("member.remove", Some(*account), id.to_string()),
        Command::CreateAdmin { name, .. } => of("admin.create", None, name.chars().take(64).collect()),
        Command::RevokeAdmin { id } => of("admin.revoke", None, id.to_string()),
        Command::CheckPrices { force: true, .. } => of("prices.force", None, new()),
        Command::ListAccounts { .. }
        | Command::ShowAccount { .. }
        | Command::ListKeys { .. }
        | Command::ListLots { .. }
        | Command::ListBatches { .. }
        | Command::ShowBatch { .. }
        | Command::ShowBalance { .. }
        | Command::ListPlans
        | Command::ListSubscriptions { .. }
        | Command::ShowSubscription { .. }
        | Command::ListTransfers { .. }
        | Command::ListUsage { .. }
        | Command::ShowStatement { .. }
        | Command::ListModels
        | Command::ListMembers { .. }
        | Command::ListAdmins
        | Command::ListPrices
        | Command::ListProviders
        | Command::ShowPrices { .. }
        | Command::CheckPrices { force: false, .. }
        | Command::ListAudit { .. }
        | Command::AuditLedger { .. }
        | Command::ShowReceipt { .. }
        | Command::CheckLedger { .. } => None,
    }
}
