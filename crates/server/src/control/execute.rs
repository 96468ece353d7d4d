//! Carries out commands.

use std::time::Duration;

use tollgate_billing::plans::{self, Wish};
use tollgate_billing::{Plan, Scope, check_ledger};
use tollgate_storage::report::Span;
use tollgate_storage::{
    Account, AccountState, Cadence, Compat, KeyMode, Limits, StorageError, StorageErrorKind, Subscription,
};
use tollgate_types::{AccountId, Credits, Error, ErrorCode, SubscriptionId, Unit};

use super::view::{
    AccountView, BalanceView, CheckView, CreatedKeyView, EventView, KeyView, ModelView, PlanView, Reply,
    SubscriptionView,
};
use super::{Command, NewLimit, SubscriptionWish, alerts, credits, receipts, reports, top_ups};
use crate::wiring::Domains;

/// Carries out a command.
pub async fn execute(domains: &Domains, command: Command) -> Result<Reply, Error> {
    match command {
        Command::CreateAccount { name } => create_account(domains, name).await,
        Command::ListAccounts => list_accounts(domains).await,
        Command::ShowAccount { id } => show_account(domains, id).await,
        Command::SetLimits { id, rpm, tpm } => set_limits(domains, id, rpm, tpm).await,
        Command::Suspend { id, resume } => suspend(domains, id, resume).await,
        Command::CreateKey {
            account,
            name,
            expires_in_days,
            lenient,
            test,
        } => {
            let mode = if test { KeyMode::Test } else { KeyMode::Live };
            let day = Duration::from_secs(24 * 60 * 60);
            let expires_at = expires_in_days.map(|days| domains.clock.now().plus(day * days));
            let (key, secret) = domains
                .keys
                .create(account, &name, mode, compat(lenient), expires_at)
                .await?;
            Ok(Reply::CreatedKey(CreatedKeyView {
                id: key.id,
                key: secret.reveal().to_owned(),
            }))
        }
        Command::ListKeys { account } => {
            find(domains, account).await?;
            let keys = domains.keys.list(account).await?;
            let now = domains.clock.now();
            Ok(Reply::Keys(
                keys.iter().map(|key| KeyView::of(key, now)).collect(),
            ))
        }
        Command::SetCompat { id, lenient } => {
            let key = domains.keys.set_compat(id, compat(lenient)).await?;
            Ok(Reply::Key(KeyView::of(&key, domains.clock.now())))
        }
        Command::RevokeKey { id } => {
            let key = domains.keys.revoke(id).await?;
            Ok(Reply::Key(KeyView::of(&key, domains.clock.now())))
        }
        Command::Grant { account, grant } => {
            Ok(Reply::Balance(credits::grant(domains, account, grant).await?))
        }
        Command::ListLots { account, all } => Ok(Reply::Lots(credits::lots(domains, account, all).await?)),
        Command::ShowBalance { account } => Ok(Reply::Balance(balance(domains, account).await?)),
        Command::Refund {
            request,
            amount,
            reason,
            key,
        } => Ok(Reply::Refund(
            credits::refund(domains, request, amount, reason, key).await?,
        )),
        Command::RefundGrant { id } => Ok(Reply::Withdrawal(credits::refund_grant(domains, id).await?)),
        Command::TopUps { wish } => top_ups::carry_out(domains, wish).await,
        Command::Alerts { wish } => alerts::carry_out(domains, wish).await,
        Command::ListPlans => Ok(Reply::Plans(
            domains.plans.all().values().map(PlanView::of).collect(),
        )),
        Command::Subscribe {
            account,
            plan,
            cadence,
        } => subscribe(domains, account, &plan, cadence.as_deref()).await,
        Command::ListSubscriptions { account } => list_subscriptions(domains, account).await,
        Command::ShowSubscription { id } => show_subscription(domains, id).await,
        Command::ChangeSubscription { id, wish } => {
            let wish = match wish {
                SubscriptionWish::Cancel => Wish::Cancel,
                SubscriptionWish::Resume => Wish::Resume,
                SubscriptionWish::Renew => Wish::Renew,
            };
            let (subscriptions, now) = (&*domains.storage.subscriptions, domains.clock.now());
            let changed = plans::change(subscriptions, id, wish, now).await?;
            subscription(domains, &changed).await
        }
        Command::ChangePlan { id, plan, cadence } => {
            let plan = offered(domains, &plan, cadence.as_deref())?;
            let now = domains.clock.now();
            let new = SubscriptionId::from_u128(domains.ids.next(now));
            let subscriptions = &*domains.storage.subscriptions;
            let changed = plans::change_plan(subscriptions, id, new, plan, now).await?;
            subscription(domains, &changed).await
        }
        Command::ListTransfers {
            account,
            from,
            to,
            after,
        } => {
            find(domains, account).await?;
            let page = reports::transfers(domains, account, Span { from, to }, after).await?;
            Ok(Reply::Transfers(page))
        }
        Command::ListUsage {
            account,
            from,
            to,
            after,
        } => {
            find(domains, account).await?;
            let page = reports::usage(domains, account, Span { from, to }, after).await?;
            Ok(Reply::UsageRows(page))
        }
        Command::ShowStatement { account, month } => {
            find(domains, account).await?;
            let statement = reports::statement(domains, account, month).await?;
            Ok(Reply::Statement(Box::new(statement)))
        }
        Command::ListModels => Ok(Reply::Models(list_models(domains))),
        Command::AuditLedger { account, from, to } => {
            if let Some(account) = account {
                find(domains, account).await?;
            }
            let scope = Scope { account, from, to };
            Ok(Reply::Audit(receipts::audit(domains, scope).await?))
        }
        Command::ShowReceipt { request } => {
            let receipt = receipts::receipt(domains, request).await?;
            Ok(Reply::Receipt(Box::new(receipt)))
        }
        Command::CheckLedger { reprice } => {
            let report = check_ledger(&*domains.storage.ledger, reprice)
                .await
                .map_err(Error::internal)?;
            Ok(Reply::Check(CheckView::from(&report)))
        }
    }
}

fn compat(lenient: bool) -> Compat {
    match lenient {
        true => Compat::Lenient,
        false => Compat::Strict,
    }
}

pub(super) fn no_such_account(error: StorageError) -> Error {
    match error.kind {
        StorageErrorKind::NotFound => Error::new(ErrorCode::NotFound, "There is no such account."),
        _ => Error::internal(error),
    }
}

async fn find(domains: &Domains, id: AccountId) -> Result<Account, Error> {
    let found = domains.storage.accounts.get(id).await.map_err(Error::internal)?;
    found.ok_or_else(|| no_such_account(StorageError::not_found(id)))
}

async fn create_account(domains: &Domains, name: String) -> Result<Reply, Error> {
    if name.is_empty() || name.chars().count() > 200 || name.chars().any(char::is_control) {
        return Err(
            Error::new(ErrorCode::InvalidParameter, "A name has 1 to 200 characters.").with_param("name"),
        );
    }
    let now = domains.clock.now();
    let account = Account {
        id: AccountId::from_u128(domains.ids.next(now)),
        name,
        state: AccountState::Active,
        limits: Limits::default(),
        created_at: now,
    };
    domains
        .storage
        .accounts
        .create(account.clone())
        .await
        .map_err(Error::internal)?;
    Ok(Reply::Account(AccountView::of(&account)))
}

async fn list_accounts(domains: &Domains) -> Result<Reply, Error> {
    let mut views: Vec<AccountView> = Vec::new();
    loop {
        let after = views.last().map(|view| view.id);
        let page = domains
            .storage
            .accounts
            .list(after, 500)
            .await
            .map_err(Error::internal)?;
        if page.is_empty() {
            return Ok(Reply::Accounts(views));
        }
        views.extend(page.iter().map(AccountView::of));
    }
}

async fn show_account(domains: &Domains, id: AccountId) -> Result<Reply, Error> {
    let account = find(domains, id).await?;
    let balance = Some(balance(domains, id).await?);
    Ok(Reply::Account(AccountView {
        balance,
        ..AccountView::of(&account)
    }))
}

async fn set_limits(
    domains: &Domains,
    id: AccountId,
    rpm: Option<NewLimit<u32>>,
    tpm: Option<NewLimit<u64>>,
) -> Result<Reply, Error> {
    let account = find(domains, id).await?;
    let limits = Limits {
        rpm: rpm.map_or(account.limits.rpm, NewLimit::own),
        tpm: tpm.map_or(account.limits.tpm, NewLimit::own),
    };
    domains
        .storage
        .accounts
        .set_limits(id, limits)
        .await
        .map_err(no_such_account)?;
    domains.keys.forget();
    Ok(Reply::Account(AccountView::of(&Account { limits, ..account })))
}

async fn suspend(domains: &Domains, id: AccountId, resume: bool) -> Result<Reply, Error> {
    let account = find(domains, id).await?;
    let state = if resume {
        AccountState::Active
    } else {
        AccountState::Suspended
    };
    domains
        .storage
        .accounts
        .set_state(id, state)
        .await
        .map_err(no_such_account)?;
    domains.keys.forget();
    Ok(Reply::Account(AccountView::of(&Account { state, ..account })))
}

/// What an account can spend.
pub(super) async fn balance(domains: &Domains, account: AccountId) -> Result<BalanceView, Error> {
    Ok(domains
        .storage
        .ledger
        .balance(account)
        .await
        .map_err(no_such_account)?
        .into())
}

async fn subscribe(
    domains: &Domains,
    account: AccountId,
    name: &str,
    cadence: Option<&str>,
) -> Result<Reply, Error> {
    let plan = offered(domains, name, cadence)?;
    let now = domains.clock.now();
    let id = SubscriptionId::from_u128(domains.ids.next(now));
    let made = plans::subscribe(&*domains.storage.subscriptions, id, account, plan, now).await?;
    subscription(domains, &made).await
}

/// A plan that can be subscribed to, with periods of this length.
fn offered(domains: &Domains, name: &str, cadence: Option<&str>) -> Result<Plan, Error> {
    let plan = domains.plans.all().get(name).cloned();
    let plan = plan.ok_or_else(|| {
        let message = "There is no such plan; `tollgate plans list` shows those that are offered.";
        Error::new(ErrorCode::InvalidParameter, message).with_param("plan")
    })?;
    let plan = match cadence {
        None => Some(plan),
        Some(cadence) => Cadence::parse(cadence).and_then(|cadence| plan.with_cadence(cadence)),
    };
    plan.ok_or_else(|| {
        let message = "The plan has no price for this cadence.";
        Error::new(ErrorCode::InvalidParameter, message).with_param("cadence")
    })
}

async fn list_subscriptions(domains: &Domains, account: AccountId) -> Result<Reply, Error> {
    find(domains, account).await?;
    let found = domains.storage.subscriptions.list(account).await;
    let left = allowance(domains, account).await?;
    let now = domains.clock.now();
    let views = found.map_err(Error::internal)?;
    let views = views.iter().map(|found| SubscriptionView::of(found, left, now));
    Ok(Reply::Subscriptions(views.collect()))
}

async fn show_subscription(domains: &Domains, id: SubscriptionId) -> Result<Reply, Error> {
    let subscriptions = &domains.storage.subscriptions;
    let found = subscriptions.get(id).await.map_err(Error::internal)?;
    let found = found.ok_or_else(|| Error::new(ErrorCode::NotFound, "There is no such subscription."))?;
    let events = subscriptions.events(id).await.map_err(Error::internal)?;
    let left = allowance(domains, found.terms.account).await?;
    let view = SubscriptionView::of(&found, left, domains.clock.now());
    Ok(Reply::Subscription(SubscriptionView {
        events: events.iter().map(EventView::of).collect(),
        ..view
    }))
}

async fn subscription(domains: &Domains, subscription: &Subscription) -> Result<Reply, Error> {
    let left = allowance(domains, subscription.terms.account).await?;
    let now = domains.clock.now();
    Ok(Reply::Subscription(SubscriptionView::of(subscription, left, now)))
}

async fn allowance(domains: &Domains, account: AccountId) -> Result<Credits, Error> {
    let left = domains.storage.subscriptions.allowance(account).await;
    left.map_err(no_such_account)
}

fn list_models(domains: &Domains) -> Vec<ModelView> {
    let snapshot = domains.catalog.current();
    let view = |model: &std::sync::Arc<tollgate_catalog::Model>| ModelView {
        id: model.id.to_string(),
        display_name: model.display_name.clone(),
        release_date: model.release_date.clone().unwrap_or_else(|| "-".to_owned()),
        input_price: model.prices.per_million(Unit::Input),
        output_price: model.prices.per_million(Unit::Output),
        context_window: model.context_window,
        targets: model
            .candidates
            .iter()
            .map(|c| format!("{}/{}", c.provider, c.upstream_model))
            .collect(),
    };
    snapshot.models().iter().map(view).collect()
}
