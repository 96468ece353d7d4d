//! Compares the ledger with the upstream's record and with the responses that callers received.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::load::{ResponseLog, body};
use super::{Account, CAP, PRICE};
use crate::gateway::{Check, Gateway, nanos};
use crate::upstream::FakeUpstream;

/// Totals of a run, for the log.
#[derive(Debug)]
pub struct Summary {
    /// Number of responses by kind.
    pub answers: Vec<(String, u64)>,
    /// Number of usage rows, unsettled calls included.
    pub rows: usize,
    /// Number of calls whose hold was released because no node settled the call.
    pub crashed: usize,
    /// Number of calls with a complete response and no charge, because their settlement failed or
    /// was too late.
    pub given_away: usize,
    /// Revenue in nano-credits, from credits and allowances.
    pub revenue: i64,
    /// Nano-credits of upstream work that no caller paid for.
    pub lost: i64,
    /// Upper bound of the cost of unsettled calls, in nano-credits.
    pub exposed: i64,
}

/// Returns the upstream's work for each account: its price in nano-credits and the number of
/// answers.
fn generated(upstream: &FakeUpstream) -> HashMap<usize, (i64, usize)> {
    let account = |body: &Value| -> usize {
        let text = body["messages"][0]["content"].as_str().unwrap();
        text[8..12].parse().unwrap()
    };
    let requests = upstream.requests();
    let requests: HashMap<u64, usize> = requests
        .iter()
        .map(|request| (request.sequence, account(&request.json().unwrap())))
        .collect();
    let mut generated: HashMap<usize, (i64, usize)> = HashMap::new();
    for served in upstream.served() {
        let one = generated.entry(requests[&served.request]).or_default();
        one.0 += i64::try_from(served.used.prompt + served.used.completion).unwrap() * PRICE;
        one.1 += 1;
    }
    generated
}

/// Reads every usage row of an account, by request id.
async fn rows(gateway: &Gateway, key: &str) -> HashMap<String, Value> {
    let (mut rows, mut after) = (HashMap::new(), String::new());
    loop {
        let page = gateway.usage(key, &format!("?limit=100{after}")).await;
        for row in page["data"].as_array().unwrap() {
            let id = row["request_id"].as_str().unwrap().to_owned();
            assert!(rows.insert(id, row.clone()).is_none(), "one row for each request");
            after = format!("&after={}", row["id"].as_str().unwrap());
        }
        if page["has_more"] == false {
            return rows;
        }
    }
}

/// Checks the ledger of each account while the nodes run. Call [`check`] after the nodes have
/// stopped.
pub(super) async fn compare(
    gateway: &Gateway,
    upstream: &FakeUpstream,
    accounts: &[Account],
    responses: &ResponseLog,
) -> Summary {
    let generated = generated(upstream);
    let longest = body(9_999, 39).to_string().len();
    // Maximum hold of one call.
    let bound = (i64::try_from(longest).unwrap() + 8 + CAP + 8) * PRICE;
    let mut summary = Summary {
        answers: responses.answers.clone().into_iter().collect(),
        rows: 0,
        crashed: 0,
        given_away: 0,
        revenue: 0,
        lost: 0,
        exposed: 0,
    };
    for (position, account) in accounts.iter().enumerate() {
        let rows = rows(gateway, &account.key).await;
        let sum = |name: &str| rows.values().map(|row| nanos(&row[name])).sum::<i64>();
        let (paid, included) = (sum("cost"), sum("included"));
        let (started, answers) = generated.get(&position).copied().unwrap_or_default();
        // No account pays for more work than the upstream did. Calls without a usage report are
        // charged an estimate.
        let estimated = rows.values().filter(|row| row["estimated"] == true);
        let estimated: i64 = estimated.map(|row| nanos(&row["cost"])).sum();
        assert!(
            paid - estimated <= started,
            "account {position}: {paid} paid, {started} done"
        );
        let balance = gateway.balance(&account.id).await;
        let expected = account.granted - (paid - included);
        assert_eq!(
            (balance.credits, balance.held),
            (expected, 0),
            "account {position}"
        );
        assert!(
            balance.credits >= 0 && included <= account.allowance,
            "account {position}: {included} included"
        );
        // Each request that reached the upstream had a hold, and therefore has a row.
        assert!(
            rows.len() >= answers,
            "account {position}: {} rows, {answers} answers",
            rows.len()
        );
        // Only calls that failed or were not settled may have unpaid work.
        let unsettled = rows
            .values()
            .filter(|row| row["outcome"] != "ok" || row["cost"] == "0");
        let exposed = i64::try_from(unsettled.count()).unwrap() * bound;
        let lost = (started - (paid - estimated)).max(0);
        assert!(
            lost <= exposed,
            "account {position}: {lost} lost, {exposed} could be"
        );
        for row in rows.values().filter(|row| row["outcome"] == "crashed") {
            assert_eq!(row["cost"], "0", "{row}");
            summary.crashed += 1;
        }
        for (id, (_, cost)) in responses
            .whole
            .iter()
            .filter(|(_, (owner, _))| *owner == position)
        {
            let row = rows
                .get(id)
                .unwrap_or_else(|| panic!("{id} was answered and has no row"));
            let is_settled = row["outcome"] == "ok" && cost.is_none_or(|cost| nanos(&row["cost"]) == cost);
            // If the database is unavailable for long, the caller still receives the response. The
            // operator then bears the cost: the hold is released, or the lease ends before the
            // cost is reported.
            let is_given_away = row["cost"] == "0";
            assert!(
                is_settled || is_given_away,
                "the response of {id} said {cost:?}: {row}"
            );
            summary.given_away += usize::from(is_given_away);
        }
        summary.rows += rows.len();
        summary.revenue += paid;
        summary.lost += lost;
        summary.exposed += exposed;
    }
    summary
}

/// Checks the result of `ledger check` for the whole installation against the summary.
pub(super) fn check(check: &Check, summary: &Summary) {
    assert!(check.clean, "{check:?}");
    assert_eq!(check.open_holds, 0, "{check:?}");
    assert_eq!(json!(check.usage_rows), json!(summary.rows), "{check:?}");
    assert_eq!(check.crashed, summary.crashed as u64, "{check:?}");
}
