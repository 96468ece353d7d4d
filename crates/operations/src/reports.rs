//! Reports: pages of the ledger and of usage for exports, and monthly statements.

use serde::{Deserialize, Serialize};
use tollgate_billing::statement::{self, Month, Position};
use tollgate_catalog::composition_version;
use tollgate_storage::audit::Leg;
use tollgate_storage::report::{Span, TransferCursor};
use tollgate_storage::{UsageFilter, UsagePage};
use tollgate_types::{AccountId, Credits, Error, HoldId, Timestamp};

use crate::accounts::{find, time_of};
use crate::credits::invalid;
use crate::operation::{Completed, Declaration, Operation};
use crate::permission::MemberPermission;
use crate::view::{ChargeView, StatementView, TransferView, UsageView};
use crate::{Actor, Operations};

/// Maximum number of rows per page.
const PAGE: u32 = 500;

/// Returns a page of an account's transfers, ordered by entry id and leg.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListTransfers {
    pub account: AccountId,
    /// Start of the time range, inclusive.
    pub from: Option<Timestamp>,
    /// End of the time range, exclusive.
    pub to: Option<Timestamp>,
    /// Last transfer of the previous page.
    pub after: Option<Box<TransferView>>,
}

impl Operation for ListTransfers {
    const NAME: &'static str = "list_transfers";
    type Reply = Vec<TransferView>;

    fn declaration(&self) -> Declaration {
        Declaration::read().of_account(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        find(operations, self.account).await?;
        let span = Span {
            from: self.from,
            to: self.to,
        };
        Ok(transfers(operations, self.account, span, self.after)
            .await?
            .into())
    }
}

/// Returns a page of an account's usage rows, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListUsage {
    pub account: AccountId,
    /// Start of the time range, inclusive.
    pub from: Option<Timestamp>,
    /// End of the time range, exclusive.
    pub to: Option<Timestamp>,
    /// Last row of the previous page.
    pub after: Option<HoldId>,
    /// Page size; `None` for the page size of exports.
    #[serde(default)]
    pub limit: Option<u32>,
}

impl Operation for ListUsage {
    const NAME: &'static str = "list_usage";
    type Reply = Vec<UsageView>;

    fn declaration(&self) -> Declaration {
        Declaration::read().of_account(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        find(operations, self.account).await?;
        let span = Span {
            from: self.from,
            to: self.to,
        };
        let page = UsagePage {
            after: self.after,
            limit: self.limit.unwrap_or(PAGE),
        };
        Ok(usage(operations, self.account, span, page).await?.into())
    }
}

/// Returns the balances and movements of an account in one month.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShowStatement {
    pub account: AccountId,
    /// Month, such as `2026-11`.
    pub month: String,
}

impl Operation for ShowStatement {
    const NAME: &'static str = "show_statement";
    type Reply = StatementView;

    fn declaration(&self) -> Declaration {
        Declaration::read()
            .for_members(MemberPermission::Read)
            .of_account(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        find(operations, self.account).await?;
        Ok(statement(operations, self.account, self.month).await?.into())
    }
}

/// Returns up to 500 transfers of the account in `span`, sorted by entry id and leg, after the
/// position of `after`.
async fn transfers(
    operations: &Operations,
    account: AccountId,
    span: Span,
    after: Option<Box<TransferView>>,
) -> Result<Vec<TransferView>, Error> {
    let place = |view: TransferView| {
        let (_, digits) = view.entry_id.split_once('_')?;
        Some(TransferCursor {
            entry: u128::from_str_radix(digits, 16).ok()?,
            leg: Leg::parse(&view.leg)?,
        })
    };
    let after = after
        .map(|view| {
            place(*view).ok_or_else(|| invalid("after", "'after' must be a transfer of the previous page."))
        })
        .transpose()?;
    let reports = &operations.storage.reports;
    let page = reports.transfers(account, span, after, PAGE).await;
    let page = page.map_err(Error::internal)?;
    Ok(page.iter().map(|row| TransferView::of(account, row)).collect())
}

/// Returns a page of the usage rows of the account in `span`, newest first.
async fn usage(
    operations: &Operations,
    account: AccountId,
    span: Span,
    page: UsagePage,
) -> Result<Vec<UsageView>, Error> {
    let filter = UsageFilter {
        from: span.from,
        to: span.to,
        ..UsageFilter::default()
    };
    let rows = operations.storage.usage.list(account, filter, page).await;
    let mut views = Vec::new();
    for row in &rows.map_err(Error::internal)? {
        // Only calls of compositions have parts.
        let parts = match row.price_version == composition_version() {
            true => operations.storage.usage.parts(account, row.id).await,
            false => Ok(Vec::new()),
        };
        views.push(UsageView::of(row, &parts.map_err(Error::internal)?));
    }
    Ok(views)
}

/// Returns the statement of an account for one month. Fails if `month` is malformed or has not
/// started.
async fn statement(
    operations: &Operations,
    account: AccountId,
    month: String,
) -> Result<StatementView, Error> {
    let span = Month::parse(&month)
        .ok_or_else(|| invalid("month", "'month' must have the form YYYY-MM, such as 2026-11."))?;
    if span.start > time_of(operations, account).await? {
        return Err(invalid("month", "The month has not started."));
    }
    let figures = statement::statement(&*operations.storage.reports, account, span).await;
    let figures = figures.map_err(Error::internal)?;
    let balance = |position: Position| credits(position.balance);
    Ok(StatementView {
        account,
        account_name: None,
        month,
        start: span.start.to_rfc3339(),
        end: span.end.to_rfc3339(),
        opening: balance(figures.opening),
        opening_held: credits(figures.opening.held),
        purchases: figures.moved(Leg::Grant),
        promotions: figures.moved(Leg::Promotion),
        refunds: figures.moved(Leg::Refund),
        charged: figures.moved(Leg::Settle),
        plan_fees: figures.moved(Leg::PlanFee),
        plan_periods: figures.count(Leg::PlanFee),
        expired: figures.moved(Leg::Expire),
        withdrawn: credits(
            i128::from(figures.moved(Leg::Withdraw).nanos())
                + i128::from(figures.moved(Leg::RevokePromotion).nanos()),
        ),
        closing: balance(figures.closing),
        closing_held: credits(figures.closing.held),
        allowance_used: figures.moved(Leg::SettleIncluded),
        allowance_refunded: figures.moved(Leg::RefundAllowance),
        charges: figures.charges.iter().map(ChargeView::of).collect(),
        faults: figures.faults(),
    })
}

fn credits(nanos: i128) -> Credits {
    Credits::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
}
