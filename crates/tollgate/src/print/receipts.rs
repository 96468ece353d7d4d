//! Receipts, and the results of `ledger audit` and `ledger verify`.

use tollgate_operations::TransferView;
use tollgate_operations::receipts::{LedgerAuditView, ReceiptLine, ReceiptPart, ReceiptView, VerifyView};
use tollgate_types::Credits;

use super::tables::{aligned, format_account, shown};

/// Formats the result of an audit.
pub fn audit(audit: &LedgerAuditView) -> String {
    let verdict = match audit.difference_count {
        0 => "All charges match the ledger.\n".to_owned(),
        count => format!("Differing figures: {count}. docs/money.md explains the arithmetic.\n"),
    };
    let facts = [
        ["accounts".to_owned(), audit.accounts.to_string()],
        ["calls".to_owned(), audit.calls.to_string()],
        ["estimated".to_owned(), audit.estimated.to_string()],
        ["weeks of plans".to_owned(), audit.weeks.to_string()],
        ["charged".to_owned(), format!("{} credits", audit.charged)],
    ];
    let differences = audit.differences.iter().map(|difference| {
        let line = format!(
            "{}: {}: {}: ledger {}, recomputed {}",
            format_account(difference.account_id, difference.account_name.as_deref()),
            difference.subject,
            difference.figure,
            difference.recorded,
            difference.recomputed
        );
        format!("DIFFERENCE {}\n", shown(&line))
    });
    let listed = differences.collect::<String>();
    format!("{verdict}{}{listed}", aligned(&facts))
}

/// Formats the receipt of one charge, line by line.
pub fn receipt(receipt: &ReceiptView) -> String {
    let transfers: Vec<[String; 4]> = receipt.transfers.iter().map(transfer).collect();
    let verdict = match receipt.matches {
        true => "The ledger agrees.\n",
        false => "THE LEDGER DIFFERS: run `tollgate ledger audit`.\n",
    };
    format!(
        "{}\nAmounts in nano-credits; quantity × price per 1,000,000 units:\n{}{}{}\ntransfers:\n{}\n{verdict}",
        aligned(&head(receipt)),
        long_prompt(receipt.long_prompt_above),
        cost(receipt),
        aligned(&split(receipt)),
        aligned(&transfers),
    )
}

fn head(receipt: &ReceiptView) -> [[String; 2]; 7] {
    let counted = match receipt.estimated {
        true => "the gateway (estimated)",
        false => "the provider",
    };
    let account = format_account(receipt.account_id, receipt.account_name.as_deref());
    let model = format!("{} at {}", shown(&receipt.model), shown(&receipt.endpoint));
    let model = match receipt.requested_model == receipt.model {
        true => model,
        false => format!("{model}, requested as {}", shown(&receipt.requested_model)),
    };
    [
        ["call", &receipt.id.to_string()],
        ["request", &receipt.request_id.to_string()],
        ["account", &account],
        ["model", &model],
        ["ended", &format!("{} {}", receipt.ended_at, receipt.outcome)],
        ["counted by", counted],
        ["prices", &receipt.price_version],
    ]
    .map(|line| line.map(str::to_owned))
}

fn long_prompt(above: Option<u64>) -> String {
    let long = |above| format!("The prompt has more than {above} tokens: long-prompt prices apply.\n");
    above.map(long).unwrap_or_default()
}

/// Formats the cost by unit, by part if the call has parts, or of the requests of a batch.
fn cost(receipt: &ReceiptView) -> String {
    if let Some(requests) = &receipt.requests {
        let text = format!(
            "started requests: {}, each ⌈its sum × 65 ÷ 100000000⌉: {} = {} credits",
            requests.count,
            requests.cost.nanos(),
            requests.cost
        );
        let mut lines = classes(&receipt.lines);
        lines.extend([["sum".to_owned(), receipt.sum.clone()], ["cost".to_owned(), text]]);
        return aligned(&lines);
    }
    if receipt.parts.is_empty() {
        return aligned(&rounded(&receipt.lines, &receipt.sum, receipt.cost));
    }
    let parts: String = receipt.parts.iter().map(part).collect();
    let costs = receipt.parts.iter().map(|part| part.cost.nanos().to_string());
    let (costs, cost) = (costs.collect::<Vec<_>>().join(" + "), receipt.cost);
    let sum = format!("{costs} = {} = {cost} credits", cost.nanos());
    format!("{parts}\n{}", aligned(&[["cost".to_owned(), sum]]))
}

fn part(part: &ReceiptPart) -> String {
    let (name, model) = (shown(&part.name), shown(&part.model));
    let long = long_prompt(part.long_prompt_above);
    let lines = aligned(&rounded(&part.lines, &part.sum, part.cost));
    format!("\n{name}: {model}, prices {}\n{long}{lines}", part.price_version)
}

fn rounded(lines: &[ReceiptLine], sum: &str, cost: Credits) -> Vec<[String; 2]> {
    let rounded = format!("⌈{sum} ÷ 1000000⌉ = {} = {cost} credits", cost.nanos());
    let sums = [["sum", sum], ["cost", &rounded]];
    let mut all = classes(lines);
    all.extend(sums.map(|line| line.map(str::to_owned)));
    all
}

fn classes(lines: &[ReceiptLine]) -> Vec<[String; 2]> {
    let class = |line: &ReceiptLine| {
        let product = format!("{} × {} = {}", line.tokens, line.price.nanos(), line.product);
        [line.class.clone(), product]
    };
    lines.iter().map(class).collect()
}

/// Formats the split of the cost between the allowance, credits and the operator.
fn split(receipt: &ReceiptView) -> [[String; 2]; 6] {
    let nanos = |amount: Credits| amount.nanos();
    let (credits, allowance) = (nanos(receipt.held_credits), nanos(receipt.held_allowance));
    let (charge, included, paid) = (
        nanos(receipt.charge),
        nanos(receipt.included),
        nanos(receipt.paid),
    );
    let plan = receipt
        .plan_name
        .as_deref()
        .map_or_else(|| "no plan".to_owned(), |plan| format!("plan {}", shown(plan)));
    let held = format!("{credits} from credits + {allowance} from an allowance ({plan})");
    let cost = nanos(receipt.cost);
    let smaller = |one: i64, other: i64, result: i64| format!("the smaller of {one} and {other} = {result}");
    [
        ["held", &held],
        ["charge", &smaller(cost, credits + allowance, charge)],
        ["allowance pays", &smaller(charge, allowance, included)],
        ["credits pay", &format!("{charge} - {included} = {paid}")],
        ["operator bears", &nanos(receipt.overrun).to_string()],
        ["refunded", &nanos(receipt.refunded).to_string()],
    ]
    .map(|line| line.map(str::to_owned))
}

fn transfer(transfer: &TransferView) -> [String; 4] {
    let place = transfer
        .sequence
        .map_or_else(|| "no place".to_owned(), |place| format!("place {place}"));
    let moves = format!("{} → {}", transfer.debit, transfer.credit);
    [
        transfer.leg.clone(),
        moves,
        transfer.amount.nanos().to_string(),
        place,
    ]
}

/// Formats the result of verifying the chains of an export.
pub fn verified(view: &VerifyView) -> String {
    let verdict = match view.fault_count {
        0 => "All chains are intact.\n".to_owned(),
        count => format!("Faults in the chains: {count}.\n"),
    };
    let facts = [
        ["transfers".to_owned(), view.transfers.to_string()],
        ["unchained transfers".to_owned(), view.unchained.to_string()],
        ["chain heads".to_owned(), view.chains.len().to_string()],
    ];
    let chains: Vec<[String; 3]> = view
        .chains
        .iter()
        .map(|chain| {
            let places = format!("{} to {}", chain.first, chain.last);
            [chain.account_id.to_string(), places, chain.hash.clone()]
        })
        .collect();
    let faults: String = view
        .faults
        .iter()
        .map(|fault| format!("FAULT {}\n", shown(fault)))
        .collect();
    format!("{verdict}{}{}{faults}", aligned(&facts), aligned(&chains))
}
