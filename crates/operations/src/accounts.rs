//! Commands on accounts and their limits.

use std::time::Duration;

use serde_json::to_value;
use tollgate_storage::{
    Account, AccountChanged, AccountState, Budget, CloseBlockers, CloseOutcome, Limits, Notification,
    StorageError,
};
use tollgate_types::{AccountId, Error, ErrorCode, Timestamp};

use crate::audited::CommandResult;
use crate::execute::balance;
use crate::view::{AccountView, LimitsView, Reply};
pub(crate) use tollgate_billing::refusal::no_such_account;

use crate::Operations;
use crate::{AccountUpdate, NewLimit};

/// Maximum number of accounts per database query.
const PAGE: u32 = 500;

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

pub(crate) async fn create(operations: &Operations, name: String, test_clock: bool) -> Result<Reply, Error> {
    check_name(&name)?;
    let now = operations.clock.now();
    let account = Account {
        id: AccountId::from_u128(operations.ids.next(now)),
        name,
        state: AccountState::Active,
        limits: Limits::default(),
        test_clock: test_clock.then_some(Duration::ZERO),
        created_at: now,
    };
    let created = operations.storage.accounts.create(account.clone()).await;
    created.map_err(Error::internal)?;
    Ok(Reply::Account(AccountView::of(&account)))
}

fn check_name(name: &str) -> Result<(), Error> {
    if name.is_empty() || name.chars().count() > 200 || name.chars().any(char::is_control) {
        let message = "'name' must have 1 to 200 characters.";
        return Err(Error::new(ErrorCode::InvalidParameter, message).with_param("name"));
    }
    Ok(())
}

/// Lists at most `limit` accounts with ids above `after`, in ascending order of ids. With `name`,
/// lists only accounts whose names contain it, ignoring case.
pub(crate) async fn list(
    operations: &Operations,
    mut after: Option<AccountId>,
    limit: Option<u32>,
    name: Option<&str>,
) -> Result<Reply, Error> {
    let part = name.map(str::to_lowercase);
    let fits = |account: &Account| match &part {
        Some(part) => account.name.to_lowercase().contains(part),
        None => true,
    };
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    // Matches may be rare, so a name filter reads full pages.
    let page_size = match &part {
        Some(_) => PAGE,
        None => u32::try_from(limit).unwrap_or(PAGE).min(PAGE),
    };
    let mut views: Vec<AccountView> = Vec::new();
    loop {
        let page = operations.storage.accounts.list(after, page_size).await;
        let page = page.map_err(Error::internal)?;
        after = page.last().map(|account| account.id);
        views.extend(page.iter().filter(|account| fits(account)).map(AccountView::of));
        if page.is_empty() || views.len() >= limit {
            views.truncate(limit);
            return Ok(Reply::Accounts(views));
        }
    }
}

pub(crate) async fn show(operations: &Operations, id: AccountId) -> Result<Reply, Error> {
    let account = find(operations, id).await?;
    let balance = Some(balance(operations, id).await?);
    Ok(Reply::Account(AccountView {
        balance,
        limits_in_force: Some(in_force(operations, &account)),
        ..AccountView::of(&account)
    }))
}

fn in_force(operations: &Operations, account: &Account) -> LimitsView {
    let (own, default) = (account.limits, operations.default_limits);
    LimitsView {
        rpm: operations.limiter.rpm(account, Budget::Work),
        tpm: operations.limiter.tpm(account),
        keys: own.keys.unwrap_or(default.keys),
        files: own.files.map_or(default.files, u64::from),
        files_gib: own.files_gib.map_or(default.files_gib, u64::from),
        batch_tokens: own.batch_tokens.unwrap_or(default.batch_tokens),
    }
}

pub(crate) async fn change(
    operations: &Operations,
    id: AccountId,
    update: AccountUpdate,
) -> Result<CommandResult, Error> {
    if let Some(name) = &update.name {
        check_name(name)?;
    }
    check_rate("rpm", update.rpm == Some(NewLimit::Own(0)))?;
    check_rate("tpm", update.tpm == Some(NewLimit::Own(0)))?;
    let changed = operations.storage.accounts.change(id, update.into()).await;
    let changed = changed.map_err(no_such_account)?;
    Ok(done(operations, &changed))
}

/// Closes an account. If the account cannot be closed yet, the error names the reasons.
pub(crate) async fn close(operations: &Operations, id: AccountId) -> Result<Reply, Error> {
    let closing = operations
        .storage
        .accounts
        .close_account(id, operations.clock.now())
        .await;
    match closing.map_err(no_such_account)? {
        CloseOutcome::Closed(account) => {
            operations.keys.invalidate(Notification::Account(id));
            Ok(Reply::Account(AccountView::of(&account)))
        }
        CloseOutcome::Refused(unfinished) => Err(not_closed(unfinished)),
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
    let mut message = format!("The account has {}.", open.join(", "));
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

pub(crate) async fn advance(
    operations: &Operations,
    id: AccountId,
    to: Timestamp,
) -> Result<CommandResult, Error> {
    let changed = operations.test_clocks().advance(id, to).await?;
    Ok(done(operations, &changed))
}

fn done(operations: &Operations, changed: &AccountChanged) -> CommandResult {
    operations
        .keys
        .invalidate(Notification::Account(changed.after.id));
    CommandResult {
        reply: Reply::Account(AccountView::of(&changed.after)),
        before: to_value(AccountView::of(&changed.before)).ok(),
        is_gone: false,
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
    use super::*;

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
            "The account has 1 running call, 1 open subscription. Wait until the running calls end. Cancel the open \
             subscriptions and wait until their paid periods end. Then close the account."
        );
    }
}
