//! Proofs of charges: the audit of all charges, the receipt of one charge, and the hash chain of an
//! export.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::{Deserialize, Serialize};
use tollgate_billing::audit::arithmetic::{Cost, Line, PriceList, Split};
use tollgate_billing::chain::ChainFollower;
use tollgate_billing::{AuditReport, Scope, audit_ledger};
use tollgate_storage::audit::{LedgerAccount, Leg, TransferRow, TransferSubject};
use tollgate_storage::report::{Span, TransferCursor};
use tollgate_storage::{Link, UsageFilter, UsagePage, UsagePart, UsageRow};
use tollgate_types::id::TransferId;
use tollgate_types::usage::Outcome;
use tollgate_types::{
    AccountId, Credits, Error, ErrorCode, HoldId, PriceVersion, RequestId, Timestamp, Usage,
};

use crate::Operations;
use crate::view::TransferView;

/// Maximum number of transfers of one call.
const MAX_LEGS: u32 = 32;

/// Result of `ledger audit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerAuditView {
    /// Whether every recomputed figure equals the recorded one.
    pub clean: bool,
    /// Number of accounts read.
    pub accounts: u64,
    /// Number of recomputed charges.
    pub calls: u64,
    /// Number of charges whose usage the gateway estimated.
    pub estimated: u64,
    /// Number of plan weeks read.
    pub weeks: u64,
    /// Sum of the recomputed charges.
    pub charged: Credits,
    /// Number of differing figures.
    pub difference_count: u64,
    /// The first 100 differences.
    pub differences: Vec<DifferenceView>,
}

/// A recorded figure that differs from its recomputed value. Amounts are nano-credits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DifferenceView {
    /// Account of the figure.
    pub account_id: AccountId,
    /// Display name of the account.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub account_name: Option<String>,
    /// Subject of the figure, such as a hold or a week.
    pub subject: String,
    /// Name of the differing figure.
    pub figure: String,
    /// Value recorded in the ledger.
    pub recorded: String,
    /// Value recomputed from the usage and the prices.
    pub recomputed: String,
}

impl From<&AuditReport> for LedgerAuditView {
    fn from(report: &AuditReport) -> Self {
        let differences = report.differences.iter();
        Self {
            clean: report.is_clean(),
            accounts: report.accounts,
            calls: report.calls,
            estimated: report.estimated,
            weeks: report.weeks,
            charged: credits(report.charged),
            difference_count: report.difference_count,
            differences: differences
                .map(|difference| DifferenceView {
                    account_id: difference.account,
                    account_name: None,
                    subject: difference.subject.clone(),
                    figure: difference.figure.to_owned(),
                    recorded: difference.recorded.clone(),
                    recomputed: difference.recomputed.clone(),
                })
                .collect(),
        }
    }
}

/// One charge with its arithmetic. Amounts are credits; prices are credits per 1,000,000 units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptView {
    /// Account that made the call.
    pub account_id: AccountId,
    /// Display name of the account.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub account_name: Option<String>,
    /// Id of the call's hold.
    pub id: HoldId,
    /// The request's `x-request-id`.
    pub request_id: RequestId,
    /// Canonical id of the model.
    pub model: String,
    /// Model name in the request: an id, an alias or a bare name.
    #[serde(default)]
    pub requested_model: String,
    /// Name of the model at the provider that served the call. Absent if no provider served it, or
    /// if several models did parts of the work.
    #[serde(default)]
    pub upstream_model: Option<String>,
    /// Path of the endpoint.
    pub endpoint: String,
    /// Time when the request was accepted, RFC 3339.
    pub created_at: String,
    /// Time when the call ended, RFC 3339.
    pub ended_at: String,
    /// Outcome of the call, such as `ok` or `timeout`.
    pub outcome: String,
    /// Whether the gateway counted the usage because the provider reported none.
    pub estimated: bool,
    /// Version of the prices that applied.
    pub price_version: String,
    /// Prompt size in tokens above which long-prompt prices apply. Only present if they applied.
    pub long_prompt_above: Option<u64>,
    /// Consumption by unit.
    pub lines: Vec<ReceiptLine>,
    /// Σ quantity × price over all lines, in millionths of a nano-credit.
    pub sum: String,
    /// Separately priced parts of the call, such as the scenes of a composed video; empty for other
    /// calls.
    #[serde(default)]
    pub parts: Vec<ReceiptPart>,
    /// Requests of a batch; absent for other calls.
    #[serde(default)]
    pub requests: Option<ReceiptRequests>,
    /// `sum` divided by 1,000,000 and rounded up to whole nano-credits, plus the cost of the parts.
    /// For a batch: the cost of its requests.
    pub cost: Credits,
    /// Credits held for the call.
    pub held_credits: Credits,
    /// Plan allowance held for the call.
    pub held_allowance: Credits,
    /// Plan that applied.
    pub plan_name: Option<String>,
    /// Part of the charge that the allowance paid.
    pub included: Credits,
    /// Part of the charge that credits paid.
    pub paid: Credits,
    /// Charged amount: `included` plus `paid`.
    pub charge: Credits,
    /// Cost beyond the held amount, borne by the operator.
    pub overrun: Credits,
    /// Part of the charge that was refunded.
    pub refunded: Credits,
    /// Transfers of the call, with their positions in the hash chain.
    pub transfers: Vec<TransferView>,
    /// Whether the recorded figures equal the recomputed ones.
    pub matches: bool,
}

/// The requests of a batch. Each request costs 65 % of its sum, rounded up separately.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptRequests {
    /// Number of started requests.
    pub count: usize,
    /// Recomputed cost of all requests.
    pub cost: Credits,
    /// Recorded charge of all requests.
    pub charge: Credits,
}

/// A separately priced part of a call, such as one scene of a composed video.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptPart {
    /// Name of the part, such as `scene 3`.
    pub name: String,
    /// Canonical id of the model.
    pub model: String,
    /// Version of the prices that applied.
    pub price_version: String,
    /// Prompt size in tokens above which long-prompt prices apply. Only present if they applied.
    pub long_prompt_above: Option<u64>,
    /// Consumption by unit.
    pub lines: Vec<ReceiptLine>,
    /// Σ quantity × price over all lines, in millionths of a nano-credit.
    pub sum: String,
    /// `sum` divided by 1,000,000 and rounded up to whole nano-credits.
    pub cost: Credits,
}

/// The consumption of one unit in a receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptLine {
    /// Name of the unit, such as `input` or `image`.
    pub class: String,
    /// Consumed quantity, in tokens or in the unit of the class.
    pub tokens: u64,
    /// Price in credits per 1,000,000 units.
    pub price: Credits,
    /// Quantity × price, in millionths of a nano-credit.
    pub product: String,
}

/// Result of `ledger verify` for an export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyView {
    /// Whether every chain is complete and valid.
    pub clean: bool,
    /// Number of transfers read.
    pub transfers: u64,
    /// Number of transfers older than the hash chains.
    pub unchained: u64,
    /// Chains found, one per account.
    pub chains: Vec<ChainView>,
    /// Number of faults found.
    pub fault_count: u64,
    /// Descriptions of the first 100 faults.
    pub faults: Vec<String>,
}

/// The hash chain of one account in an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainView {
    /// Account that owns the chain.
    pub account_id: AccountId,
    /// Lowest position in the file.
    pub first: i64,
    /// Highest position in the file.
    pub last: i64,
    /// Hash of the transfer at `last`.
    pub hash: String,
}

/// Recomputes the charges in `scope` and compares them with the recorded ones.
pub(crate) async fn audit(operations: &Operations, scope: Scope) -> Result<LedgerAuditView, Error> {
    let report = audit_ledger(&*operations.storage.ledger, scope).await;
    Ok(LedgerAuditView::from(&report.map_err(Error::internal)?))
}

/// Returns the receipt of the call that a request made.
pub(crate) async fn receipt(operations: &Operations, request: RequestId) -> Result<ReceiptView, Error> {
    let storage = &operations.storage;
    let row = storage.usage.of_request(request).await.map_err(Error::internal)?;
    let row = row.ok_or_else(|| {
        Error::new(
            ErrorCode::NotFound,
            "This request has no usage row: it made no call, or its call is still running.",
        )
    })?;
    of_row(operations, row).await
}

/// Returns the receipt of a call of an account.
pub(crate) async fn of_call(
    operations: &Operations,
    account: AccountId,
    id: HoldId,
) -> Result<ReceiptView, Error> {
    // The page that begins directly before the id.
    let page = UsagePage {
        after: id.as_u128().checked_add(1).map(HoldId::from_u128),
        limit: 1,
    };
    let usage = &operations.storage.usage;
    let rows = usage.list(account, UsageFilter::default(), page).await;
    let row = rows
        .map_err(Error::internal)?
        .into_iter()
        .find(|row| row.id == id);
    let row = row.ok_or_else(|| Error::new(ErrorCode::NotFound, "The call does not exist."))?;
    of_row(operations, row).await
}

async fn of_row(operations: &Operations, row: UsageRow) -> Result<ReceiptView, Error> {
    let storage = &operations.storage;
    let parts = storage.usage.parts(row.account, row.id).await;
    let parts = parts.map_err(Error::internal)?;
    // A call with parts is charged by its parts.
    let own_usage = match parts.is_empty() {
        true => row.usage,
        false => Usage::ZERO,
    };
    let own = prices(operations, row.price_version).await?.cost(&own_usage);
    let mut priced = Vec::new();
    for part in parts {
        let cost = prices(operations, part.price_version).await?.cost(&part.usage);
        priced.push((part, cost));
    }
    let requests = requests(operations, &row).await?;
    let before = TransferCursor {
        entry: row.id.as_u128().wrapping_sub(1),
        leg: Leg::RefundAllowance,
    };
    let always = Span { from: None, to: None };
    let page = storage
        .reports
        .transfers(row.account, always, Some(before), MAX_LEGS)
        .await;
    let mut legs = page.map_err(Error::internal)?;
    legs.retain(|leg| leg.subject == TransferSubject::Hold(row.id));
    legs.sort_by_key(|leg| leg.link.map(|link| link.sequence));
    Ok(receipt_of(&row, &own, &priced, requests.as_ref(), &legs))
}

/// Recomputes the cost of a batch's requests. Returns `None` for other calls, and for a crashed
/// batch, whose requests are not charged.
async fn requests(operations: &Operations, row: &UsageRow) -> Result<Option<Requests>, Error> {
    let lines = operations.storage.batches.charged(row.account, row.id).await;
    let lines = lines.map_err(Error::internal)?;
    if lines.is_empty() || row.outcome == Outcome::Crashed {
        return Ok(None);
    }
    let mut sum = Requests {
        count: lines.len(),
        matches: true,
        ..Requests::default()
    };
    let mut usage = Usage::ZERO;
    let mut lists = BTreeMap::new();
    for line in lines {
        let list = match lists.entry(line.price_version) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(prices(operations, line.price_version).await?),
        };
        let cost = list.batch_cost(&line.usage);
        let charge = i128::from(line.charge.nanos());
        sum.matches &= cost == charge + i128::from(line.overrun.nanos());
        sum.cost += cost;
        sum.charge += charge;
        usage = usage.plus(&line.usage);
    }
    sum.matches &= usage == row.usage;
    Ok(Some(sum))
}

/// Recomputed cost and recorded charge of the requests of a batch, in nano-credits.
#[derive(Default)]
struct Requests {
    count: usize,
    cost: i128,
    charge: i128,
    /// Whether the recorded charge and overrun of each request equal its recomputed cost, and the
    /// usage of all requests equals that of the batch.
    matches: bool,
}

async fn prices(operations: &Operations, version: PriceVersion) -> Result<PriceList, Error> {
    let record = operations
        .storage
        .prices
        .get(version)
        .await
        .map_err(Error::internal)?;
    let not_recorded = || {
        let message = "The prices of this call are not recorded. Run `tollgate ledger audit`.";
        Error::new(ErrorCode::NotFound, message)
    };
    record
        .map(|record| PriceList::of(&record.prices))
        .ok_or_else(not_recorded)
}

fn receipt_of(
    row: &UsageRow,
    own: &Cost,
    parts: &[(UsagePart, Cost)],
    requests: Option<&Requests>,
    legs: &[TransferRow],
) -> ReceiptView {
    let moved = |leg| {
        let of_leg = legs.iter().filter(|transfer| transfer.leg == leg);
        of_leg
            .map(|transfer| i128::from(transfer.amount.nanos()))
            .sum::<i128>()
    };
    let own_cost = requests.map_or(own.cost, |requests| requests.cost);
    let cost = own_cost + parts.iter().map(|(_, cost)| cost.cost).sum::<i128>();
    let (held_credits, held_allowance) = (moved(Leg::Hold), moved(Leg::HoldAllowance));
    let split = match requests {
        None => Split::of(cost, held_credits, held_allowance),
        Some(requests) => Split::charging(requests.charge, cost, held_credits, held_allowance),
    };
    let recorded_amounts = [row.charge, row.included, row.overrun].map(|amount| i128::from(amount.nanos()));
    let settled = [
        moved(Leg::Settle),
        moved(Leg::SettleIncluded),
        moved(Leg::Overrun),
    ];
    let costs_match = parts
        .iter()
        .all(|(part, cost)| i128::from(part.cost.nanos()) == cost.cost);
    let matches = costs_match
        && requests.is_none_or(|requests| requests.matches)
        && recorded_amounts == [split.charge, split.included, split.overrun]
        && settled == [split.paid, split.included, split.overrun];
    ReceiptView {
        account_id: row.account,
        account_name: None,
        id: row.id,
        request_id: row.request,
        model: row.model.to_string(),
        requested_model: row.requested_model.to_string(),
        upstream_model: row.upstream_model().map(str::to_owned),
        endpoint: row.endpoint.to_string(),
        created_at: row.created_at.to_rfc3339(),
        ended_at: row.ended_at.to_rfc3339(),
        outcome: row.outcome.as_str().to_owned(),
        estimated: row.estimated,
        price_version: row.price_version.to_string(),
        long_prompt_above: own.long_above,
        lines: lines_of(own),
        sum: own.sum.to_string(),
        parts: parts.iter().map(receipt_part).collect(),
        requests: requests.map(|requests| ReceiptRequests {
            count: requests.count,
            cost: credits(requests.cost),
            charge: credits(requests.charge),
        }),
        cost: credits(cost),
        held_credits: credits(held_credits),
        held_allowance: credits(held_allowance),
        plan_name: row.plan.as_ref().map(|plan| plan.name.to_string()),
        included: credits(split.included),
        paid: credits(split.paid),
        charge: credits(split.charge),
        overrun: credits(split.overrun),
        refunded: row.refunded,
        transfers: legs
            .iter()
            .map(|leg| TransferView::of(row.account, leg))
            .collect(),
        matches,
    }
}

fn receipt_part((part, cost): &(UsagePart, Cost)) -> ReceiptPart {
    ReceiptPart {
        name: part.name.to_string(),
        model: part.model.to_string(),
        price_version: part.price_version.to_string(),
        long_prompt_above: cost.long_above,
        lines: lines_of(cost),
        sum: cost.sum.to_string(),
        cost: credits(cost.cost),
    }
}

fn lines_of(cost: &Cost) -> Vec<ReceiptLine> {
    let line = |line: &Line| ReceiptLine {
        class: line.class.as_str().to_owned(),
        tokens: line.quantity,
        price: credits(line.price),
        product: line.product.to_string(),
    };
    cost.lines.iter().map(line).collect()
}

/// Verifier of the hash chains in an export. It accepts the transfers in any order.
#[derive(Debug, Default)]
pub struct Verifier {
    chains: BTreeMap<AccountId, ChainFollower>,
    view: VerifyView,
}

impl Verifier {
    /// Adds a transfer to its chain. Returns the reason if the transfer is malformed.
    pub fn see(&mut self, view: &TransferView) -> Result<(), String> {
        let row = transfer_of(view)?;
        self.view.transfers += 1;
        let account = view.account_id;
        let chain = self.chains.entry(account);
        let chain = chain.or_insert_with(|| ChainFollower::new(account));
        let found = &mut self.view;
        chain.see(&row, |fault| found.add(account, &fault));
        Ok(())
    }

    /// Returns the result. With `is_part`, missing transfers are not reported as faults.
    pub fn finish(mut self, is_part: bool) -> VerifyView {
        for (account, chain) in &self.chains {
            let summary = chain.summary();
            self.view.unchained += summary.unlinked;
            let (Some(first), Some((last, hash))) = (summary.first, summary.head) else {
                continue;
            };
            if !is_part && first != 1 {
                let fault = format!("the chain starts at position {first}: earlier transfers are missing");
                self.view.add(*account, &fault);
            }
            for (from, to) in summary.gaps.iter().filter(|_| !is_part) {
                self.view.add(
                    *account,
                    &format!("positions {from} to {to} are missing from the file"),
                );
            }
            self.view.chains.push(ChainView {
                account_id: *account,
                first,
                last,
                hash: hash.to_string(),
            });
        }
        self.view.clean = self.view.fault_count == 0;
        self.view
    }
}

impl VerifyView {
    fn add(&mut self, account: AccountId, fault: &str) {
        self.fault_count += 1;
        if self.faults.len() < 100 {
            self.faults.push(format!("{account}: {fault}"));
        }
    }
}

/// Parses a transfer of an export. The error names the malformed column and its text.
fn transfer_of(view: &TransferView) -> Result<TransferRow, String> {
    let unknown = |column: &str, text: &str| format!("{column} '{text}'");
    let entry = view.entry_id.parse::<HoldId>().map(HoldId::as_u128);
    let entry = entry.or_else(|_| view.entry_id.parse::<TransferId>().map(TransferId::as_u128));
    let entry = entry.map_err(|_| unknown("entry_id", &view.entry_id))?;
    let account = |column, name: &str| LedgerAccount::parse(name).ok_or_else(|| unknown(column, name));
    let hash = |column, text: &str| text.parse().map_err(|_| unknown(column, text));
    let version = view
        .price_version
        .as_deref()
        .map(|text| PriceVersion::parse(text).ok_or_else(|| unknown("price_version", text)));
    let link = match (view.sequence, &view.prev_hash, &view.hash) {
        (Some(sequence), Some(previous), Some(own)) => Some(Link {
            sequence,
            previous: hash("prev_hash", previous)?,
            hash: hash("hash", own)?,
        }),
        (None, None, None) => None,
        _ => return Err("sequence, prev_hash and hash must be set together".to_owned()),
    };
    Ok(TransferRow {
        subject: TransferSubject::parse(&view.subject, entry)
            .ok_or_else(|| unknown("subject", &view.subject))?,
        leg: Leg::parse(&view.leg).ok_or_else(|| unknown("leg", &view.leg))?,
        debit: account("debit", &view.debit)?,
        credit: account("credit", &view.credit)?,
        amount: view.amount,
        created_at: Timestamp::parse(&view.created_at)
            .ok_or_else(|| unknown("created_at", &view.created_at))?,
        price_version: version.transpose()?,
        link,
    })
}

fn credits(nanos: i128) -> Credits {
    Credits::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
}
