//! The audit log. Every attempted change is recorded, by any actor and with any outcome. The entry
//! is written after the change and before the reply, so the log contains every change that was
//! reported to the actor.

use serde_json::Value;
use tollgate_storage::{Admin, AuditEntry, Role};
use tollgate_types::{AccountId, AdminId, AuditId, Error, RequestId};

use crate::operation::{Completed, Declaration, Operation, Reply};
use crate::permission::Permission;
use crate::{Operations, accounts, names};

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
    /// Executes a command if the actor has its permissions. Records the change, or the attempted
    /// change, in the audit log.
    pub async fn execute<C: Operation>(&self, actor: &Actor, command: C) -> Result<C::Reply, Error> {
        let mut reply = self.execute_and_record(actor, command).await?;
        names::fill(self, &mut reply).await;
        Ok(reply)
    }

    /// Like [`execute`](Self::execute), but without the display names of accounts, which the audit
    /// log does not store.
    async fn execute_and_record<C: Operation>(&self, actor: &Actor, command: C) -> Result<C::Reply, Error> {
        let declaration = command.declaration();
        let done = self.execute_if_permitted(actor, &declaration, command).await;
        let Some(action) = declaration.action else {
            return done.map(|completed| completed.reply);
        };
        let audit_record = AuditRecord {
            action,
            account: declaration.account,
            object: declaration.object,
            ..AuditRecord::default()
        };
        match done {
            Ok(Completed {
                reply,
                before,
                is_removal,
            }) => {
                let object = Some(audit_record.object).filter(|object| !object.is_empty());
                let completed_record = AuditRecord {
                    account: audit_record.account.or_else(|| reply.account()),
                    object: object.unwrap_or_else(|| reply.object()),
                    before,
                    after: reply.recorded().filter(|_| !is_removal),
                    ..audit_record
                };
                write_audit_record(self, actor, completed_record, DONE).await?;
                Ok(reply)
            }
            Err(error) => {
                // The caller receives the failure even if its audit entry cannot be written.
                let _ = write_audit_record(self, actor, audit_record, error.code.as_str()).await;
                Err(error)
            }
        }
    }

    async fn execute_if_permitted<C: Operation>(
        &self,
        actor: &Actor,
        declaration: &Declaration,
        command: C,
    ) -> Result<Completed<C::Reply>, Error> {
        Permission::check(actor.role, &declaration.permissions)?;
        if let Some(account) = declaration.account.filter(|_| declaration.extends_account) {
            accounts::refuse_closed(self, account).await?;
        }
        command.execute(self, actor).await
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
        tracing::error!(%error, ?entry, "cannot write an entry of the audit log");
        Error::internal(error)
    })
}
