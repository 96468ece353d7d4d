//! Accounts and their limits.

use std::time::Duration;

use serde_json::to_value;
use tollgate_storage::{Account, AccountChanged, AccountState, Limits, News, StorageError};
use tollgate_types::{AccountId, Error, ErrorCode, Timestamp};

use super::audited::Carried;
use super::execute::balance;
use super::view::{AccountView, Reply};
pub(super) use tollgate_billing::refusal::no_such_account;

use super::{AccountWish, NewLimit};
use crate::wiring::Domains;

/// Accounts that are read at once.
const PAGE: u32 = 500;

pub(super) async fn find(domains: &Domains, id: AccountId) -> Result<Account, Error> {
    let found = domains.storage.accounts.get(id).await.map_err(Error::internal)?;
    found.ok_or_else(|| no_such_account(StorageError::not_found(id)))
}

/// The time that it is for what the account pays and has.
pub(super) async fn time_of(domains: &Domains, id: AccountId) -> Result<Timestamp, Error> {
    Ok(find(domains, id).await?.time(domains.clock.now()))
}

pub(super) async fn create(domains: &Domains, name: String, test_clock: bool) -> Result<Reply, Error> {
    check_name(&name)?;
    let now = domains.clock.now();
    let account = Account {
        id: AccountId::from_u128(domains.ids.next(now)),
        name,
        state: AccountState::Active,
        limits: Limits::default(),
        test_clock: test_clock.then_some(Duration::ZERO),
        created_at: now,
    };
    let created = domains.storage.accounts.create(account.clone()).await;
    created.map_err(Error::internal)?;
    Ok(Reply::Account(AccountView::of(&account)))
}

fn check_name(name: &str) -> Result<(), Error> {
    if name.is_empty() || name.chars().count() > 200 || name.chars().any(char::is_control) {
        let message = "A name has 1 to 200 characters.";
        return Err(Error::new(ErrorCode::InvalidParameter, message).with_param("name"));
    }
    Ok(())
}

/// Accounts in order of id, after one; all of them where no limit is given.
pub(super) async fn list(
    domains: &Domains,
    mut after: Option<AccountId>,
    limit: Option<u32>,
) -> Result<Reply, Error> {
    let mut views: Vec<AccountView> = Vec::new();
    loop {
        let page = domains.storage.accounts.list(after, limit.unwrap_or(PAGE)).await;
        let page = page.map_err(Error::internal)?;
        views.extend(page.iter().map(AccountView::of));
        after = page.last().map(|account| account.id);
        if page.is_empty() || limit.is_some() {
            return Ok(Reply::Accounts(views));
        }
    }
}

pub(super) async fn show(domains: &Domains, id: AccountId) -> Result<Reply, Error> {
    let account = find(domains, id).await?;
    let balance = Some(balance(domains, id).await?);
    Ok(Reply::Account(AccountView {
        balance,
        ..AccountView::of(&account)
    }))
}

pub(super) async fn change(domains: &Domains, id: AccountId, wish: AccountWish) -> Result<Carried, Error> {
    if let Some(name) = &wish.name {
        check_name(name)?;
    }
    check_rate("rpm", wish.rpm == Some(NewLimit::Own(0)))?;
    check_rate("tpm", wish.tpm == Some(NewLimit::Own(0)))?;
    let changed = domains.storage.accounts.change(id, wish.into()).await;
    let changed = changed.map_err(no_such_account)?;
    Ok(done(domains, &changed))
}

pub(super) async fn advance(domains: &Domains, id: AccountId, to: Timestamp) -> Result<Carried, Error> {
    let changed = domains.test_clocks().advance(id, to).await?;
    Ok(done(domains, &changed))
}

fn done(domains: &Domains, changed: &AccountChanged) -> Carried {
    domains.keys.hear(News::Account(changed.after.id));
    Carried {
        reply: Reply::Account(AccountView::of(&changed.after)),
        before: to_value(AccountView::of(&changed.before)).ok(),
        is_gone: false,
    }
}

fn check_rate(param: &str, is_zero: bool) -> Result<(), Error> {
    if is_zero {
        let message = "A limit per minute is above 0; to keep an account from calling, suspend it.";
        return Err(Error::new(ErrorCode::InvalidParameter, message).with_param(param));
    }
    Ok(())
}
