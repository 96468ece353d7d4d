//! Receipts and what shows that they are right, for people.

use tollgate_server::control::receipts::{AuditView, ReceiptView, VerifyView};

use super::tables::{aligned, shown};

/// What an audit found.
pub fn audit(audit: &AuditView) -> String {
    let verdict = match audit.difference_count {
        0 => "Every charge comes out as the books have it.\n".to_owned(),
        count => format!("{count} figures come out otherwise. docs/money.md has the arithmetic.\n"),
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
            "{}: {}: {}: the books say {}, recomputed it is {}",
            difference.account_id,
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

/// One charge, line by line.
pub fn receipt(receipt: &ReceiptView) -> String {
    let counted = if receipt.estimated {
        "the gateway (estimated)"
    } else {
        "the provider"
    };
    let head = [
        ["call".to_owned(), receipt.id.to_string()],
        ["request".to_owned(), receipt.request_id.to_string()],
        ["account".to_owned(), receipt.account_id.to_string()],
        [
            "model".to_owned(),
            format!("{} at {}", shown(&receipt.model), shown(&receipt.endpoint)),
        ],
        [
            "ended".to_owned(),
            format!("{} {}", receipt.ended_at, receipt.outcome),
        ],
        ["counted by".to_owned(), counted.to_owned()],
        ["prices".to_owned(), receipt.price_version.clone()],
    ];
    let mut lines: Vec<[String; 2]> = receipt
        .lines
        .iter()
        .map(|line| {
            let product = format!("{} × {} = {}", line.tokens, nanos(line.price), line.product);
            [line.class.clone(), product]
        })
        .collect();
    lines.push(["sum".to_owned(), receipt.sum.clone()]);
    lines.push([
        "cost".to_owned(),
        format!(
            "⌈{} ÷ 1000000⌉ = {} = {} credits",
            receipt.sum,
            nanos(receipt.cost),
            receipt.cost
        ),
    ]);
    let plan = receipt
        .plan_name
        .as_deref()
        .map_or("no plan".to_owned(), |plan| format!("plan {}", shown(plan)));
    let held = nanos(receipt.held_credits) + nanos(receipt.held_allowance);
    lines.extend([
        [
            "held".to_owned(),
            format!(
                "{} of credits + {} of an allowance ({plan})",
                nanos(receipt.held_credits),
                nanos(receipt.held_allowance)
            ),
        ],
        [
            "charge".to_owned(),
            format!(
                "the smaller of {} and {held} = {}",
                nanos(receipt.cost),
                nanos(receipt.charge)
            ),
        ],
        [
            "allowance pays".to_owned(),
            format!(
                "the smaller of {} and {} = {}",
                nanos(receipt.charge),
                nanos(receipt.held_allowance),
                nanos(receipt.included)
            ),
        ],
        [
            "credits pay".to_owned(),
            format!(
                "{} - {} = {}",
                nanos(receipt.charge),
                nanos(receipt.included),
                nanos(receipt.paid)
            ),
        ],
        ["operator bears".to_owned(), nanos(receipt.overrun).to_string()],
        ["given back".to_owned(), nanos(receipt.refunded).to_string()],
    ]);
    let long = receipt.long_prompt_above.map(|above| {
        format!("The prompt has more than {above} tokens: the prices are those of long prompts.\n")
    });
    let transfers: Vec<[String; 4]> = receipt
        .transfers
        .iter()
        .map(|transfer| {
            let place = transfer
                .sequence
                .map_or("no place".to_owned(), |place| format!("place {place}"));
            let moves = format!("{} → {}", transfer.debit, transfer.credit);
            [
                transfer.leg.clone(),
                moves,
                nanos(transfer.amount).to_string(),
                place,
            ]
        })
        .collect();
    let verdict = match receipt.matches {
        true => "The books say the same.\n",
        false => "THE BOOKS SAY SOMETHING ELSE: run `tollgate ledger audit`.\n",
    };
    format!(
        "{}\nnano-credits, tokens × price for 1,000,000:\n{}{}\ntransfers:\n{}\n{verdict}",
        aligned(&head),
        long.unwrap_or_default(),
        aligned(&lines),
        aligned(&transfers),
    )
}

/// What is in the chains of an export.
pub fn verified(view: &VerifyView) -> String {
    let verdict = match view.fault_count {
        0 => "Every chain is whole.\n".to_owned(),
        count => format!("The chains have {count} faults.\n"),
    };
    let facts = [
        ["transfers".to_owned(), view.transfers.to_string()],
        ["before the chains".to_owned(), view.unchained.to_string()],
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

fn nanos(amount: tollgate_types::Credits) -> i64 {
    amount.nanos()
}
