//! Tables for people. Control characters in names and other foreign text are replaced, so that they
//! cannot move the terminal's cursor.

use tollgate_operations::alerts::{AlertView, NoticeView};
use tollgate_operations::research::CorpusView;
use tollgate_operations::top_ups::{AutoView, TopUpView};
use tollgate_operations::view::{
    AccountView, BalanceView, ChargeView, CheckView, EventView, KeyView, LotView, ModelView, PlanView,
    RefundView, StatementView, SubscriptionView, WithdrawalView,
};
use tollgate_server::doctor::{Finding, State};
use tollgate_server::moving::MoveView;
use tollgate_types::{AccountId, Credits};

/// Cell of a limit without an override.
const BY_DEFAULT: &str = "default";

/// Formats one account, one line per fact.
pub fn account(account: &AccountView) -> String {
    let limits = account.limits_in_force;
    let mut facts = vec![
        ["id", &account.id.to_string()].map(str::to_owned),
        ["name", &account.name].map(str::to_owned),
        ["state", &account.state].map(str::to_owned),
        ["rpm".to_owned(), in_force(account.rpm, limits.map(|own| own.rpm))],
        ["tpm".to_owned(), in_force(account.tpm, limits.map(|own| own.tpm))],
        [
            "keys".to_owned(),
            in_force(account.keys, limits.map(|own| own.keys)),
        ],
        ["gpus".to_owned(), or_default(account.gpus)],
        ["agents".to_owned(), or_default(account.agents)],
        ["chats".to_owned(), or_default(account.chats)],
        [
            "files".to_owned(),
            in_force(account.files, limits.map(|own| own.files)),
        ],
        [
            "files GiB".to_owned(),
            in_force(account.files_gib, limits.map(|own| own.files_gib)),
        ],
        [
            "batch tokens".to_owned(),
            in_force(account.batch_tokens, limits.map(|own| own.batch_tokens)),
        ],
        ["created", &account.created_at].map(str::to_owned),
    ];
    if let Some(ahead) = account.test_clock {
        facts.push(["test clock".to_owned(), ahead_by(ahead)]);
    }
    if let Some(balance) = account.balance {
        facts.push(["credits".to_owned(), balance.credits.to_string()]);
        facts.push(["held".to_owned(), balance.held.to_string()]);
    }
    aligned(&facts)
}

/// Formats the offset of a clock that is ahead, in the two largest units.
fn ahead_by(seconds: u64) -> String {
    let units = [("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)];
    let mut left = seconds;
    let mut parts = Vec::new();
    for (unit, length) in units {
        let count = left / length;
        left %= length;
        match count {
            0 => {}
            1 => parts.push(format!("1 {unit}")),
            count => parts.push(format!("{count} {unit}s")),
        }
    }
    parts.truncate(2);
    match parts.is_empty() {
        true => "not ahead".to_owned(),
        false => format!("{} ahead", parts.join(" ")),
    }
}

/// Formats an account's limit override, or `default` with the effective value.
fn in_force(own: Option<impl ToString>, applies: Option<impl ToString>) -> String {
    match (own, applies) {
        (None, Some(value)) => format!("{BY_DEFAULT} ({})", value.to_string()),
        (own, _) => or_default(own),
    }
}

/// Formats accounts, one line each.
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

/// Formats keys, one line each.
pub fn keys(keys: &[KeyView]) -> String {
    let row = |key: &KeyView| {
        let or_never = |at: &Option<String>| at.clone().unwrap_or_else(|| "never".to_owned());
        let last4 = format!("…{}", key.last4);
        [
            key.id.to_string(),
            last4,
            key.state.clone(),
            key.mode.clone(),
            key.compat.clone(),
            if key.sync { "on" } else { "off" }.to_owned(),
            count_or_all(key.models.as_deref()),
            count_or_all(key.scopes.as_deref()),
            key.created_at.clone(),
            or_never(&key.expires_at),
            or_never(&key.last_used_at),
            key.name.clone(),
        ]
    };
    table(
        [
            "ID",
            "KEY",
            "STATE",
            "MODE",
            "COMPAT",
            "SYNC",
            "MODELS",
            "SCOPES",
            "CREATED",
            "EXPIRES",
            "LAST USED",
            "NAME",
        ],
        keys.iter().map(row),
    )
}

fn count_or_all(only: Option<&[String]>) -> String {
    only.map_or_else(|| "all".to_owned(), |only| only.len().to_string())
}

/// Formats a balance, one line per fact.
pub fn balance(balance: &BalanceView) -> String {
    let plan = [("allowance", balance.allowance), ("spendable", balance.spendable)];
    let plan = plan
        .into_iter()
        .filter_map(|(name, amount)| Some([name.to_owned(), amount?.to_string()]));
    let mut facts = vec![
        ["credits".to_owned(), balance.credits.to_string()],
        ["held".to_owned(), balance.held.to_string()],
    ];
    facts.extend(plan);
    aligned(&facts)
}

/// Formats grants and refunds, one line each.
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

/// Formats a refund, one line per fact.
pub fn refund(refund: &RefundView) -> String {
    aligned(&[
        ["id".to_owned(), refund.id.to_string()],
        ["request".to_owned(), refund.request.to_string()],
        [
            "account".to_owned(),
            format_account(refund.account, refund.account_name.as_deref()),
        ],
        ["credits".to_owned(), refund.credits.to_string()],
        ["allowance".to_owned(), refund.allowance.to_string()],
    ])
}

/// Formats a withdrawal from a grant, one line per fact.
pub fn withdrawal(taken: &WithdrawalView) -> String {
    aligned(&[
        ["id".to_owned(), taken.id.to_string()],
        ["account".to_owned(), taken.account.to_string()],
        ["withdrawn".to_owned(), taken.withdrawn.to_string()],
    ])
}

/// Formats credit purchases, one line each.
pub fn top_ups(top_ups: &[TopUpView]) -> String {
    let row = |top_up: &TopUpView| {
        [
            top_up.id.to_string(),
            format_account(top_up.account, top_up.account_name.as_deref()),
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

/// Formats automatic top-up settings, one line per fact.
pub fn auto_top_up(auto: &AutoView) -> String {
    aligned(&[
        ["below".to_owned(), auto.below.to_string()],
        ["add".to_owned(), auto.amount.to_string()],
        ["monthly limit".to_owned(), auto.monthly_limit.to_string()],
        ["failures".to_owned(), auto.failures.to_string()],
    ])
}

/// Formats a low-balance alert, one line per fact.
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

/// Formats the webhook and e-mail deliveries of an account, one line each.
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

/// Formats plans, one line each.
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

/// Formats one subscription, one line per fact, followed by its events.
pub fn subscription(found: &SubscriptionView) -> String {
    let mut facts = vec![
        ["id", &found.id.to_string()].map(str::to_owned),
        [
            "account".to_owned(),
            format_account(found.account, found.account_name.as_deref()),
        ],
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

/// Returns the plan's name, or the product with its subject for other products.
fn bought(found: &SubscriptionView) -> String {
    match found.product.as_str() {
        "plan" => found.subject.clone(),
        product => format!("{product} {}", found.subject),
    }
}

/// Formats subscriptions, one line each.
pub fn subscriptions(found: &[SubscriptionView]) -> String {
    let row = |found: &SubscriptionView| {
        let ends = if found.cancel_at_period_end {
            "ends"
        } else {
            "renews"
        };
        [
            found.id.to_string(),
            bought(found),
            found.price.to_string(),
            found.cadence.clone(),
            found.state.clone(),
            found.paid_through.clone(),
            ends.to_owned(),
        ]
    };
    table(
        ["ID", "PLAN", "PRICE", "CADENCE", "STATE", "PAID THROUGH", "THEN"],
        found.iter().map(row),
    )
}

/// Formats corpora, one line each.
pub fn corpora(states: &[CorpusView]) -> String {
    let row = |state: &CorpusView| {
        [
            state.name.clone(),
            if state.is_private { "yes" } else { "no" }.to_owned(),
            state.documents.to_string(),
            state.passages.to_string(),
            state.skipped.to_string(),
            state.built_at.clone().unwrap_or_else(|| "not built".to_owned()),
        ]
    };
    table(
        [
            "NAME",
            "PRIVATE",
            "DOCUMENTS",
            "PASSAGES",
            "SKIPPED",
            "INDEXED AT",
        ],
        states.iter().map(row),
    )
}

/// Price classes of media with the unit of the displayed price.
const MEDIA_UNITS: [(&str, &str); 5] = [
    ("image", "image"),
    ("video", "second of video"),
    ("audio", "second of audio"),
    ("character", "1M characters"),
    ("search", "query"),
];

/// Formats models, one line each.
pub fn models(models: &[ModelView]) -> String {
    let row = |model: &ModelView| {
        let media: Vec<String> = MEDIA_UNITS
            .iter()
            .filter_map(|(class, unit)| Some(format!("{} / {unit}", model.prices.get(*class)?)))
            .collect();
        let media_prices = match media.is_empty() {
            true => "-".to_owned(),
            false => media.join(", "),
        };
        let window = model
            .context_window
            .map_or_else(|| "-".to_owned(), |tokens| tokens.to_string());
        let of_tokens =
            |class: &str, price: Credits| match media.is_empty() || model.prices.contains_key(class) {
                true => price.to_string(),
                false => "-".to_owned(),
            };
        [
            model.id.clone(),
            of_tokens("input", model.input_price),
            of_tokens("output", model.output_price),
            media_prices,
            window,
            model.release_date.clone(),
            model.targets.join(", "),
        ]
    };
    table(
        [
            "MODEL",
            "INPUT/1M",
            "OUTPUT/1M",
            "MEDIA",
            "CONTEXT",
            "RELEASED",
            "TARGETS",
        ],
        models.iter().map(row),
    )
}

/// Formats a statement: opening balance, movements, closing balance, then charges by model and
/// endpoint.
pub fn statement(statement: &StatementView) -> String {
    let line = |name: &str, amount: Credits| [name.to_owned(), amount.to_string()];
    let fees = format!("plan fees (periods: {})", statement.plan_periods);
    let facts = [
        [
            "account".to_owned(),
            format_account(statement.account, statement.account_name.as_deref()),
        ],
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
        line("- withdrawn", statement.withdrawn),
        line("closing balance", statement.closing),
        line("held at closing", statement.closing_held),
        line("allowance used", statement.allowance_used),
        line("allowance refunded", statement.allowance_refunded),
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

/// Formats the result of `ledger check`.
pub fn check(check: &CheckView) -> String {
    let verdict = match check.fault_count {
        0 => "The ledger is clean.\n".to_owned(),
        count => format!("Faults in the ledger: {count}. docs/money.md explains each invariant.\n"),
    };
    let facts = [
        ["accounts".to_owned(), check.accounts.to_string()],
        ["transfers".to_owned(), check.transfers.to_string()],
        ["usage rows".to_owned(), check.usage_rows.to_string()],
        ["open holds".to_owned(), check.open_holds.to_string()],
        ["revenue".to_owned(), format!("{} credits", check.revenue)],
        ["overrun".to_owned(), format!("{} credits", check.overrun)],
        ["interrupted calls".to_owned(), check.crashed.to_string()],
        ["chain heads".to_owned(), check.chain_heads.to_string()],
        ["unchained transfers".to_owned(), check.unchained.to_string()],
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

/// Formats the result of a move: table digests, balances and the settings to change.
pub fn moved(moved: &MoveView) -> String {
    let header = ["TABLE", "ROWS", "DIGEST (EQUAL ON BOTH SIDES)"].map(str::to_owned);
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
        "Moved the installation from {} to {} (accounts: {}, rows: {}).\n\n{}\nBalances of all accounts (equal on both sides):\n{}\n{}\n\
         Before you start the gateway:\n{settings}",
        moved.from,
        moved.to,
        moved.accounts,
        moved.rows,
        aligned(&tables),
        aligned(&balances),
        check(&moved.ledger),
    )
}

/// Formats the findings of `doctor` or `config check`.
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
        0 => "No problems found.\n".to_owned(),
        1 => "1 problem found.\n".to_owned(),
        count => format!("{count} problems found.\n"),
    };
    text + "\n" + &verdict
}

/// Formats a duration in the largest unit that fits.
pub(super) fn age(seconds: u64) -> String {
    let units = [(86_400, "d"), (3_600, "h"), (60, "min")];
    let fitting = units.into_iter().find(|(length, _)| seconds >= *length);
    match fitting {
        Some((length, unit)) => format!("{} {unit}", seconds / length),
        None => format!("{seconds} s"),
    }
}

/// Maximum number of characters of an account name in a cell.
const MAX_NAME: usize = 40;

/// Formats an account in a cell: its id, then its name in parentheses.
pub(super) fn format_account(id: AccountId, name: Option<&str>) -> String {
    let Some(name) = name else {
        return id.to_string();
    };
    let mut short: String = name.chars().take(MAX_NAME).collect();
    if short.len() < name.len() {
        short.push('…');
    }
    format!("{id} ({short})")
}

fn or_default(limit: Option<impl ToString>) -> String {
    limit.map_or_else(|| BY_DEFAULT.to_owned(), |limit| limit.to_string())
}

pub(super) fn table<const N: usize>(head: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut all = vec![head.map(str::to_owned)];
    all.extend(rows);
    // A header without rows is omitted.
    if all.len() == 1 {
        String::new()
    } else {
        aligned(&all)
    }
}

/// Aligns columns to their widest cell, separated by two spaces.
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
    fn a_clock_is_ahead_by_its_two_largest_units() {
        for (seconds, expected) in [
            (0, "not ahead"),
            (1, "1 second ahead"),
            (59, "59 seconds ahead"),
            (3_600, "1 hour ahead"),
            (4_481_168, "51 days 20 hours ahead"),
            (86_401, "1 day 1 second ahead"),
        ] {
            assert_eq!(ahead_by(seconds), expected);
        }
    }

    #[test]
    fn a_name_stands_behind_the_id_of_its_account() {
        let id = AccountId::from_u128(1);
        let long = "ü".repeat(41);
        let short = format!(" ({}…)", "ü".repeat(40));
        for (name, expected) in [
            (None, ""),
            (Some("Acme Ltd"), " (Acme Ltd)"),
            (Some(&*long), &*short),
        ] {
            assert_eq!(format_account(id, name), format!("{id}{expected}"));
        }
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
        let expected = "ok     clock       right\nFAULT  provider x  no key\n                   → set a key\n\n1 problem found.\n";
        assert_eq!(findings(&[fine, fault]), expected);
    }

    #[test]
    fn ages_have_the_largest_unit_that_fits() {
        for (seconds, expected) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (3_599, "59 min"),
            (3_600, "1 h"),
            (86_399, "23 h"),
            (86_400, "1 d"),
        ] {
            assert_eq!(age(seconds), expected);
        }
    }
}
