//! Reports: pages of the books for exports, and statements.

use tollgate_billing::statement::{self, Month, Position};
use tollgate_catalog::composition_version;
use tollgate_storage::audit::Leg;
use tollgate_storage::report::{Span, TransferPlace};
use tollgate_storage::{UsageFilter, UsagePage};
use tollgate_types::{AccountId, Credits, Error, ErrorCode, HoldId};

use super::accounts::time_of;
use super::view::{ChargeView, StatementView, TransferView, UsageView};
use crate::wiring::Domains;

/// Rows of a page.
const PAGE: u32 = 500;

fn invalid(param: &str, message: &str) -> Error {
    Error::new(ErrorCode::InvalidParameter, message).with_param(param)
}

/// A page of transfers.
pub(super) async fn transfers(
    domains: &Domains,
    account: AccountId,
    span: Span,
    after: Option<Box<TransferView>>,
) -> Result<Vec<TransferView>, Error> {
    let place = |view: TransferView| {
        let (_, digits) = view.entry_id.split_once('_')?;
        Some(TransferPlace {
            entry: u128::from_str_radix(digits, 16).ok()?,
            leg: Leg::parse(&view.leg)?,
        })
    };
    let after = after
        .map(|view| place(*view).ok_or_else(|| invalid("after", "It is no transfer.")))
        .transpose()?;
    let reports = &domains.storage.reports;
    let page = reports.transfers(account, span, after, PAGE).await;
    let page = page.map_err(Error::internal)?;
    Ok(page.iter().map(|row| TransferView::of(account, row)).collect())
}

/// A page of usage rows.
pub(super) async fn usage(
    domains: &Domains,
    account: AccountId,
    span: Span,
    after: Option<HoldId>,
    limit: Option<u32>,
) -> Result<Vec<UsageView>, Error> {
    let filter = UsageFilter {
        from: span.from,
        to: span.to,
        ..UsageFilter::default()
    };
    let limit = limit.unwrap_or(PAGE);
    let page = UsagePage { after, limit };
    let rows = domains.storage.usage.list(account, filter, page).await;
    let mut views = Vec::new();
    for row in &rows.map_err(Error::internal)? {
        // Only compositions have parts that could be asked for.
        let parts = match row.price_version == composition_version() {
            true => domains.storage.usage.parts(account, row.id).await,
            false => Ok(Vec::new()),
        };
        views.push(UsageView::of(row, &parts.map_err(Error::internal)?));
    }
    Ok(views)
}

/// The statement of a month.
pub(super) async fn statement(
    domains: &Domains,
    account: AccountId,
    month: String,
) -> Result<StatementView, Error> {
    let span = Month::parse(&month).ok_or_else(|| invalid("month", "A month is such as 2026-11."))?;
    if span.start > time_of(domains, account).await? {
        return Err(invalid("month", "The month has not begun."));
    }
    let told = statement::statement(&*domains.storage.reports, account, span).await;
    let told = told.map_err(Error::internal)?;
    let balance = |position: Position| credits(position.balance);
    Ok(StatementView {
        account,
        month,
        start: span.start.to_rfc3339(),
        end: span.end.to_rfc3339(),
        opening: balance(told.opening),
        opening_held: credits(told.opening.held),
        purchases: told.moved(Leg::Grant),
        promotions: told.moved(Leg::Promotion),
        refunds: told.moved(Leg::Refund),
        charged: told.moved(Leg::Settle),
        plan_fees: told.moved(Leg::PlanFee),
        plan_periods: told.count(Leg::PlanFee),
        expired: told.moved(Leg::Expire),
        withdrawn: told.moved(Leg::Withdraw),
        closing: balance(told.closing),
        closing_held: credits(told.closing.held),
        allowance_used: told.moved(Leg::SettleIncluded),
        allowance_refunded: told.moved(Leg::RefundAllowance),
        charges: told.charges.iter().map(ChargeView::of).collect(),
        faults: told.faults(),
    })
}

fn credits(nanos: i128) -> Credits {
    Credits::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
}
