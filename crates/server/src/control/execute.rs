//! Carries out commands.

use tollgate_accounts::KeyWish;
use tollgate_billing::plans::{self, Wish};
use tollgate_billing::{Plan, Scope, check_ledger};
use tollgate_storage::report::Span;
use tollgate_storage::{AuditFilter, Cadence, Compat, KeyChange, KeyMode, Subscription};
use tollgate_types::{AccountId, Credits, Error, ErrorCode, SubscriptionId, Timestamp, Unit};

use super::accounts::{find, no_such_account, time_of};
use super::audited::Carried;
use super::credits::RefundWish;
use super::top_ups::PageView;
use super::view::{
    BalanceView, CheckView, CreatedKeyView, EventView, KeyView, ModelView, PlanView, RenewedByView, Reply,
    SubscriptionView,
};
use super::{
    Actor, Command, SubscriptionWish, accounts, alerts, batches, credits, people, prices, receipts, reports,
    top_ups,
};
use crate::wiring::Domains;

/// Carries out a command. Whether the actor may was asked before.
pub(super) async fn carry_out(domains: &Domains, actor: &Actor, command: Command) -> Result<Carried, Error> {
    match command {
        Command::CheckPrices { proposed, force } => {
            let checked = prices::check(domains, actor.name(), proposed, force).await?;
            Ok(checked.into())
        }
        Command::ChangeAccount { id, change } => accounts::change(domains, id, change).await,
        Command::AdvanceClock { account, to } => accounts::advance(domains, account, to).await,
        Command::SetMemberRole { account, id, role } => {
            people::set_member_role(domains, account, id, &role).await
        }
        Command::RemoveMember { account, id } => people::remove_member(domains, account, id).await,
        other => answer(domains, other).await.map(Carried::from),
    }
}

/// The answer to a command that does not say what was there before.
async fn answer(domains: &Domains, command: Command) -> Result<Reply, Error> {
    match command {
        Command::CreateAccount { name, test_clock } => accounts::create(domains, name, test_clock).await,
        Command::ListAccounts { after, limit } => accounts::list(domains, after, limit).await,
        Command::ShowAccount { id } => accounts::show(domains, id).await,
        Command::CreateKey {
            account,
            name,
            expires_in_days,
            lenient,
            test,
            sync,
        } => {
            let mode = if test { KeyMode::Test } else { KeyMode::Live };
            let expires_at = expires_in_days.map(|days| credits::in_days(domains.clock.now(), days));
            let expires_at = expires_at.transpose()?;
            let wish = KeyWish {
                name,
                mode,
                compat: compat(lenient),
                sync,
                expires_at,
            };
            let (key, secret) = domains.keys.create(account, wish).await?;
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
        Command::ChangeKey { id, lenient, sync } => {
            let change = KeyChange {
                compat: lenient.map(compat),
                sync,
            };
            let key = domains.keys.change(id, change).await?;
            Ok(Reply::Key(KeyView::of(&key, domains.clock.now())))
        }
        Command::RevokeKey { id } => {
            let key = domains.keys.revoke(id).await?;
            Ok(Reply::Key(KeyView::of(&key, domains.clock.now())))
        }
        Command::Grant { account, grant } => {
            Ok(Reply::Granted(credits::grant(domains, account, grant).await?))
        }
        Command::ListLots { account, all } => Ok(Reply::Lots(credits::lots(domains, account, all).await?)),
        Command::ShowBalance { account } => Ok(Reply::Balance(balance(domains, account).await?)),
        Command::Refund {
            request,
            account,
            amount,
            reason,
            key,
        } => {
            let refund = RefundWish {
                request,
                account,
                amount,
                reason,
                key,
            };
            Ok(Reply::Refund(credits::refund(domains, refund).await?))
        }
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
        Command::OpenSubscription {
            account,
            plan,
            cadence,
        } => open_subscription(domains, account, &plan, cadence.as_deref()).await,
        Command::ListBatches {
            account,
            before,
            limit,
        } => batches::list(domains, account, before, limit).await,
        Command::ShowBatch { id } => batches::show(domains, id).await,
        Command::ListSubscriptions { account } => list_subscriptions(domains, account).await,
        Command::ShowSubscription { id } => show_subscription(domains, id).await,
        Command::ChangeSubscription { id, wish } => {
            let wish = match wish {
                SubscriptionWish::Cancel => Wish::Cancel,
                SubscriptionWish::Resume => Wish::Resume,
                SubscriptionWish::Renew => Wish::Renew,
            };
            let now = time_of_subscription(domains, id).await?;
            let changed = plans::change(&*domains.storage.subscriptions, id, wish, now).await?;
            if let Some(top_ups) = &domains.top_ups {
                top_ups.tell_of_plan(id).await;
            }
            subscription(domains, &changed).await
        }
        Command::ChangePlan { id, plan, cadence } => {
            let plan = offered(domains, &plan, cadence.as_deref())?;
            check_payer(domains, id).await?;
            let now = time_of_subscription(domains, id).await?;
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
            limit,
        } => {
            find(domains, account).await?;
            let page = reports::usage(domains, account, Span { from, to }, after, limit).await?;
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
            Ok(Reply::LedgerAudit(receipts::audit(domains, scope).await?))
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
        Command::CreateAdmin { name, role } => people::create_admin(domains, name, &role).await,
        Command::ListAdmins => people::list_admins(domains).await,
        Command::RevokeAdmin { id } => people::revoke_admin(domains, id).await,
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
            people::audit_log(domains, filter, before, limit).await
        }
        Command::ListMembers { account } => people::list_members(domains, account).await,
        Command::AddMember { account, email, role } => {
            people::add_member(domains, account, &email, &role).await
        }
        Command::ListProviders => {
            let snapshot = domains.catalog.current().clone();
            Ok(Reply::Providers(domains.roster.views(&snapshot)))
        }
        Command::ListPrices => prices::list(domains).await,
        Command::ShowPrices { model } => prices::history(domains, &model).await,
        Command::ChangeAccount { .. }
        | Command::AdvanceClock { .. }
        | Command::SetMemberRole { .. }
        | Command::RemoveMember { .. }
        | Command::CheckPrices { .. } => Err(Error::internal("the command is carried out elsewhere")),
    }
}

fn compat(lenient: bool) -> Compat {
    match lenient {
        true => Compat::Lenient,
        false => Compat::Strict,
    }
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
    let now = time_of(domains, account).await?;
    let id = SubscriptionId::from_u128(domains.ids.next(now));
    let made = plans::subscribe(&*domains.storage.subscriptions, id, account, plan, now).await?;
    subscription(domains, &made).await
}

/// Opens a page on which a plan is begun that the payment provider renews.
async fn open_subscription(
    domains: &Domains,
    account: AccountId,
    name: &str,
    cadence: Option<&str>,
) -> Result<Reply, Error> {
    let seller = top_ups::seller(domains)?;
    let plan = offered(domains, name, cadence)?;
    let instead = "`tollgate subscriptions create` subscribes it to a plan";
    top_ups::check_time(domains, account, instead).await?;
    let opened = seller.open_plan(account, plan).await?;
    Ok(Reply::Page(PageView {
        url: opened.url,
        top_up: None,
        subscription: Some(opened.subscription),
    }))
}

/// A subscription that the payment provider renews would end there, and nobody would pay for the other one.
async fn check_payer(domains: &Domains, id: SubscriptionId) -> Result<(), Error> {
    let found = domains.storage.provider_subscriptions.get(id).await;
    match found.map_err(Error::internal)? {
        None => Ok(()),
        Some(_) => {
            let message = "The payment provider renews the subscription at its price. Cancel it, and open a page for the other plan when it has ended.";
            Err(Error::new(ErrorCode::InvalidParameter, message).with_param("id"))
        }
    }
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
    let now = time_of(domains, account).await?;
    let found = domains.storage.subscriptions.list(account).await;
    let left = allowance(domains, account).await?;
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
    let now = time_of(domains, found.terms.account).await?;
    let view = SubscriptionView::of(&found, left, now);
    let renewed = domains.storage.provider_subscriptions.get(id).await;
    let renewed = renewed.map_err(Error::internal)?;
    Ok(Reply::Subscription(SubscriptionView {
        renewed_by: renewed.as_ref().map(RenewedByView::of).map(Box::new),
        events: events.iter().map(EventView::of).collect(),
        ..view
    }))
}

async fn subscription(domains: &Domains, subscription: &Subscription) -> Result<Reply, Error> {
    let left = allowance(domains, subscription.terms.account).await?;
    let now = time_of(domains, subscription.terms.account).await?;
    Ok(Reply::Subscription(SubscriptionView::of(subscription, left, now)))
}

/// The time of the account of a subscription.
async fn time_of_subscription(domains: &Domains, id: SubscriptionId) -> Result<Timestamp, Error> {
    let found = domains
        .storage
        .subscriptions
        .get(id)
        .await
        .map_err(Error::internal)?;
    let found = found.ok_or_else(|| Error::new(ErrorCode::NotFound, "There is no such subscription."))?;
    time_of(domains, found.terms.account).await
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
