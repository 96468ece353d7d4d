//! Commands on accounts and their limits.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::to_value;
use tollgate_storage::{
    Account, AccountChange, AccountChanged, AccountState, Budget, CloseBlockers, CloseOutcome, Decision, Key,
    KeyState, Limits, Notification, StorageError,
};
use tollgate_types::{AccountId, Error, ErrorCode, Timestamp};

pub(crate) use tollgate_billing::refusal::no_such_account;

use crate::credits::balance;
use crate::operation::{Completed, Declaration, Operation};
use crate::permission::{MemberPermission, Permission};
use crate::view::{AccountView, LimitView, LimitsView};
use crate::{Actor, Operations};

/// Maximum number of accounts per database query.
const PAGE: u32 = 500;

/// Creates an account without credits or keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CreateAccount {
    /// Display name (1–200 characters).
    pub name: String,
    /// Whether the account has a test clock.
    #[serde(default)]
    pub test_clock: bool,
}

impl Operation for CreateAccount {
    const NAME: &'static str = "create_account";
    const NEEDS_DATA: bool = false;

    type Reply = AccountView;

    fn declaration(&self) -> Declaration {
        Declaration::change("account.create", Permission::Accounts)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        check_name(&self.name)?;
        let now = operations.clock.now();
        let account = Account {
            id: AccountId::from_u128(operations.ids.next(now)),
            name: self.name,
            state: AccountState::Active,
            limits: Limits::default(),
            test_clock: self.test_clock.then_some(Duration::ZERO),
            created_at: now,
        };
        let created = operations.storage.accounts.create(account.clone()).await;
        created.map_err(Error::internal)?;
        Ok(AccountView::of(&account).into())
    }
}

/// Sets the test clock of an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdvanceClock {
    pub account: AccountId,
    /// New time of the test clock, at most 366 days ahead.
    pub to: Timestamp,
}

impl Operation for AdvanceClock {
    const NAME: &'static str = "advance_clock";
    type Reply = AccountView;

    fn declaration(&self) -> Declaration {
        let declared = Declaration::change("account.advance", Permission::Accounts);
        declared.of_account(self.account).of_object(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let changed = operations.test_clocks().advance(self.account, self.to).await?;
        Ok(done(operations, &changed))
    }
}

/// Lists accounts in order of creation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListAccounts {
    /// Id of the last account of the previous page.
    #[serde(default)]
    pub after: Option<AccountId>,
    /// Page size; `None` for all.
    #[serde(default)]
    pub limit: Option<u32>,
    /// Text that the names must contain, ignoring case.
    #[serde(default)]
    pub name: Option<String>,
}

impl Operation for ListAccounts {
    const NAME: &'static str = "list_accounts";
    type Reply = Vec<AccountView>;

    fn declaration(&self) -> Declaration {
        Declaration::read()
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let part = self.name.as_deref().map(str::to_lowercase);
        let fits = |account: &Account| match &part {
            Some(part) => account.name.to_lowercase().contains(part),
            None => true,
        };
        let limit = self
            .limit
            .map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        // Matches may be rare, so a name filter reads full pages.
        let page_size = match &part {
            Some(_) => PAGE,
            None => u32::try_from(limit).unwrap_or(PAGE).min(PAGE),
        };
        let mut after = self.after;
        let mut views: Vec<AccountView> = Vec::new();
        loop {
            let page = operations.storage.accounts.list(after, page_size).await;
            let page = page.map_err(Error::internal)?;
            after = page.last().map(|account| account.id);
            views.extend(page.iter().filter(|account| fits(account)).map(AccountView::of));
            if page.is_empty() || views.len() >= limit {
                views.truncate(limit);
                return Ok(views.into());
            }
        }
    }
}

/// Returns an account with its balance and effective limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShowAccount {
    pub id: AccountId,
}

impl Operation for ShowAccount {
    const NAME: &'static str = "show_account";
    type Reply = AccountView;

    fn declaration(&self) -> Declaration {
        Declaration::read()
            .for_members(MemberPermission::Read)
            .of_account(self.id)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let account = find(operations, self.id).await?;
        let balance = Some(balance(operations, self.id).await?);
        let view = AccountView {
            balance,
            limits_in_force: Some(in_force(operations, &account)),
            ..AccountView::of(&account)
        };
        Ok(view.into())
    }
}

/// Changes the name, the state or the limits of an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangeAccount {
    pub id: AccountId,
    /// Fields to change.
    #[serde(flatten)]
    pub change: AccountUpdate,
}

impl Operation for ChangeAccount {
    const NAME: &'static str = "change_account";
    type Reply = AccountView;

    fn declaration(&self) -> Declaration {
        let declared = Declaration::change("account.change", Permission::Limits);
        let declared = match self.change.is_rename() {
            true => declared.for_members(MemberPermission::Manage),
            false => declared,
        };
        declared
            .requiring(self.change.permissions())
            .of_account(self.id)
            .of_object(self.id)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        if let Some(name) = &self.change.name {
            check_name(name)?;
        }
        check_rate("rpm", self.change.rpm == Some(NewLimit::Own(0)))?;
        check_rate("tpm", self.change.tpm == Some(NewLimit::Own(0)))?;
        let changed = operations
            .storage
            .accounts
            .change(self.id, self.change.into())
            .await;
        let changed = changed.map_err(no_such_account)?;
        Ok(done(operations, &changed))
    }
}

/// Closes an account and removes its personal data. If the account cannot be closed yet, the error
/// names the reasons.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CloseAccount {
    pub id: AccountId,
}

impl Operation for CloseAccount {
    const NAME: &'static str = "close_account";
    type Reply = AccountView;

    fn declaration(&self) -> Declaration {
        let declared = Declaration::change("account.close", Permission::Accounts);
        declared.of_account(self.id).of_object(self.id)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let closing = operations
            .storage
            .accounts
            .close_account(self.id, operations.clock.now())
            .await;
        match closing.map_err(no_such_account)? {
            CloseOutcome::Closed(account) => {
                operations.keys.invalidate(Notification::Account(self.id));
                Ok(AccountView::of(&account).into())
            }
            CloseOutcome::Refused(unfinished) => Err(not_closed(unfinished)),
        }
    }
}

/// Changes to an account; `None` leaves a field unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AccountUpdate {
    /// Display name (1–200 characters).
    pub name: Option<String>,
    /// Whether to suspend the account, so that its keys stop working.
    pub suspended: Option<bool>,
    /// Maximum number of requests per minute, above 0.
    pub rpm: Option<NewLimit<u32>>,
    /// Maximum number of tokens per minute, above 0.
    pub tpm: Option<NewLimit<u64>>,
    /// Maximum number of unrevoked keys.
    pub keys: Option<NewLimit<u32>>,
    /// Maximum number of concurrent GPUs. Not enforced yet.
    pub gpus: Option<NewLimit<u32>>,
    /// Maximum number of hosted agents. Not enforced yet.
    pub agents: Option<NewLimit<u32>>,
    /// Maximum number of saved chats.
    pub chats: Option<NewLimit<u32>>,
    /// Maximum number of stored files.
    pub files: Option<NewLimit<u32>>,
    /// Maximum total size of stored files, in GiB.
    pub files_gib: Option<NewLimit<u32>>,
    /// Maximum sum of the estimated tokens of all unfinished batches.
    pub batch_tokens: Option<NewLimit<u64>>,
}

impl AccountUpdate {
    /// Whether the update changes the name, and nothing else.
    fn is_rename(&self) -> bool {
        let others = Self {
            name: None,
            ..self.clone()
        };
        self.name.is_some() && others == Self::default()
    }

    /// Returns the permissions that the update requires, one for each kind of changed field. An
    /// empty update requires [`Permission::Limits`].
    fn permissions(&self) -> Vec<Permission> {
        let mut required = Vec::new();
        if self.name.is_some() {
            required.push(Permission::Accounts);
        }
        if self.suspended.is_some() {
            required.push(Permission::Suspend);
        }
        if self.sets_limits() || required.is_empty() {
            required.push(Permission::Limits);
        }
        required
    }

    /// Whether the update sets or removes any limit.
    fn sets_limits(&self) -> bool {
        let count_limits = [
            self.keys,
            self.gpus,
            self.agents,
            self.chats,
            self.files,
            self.files_gib,
        ];
        let tokens = [self.tpm, self.batch_tokens];
        self.rpm.is_some() || tokens.iter().any(Option::is_some) || count_limits.iter().any(Option::is_some)
    }
}

impl From<AccountUpdate> for AccountChange {
    fn from(change: AccountUpdate) -> Self {
        let state = |suspended| match suspended {
            true => AccountState::Suspended,
            false => AccountState::Active,
        };
        Self {
            name: change.name,
            state: change.suspended.map(state),
            rpm: change.rpm.map(NewLimit::own),
            tpm: change.tpm.map(NewLimit::own),
            keys: change.keys.map(NewLimit::own),
            gpus: change.gpus.map(NewLimit::own),
            agents: change.agents.map(NewLimit::own),
            chats: change.chats.map(NewLimit::own),
            files: change.files.map(NewLimit::own),
            files_gib: change.files_gib.map(NewLimit::own),
            batch_tokens: change.batch_tokens.map(NewLimit::own),
            test_clock: None,
        }
    }
}

/// A change of an account's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NewLimit<T> {
    /// Removes the override, so that the current and later defaults of the settings apply.
    Default,
    /// Sets an override of the default.
    Own(T),
}

impl<T> NewLimit<T> {
    /// Returns the override for the storage: `None` for the default.
    pub fn own(self) -> Option<T> {
        match self {
            NewLimit::Default => None,
            NewLimit::Own(limit) => Some(limit),
        }
    }
}

pub(crate) async fn find(operations: &Operations, id: AccountId) -> Result<Account, Error> {
    let found = operations
        .storage
        .accounts
        .get(id)
        .await
        .map_err(Error::internal)?;
    found.ok_or_else(|| no_such_account(StorageError::not_found(id)))
}

/// Returns the current time of the account: that of its test clock if it has one.
pub(crate) async fn time_of(operations: &Operations, id: AccountId) -> Result<Timestamp, Error> {
    Ok(find(operations, id).await?.time(operations.clock.now()))
}

fn check_name(name: &str) -> Result<(), Error> {
    if name.is_empty() || name.chars().count() > 200 || name.chars().any(char::is_control) {
        let message = "'name' must have 1 to 200 characters, none of them control characters.";
        return Err(Error::new(ErrorCode::InvalidParameter, message).with_param("name"));
    }
    Ok(())
}

/// Returns the limits of an account with their present use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShowLimits {
    pub account: AccountId,
}

impl Operation for ShowLimits {
    const NAME: &'static str = "show_limits";
    type Reply = Vec<LimitView>;

    fn declaration(&self) -> Declaration {
        Declaration::read()
            .for_members(MemberPermission::Read)
            .of_account(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let account = find(operations, self.account).await?;
        Ok(limits_with_use(operations, &account).await?.into())
    }
}

/// Returns the limits with their present use. Windows of a minute are unknown while their counters
/// cannot be read.
async fn limits_with_use(operations: &Operations, account: &Account) -> Result<Vec<LimitView>, Error> {
    let limits = in_force(operations, account);
    let windows = operations.limiter.peek(account, Budget::Work).await;
    let used = |decision: Decision| decision.limit.saturating_sub(decision.remaining);
    let tokens = windows.and_then(|windows| windows.tokens);
    let keys = operations.keys.list(account.id).await?;
    let counts = |key: &&Key| key.state == KeyState::Active && key.replaced_by.is_none();
    let files = operations
        .storage
        .files
        .used(account.id, operations.clock.now())
        .await;
    let files = files.map_err(Error::internal)?;
    let chats = operations.storage.chats.count(account.id).await;
    let chats = chats.map_err(Error::internal)?;
    let view = |name: &str, limit: u64, used: Option<u64>| LimitView {
        name: name.to_owned(),
        limit,
        used,
    };
    Ok(vec![
        view(
            "rpm",
            limits.rpm.into(),
            windows.map(|windows| used(windows.requests)),
        ),
        view("tpm", limits.tpm, tokens.map(used)),
        view(
            "keys",
            limits.keys.into(),
            u64::try_from(keys.iter().filter(counts).count()).ok(),
        ),
        view("chats", limits.chats.into(), Some(chats.into())),
        view("files", limits.files, Some(files.files)),
        view("files_gib", limits.files_gib, Some(files.bytes.div_ceil(1 << 30))),
        view("batch_tokens", limits.batch_tokens, None),
    ])
}

fn in_force(operations: &Operations, account: &Account) -> LimitsView {
    let (own, default) = (account.limits, operations.default_limits);
    LimitsView {
        rpm: operations.limiter.rpm(account, Budget::Work),
        tpm: operations.limiter.tpm(account),
        keys: own.keys.unwrap_or(default.keys),
        chats: own.chats.unwrap_or(default.chats),
        files: own.files.map_or(default.files, u64::from),
        files_gib: own.files_gib.map_or(default.files_gib, u64::from),
        batch_tokens: own.batch_tokens.unwrap_or(default.batch_tokens),
    }
}

fn not_closed(unfinished: CloseBlockers) -> Error {
    let CloseBlockers {
        is_active,
        calls,
        jobs,
        subscriptions,
    } = unfinished;
    let counted = |number: u64, what: &str| match number {
        0 => None,
        1 => Some(format!("1 {what}")),
        many => Some(format!("{many} {what}s")),
    };
    let open = [
        counted(calls, "running call"),
        counted(jobs, "unfinished job"),
        counted(subscriptions, "open subscription"),
    ];
    let open: Vec<String> = open.into_iter().flatten().collect();
    if is_active {
        let message = "The account is active. Suspend it first, then close it.";
        return Error::new(ErrorCode::Conflict, message);
    }
    // Only the keys of the account can cancel its jobs and batches, and these keys work only while
    // the account is active.
    let advice = [
        (calls, "Wait until the running calls end."),
        (
            jobs,
            "Wait until the jobs and batches end, or resume the account so that its owner can cancel them.",
        ),
        (
            subscriptions,
            "Cancel the open subscriptions and wait until their paid periods end.",
        ),
    ];
    let mut message = format!("The account has {}.", open.join(" and "));
    for (_, text) in advice.into_iter().filter(|(number, _)| *number > 0) {
        message.push(' ');
        message.push_str(text);
    }
    message.push_str(" Then close the account.");
    Error::new(ErrorCode::Conflict, message)
}

/// Returns an error if the account is closed. Succeeds if it does not exist, because the command
/// itself reports that error.
pub(crate) async fn refuse_closed(operations: &Operations, id: AccountId) -> Result<(), Error> {
    let found = operations
        .storage
        .accounts
        .get(id)
        .await
        .map_err(Error::internal)?;
    found.map_or(Ok(()), |account| account.refuse_closed().map_err(no_such_account))
}

/// Returns an error if the account is suspended.
pub(crate) async fn refuse_suspended(operations: &Operations, id: AccountId) -> Result<(), Error> {
    check_not_suspended(&find(operations, id).await?)
}

/// Returns an error if the account is suspended: its members can only read it.
pub fn check_not_suspended(account: &Account) -> Result<(), Error> {
    match account.state {
        AccountState::Suspended => {
            let message =
                "The account is suspended and can only be read. Contact the operator of this service.";
            Err(Error::new(ErrorCode::PermissionDenied, message).with_param("account"))
        }
        _ => Ok(()),
    }
}

fn done(operations: &Operations, changed: &AccountChanged) -> Completed<AccountView> {
    operations
        .keys
        .invalidate(Notification::Account(changed.after.id));
    Completed {
        reply: AccountView::of(&changed.after),
        before: to_value(AccountView::of(&changed.before)).ok(),
        is_removal: false,
    }
}

fn check_rate(param: &str, is_zero: bool) -> Result<(), Error> {
    if is_zero {
        let message = "A limit per minute must be above 0. To block an account, suspend it.";
        return Err(Error::new(ErrorCode::InvalidParameter, message).with_param(param));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tollgate_storage::Role;

    use super::*;

    #[test]
    fn each_part_of_a_change_needs_its_permission() {
        let change = |name: bool, suspended: bool, limit: bool| ChangeAccount {
            id: AccountId::from_u128(1),
            change: AccountUpdate {
                name: name.then(|| "x".to_owned()),
                suspended: suspended.then_some(true),
                rpm: limit.then_some(NewLimit::Default),
                ..AccountUpdate::default()
            },
        };
        for (name, suspended, limit, support, owner) in [
            (false, false, false, true, true),
            (true, false, false, false, true),
            (false, true, true, true, true),
            (true, true, true, false, true),
        ] {
            let required = change(name, suspended, limit).declaration().permissions;
            assert_eq!(Permission::check(Role::Support, &required).is_ok(), support);
            assert_eq!(Permission::check(Role::Owner, &required).is_ok(), owner);
            for role in [Role::Viewer, Role::Billing] {
                let error = Permission::check(role, &required).unwrap_err();
                assert_eq!(error.code, ErrorCode::PermissionDenied);
            }
        }
    }

    #[test]
    fn the_refusal_to_close_names_only_steps_that_an_operator_can_take() {
        let open = |calls, jobs, subscriptions| {
            let unfinished = CloseBlockers {
                is_active: false,
                calls,
                jobs,
                subscriptions,
            };
            not_closed(unfinished).message
        };
        assert_eq!(
            open(0, 2, 0),
            "The account has 2 unfinished jobs. Wait until the jobs and batches end, or resume the account so that its \
             owner can cancel them. Then close the account."
        );
        assert_eq!(
            open(1, 0, 1),
            "The account has 1 running call and 1 open subscription. Wait until the running calls end. Cancel the open \
             subscriptions and wait until their paid periods end. Then close the account."
        );
    }
}
