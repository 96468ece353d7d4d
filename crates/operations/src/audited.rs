//! The audit log. Every attempted change is recorded, by any actor and with any outcome. The entry
//! is written after the change and before the reply, so the log contains every change that was
//! reported to the actor.

use serde_json::Value;
use tollgate_storage::{Admin, AuditEntry, Member, MemberRole, Role};
use tollgate_types::{AccountId, AdminId, AuditId, Error, MemberId, RequestId};

use crate::operation::{Completed, Declaration, Operation, Reply};
use crate::permission::{Permission, role_denied};
use crate::{Operations, accounts, names};

/// Outcome in the audit entries of completed changes.
pub(crate) const DONE: &str = "done";

/// The actor of a command, as recorded in the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    name: String,
    authority: Authority,
    request: Option<RequestId>,
}

/// The source of an actor's permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Authority {
    /// An administrator; without an id, the command line or the settings file.
    Operator { id: Option<AdminId>, role: Role },
    /// A member, for the member's account only.
    Member {
        id: MemberId,
        account: AccountId,
        role: MemberRole,
    },
}

impl Actor {
    /// Returns the actor of the command line, in this process or over the command socket. Its
    /// authorization is access to the data directory.
    pub fn command_line() -> Self {
        Self {
            name: "cli".to_owned(),
            authority: Authority::Operator {
                id: None,
                role: Role::Owner,
            },
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
            authority: Authority::Operator {
                id: Some(admin.id),
                role: admin.role,
            },
            request: Some(request),
        }
    }

    /// Returns the actor of a member's request to its account.
    pub fn member(member: &Member, request: RequestId) -> Self {
        let name = match &*member.email {
            "" => member.id.to_string(),
            email => email.to_owned(),
        };
        Self {
            name,
            authority: Authority::Member {
                id: member.id,
                account: member.account,
                role: member.role,
            },
            request: Some(request),
        }
    }

    /// Returns the id of the member; `None` for other actors.
    pub(crate) fn member_id(&self) -> Option<MemberId> {
        match self.authority {
            Authority::Operator { .. } => None,
            Authority::Member { id, .. } => Some(id),
        }
    }

    pub(crate) fn authority(&self) -> Authority {
        self.authority
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
        match actor.authority {
            Authority::Operator { role, .. } => Permission::check(role, &declaration.permissions)?,
            Authority::Member { account, role, .. } => {
                self.check_member(account, role, declaration).await?;
            }
        }
        if let Some(account) = declaration.account.filter(|_| declaration.extends_account) {
            accounts::refuse_closed(self, account).await?;
        }
        command.execute(self, actor).await
    }
}

impl Operations {
    /// Checks that a member may execute a command. A suspended account can only be read.
    async fn check_member(
        &self,
        account: AccountId,
        role: MemberRole,
        declaration: &Declaration,
    ) -> Result<(), Error> {
        let permission = declaration
            .member
            .filter(|_| declaration.account == Some(account))
            .ok_or_else(|| role_denied(role))?;
        permission.check(role)?;
        if declaration.action.is_some() {
            accounts::refuse_suspended(self, account).await?;
        }
        Ok(())
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
    let (actor_id, member, role) = match actor.authority {
        Authority::Operator { id, role } => (id, None, role.as_str()),
        Authority::Member { id, role, .. } => (None, Some(id), role.as_str()),
    };
    let entry = AuditEntry {
        id: AuditId::from_u128(operations.ids.next(at)),
        at,
        actor: actor.name.clone(),
        actor_id,
        member,
        role: role.to_owned(),
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
