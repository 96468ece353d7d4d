//! Answers as people read them. Text that others wrote, such as names, cannot move the cursor of a terminal.

use tollgate_server::control::alerts::{AlertView, NoticeView};
use tollgate_server::control::top_ups::{AutoView, TopUpView};
use tollgate_server::control::view::{
    AccountView, BalanceView, ChargeView, CheckView, EventView, KeyView, LotView, ModelView, PlanView,
    RefundView, StatementView, SubscriptionView, WithdrawalView,
};
use tollgate_server::doctor::{Finding, State};
use tollgate_server::moving::MoveView;
use tollgate_types::Credits;

/// Shown where an account has no limit of its own.
const BY_DEFAULT: &str = "default";

/// One account, a line for each fact.
pub fn account(account: &AccountView) -> String {
    let mut facts = vec![
        ["id", &account.id.to_string()].map(str::to_owned),
        ["name", &account.name].map(str::to_owned),
        ["state", &account.state].map(str::to_owned),
        ["rpm".to_owned(), or_default(account.rpm)],
        ["tpm".to_owned(), or_default(account.tpm)],
        ["keys".to_owned(), or_default(account.keys)],
        ["gpus".to_owned(), or_default(account.gpus)],
        ["agents".to_owned(), or_default(account.agents)],
        ["chats".to_owned(), or_default(account.chats)],
        ["files".to_owned(), or_default(account.files)],
        ["files GiB".to_owned(), or_default(account.files_gib)],
        ["batch tokens".to_owned(), or_default(account.batch_tokens)],
        ["created", &account.created_at].map(str::to_owned),
    ];
    if let Some(ahead) = account.test_clock {
        facts.push(["test clock".to_owned(), format!("{ahead} s ahead")]);
    }
    if let Some(balance) = account.balance {
        facts.push(["credits".to_owned(), balance.credits.to_string()]);
        facts.push(["held".to_owned(), balance.held.to_string()]);
    }
    aligned(&facts)
}

/// Accounts, a line for each.
pub fn accounts(accounts: &[AccountView]) -> String {
    let row = |account: &AccountView| {
        let (rpm, tpm) = (or_default(account.rpm), or_default(account.tpm));
        let created = account.created_at.clone();
        [
            account.id.to_string(),
            account.state.clone(),
            rpm,
            tpm,
            created,
            account.name.clone(),
        ]
    };
    table(
        ["ID", "STATE", "RPM", "TPM", "CREATED", "NAME"],
        accounts.iter().map(row),
    )
}

/// Keys, a line for each.
pub fn keys(keys: &[KeyView]) -> String {
    let row = |key: &KeyView| {
        let expires = key.expires_at.clone().unwrap_or_else(|| "never".to_owned());
        let last4 = format!("…{}", key.last4);
        [
            key.id.to_string(),
            last4,
            key.state.clone(),
            key.mode.clone(),
            key.compat.clone(),
            if key.sync { "on" } else { "off" }.to_owned(),
            key.created_at.clone(),
            expires,
            key.name.clone(),
        ]
    };
    table(
        [
            "ID", "KEY", "STATE", "MODE", "COMPAT", "SYNC", "CREATED", "EXPIRES", "NAME",
        ],
        keys.iter().map(row),
    )
}

/// A balance, a line for each fact.
pub fn balance(balance: &BalanceView) -> String {
    aligned(&[
        ["credits".to_owned(), balance.credits.to_string()],
        ["held".to_owned(), balance.held.to_string()],
    ])
}

/// Grants and refunds, a line for each.
pub fn lots(lots: &[LotView]) -> String {
    let row = |lot: &LotView| {
        [
            lot.id.to_string(),
            lot.kind.clone(),
            lot.amount.to_string(),
            lot.remaining.to_string(),
            lot.priority.to_string(),
            lot.created_at.clone(),
            lot.expires_at.clone().unwrap_or_else(|| "never".to_owned()),
            lot.note.clone(),
        ]
    };
    table(
        [
            "ID", "KIND", "AMOUNT", "LEFT", "PRIORITY", "CREATED", "EXPIRES", "NOTE",
        ],
        lots.iter().map(row),
    )
}

/// A refund, a line for each fact.
pub fn refund(refund: &RefundView) -> String {
    aligned(&[
        ["id".to_owned(), refund.id.to_string()],
        ["request".to_owned(), refund.request.to_string()],
        ["account".to_owned(), refund.account.to_string()],
        ["credits".to_owned(), refund.credits.to_string()],
        ["allowance".to_owned(), refund.allowance.to_string()],
    ])
}

/// What was taken back of a grant, a line for each fact.
pub fn withdrawal(taken: &WithdrawalView) -> String {
    aligned(&[
        ["id".to_owned(), taken.id.to_string()],
        ["withdrawn".to_owned(), taken.withdrawn.to_string()],
    ])
}

/// Purchases of credits, a line for each.
pub fn top_ups(top_ups: &[TopUpView]) -> String {
    let row = |top_up: &TopUpView| {
        [
            top_up.id.to_string(),
            top_up.account.to_string(),
            top_up.kind.clone(),
            top_up.state.clone(),
            top_up.credits.to_string(),
            format!("{} {}", top_up.amount, top_up.currency),
            top_up.returned.to_string(),
            top_up.created_at.clone(),
            top_up.failure.clone().unwrap_or_default(),
        ]
    };
    table(
        [
            "ID", "ACCOUNT", "KIND", "STATE", "CREDITS", "AMOUNT", "RETURNED", "CREATED", "FAILURE",
        ],
        top_ups.iter().map(row),
    )
}

/// By what a balance is filled up, a line for each fact.
pub fn auto_top_up(auto: &AutoView) -> String {
    aligned(&[
        ["below".to_owned(), auto.below.to_string()],
        ["add".to_owned(), auto.amount.to_string()],
        ["monthly limit".to_owned(), auto.monthly_limit.to_string()],
        ["failures".to_owned(), auto.failures.to_string()],
    ])
}

/// When an account is told that its balance is low, a line for each fact.
pub fn alert(alert: &AlertView) -> String {
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    aligned(&[
        ["below".to_owned(), alert.below.to_string()],
        ["webhook".to_owned(), or_none(&alert.webhook)],
        ["secret".to_owned(), or_none(&alert.webhook_secret)],
        ["email".to_owned(), or_none(&alert.email)],
        ["low now".to_owned(), alert.is_low.to_string()],
    ])
}

/// What an account was told, a line for each.
pub fn notices(notices: &[NoticeView]) -> String {
    let row = |notice: &NoticeView| {
        let due = if notice.state == "pending" {
            notice.due_at.as_str()
        } else {
            "-"
        };
        [
            notice.id.to_string(),
            notice.channel.clone(),
            notice.state.clone(),
            notice.attempts.to_string(),
            notice.created_at.clone(),
            due.to_owned(),
            notice.address.clone(),
            notice.failure.clone().unwrap_or_default(),
        ]
    };
    table(
        [
            "ID", "CHANNEL", "STATE", "ATTEMPTS", "CREATED", "NEXT", "ADDRESS", "FAILURE",
        ],
        notices.iter().map(row),
    )
}

/// Plans, a line for each.
pub fn plans(plans: &[PlanView]) -> String {
    let row = |plan: &PlanView| {
        [
            plan.name.clone(),
            plan.price.to_string(),
            plan.cadence.clone(),
            plan.payer.clone(),
            plan.allowance.to_string(),
            plan.models.join(", "),
        ]
    };
    table(
        ["PLAN", "PRICE", "CADENCE", "PAYER", "A WEEK", "MODELS"],
        plans.iter().map(row),
    )
}

/// One subscription, a line for each fact, then what happened to it.
pub fn subscription(found: &SubscriptionView) -> String {
    let mut facts = vec![
        ["id", &found.id.to_string()].map(str::to_owned),
        ["account", &found.account.to_string()].map(str::to_owned),
        [found.product.clone(), found.subject.clone()],
        ["state", &found.state].map(str::to_owned),
        ["price", &found.price.to_string()].map(str::to_owned),
        ["cadence", &found.cadence].map(str::to_owned),
        ["payer", &found.payer].map(str::to_owned),
        ["started", &found.started_at].map(str::to_owned),
        ["paid through", &found.paid_through].map(str::to_owned),
    ];
    if let Some(renewed) = &found.renewed_by {
        let reference = renewed.reference.as_deref().unwrap_or("-");
        let facts_of = format!(
            "{} {reference}, {} {}",
            renewed.provider, renewed.amount, renewed.currency
        );
        facts.push(["renewed by", &facts_of].map(str::to_owned));
    }
    if found.cancel_at_period_end {
        facts.push(["ends", &found.paid_through].map(str::to_owned));
    }
    if let Some([plan, cadence]) = &found.next_plan {
        facts.push(["next plan".to_owned(), format!("{plan}, {cadence}")]);
    }
    if let Some(since) = &found.past_due_since {
        facts.push(["past due since", since].map(str::to_owned));
    }
    if let Some(week) = &found.week {
        let used = format!("{} of {} used", week.used, week.limit);
        facts.push(["week", &format!("{} to {}: {used}", week.start, week.end)].map(str::to_owned));
    }
    let row = |event: &EventView| {
        let (at, kind, state) = (event.at.clone(), event.kind.clone(), event.state.clone());
        [at, kind, state, event.period.to_string()]
    };
    let events = table(["AT", "EVENT", "STATE", "PERIOD"], found.events.iter().map(row));
    match events.is_empty() {
        true => aligned(&facts),
        false => format!("{}\n{events}", aligned(&facts)),
    }
}

/// Subscriptions, a line for each.
pub fn subscriptions(found: &[SubscriptionView]) -> String {
    let row = |found: &SubscriptionView| {
        let ends = if found.cancel_at_period_end {
            "ends"
        } else {
            "renews"
        };
        [
            found.id.to_string(),
            found.product.clone(),
            found.subject.clone(),
            found.state.clone(),
            found.paid_through.clone(),
            ends.to_owned(),
        ]
    };
    table(
        ["ID", "PRODUCT", "SUBJECT", "STATE", "PAID THROUGH", "THEN"],
        found.iter().map(row),
    )
}

/// Models, a line for each.
pub fn models(models: &[ModelView]) -> String {
    let row = |model: &ModelView| {
        let window = model
            .context_window
            .map_or_else(|| "-".to_owned(), |tokens| tokens.to_string());
        let prices = (model.input_price.to_string(), model.output_price.to_string());
        [
            model.id.clone(),
            prices.0,
            prices.1,
            window,
            model.release_date.clone(),
            model.targets.join(", "),
        ]
    };
    table(
        ["MODEL", "INPUT/1M", "OUTPUT/1M", "CONTEXT", "RELEASED", "TARGETS"],
        models.iter().map(row),
    )
}

/// A statement: what there was, what came and went, what there is; then charges by model and endpoint.
pub fn statement(statement: &StatementView) -> String {
    let line = |name: &str, amount: Credits| [name.to_owned(), amount.to_string()];
    let fees = format!("plan fees ({} periods)", statement.plan_periods);
    let facts = [
        ["account".to_owned(), statement.account.to_string()],
        [
            "month".to_owned(),
            format!("{} to {}", statement.start, statement.end),
        ],
        line("opening balance", statement.opening),
        line("+ purchases", statement.purchases),
        line("+ promotions", statement.promotions),
        line("+ refunds", statement.refunds),
        line("- charges", statement.charged),
        line(&format!("- {fees}"), statement.plan_fees),
        line("- expired", statement.expired),
        line("- taken back", statement.withdrawn),
        line("closing balance", statement.closing),
        line("of it held", statement.closing_held),
        line("allowance used", statement.allowance_used),
        line("allowance given back", statement.allowance_refunded),
    ];
    let row = |charge: &ChargeView| {
        let (paid, included) = (charge.paid.to_string(), charge.included.to_string());
        let (model, endpoint) = (charge.model.clone(), charge.endpoint.clone());
        [model, endpoint, charge.calls.to_string(), paid, included]
    };
    let charges = table(
        ["MODEL", "ENDPOINT", "CALLS", "PAID", "INCLUDED"],
        statement.charges.iter().map(row),
    );
    let faults: String = statement
        .faults
        .iter()
        .map(|fault| format!("FAULT {}\n", shown(fault)))
        .collect();
    match charges.is_empty() {
        true => format!("{}{faults}", aligned(&facts)),
        false => format!("{}\n{charges}{faults}", aligned(&facts)),
    }
}

/// What a check of the ledger found.
pub fn check(check: &CheckView) -> String {
    let verdict = match check.fault_count {
        0 => "The ledger is clean.\n".to_owned(),
        count => format!("The ledger has {count} faults. docs/money.md says what each promise means.\n"),
    };
    let facts = [
        ["accounts".to_owned(), check.accounts.to_string()],
        ["transfers".to_owned(), check.transfers.to_string()],
        ["usage rows".to_owned(), check.usage_rows.to_string()],
        ["open holds".to_owned(), check.open_holds.to_string()],
        ["revenue".to_owned(), format!("{} credits", check.revenue)],
        ["overrun".to_owned(), format!("{} credits", check.overrun)],
        ["cut off by crashes".to_owned(), check.crashed.to_string()],
        ["chain heads".to_owned(), check.chain_heads.to_string()],
        ["before the chains".to_owned(), check.unchained.to_string()],
    ];
    let faults: String = check
        .faults
        .iter()
        .map(|fault| format!("FAULT {}\n", shown(fault)))
        .collect();
    let listed = u64::try_from(check.faults.len()).unwrap_or(u64::MAX);
    let more = match check.fault_count.saturating_sub(listed) {
        0 => String::new(),
        more => format!("and {more} more\n"),
    };
    format!("{verdict}{}{faults}{more}", aligned(&facts))
}

/// What was moved, the proof, and what is to be done now.
pub fn moved(moved: &MoveView) -> String {
    let header = ["TABLE", "ROWS", "DIGEST, THE SAME ON BOTH SIDES"].map(str::to_owned);
    let rows = moved.tables.iter();
    let rows = rows.map(|table| [table.table.clone(), table.rows.to_string(), table.digest.clone()]);
    let tables: Vec<_> = std::iter::once(header).chain(rows).collect();
    let balance = |(kind, sum): (&String, &String)| {
        let amount = sum
            .parse()
            .map(Credits::from_nanos)
            .map(|credits| credits.to_string());
        let amount = amount.unwrap_or_else(|_| format!("{sum} nano-"));
        [kind.clone(), format!("{amount} credits")]
    };
    let balances: Vec<_> = moved.balances.iter().map(balance).collect();
    let settings: String = moved
        .settings
        .iter()
        .map(|line| format!("  - {line}\n"))
        .collect();
    format!(
        "Moved {} rows of {} accounts from {} to {}.\n\n{}\nBalances of all accounts, the same on both sides:\n{}\n{}\n\
         Before you start the gateway:\n{settings}",
        moved.rows,
        moved.accounts,
        moved.from,
        moved.to,
        aligned(&tables),
        aligned(&balances),
        check(&moved.ledger),
    )
}

/// What a look at the machine found.
pub fn findings(findings: &[Finding]) -> String {
    let wide = findings
        .iter()
        .map(|finding| finding.what.chars().count())
        .max()
        .unwrap_or_default();
    let mut text = String::new();
    for finding in findings {
        let state = match finding.state {
            State::Fine => "ok   ",
            State::Note => "note ",
            State::Fault => "FAULT",
        };
        text.push_str(&format!(
            "{state}  {:wide$}  {}\n",
            shown(&finding.what),
            shown(&finding.detail)
        ));
        if let Some(remedy) = &finding.remedy {
            text.push_str(&format!("       {:wide$}  → {}\n", "", shown(remedy)));
        }
    }
    let faults = findings
        .iter()
        .filter(|finding| finding.state == State::Fault)
        .count();
    let verdict = match faults {
        0 => "Nothing must be repaired.\n".to_owned(),
        1 => "One thing must be repaired.\n".to_owned(),
        count => format!("{count} things must be repaired.\n"),
    };
    text + "\n" + &verdict
}

fn or_default(limit: Option<impl ToString>) -> String {
    limit.map_or_else(|| BY_DEFAULT.to_owned(), |limit| limit.to_string())
}

pub(super) fn table<const N: usize>(head: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut all = vec![head.map(str::to_owned)];
    all.extend(rows);
    // A heading over nothing tells nobody anything.
    if all.len() == 1 {
        String::new()
    } else {
        aligned(&all)
    }
}

/// Columns as wide as their widest cell, two blanks between them.
pub(super) fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let rows: Vec<[String; N]> = rows
        .iter()
        .map(|row| row.each_ref().map(|cell| shown(cell)))
        .collect();
    let mut widths = [0; N];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |row: &[String; N]| {
        let cells: String = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:width$}  "))
            .collect();
        cells.trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

pub(super) fn shown(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_names_cannot_move_the_cursor() {
        let text = table(
            ["ID", "NAME"],
            [["a-long-id", "x\u{1b}[2Jy"], ["b", "ü"]]
                .map(|row| row.map(str::to_owned))
                .into_iter(),
        );
        assert_eq!(text, "ID         NAME\na-long-id  x\u{fffd}[2Jy\nb          ü\n");
        assert_eq!(table(["ID"], std::iter::empty()), "");
    }

    #[test]
    fn findings_say_what_to_do() {
        let fine = Finding {
            what: "clock".to_owned(),
            state: State::Fine,
            detail: "right".to_owned(),
            remedy: None,
        };
        let remedy = Some("set a key".to_owned());
        let fault = Finding {
            what: "provider x".to_owned(),
            state: State::Fault,
            detail: "no key".to_owned(),
            remedy,
        };
        let expected = "ok     clock       right\nFAULT  provider x  no key\n                   → set a key\n\nOne thing must be repaired.\n";
        assert_eq!(findings(&[fine, fault]), expected);
    }
}
