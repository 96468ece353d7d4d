//! The declaration of commands. A command is a value that can be sent to the server that owns the
//! database. It declares the permissions that it requires and its line in the audit log.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tollgate_types::{AccountId, Error};

use crate::permission::{MemberPermission, Permission};
use crate::{Actor, Operations};

/// A command of an operator. Its fields are its parameters.
pub trait Operation: Serialize + DeserializeOwned + Send + 'static {
    /// Name of the command on the command socket.
    const NAME: &'static str;

    /// Whether the command requires an existing database. Other commands create a database if none
    /// exists.
    const NEEDS_DATA: bool = true;

    /// Whether only a running server can execute the command, whichever process owns the database.
    const NEEDS_SERVER: bool = false;

    /// The reply to a completed command.
    type Reply: Reply;

    /// Returns the permissions and the audit record of the command with these parameters.
    fn declaration(&self) -> Declaration;

    /// Executes the command. The caller must have checked the permissions of the actor.
    fn execute(
        self,
        operations: &Operations,
        actor: &Actor,
    ) -> impl Future<Output = Result<Completed<Self::Reply>, Error>> + Send;
}

/// The permissions and the audit record of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Permissions that an operator must have.
    pub(crate) permissions: Vec<Permission>,
    /// Permission that a member of the account must have; `None` for commands of operators.
    pub(crate) member: Option<MemberPermission>,
    /// Action in the audit log, such as `key.create`; `None` for commands that record nothing.
    pub(crate) action: Option<&'static str>,
    /// Account that the command concerns, if its parameters include one.
    pub(crate) account: Option<AccountId>,
    /// Id of the changed object; empty if the command creates the object.
    pub(crate) object: String,
    /// Whether a closed account refuses the command, such as a grant or a new key.
    pub(crate) extends_account: bool,
}

impl Declaration {
    /// Declares a command that only reads and is not recorded.
    pub(crate) fn read() -> Self {
        Self {
            permissions: vec![Permission::Read],
            member: None,
            action: None,
            account: None,
            object: String::new(),
            extends_account: false,
        }
    }

    /// Declares a command that is recorded as this action.
    pub(crate) fn change(action: &'static str, permission: Permission) -> Self {
        Self {
            permissions: vec![permission],
            action: Some(action),
            ..Self::read()
        }
    }

    /// Replaces the permissions.
    pub(crate) fn requiring(self, permissions: Vec<Permission>) -> Self {
        Self { permissions, ..self }
    }

    /// Permits the command to members of the account with this permission.
    pub(crate) fn for_members(self, permission: MemberPermission) -> Self {
        Self {
            member: Some(permission),
            ..self
        }
    }

    /// Sets the account that the command concerns.
    pub(crate) fn of_account(self, account: AccountId) -> Self {
        Self {
            account: Some(account),
            ..self
        }
    }

    /// Sets the changed object.
    pub(crate) fn of_object(self, object: impl ToString) -> Self {
        Self {
            object: object.to_string(),
            ..self
        }
    }

    /// Sets the account, which refuses the command if it is closed.
    pub(crate) fn extending(self, account: AccountId) -> Self {
        Self {
            extends_account: true,
            ..self.of_account(account)
        }
    }
}

/// The reply to a command, and the state of the object before the command if it is known.
#[derive(Debug)]
pub struct Completed<R> {
    pub(crate) reply: R,
    pub(crate) before: Option<Value>,
    /// Whether the command removed the object in the reply.
    pub(crate) is_removal: bool,
}

impl<R> From<R> for Completed<R> {
    fn from(reply: R) -> Self {
        Self {
            reply,
            before: None,
            is_removal: false,
        }
    }
}

/// The reply to a command, with the parts that the audit log records: ids and state, but no keys,
/// tokens or secrets.
pub trait Reply: Serialize + DeserializeOwned + Send {
    /// Returns the account of the changed object, if the reply contains it.
    fn account(&self) -> Option<AccountId> {
        None
    }

    /// Returns the id of the object that the command created; otherwise an empty string.
    fn object(&self) -> String {
        String::new()
    }

    /// Returns the changed object as JSON, without secrets; `None` if the reply contains no such
    /// object.
    fn recorded(&self) -> Option<Value> {
        None
    }

    /// Returns the accounts of the reply, each with the field for its display name.
    fn names(&mut self) -> Vec<(AccountId, &mut Option<String>)> {
        Vec::new()
    }
}

impl Reply for () {}

impl<R: Reply> Reply for Vec<R> {
    fn names(&mut self) -> Vec<(AccountId, &mut Option<String>)> {
        self.iter_mut().flat_map(Reply::names).collect()
    }
}

impl<R: Reply> Reply for Option<R> {
    fn recorded(&self) -> Option<Value> {
        self.as_ref().and_then(Reply::recorded)
    }
}
