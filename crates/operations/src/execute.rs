//! Dispatches each command to its handler.

use std::sync::Arc;

use tollgate_accounts::KeyParams;
use tollgate_billing::plans::{self, PlanAction};
use tollgate_billing::{Plan, Scope, check_ledger};
use tollgate_storage::report::Span;
use tollgate_storage::{
    AuditFilter, Cadence, Compat, Key, KeyChange, KeyMode, Product, Subscription, SubscriptionState,
};
use tollgate_types::{AccountId, Credits, Error, ErrorCode, SubscriptionId, Timestamp};

use crate::Operations;
use crate::accounts::{find, no_such_account, time_of};
use crate::audited::CommandResult;
use crate::credits::RefundParams;
use crate::top_ups::PageView;
use crate::view::{
    BalanceView, CheckView, CreatedKeyView, EventView, KeyView, ModelView, PlanView, RenewedByView, Reply,
    SubscriptionView,
};
use crate::{
    Actor, Command, SubscriptionAction, accounts, alerts, batches, credits, people, prices, receipts,
    reports, top_ups,
};

/// Executes a command. The caller must have checked the permission of the actor.
pub(crate) async fn execute(
    operations: &Operations,
    actor: &Actor,
    command: Command,
) -> Result<CommandResult, Error> {
    match command {
        Command::CheckPrices { proposed, force } => {
            let checked = prices::check(operations, actor.name(), proposed, force).await?;
            Ok(checked.into())
        }
        Command::ChangeAccount { id, change } => accounts::change(operations, id, change).await,
        Command::AdvanceClock { account, to } => accounts::advance(operations, account, to).await,
        Command::SetMemberRole { account, id, role } => {
            people::set_member_role(operations, account, id, &role).await
        }
        Command::RemoveMember { account, id } => people::remove_member(operations, account, id).await,
        other => answer(operations, other).await.map(CommandResult::from),
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
async fn answer(operations: &Operations, command: Command) -> Result<Reply, Error> {
    if let Some(account) = account_to_extend(&command) {
        accounts::refuse_closed(operations, account).await?;
    }
    match command {
        Command::CloseAccount { id } => accounts::close(operations, id).await,
        Command::CreateAccount { name, test_clock } => accounts::create(operations, name, test_clock).await,
        Command::ListAccounts { after, limit, name } => {
            accounts::list(operations, after, limit, name.as_deref()).await
        }
        Command::ShowAccount { id } => accounts::show(operations, id).await,
        Command::CreateKey {
            account,
            name,
            expires_in_days,
            compat,
            test,
            sync,
        } => {
            let mode = if test { KeyMode::Test } else { KeyMode::Live };
            let expires_at = expires_in_days.map(|days| credits::in_days(operations.clock.now(), days));
            let expires_at = expires_at.transpose()?;
            let params = KeyParams {
                name,
                mode,
                compat: read_compat(compat.as_deref())?.unwrap_or_default(),
                sync,
                expires_at,
            };
            let (key, secret) = operations.keys.create(account, params).await?;
            Ok(Reply::CreatedKey(CreatedKeyView {
                id: key.id,
                key: secret.reveal().to_owned(),
            }))
        }
        Command::ListKeys { account } => {
            find(operations, account).await?;
            let keys = operations.keys.list(account).await?;
            Ok(Reply::Keys(view_keys(operations, account, &keys).await?))
        }
        Command::ChangeKey { id, compat, sync } => {
            let compat = read_compat(compat.as_deref())?;
            let change = KeyChange { compat, sync };
            let key = operations.keys.change(id, change).await?;
            Ok(Reply::Key(view_key(operations, &key).await))
        }
        Command::RevokeKey { id } => {
            let key = operations.keys.revoke(id).await?;
            Ok(Reply::Key(view_key(operations, &key).await))
        }
        Command::Grant { account, grant } => {
            Ok(Reply::Granted(credits::grant(operations, account, grant).await?))
        }
        Command::ListLots { account, all } => Ok(Reply::Lots(credits::lots(operations, account, all).await?)),
        Command::ShowBalance { account } => Ok(Reply::Balance(balance(operations, account).await?)),
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
            Ok(Reply::Refund(credits::refund(operations, refund).await?))
        }
        Command::RefundGrant { id } => Ok(Reply::Withdrawal(credits::refund_grant(operations, id).await?)),
        Command::TopUps { action } => top_ups::execute(operations, action).await,
        Command::Alerts { action } => alerts::execute(operations, action).await,
        Command::ListPlans => Ok(Reply::Plans(
            operations.plans.all().values().map(PlanView::of).collect(),
        )),
        Command::Subscribe {
            account,
            plan,
            cadence,
        } => subscribe(operations, account, &plan, cadence.as_deref()).await,
        Command::OpenSubscription {
            account,
            plan,
            cadence,
        } => open_subscription(operations, account, &plan, cadence.as_deref()).await,
        Command::ListBatches {
            account,
            before,
            limit,
        } => batches::list(operations, account, before, limit).await,
        Command::ShowBatch { id } => batches::show(operations, id).await,
        Command::ListSubscriptions { account } => list_subscriptions(operations, account).await,
        Command::ShowSubscription { id } => show_subscription(operations, id).await,
        Command::ChangeSubscription { id, action } => {
            let action = match action {
                SubscriptionAction::Cancel => PlanAction::Cancel,
                SubscriptionAction::Resume => PlanAction::Resume,
                SubscriptionAction::Renew => PlanAction::Renew,
            };
            let now = time_of_subscription(operations, id).await?;
            let changed = plans::change(&*operations.storage.subscriptions, id, action, now).await?;
            if let Some(top_ups) = &operations.top_ups {
                top_ups.sync_plan(id).await;
            }
            subscription(operations, &changed).await
        }
        Command::ChangePlan { id, plan, cadence } => {
            let plan = offered(operations, &plan, cadence.as_deref())?;
            check_payer(operations, id).await?;
            let now = time_of_subscription(operations, id).await?;
            let new = SubscriptionId::from_u128(operations.ids.next(now));
            let subscriptions = &*operations.storage.subscriptions;
            let changed = plans::change_plan(subscriptions, id, new, plan, now).await?;
            subscription(operations, &changed).await
        }
        Command::ListTransfers {
            account,
            from,
            to,
            after,
        } => {
            find(operations, account).await?;
            let page = reports::transfers(operations, account, Span { from, to }, after).await?;
            Ok(Reply::Transfers(page))
        }
        Command::ListUsage {
            account,
            from,
            to,
            after,
            limit,
        } => {
            find(operations, account).await?;
            let page = reports::usage(operations, account, Span { from, to }, after, limit).await?;
            Ok(Reply::UsageRows(page))
        }
        Command::ShowStatement { account, month } => {
            find(operations, account).await?;
            let statement = reports::statement(operations, account, month).await?;
            Ok(Reply::Statement(Box::new(statement)))
        }
        Command::ListModels => Ok(Reply::Models(ModelView::all(&operations.catalog.current()))),
        Command::AuditLedger { account, from, to } => {
            if let Some(account) = account {
                find(operations, account).await?;
            }
            let scope = Scope { account, from, to };
            Ok(Reply::LedgerAudit(receipts::audit(operations, scope).await?))
        }
        Command::ShowReceipt { request } => {
            let receipt = receipts::receipt(operations, request).await?;
            Ok(Reply::Receipt(Box::new(receipt)))
        }
        Command::CheckLedger { reprice } => {
            let report = check_ledger(&*operations.storage.ledger, reprice)
                .await
                .map_err(Error::internal)?;
            Ok(Reply::Check(CheckView::from(&report)))
        }
        Command::CreateAdmin { name, role } => people::create_admin(operations, name, &role).await,
        Command::ListAdmins => people::list_admins(operations).await,
        Command::RevokeAdmin { id } => people::revoke_admin(operations, id).await,
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
            people::audit_log(operations, filter, before, limit).await
        }
        Command::ListMembers { account } => people::list_members(operations, account).await,
        Command::AddMember { account, email, role } => {
            people::add_member(operations, account, &email, &role).await
        }
        Command::ListProviders => {
            let snapshot = operations.catalog.current().clone();
            Ok(Reply::Providers(operations.server.providers(&snapshot)))
        }
        Command::ShowServer => operations.server.addresses().map(Reply::Server).ok_or_else(|| {
            Error::new(
                ErrorCode::NotFound,
                "No server runs here. Start one with `tollgate serve`.",
            )
        }),
        Command::ListPrices => prices::list(operations).await,
        Command::ShowPrices { model } => prices::history(operations, &model).await,
        Command::ChangeAccount { .. }
        | Command::AdvanceClock { .. }
        | Command::SetMemberRole { .. }
        | Command::RemoveMember { .. }
        | Command::CheckPrices { .. } => Err(Error::internal("the command has its own handler")),
    }
}

/// Returns the views of an account's keys with their last use.
async fn view_keys(operations: &Operations, account: AccountId, keys: &[Key]) -> Result<Vec<KeyView>, Error> {
    let used = operations.storage.usage.last_used(account).await;
    let used = used.map_err(Error::internal)?;
    let now = operations.clock.now();
    let view = |key: &Key| KeyView::of(key, used.get(&key.id).copied(), now);
    Ok(keys.iter().map(view).collect())
}

/// Returns the view of a changed key. If its last use cannot be read, the view omits it, because
/// the change has succeeded.
async fn view_key(operations: &Operations, key: &Key) -> KeyView {
    let used = operations.storage.usage.last_used(key.account).await.ok();
    let used = used.and_then(|used| used.get(&key.id).copied());
    KeyView::of(key, used, operations.clock.now())
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
pub(crate) async fn balance(operations: &Operations, account: AccountId) -> Result<BalanceView, Error> {
    let storage = &operations.storage;
    let balance = storage.ledger.balance(account).await.map_err(no_such_account)?;
    let subscriptions = storage.subscriptions.list(account).await;
    let subscriptions = subscriptions.map_err(Error::internal)?;
    let has_plan = subscriptions.iter().any(|subscription| {
        subscription.terms.product == Product::Plan && subscription.state == SubscriptionState::Active
    });
    if !has_plan {
        return Ok(balance.into());
    }
    let at = time_of(operations, account).await?;
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
    operations: &Operations,
    account: AccountId,
    name: &str,
    cadence: Option<&str>,
) -> Result<Reply, Error> {
    let plan = offered(operations, name, cadence)?;
    let now = time_of(operations, account).await?;
    let id = SubscriptionId::from_u128(operations.ids.next(now));
    let created = plans::subscribe(&*operations.storage.subscriptions, id, account, plan, now).await?;
    subscription(operations, &created).await
}

/// Creates a checkout page for a plan that the payment provider bills.
async fn open_subscription(
    operations: &Operations,
    account: AccountId,
    name: &str,
    cadence: Option<&str>,
) -> Result<Reply, Error> {
    let seller = top_ups::seller(operations)?;
    let plan = offered(operations, name, cadence)?;
    let instead = "use `tollgate subscriptions create` instead";
    top_ups::check_time(operations, account, instead).await?;
    let opened = seller.open_plan(account, plan).await?;
    Ok(Reply::Page(PageView {
        url: opened.url,
        top_up: None,
        subscription: Some(opened.subscription),
    }))
}

/// Returns an error if the payment provider bills the subscription: a plan change would cancel it
/// at the provider, and nothing would pay for the new plan.
async fn check_payer(operations: &Operations, id: SubscriptionId) -> Result<(), Error> {
    let found = operations.storage.provider_subscriptions.get(id).await;
    match found.map_err(Error::internal)? {
        None => Ok(()),
        Some(_) => {
            let message = "The payment provider bills this subscription. Cancel it, then create a checkout page for the other plan when it has ended.";
            Err(Error::new(ErrorCode::InvalidParameter, message).with_param("id"))
        }
    }
}

/// Returns the plan with this name from the settings, with the given period length.
fn offered(operations: &Operations, name: &str, cadence: Option<&str>) -> Result<Plan, Error> {
    let plan = operations.plans.all().get(name).cloned();
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

async fn list_subscriptions(operations: &Operations, account: AccountId) -> Result<Reply, Error> {
    let now = time_of(operations, account).await?;
    let found = operations.storage.subscriptions.list(account).await;
    let left = allowance(operations, account).await?;
    let views = found.map_err(Error::internal)?;
    let views = views.iter().map(|found| SubscriptionView::of(found, left, now));
    Ok(Reply::Subscriptions(views.collect()))
}

async fn show_subscription(operations: &Operations, id: SubscriptionId) -> Result<Reply, Error> {
    let subscriptions = &operations.storage.subscriptions;
    let found = subscriptions.get(id).await.map_err(Error::internal)?;
    let found = found.ok_or_else(|| Error::new(ErrorCode::NotFound, "There is no such subscription."))?;
    let events = subscriptions.events(id).await.map_err(Error::internal)?;
    let left = allowance(operations, found.terms.account).await?;
    let now = time_of(operations, found.terms.account).await?;
    let view = SubscriptionView::of(&found, left, now);
    let renewed = operations.storage.provider_subscriptions.get(id).await;
    let renewed = renewed.map_err(Error::internal)?;
    Ok(Reply::Subscription(SubscriptionView {
        renewed_by: renewed.as_ref().map(RenewedByView::of).map(Box::new),
        events: events.iter().map(EventView::of).collect(),
        ..view
    }))
}

async fn subscription(operations: &Operations, subscription: &Subscription) -> Result<Reply, Error> {
    let left = allowance(operations, subscription.terms.account).await?;
    let now = time_of(operations, subscription.terms.account).await?;
    Ok(Reply::Subscription(SubscriptionView::of(subscription, left, now)))
}

/// Returns the current time of the account of a subscription.
async fn time_of_subscription(operations: &Operations, id: SubscriptionId) -> Result<Timestamp, Error> {
    let found = operations
        .storage
        .subscriptions
        .get(id)
        .await
        .map_err(Error::internal)?;
    let found = found.ok_or_else(|| Error::new(ErrorCode::NotFound, "There is no such subscription."))?;
    time_of(operations, found.terms.account).await
}

async fn allowance(operations: &Operations, account: AccountId) -> Result<Credits, Error> {
    let left = operations.storage.subscriptions.allowance(account).await;
    left.map_err(no_such_account)
}
