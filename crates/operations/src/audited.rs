//! The audit log. Every attempted change is recorded, by any actor and with any outcome. The entry
//! is written after the change and before the reply, so the log contains every change that was
//! reported to the actor.

use serde_json::Value;
use tollgate_storage::{Admin, AuditEntry, Role};
use tollgate_types::{AccountId, AdminId, AuditId, Error, RequestId};

use crate::Operations;
use crate::permission::Permission;
use crate::{Command, Reply, SubscriptionAction, execute, names};

/// Outcome in the audit entries of completed changes.
const DONE: &str = "done";

/// The actor of a command, as recorded in the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    name: String,
    id: Option<AdminId>,
    role: Role,
    request: Option<RequestId>,
}

impl Actor {
    /// Returns the actor of the command line, in this process or over the command socket. Its
    /// authorization is access to the data directory.
    pub fn command_line() -> Self {
        Self {
            name: "cli".to_owned(),
            id: None,
            role: Role::Owner,
            request: None,
        }
    }

    /// Returns the actor of changes that come from the settings file.
    pub fn settings() -> Self {
        Self {
            name: "settings".to_owned(),
            ..Self::command_line()
        }
    }

    /// Returns the actor of an administrator's request.
    pub fn admin(admin: &Admin, request: RequestId) -> Self {
        Self {
            name: admin.name.clone(),
            id: Some(admin.id),
            role: admin.role,
            request: Some(request),
        }
    }

    /// Returns the name of the actor in the audit log.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The reply to a command, and the state of the object before the command if it is known.
pub(crate) struct CommandResult {
    pub(crate) reply: Reply,
    pub(crate) before: Option<Value>,
    /// Whether the command removed the object in the reply.
    pub(crate) is_gone: bool,
}

impl From<Reply> for CommandResult {
    fn from(reply: Reply) -> Self {
        Self {
            reply,
            before: None,
            is_gone: false,
        }
    }
}

/// The part of an audit entry that depends on the command.
#[derive(Default)]
pub(crate) struct AuditRecord {
    pub(crate) action: &'static str,
    pub(crate) account: Option<AccountId>,
    pub(crate) object: String,
    pub(crate) before: Option<Value>,
    pub(crate) after: Option<Value>,
}

impl Operations {
    /// Executes a command if the actor has the permission. Records the change, or the attempted
    /// change, in the audit log.
    pub async fn execute(&self, actor: &Actor, command: Command) -> Result<Reply, Error> {
        let mut reply = execute_and_record(self, actor, command).await?;
        names::fill(self, &mut reply).await;
        Ok(reply)
    }
}

/// Like [`Operations::execute`], but without the display names of accounts, which the audit log does
/// not store.
async fn execute_and_record(
    operations: &Operations,
    actor: &Actor,
    command: Command,
) -> Result<Reply, Error> {
    let audit_record = audit_record(&command);
    let done = match Permission::check(actor.role, &command) {
        Ok(()) => execute::execute(operations, actor, command).await,
        Err(denied) => Err(denied),
    };
    let Some(audit_record) = audit_record else {
        return done.map(|result| result.reply);
    };
    match done {
        Ok(CommandResult {
            reply,
            before,
            is_gone,
        }) => {
            let account = audit_record.account.or_else(|| reply.account());
            let object = Some(audit_record.object).filter(|object| !object.is_empty());
            let completed_record = AuditRecord {
                account,
                object: object.unwrap_or_else(|| reply.object()),
                before,
                after: reply.recorded().filter(|_| !is_gone),
                ..audit_record
            };
            write_audit_record(operations, actor, completed_record, DONE).await?;
            Ok(reply)
        }
        Err(error) => {
            // The caller receives the failure even if its audit entry cannot be written.
            let _ = write_audit_record(operations, actor, audit_record, error.code.as_str()).await;
            Err(error)
        }
    }
}

/// Appends an entry to the audit log. If the write fails, the server's log contains the entry.
pub(crate) async fn write_audit_record(
    operations: &Operations,
    actor: &Actor,
    audit_record: AuditRecord,
    outcome: &str,
) -> Result<(), Error> {
    let at = operations.clock.now();
    let text = |value: Option<Value>| value.map(|value| value.to_string());
    let entry = AuditEntry {
        id: AuditId::from_u128(operations.ids.next(at)),
        at,
        actor: actor.name.clone(),
        actor_id: actor.id,
        role: actor.role.as_str().to_owned(),
        action: audit_record.action.to_owned(),
        account: audit_record.account,
        object: audit_record.object,
        before: text(audit_record.before),
        after: text(audit_record.after),
        request: actor.request,
        outcome: outcome.to_owned(),
    };
    let written = operations.storage.audit_log.append(entry.clone()).await;
    written.map_err(|error| {
        tracing::error!(%error, ?entry, "the audit log could not be written");
        Error::internal(error)
    })
}

/// Returns the audit record of a command before its execution; `None` for commands that record
/// nothing.
fn audit_record(command: &Command) -> Option<AuditRecord> {
    let of = |action, account, object: String| {
        Some(AuditRecord {
            action,
            account,
            object,
            ..AuditRecord::default()
        })
    };
    let new = String::new;
    match command {
        Command::CreateAccount { .. } => of("account.create", None, new()),
        Command::AdvanceClock { account, .. } => of("account.advance", Some(*account), account.to_string()),
        Command::ChangeAccount { id, .. } => of("account.change", Some(*id), id.to_string()),
        Command::CloseAccount { id } => of("account.close", Some(*id), id.to_string()),
        Command::CreateKey { account, .. } => of("key.create", Some(*account), new()),
        Command::ChangeKey { id, .. } => of("key.change", None, id.to_string()),
        Command::RevokeKey { id } => of("key.revoke", None, id.to_string()),
        Command::Grant { account, .. } => of("credits.grant", Some(*account), new()),
        Command::Refund { request, .. } => of("credits.refund", None, request.to_string()),
        Command::RefundGrant { id } => of("credits.refund_grant", None, id.to_string()),
        Command::Subscribe { account, .. } => of("subscription.create", Some(*account), new()),
        Command::OpenSubscription { account, .. } => of("subscription.open", Some(*account), new()),
        Command::ChangeSubscription { id, action } => {
            let action = match action {
                SubscriptionAction::Cancel => "subscription.cancel",
                SubscriptionAction::Resume => "subscription.resume",
                SubscriptionAction::Renew => "subscription.renew",
            };
            of(action, None, id.to_string())
        }
        Command::ChangePlan { id, .. } => of("subscription.change_plan", None, id.to_string()),
        Command::TopUps { action } => {
            let (action, account) = action.audit_record()?;
            of(action, account, new())
        }
        Command::Alerts { action } => {
            let (action, account) = action.audit_record()?;
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
        | Command::ShowServer
        | Command::ShowPrices { .. }
        | Command::CheckPrices { force: false, .. }
        | Command::ListAudit { .. }
        | Command::AuditLedger { .. }
        | Command::ShowReceipt { .. }
        | Command::CheckLedger { .. } => None,
    }
}
