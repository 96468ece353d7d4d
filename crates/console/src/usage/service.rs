//! Reads balance, plan and usage rows of an account.

use tollgate_catalog::composition_version;
use tollgate_storage::{
    Account, Product, UsageFilter, UsageGroup, UsagePage, UsageRow, UsageStore, UsageTotal,
};
use tollgate_types::Error;

use super::wire::{AccountUsage, BalanceRecord, GroupTotals, PlanRecord, Totals, UsageRecord};
use crate::Console;

/// Filter, page and grouping that a usage query selects.
pub(super) struct UsageRequest {
    pub(super) filter: UsageFilter,
    pub(super) page: UsagePage,
    pub(super) group: Option<UsageGroup>,
}

pub(super) async fn account_usage(
    console: &Console,
    owner: &Account,
    request: UsageRequest,
) -> Result<AccountUsage, Error> {
    let account = owner.id;
    let UsageRequest {
        mut filter,
        page,
        group,
    } = request;
    if let Some(name) = &mut filter.model
        && let Some(model) = console.catalog.current().resolve(name)
    {
        *name = model.id.to_string();
    }
    let one_more = UsagePage {
        limit: page.limit + 1,
        ..page
    };
    let mut rows = console
        .usage
        .list(account, filter.clone(), one_more)
        .await
        .map_err(Error::from)?;
    let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let balance = console.ledger.balance(account).await.map_err(Error::from)?;
    let whole = console
        .usage
        .totals(account, filter.clone(), UsageGroup::All)
        .await
        .map_err(Error::from)?;
    let mut totals = whole.first().map(Totals::from).unwrap_or_default();
    if let Some(group) = group {
        let groups = console
            .usage
            .totals(account, filter, group)
            .await
            .map_err(Error::from)?;
        totals.groups = groups
            .iter()
            .map(|total: &UsageTotal| GroupTotals {
                group: total.group.clone(),
                totals: total.into(),
            })
            .collect();
    }
    let mut data = Vec::with_capacity(rows.len());
    for row in &rows {
        data.push(record(&*console.usage, row).await?);
    }
    Ok(AccountUsage {
        balance: BalanceRecord {
            credits: balance.credits.to_string(),
            held: balance.held.to_string(),
        },
        plan: plan(console, owner).await?,
        data,
        totals,
        has_more,
    })
}

/// Endpoint of research, whose usage rows have parts.
const RESEARCH: &str = "/v1/research";

/// Returns the record of a usage row. Only rows of compositions and of research have parts to load.
pub(crate) async fn record(usage: &dyn UsageStore, row: &UsageRow) -> Result<UsageRecord, Error> {
    if row.price_version != composition_version() && &*row.endpoint != RESEARCH {
        return Ok(UsageRecord::of(row, &[]));
    }
    let parts = usage.parts(row.account, row.id).await;
    Ok(UsageRecord::of(row, &parts.map_err(Error::from)?))
}

/// Returns the account's most recent plan.
async fn plan(console: &Console, owner: &Account) -> Result<Option<PlanRecord>, Error> {
    let found = console.subscriptions.list(owner.id).await.map_err(Error::from)?;
    let Some(plan) = found.iter().find(|found| found.terms.product == Product::Plan) else {
        return Ok(None);
    };
    let left = console
        .subscriptions
        .allowance(owner.id)
        .await
        .map_err(Error::from)?;
    let now = owner.time(console.clock.now());
    Ok(Some(PlanRecord::of(plan, plan.week_at(left, now))))
}
