//! What shows that a charge is right: the audit of all of them, the receipt of one, and the chain of an export.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::{Deserialize, Serialize};
use tollgate_billing::audit::arithmetic::{Cost, Line, PriceList, Split};
use tollgate_billing::chain::ChainFollower;
use tollgate_billing::{AuditReport, Scope, audit_ledger};
use tollgate_storage::audit::{LedgerAccount, Leg, TransferRow, TransferSubject};
use tollgate_storage::report::{Span, TransferPlace};
use tollgate_storage::{Link, UsagePart, UsageRow};
use tollgate_types::id::TransferId;
use tollgate_types::usage::Outcome;
use tollgate_types::{
    AccountId, Credits, Error, ErrorCode, HoldId, PriceVersion, RequestId, Timestamp, Usage,
};

use super::view::TransferView;
use crate::wiring::Domains;

/// Most transfers that a call has.
const LEGS: u32 = 32;

/// What `ledger audit` found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerAuditView {
    /// Whether every figure came out.
    pub clean: bool,
    /// Books read.
    pub accounts: u64,
    /// Charges recomputed.
    pub calls: u64,
    /// Of them those whose usage the gateway counted itself.
    pub estimated: u64,
    /// Weeks of plans.
    pub weeks: u64,
    /// What the charges come to.
    pub charged: Credits,
    /// How many figures differ.
    pub difference_count: u64,
    /// The first of them.
    pub differences: Vec<DifferenceView>,
}

/// A figure that comes out otherwise; amounts in nano-credits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DifferenceView {
    /// Whose.
    pub account_id: AccountId,
    /// Of what.
    pub subject: String,
    /// Which figure.
    pub figure: String,
    /// What the books say.
    pub recorded: String,
    /// What comes out.
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
                    subject: difference.subject.clone(),
                    figure: difference.figure.to_owned(),
                    recorded: difference.recorded.clone(),
                    recomputed: difference.recomputed.clone(),
                })
                .collect(),
        }
    }
}

/// One charge with its arithmetic. Amounts are credits, prices credits for 1,000,000 tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptView {
    /// Whose.
    pub account_id: AccountId,
    /// The call's hold.
    pub id: HoldId,
    /// The request's `x-request-id`.
    pub request_id: RequestId,
    /// The model as the request named it.
    pub model: String,
    /// The path.
    pub endpoint: String,
    /// RFC 3339.
    pub created_at: String,
    /// RFC 3339.
    pub ended_at: String,
    /// How it ended.
    pub outcome: String,
    /// Whether the gateway counted the tokens, because no report came.
    pub estimated: bool,
    /// Which prices applied.
    pub price_version: String,
    /// Tokens that a prompt must exceed for the prices of long ones, when this one did.
    pub long_prompt_above: Option<u64>,
    /// What was consumed, class by class.
    pub lines: Vec<ReceiptLine>,
    /// Σ tokens × price, in nano-credits for 1,000,000.
    pub sum: String,
    /// What several models did, each by its own prices; none of a call that one model did.
    #[serde(default)]
    pub parts: Vec<ReceiptPart>,
    /// Of a batch, what its requests cost; none of anything else.
    #[serde(default)]
    pub requests: Option<ReceiptRequests>,
    /// The sum divided by 1,000,000 and rounded up to whole nano-credits, and what the parts cost; of a batch what its requests cost.
    pub cost: Credits,
    /// What was held of credits.
    pub held_credits: Credits,
    /// What was held of the plan's allowance.
    pub held_allowance: Credits,
    /// The plan that applied.
    pub plan_name: Option<String>,
    /// What the allowance paid.
    pub included: Credits,
    /// What credits paid.
    pub paid: Credits,
    /// What was charged: both together.
    pub charge: Credits,
    /// What the call cost beyond its hold; the operator bears it.
    pub overrun: Credits,
    /// How much of the charge was given back.
    pub refunded: Credits,
    /// The transfers, with their places in the chain.
    pub transfers: Vec<TransferView>,
    /// Whether the books say the same.
    pub matches: bool,
}

/// The requests of a batch: each costs 65 % of its sum, rounded up by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptRequests {
    /// How many were begun.
    pub count: usize,
    /// What they cost together, as it comes out.
    pub cost: Credits,
    /// What the books say that they were charged together.
    pub charge: Credits,
}

/// What one model did of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptPart {
    /// What it is, such as `scene 3`.
    pub name: String,
    /// The model.
    pub model: String,
    /// Which prices applied.
    pub price_version: String,
    /// Tokens that a prompt must exceed for the prices of long ones, when this one did.
    pub long_prompt_above: Option<u64>,
    /// What was consumed, class by class.
    pub lines: Vec<ReceiptLine>,
    /// Σ tokens × price, in nano-credits for 1,000,000.
    pub sum: String,
    /// The sum divided by 1,000,000 and rounded up to whole nano-credits.
    pub cost: Credits,
}

/// A class of tokens in a receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptLine {
    /// Which.
    pub class: String,
    /// How many.
    pub tokens: u64,
    /// For 1,000,000 of them.
    pub price: Credits,
    /// Tokens × price, in nano-credits for 1,000,000.
    pub product: String,
}

/// What `ledger verify` found in an export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyView {
    /// Whether every chain is whole.
    pub clean: bool,
    /// Transfers read.
    pub transfers: u64,
    /// Transfers that are in no chain: they are older than it.
    pub unchained: u64,
    /// Each account's chain.
    pub chains: Vec<ChainView>,
    /// How many faults there are.
    pub fault_count: u64,
    /// The first of them.
    pub faults: Vec<String>,
}

/// A chain in an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainView {
    /// Whose.
    pub account_id: AccountId,
    /// The first place that is there.
    pub first: i64,
    /// The last one.
    pub last: i64,
    /// The hash at the last one.
    pub hash: String,
}

/// Recomputes charges.
pub(super) async fn audit(domains: &Domains, scope: Scope) -> Result<LedgerAuditView, Error> {
    let report = audit_ledger(&*domains.storage.ledger, scope).await;
    Ok(LedgerAuditView::from(&report.map_err(Error::internal)?))
}

/// The receipt of the call of a request. A call's hold has the value of its request.
pub(super) async fn receipt(domains: &Domains, request: RequestId) -> Result<ReceiptView, Error> {
    let storage = &domains.storage;
    let row = storage.usage.of_request(request).await.map_err(Error::internal)?;
    let row =
        row.ok_or_else(|| Error::new(ErrorCode::NotFound, "There is no such call, or it still runs."))?;
    let own = prices(domains, row.price_version).await?.cost(&row.usage);
    let parts = storage.usage.parts(row.account, row.id).await;
    let mut priced = Vec::new();
    for part in parts.map_err(Error::internal)? {
        let cost = prices(domains, part.price_version).await?.cost(&part.usage);
        priced.push((part, cost));
    }
    let requests = requests(domains, &row).await?;
    let before = TransferPlace {
        entry: row.id.as_u128().wrapping_sub(1),
        leg: Leg::RefundAllowance,
    };
    let always = Span { from: None, to: None };
    let page = storage
        .reports
        .transfers(row.account, always, Some(before), LEGS)
        .await;
    let mut legs = page.map_err(Error::internal)?;
    legs.retain(|leg| leg.subject == TransferSubject::Hold(row.id));
    legs.sort_by_key(|leg| leg.link.map(|link| link.sequence));
    Ok(receipt_of(&row, &own, &priced, requests.as_ref(), &legs))
}

/// The requests of a batch, priced once more. Nobody pays for those of one that was given up.
async fn requests(domains: &Domains, row: &UsageRow) -> Result<Option<Requests>, Error> {
    let lines = domains.storage.batches.charged(row.account, row.id).await;
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
            Entry::Vacant(unknown) => unknown.insert(prices(domains, line.price_version).await?),
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

/// What the requests of a batch cost together, in nano-credits.
#[derive(Default)]
struct Requests {
    count: usize,
    cost: i128,
    charge: i128,
    /// Whether the books say the same of each of them.
    matches: bool,
}

async fn prices(domains: &Domains, version: PriceVersion) -> Result<PriceList, Error> {
    let record = domains
        .storage
        .prices
        .get(version)
        .await
        .map_err(Error::internal)?;
    let not_recorded = || {
        let message = "The prices of the call are not recorded: see `tollgate ledger audit`.";
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
    let told = [row.charge, row.included, row.overrun].map(|amount| i128::from(amount.nanos()));
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
        && told == [split.charge, split.included, split.overrun]
        && settled == [split.paid, split.included, split.overrun];
    ReceiptView {
        account_id: row.account,
        id: row.id,
        request_id: row.request,
        model: row.model.to_string(),
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

/// Follows the chains of an export, transfer by transfer, in any order.
#[derive(Debug, Default)]
pub struct Verifier {
    chains: BTreeMap<AccountId, ChainFollower>,
    view: VerifyView,
}

impl Verifier {
    /// Sees a transfer. The text says why it is none.
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

    /// What was found. Of a part of a ledger nobody expects that its chains are whole.
    pub fn finish(mut self, is_part: bool) -> VerifyView {
        for (account, chain) in &self.chains {
            let followed = chain.followed();
            self.view.unchained += followed.unlinked;
            let (Some(first), Some((last, hash))) = (followed.first, followed.head) else {
                continue;
            };
            if !is_part && first != 1 {
                let fault = format!("the chain begins at place {first}: what is before is not in the file");
                self.view.add(*account, &fault);
            }
            for (from, to) in followed.gaps.iter().filter(|_| !is_part) {
                self.view
                    .add(*account, &format!("places {from} to {to} are not in the file"));
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

/// A transfer as an export has it.
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
        _ => return Err("sequence, prev_hash and hash go together".to_owned()),
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
