//! Dispatches each command to its handler.

use std::sync::Arc;

use tollgate_accounts::KeyParams;
use tollgate_billing::plans::{self, PlanAction};
use tollgate_billing::{Plan, Scope, check_ledger};
use tollgate_catalog::Snapshot;
use tollgate_storage::report::Span;
use tollgate_storage::{
    AuditFilter, Cadence, Compat, Key, KeyChange, KeyMode, Product, Subscription, SubscriptionState,
};
use tollgate_types::{AccountId, Credits, Error, ErrorCode, SubscriptionId, Timestamp, Unit};

use super::accounts::{find, no_such_account, time_of};
use super::audited::CommandResult;
use super::credits::RefundParams;
use super::top_ups::PageView;
use super::view::{
    BalanceView, CheckView, CreatedKeyView, EventView, KeyView, ModelView, PlanView, RenewedByView, Reply,
    SubscriptionView,
};
use super::{
    Actor, Command, SubscriptionAction, accounts, alerts, batches, credits, people, prices, receipts,
    reports, top_ups,
};
use crate::wiring::AppState;

/// Executes a command. The caller must have checked the permission of the actor.
pub(super) async fn execute(
    app_state: &AppState,
    actor: &Actor,
    command: Command,
) -> Result<CommandResult, Error> {
    match command {
        Command::CheckPrices { proposed, force } => {
            let checked = prices::check(app_state, actor.name(), proposed, force).await?;
            Ok(checked.into())
        }
        Command::ChangeAccount { id, change } => accounts::change(app_state, id, change).await,
        Command::AdvanceClock { account, to } => accounts::advance(app_state, account, to).await,
        Command::SetMemberRole { account, id, role } => {
            people::set_member_role(app_state, account, id, &role).await
        }
        Command::RemoveMember { account, id } => people::remove_member(app_state, account, id).await,
        other => answer(app_state, other).await.map(CommandResult::from),
    }
}

/// Returns the account of a command that a closed account refuses, such as a grant or a new key.
fn account_to_extend(command: &Command) -> Option<AccountId> {
    match command {
        Command::CreateKey { account, .. }
        | Command::Grant { account, .. }
        | Command::Subscribe { account, .. }
        | Command::OpenSubscription { account, .. }
        | Command::AddMember { account, .. } => Some(*account),
        Command::Alerts { action } => action.audit_record().map(|(_, account)| account),
        Command::TopUps { action } => action.audit_record().and_then(|(_, account)| account),
        _ => None,
    }
}

/// Executes a command whose audit entry has no state before the change.
async fn answer(app_state: &AppState, command: Command) -> Result<Reply, Error> {
    if let Some(account) = account_to_extend(&command) {
        accounts::refuse_closed(app_state, account).await?;
    }
    match command {
        Command::CloseAccount { id } => accounts::close(app_state, id).await,
        Command::CreateAccount { name, test_clock } => accounts::create(app_state, name, test_clock).await,
        Command::ListAccounts { after, limit, name } => {
            accounts::list(app_state, after, limit, name.as_deref()).await
        }
        Command::ShowAccount { id } => accounts::show(app_state, id).await,
        Command::CreateKey {
            account,
            name,
            expires_in_days,
            compat,
            test,
            sync,
        } => {
            let mode = if test { KeyMode::Test } else { KeyMode::Live };
            let expires_at = expires_in_days.map(|days| credits::in_days(app_state.clock.now(), days));
            let expires_at = expires_at.transpose()?;
            let params = KeyParams {
                name,
                mode,
                compat: read_compat(compat.as_deref())?.unwrap_or_default(),
                sync,
                expires_at,
            };
            let (key, secret) = app_state.keys.create(account, params).await?;
            Ok(Reply::CreatedKey(CreatedKeyView {
                id: key.id,
                key: secret.reveal().to_owned(),
            }))
        }
        Command::ListKeys { account } => {
            find(app_state, account).await?;
            let keys = app_state.keys.list(account).await?;
            Ok(Reply::Keys(view_keys(app_state, account, &keys).await?))
        }
        Command::ChangeKey { id, compat, sync } => {
            let compat = read_compat(compat.as_deref())?;
            let change = KeyChange { compat, sync };
            let key = app_state.keys.change(id, change).await?;
            Ok(Reply::Key(view_key(app_state, &key).await))
        }
        Command::RevokeKey { id } => {
            let key = app_state.keys.revoke(id).await?;
            Ok(Reply::Key(view_key(app_state, &key).await))
        }
        Command::Grant { account, grant } => {
            Ok(Reply::Granted(credits::grant(app_state, account, grant).await?))
        }
        Command::ListLots { account, all } => Ok(Reply::Lots(credits::lots(app_state, account, all).await?)),
        Command::ShowBalance { account } => Ok(Reply::Balance(balance(app_state, account).await?)),
        Command::Refund {
            request,
            account,
            amount,
            reason,
            key,
        } => {
            let refund = RefundParams {
                request,
                account,
                amount,
                reason,
                key,
            };
            Ok(Reply::Refund(credits::refund(app_state, refund).await?))
        }
        Command::RefundGrant { id } => Ok(Reply::Withdrawal(credits::refund_grant(app_state, id).await?)),
        Command::TopUps { action } => top_ups::execute(app_state, action).await,
        Command::Alerts { action } => alerts::execute(app_state, action).await,
        Command::ListPlans => Ok(Reply::Plans(
            app_state.plans.all().values().map(PlanView::of).collect(),
        )),
        Command::Subscribe {
            account,
            plan,
            cadence,
        } => subscribe(app_state, account, &plan, cadence.as_deref()).await,
        Command::OpenSubscription {
            account,
            plan,
            cadence,
        } => open_subscription(app_state, account, &plan, cadence.as_deref()).await,
        Command::ListBatches {
            account,
            before,
            limit,
        } => batches::list(app_state, account, before, limit).await,
        Command::ShowBatch { id } => batches::show(app_state, id).await,
        Command::ListSubscriptions { account } => list_subscriptions(app_state, account).await,
        Command::ShowSubscription { id } => show_subscription(app_state, id).await,
        Command::ChangeSubscription { id, action } => {
            let action = match action {
                SubscriptionAction::Cancel => PlanAction::Cancel,
                SubscriptionAction::Resume => PlanAction::Resume,
                SubscriptionAction::Renew => PlanAction::Renew,
            };
            let now = time_of_subscription(app_state, id).await?;
            let changed = plans::change(&*app_state.storage.subscriptions, id, action, now).await?;
            if let Some(top_ups) = &app_state.top_ups {
                top_ups.sync_plan(id).await;
            }
            subscription(app_state, &changed).await
        }
        Command::ChangePlan { id, plan, cadence } => {
            let plan = offered(app_state, &plan, cadence.as_deref())?;
            check_payer(app_state, id).await?;
            let now = time_of_subscription(app_state, id).await?;
            let new = SubscriptionId::from_u128(app_state.ids.next(now));
            let subscriptions = &*app_state.storage.subscriptions;
            let changed = plans::change_plan(subscriptions, id, new, plan, now).await?;
            subscription(app_state, &changed).await
        }
        Command::ListTransfers {
            account,
            from,
            to,
            after,
        } => {
            find(app_state, account).await?;
            let page = reports::transfers(app_state, account, Span { from, to }, after).await?;
            Ok(Reply::Transfers(page))
        }
        Command::ListUsage {
            account,
            from,
            to,
            after,
            limit,
        } => {
            find(app_state, account).await?;
            let page = reports::usage(app_state, account, Span { from, to }, after, limit).await?;
            Ok(Reply::UsageRows(page))
        }
        Command::ShowStatement { account, month } => {
            find(app_state, account).await?;
            let statement = reports::statement(app_state, account, month).await?;
            Ok(Reply::Statement(Box::new(statement)))
        }
        Command::ListModels => Ok(Reply::Models(list_models(&app_state.catalog.current()))),
        Command::AuditLedger { account, from, to } => {
            if let Some(account) = account {
                find(app_state, account).await?;
            }
            let scope = Scope { account, from, to };
            Ok(Reply::LedgerAudit(receipts::audit(app_state, scope).await?))
        }
        Command::ShowReceipt { request } => {
            let receipt = receipts::receipt(app_state, request).await?;
            Ok(Reply::Receipt(Box::new(receipt)))
        }
        Command::CheckLedger { reprice } => {
            let report = check_ledger(&*app_state.storage.ledger, reprice)
                .await
                .map_err(Error::internal)?;
            Ok(Reply::Check(CheckView::from(&report)))
        }
        Command::CreateAdmin { name, role } => people::create_admin(app_state, name, &role).await,
        Command::ListAdmins => people::list_admins(app_state).await,
        Command::RevokeAdmin { id } => people::revoke_admin(app_state, id).await,
        Command::ListAudit {
            account,
            actor,
            action,
            since,
            before,
            limit,
        } => {
            let filter = AuditFilter {
                account,
                actor,
                action,
                since,
            };
            people::audit_log(app_state, filter, before, limit).await
        }
        Command::ListMembers { account } => people::list_members(app_state, account).await,
        Command::AddMember { account, email, role } => {
            people::add_member(app_state, account, &email, &role).await
        }
        Command::ListProviders => {
            let snapshot = app_state.catalog.current().clone();
            Ok(Reply::Providers(app_state.provider_status.views(&snapshot)))
        }
        Command::ShowServer => app_state
            .provider_status
            .listening()
            .map(Reply::Server)
            .ok_or_else(|| {
                Error::new(
                    ErrorCode::NotFound,
                    "No server runs here. Start one with `tollgate serve`.",
                )
            }),
        Command::ListPrices => prices::list(app_state).await,
        Command::ShowPrices { model } => prices::history(app_state, &model).await,
        Command::ChangeAccount { .. }
        | Command::AdvanceClock { .. }
        | Command::SetMemberRole { .. }
        | Command::RemoveMember { .. }
        | Command::CheckPrices { .. } => Err(Error::internal("the command has its own handler")),
    }
}

/// Returns the views of an account's keys with their last use.
async fn view_keys(app_state: &AppState, account: AccountId, keys: &[Key]) -> Result<Vec<KeyView>, Error> {
    let used = app_state.storage.usage.last_used(account).await;
    let used = used.map_err(Error::internal)?;
    let now = app_state.clock.now();
    let view = |key: &Key| KeyView::of(key, used.get(&key.id).copied(), now);
    Ok(keys.iter().map(view).collect())
}

/// Returns the view of a changed key. If its last use cannot be read, the view omits it, because
/// the change has succeeded.
async fn view_key(app_state: &AppState, key: &Key) -> KeyView {
    let used = app_state.storage.usage.last_used(key.account).await.ok();
    let used = used.and_then(|used| used.get(&key.id).copied());
    KeyView::of(key, used, app_state.clock.now())
}

fn read_compat(name: Option<&str>) -> Result<Option<Compat>, Error> {
    let unknown = || {
        let message = "'compat' must be 'strict', 'standard' or 'lenient'.";
        Error::new(ErrorCode::InvalidParameter, message).with_param("compat")
    };
    name.map(|name| Compat::parse(name).ok_or_else(unknown))
        .transpose()
}

/// Returns the available and held credits of an account, and its allowance if a plan is active.
pub(super) async fn balance(app_state: &AppState, account: AccountId) -> Result<BalanceView, Error> {
    let storage = &app_state.storage;
    let balance = storage.ledger.balance(account).await.map_err(no_such_account)?;
    let subscriptions = storage.subscriptions.list(account).await;
    let subscriptions = subscriptions.map_err(Error::internal)?;
    let has_plan = subscriptions.iter().any(|subscription| {
        subscription.terms.product == Product::Plan && subscription.state == SubscriptionState::Active
    });
    if !has_plan {
        return Ok(balance.into());
    }
    let at = time_of(app_state, account).await?;
    let spendable = storage.ledger.spendable(account, Arc::default(), at).await;
    let spendable = spendable.map_err(Error::internal)?;
    Ok(BalanceView {
        credits: spendable.credits,
        allowance: Some(spendable.allowance),
        spendable: Some(spendable.total()),
        ..balance.into()
    })
}

async fn subscribe(
    app_state: &AppState,
    account: AccountId,
    name: &str,
    cadence: Option<&str>,
) -> Result<Reply, Error> {
    let plan = offered(app_state, name, cadence)?;
    let now = time_of(app_state, account).await?;
    let id = SubscriptionId::from_u128(app_state.ids.next(now));
    let created = plans::subscribe(&*app_state.storage.subscriptions, id, account, plan, now).await?;
    subscription(app_state, &created).await
}

/// Creates a checkout page for a plan that the payment provider bills.
async fn open_subscription(
    app_state: &AppState,
    account: AccountId,
    name: &str,
    cadence: Option<&str>,
) -> Result<Reply, Error> {
    let seller = top_ups::seller(app_state)?;
    let plan = offered(app_state, name, cadence)?;
    let instead = "use `tollgate subscriptions create` instead";
    top_ups::check_time(app_state, account, instead).await?;
    let opened = seller.open_plan(account, plan).await?;
    Ok(Reply::Page(PageView {
        url: opened.url,
        top_up: None,
        subscription: Some(opened.subscription),
    }))
}

/// Returns an error if the payment provider bills the subscription: a plan change would cancel it
/// at the provider, and nothing would pay for the new plan.
async fn check_payer(app_state: &AppState, id: SubscriptionId) -> Result<(), Error> {
    let found = app_state.storage.provider_subscriptions.get(id).await;
    match found.map_err(Error::internal)? {
        None => Ok(()),
        Some(_) => {
            let message = "The payment provider bills this subscription. Cancel it, then create a checkout page for the other plan when it has ended.";
            Err(Error::new(ErrorCode::InvalidParameter, message).with_param("id"))
        }
    }
}

/// Returns the plan with this name from the settings, with the given period length.
fn offered(app_state: &AppState, name: &str, cadence: Option<&str>) -> Result<Plan, Error> {
    let plan = app_state.plans.all().get(name).cloned();
    let plan = plan.ok_or_else(|| {
        let message = "There is no such plan. `tollgate plans list` lists the available plans.";
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

async fn list_subscriptions(app_state: &AppState, account: AccountId) -> Result<Reply, Error> {
    let now = time_of(app_state, account).await?;
    let found = app_state.storage.subscriptions.list(account).await;
    let left = allowance(app_state, account).await?;
    let views = found.map_err(Error::internal)?;
    let views = views.iter().map(|found| SubscriptionView::of(found, left, now));
    Ok(Reply::Subscriptions(views.collect()))
}

async fn show_subscription(app_state: &AppState, id: SubscriptionId) -> Result<Reply, Error> {
    let subscriptions = &app_state.storage.subscriptions;
    let found = subscriptions.get(id).await.map_err(Error::internal)?;
    let found = found.ok_or_else(|| Error::new(ErrorCode::NotFound, "There is no such subscription."))?;
    let events = subscriptions.events(id).await.map_err(Error::internal)?;
    let left = allowance(app_state, found.terms.account).await?;
    let now = time_of(app_state, found.terms.account).await?;
    let view = SubscriptionView::of(&found, left, now);
    let renewed = app_state.storage.provider_subscriptions.get(id).await;
    let renewed = renewed.map_err(Error::internal)?;
    Ok(Reply::Subscription(SubscriptionView {
        renewed_by: renewed.as_ref().map(RenewedByView::of).map(Box::new),
        events: events.iter().map(EventView::of).collect(),
        ..view
    }))
}

async fn subscription(app_state: &AppState, subscription: &Subscription) -> Result<Reply, Error> {
    let left = allowance(app_state, subscription.terms.account).await?;
    let now = time_of(app_state, subscription.terms.account).await?;
    Ok(Reply::Subscription(SubscriptionView::of(subscription, left, now)))
}

/// Returns the current time of the account of a subscription.
async fn time_of_subscription(app_state: &AppState, id: SubscriptionId) -> Result<Timestamp, Error> {
    let found = app_state
        .storage
        .subscriptions
        .get(id)
        .await
        .map_err(Error::internal)?;
    let found = found.ok_or_else(|| Error::new(ErrorCode::NotFound, "There is no such subscription."))?;
    time_of(app_state, found.terms.account).await
}

async fn allowance(app_state: &AppState, account: AccountId) -> Result<Credits, Error> {
    let left = app_state.storage.subscriptions.allowance(account).await;
    left.map_err(no_such_account)
}

/// Returns views of all models in the catalog.
pub(super) fn list_models(snapshot: &Snapshot) -> Vec<ModelView> {
    let view = |model: &std::sync::Arc<tollgate_catalog::Model>| ModelView {
        id: model.id.to_string(),
        display_name: model.display_name.clone(),
        release_date: model.release_date.clone().unwrap_or_else(|| "-".to_owned()),
        input_price: model.prices.per_million(Unit::Input),
        output_price: model.prices.per_million(Unit::Output),
        prices: model.prices.entries().collect(),
        context_window: model.context_window,
        targets: model
            .candidates
            .iter()
            .map(|c| format!("{}/{}", c.provider, c.upstream_model))
            .collect(),
    };
    snapshot.models().iter().map(view).collect()
}
