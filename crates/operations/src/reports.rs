//! Reports: pages of the ledger and of usage for exports, and monthly statements.

use tollgate_billing::statement::{self, Month, Position};
use tollgate_catalog::composition_version;
use tollgate_storage::audit::Leg;
use tollgate_storage::report::{Span, TransferCursor};
use tollgate_storage::{UsageFilter, UsagePage};
use tollgate_types::{AccountId, Credits, Error, ErrorCode, HoldId};

use crate::Operations;
use crate::accounts::time_of;
use crate::view::{ChargeView, StatementView, TransferView, UsageView};

/// Maximum number of rows per page.
const PAGE: u32 = 500;

fn invalid(param: &str, message: &str) -> Error {
    Error::new(ErrorCode::InvalidParameter, message).with_param(param)
}

/// Returns up to 500 transfers of the account in `span`, sorted by entry id and leg, after the
/// position of `after`.
pub(crate) async fn transfers(
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
        .map(|view| place(*view).ok_or_else(|| invalid("after", "'after' is not a transfer.")))
        .transpose()?;
    let reports = &operations.storage.reports;
    let page = reports.transfers(account, span, after, PAGE).await;
    let page = page.map_err(Error::internal)?;
    Ok(page.iter().map(|row| TransferView::of(account, row)).collect())
}

/// Returns up to `limit` usage rows of the account in `span`, 500 by default, newest first, after
/// the row `after`.
pub(crate) async fn usage(
    operations: &Operations,
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

/// Returns the statement of an account for one month. Fails if the month has not started.
pub(crate) async fn statement(
    operations: &Operations,
    account: AccountId,
    month: String,
) -> Result<StatementView, Error> {
    let span =
        Month::parse(&month).ok_or_else(|| invalid("month", "Write the month as YYYY-MM, e.g. 2026-11."))?;
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
