//! Reads the calls of an account.

use bytes::Bytes;
use futures_util::{Stream, stream};
use tollgate_operations::{ShowCall, export};
use tollgate_storage::{UsageFilter, UsagePage, UsageRow};
use tollgate_types::{AccountId, Error, ErrorCode, HoldId};

use super::wire::{CallDetail, CallList, CsvRow, Receipt, Timeline, Transfer};
use crate::ConsoleApi;
use crate::usage::service::record;

/// Maximum number of calls that a page reads to find those that match a filter.
const MAX_SCANNED: u32 = 10_000;
/// Number of calls that an export reads at a time.
const EXPORT_PAGE: u32 = 500;

/// Replaces an alias or bare name in the filter by the id of its model.
fn resolved(console: &ConsoleApi, mut filter: UsageFilter) -> UsageFilter {
    if let Some(name) = &mut filter.model
        && let Some(model) = console.operations.catalog.current().resolve(name)
    {
        *name = model.id.to_string();
    }
    filter
}

/// Returns a page of calls.
pub(super) async fn list(
    console: &ConsoleApi,
    account: AccountId,
    filter: UsageFilter,
    page: UsagePage,
) -> Result<CallList, Error> {
    let usage = &console.operations.storage.usage;
    let filter = resolved(console, filter);
    let found = usage.calls(account, filter, page, MAX_SCANNED).await;
    let found = found.map_err(Error::from)?;
    let mut data = Vec::with_capacity(found.rows.len());
    for row in &found.rows {
        data.push(record(&**usage, row).await?);
    }
    Ok(CallList {
        data,
        has_more: found.next.is_some(),
        next: found.next,
    })
}

async fn row(console: &ConsoleApi, account: AccountId, id: HoldId) -> Result<UsageRow, Error> {
    // The page that begins directly before the id.
    let page = UsagePage {
        after: id.as_u128().checked_add(1).map(HoldId::from_u128),
        limit: 1,
    };
    let usage = &console.operations.storage.usage;
    let rows = usage.list(account, UsageFilter::default(), page).await;
    let mut rows = rows.map_err(Error::from)?.into_iter();
    rows.next()
        .filter(|row| row.id == id)
        .ok_or_else(|| Error::new(ErrorCode::NotFound, "The call does not exist."))
}

/// Returns a call with its receipt.
pub(super) async fn get(
    console: &ConsoleApi,
    actor: &tollgate_operations::Actor,
    account: AccountId,
    id: HoldId,
) -> Result<CallDetail, Error> {
    let row = row(console, account, id).await?;
    let receipt = console
        .operations
        .execute(actor, ShowCall { account, id })
        .await?;
    let transfers = receipt.transfers.iter();
    Ok(CallDetail {
        call: record(&*console.operations.storage.usage, &row).await?,
        timeline: Timeline::of(&row),
        // The operator bears what exceeds the held amount.
        transfers: transfers
            .filter(|transfer| transfer.leg != "overrun")
            .map(Transfer::of)
            .collect(),
        receipt: Some(Receipt::of(&receipt)),
    })
}

/// Returns all matching calls as CSV, newest first, read page by page.
pub(super) fn csv(
    console: ConsoleApi,
    account: AccountId,
    filter: UsageFilter,
) -> impl Stream<Item = Result<Bytes, Error>> + Send + use<> {
    struct Export {
        console: ConsoleApi,
        filter: UsageFilter,
        after: Option<HoldId>,
        is_started: bool,
        is_done: bool,
    }
    let export = Export {
        filter: resolved(&console, filter),
        console,
        after: None,
        is_started: false,
        is_done: false,
    };
    stream::try_unfold(export, move |mut export| async move {
        if export.is_done {
            return Ok::<_, Error>(None);
        }
        let page = UsagePage {
            after: export.after,
            limit: EXPORT_PAGE,
        };
        let usage = &export.console.operations.storage.usage;
        let found = usage
            .calls(account, export.filter.clone(), page, MAX_SCANNED)
            .await
            .map_err(Error::from)?;
        let rows: Vec<CsvRow> = found.rows.iter().map(CsvRow::of).collect();
        let mut is_started = export.is_started;
        let bytes = export::csv_rows(&rows, &mut is_started)?;
        export.is_started = is_started;
        export.after = found.next;
        export.is_done = found.next.is_none();
        Ok(Some((Bytes::from(bytes), export)))
    })
}
