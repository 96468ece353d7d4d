//! What the ledger says beside what the upstream counted and what callers were told.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::load::{Told, body};
use super::{Account, CAP, PRICE};
use crate::gateway::{Check, Gateway, nanos};
use crate::upstream::FakeUpstream;

/// What a run was, for who reads its log.
#[derive(Debug)]
pub struct Summary {
    /// How many answers there were of each kind.
    pub answers: Vec<(String, u64)>,
    /// Usage rows, and those of calls that nobody settled.
    pub rows: usize,
    /// Calls whose hold was released since nobody settled them.
    pub crashed: usize,
    /// Calls whose callers had a whole answer and paid nothing: their settlement did not reach the database, or too late.
    pub given_away: usize,
    /// What was paid, in nano-credits, credits and allowances together.
    pub revenue: i64,
    /// What the upstream did beyond that.
    pub lost: i64,
    /// The most that the calls which were not settled could have cost.
    pub exposed: i64,
}

/// What the upstream did for each account, in nano-credits and in answers.
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

/// Every usage row of an account, by request id.
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

/// Holds every book against the others. The nodes run; `check` is asked for when they do not any more.
pub(super) async fn compare(
    gateway: &Gateway,
    upstream: &FakeUpstream,
    accounts: &[Account],
    told: &Told,
) -> Summary {
    let generated = generated(upstream);
    let longest = body(9_999, 39).to_string().len();
    // The most that one of these calls can hold.
    let bound = (i64::try_from(longest).unwrap() + 8 + CAP + 8) * PRICE;
    let mut summary = Summary {
        answers: told.answers.clone().into_iter().collect(),
        rows: 0,
        crashed: 0,
        given_away: 0,
        revenue: 0,
        lost: 0,
        exposed: 0,
    };
    for (place, account) in accounts.iter().enumerate() {
        let rows = rows(gateway, &account.key).await;
        let sum = |name: &str| rows.values().map(|row| nanos(&row[name])).sum::<i64>();
        let (paid, included) = (sum("cost"), sum("included"));
        let (begun, answers) = generated.get(&place).copied().unwrap_or_default();
        // Nobody pays for more than was done for them; what had no report is an estimate.
        let estimated = rows.values().filter(|row| row["estimated"] == true);
        let estimated: i64 = estimated.map(|row| nanos(&row["cost"])).sum();
        assert!(
            paid - estimated <= begun,
            "account {place}: {paid} paid, {begun} done"
        );
        let balance = gateway.balance(&account.id).await;
        let expected = account.granted - (paid - included);
        assert_eq!((balance.credits, balance.held), (expected, 0), "account {place}");
        assert!(
            balance.credits >= 0 && included <= account.allowance,
            "account {place}: {included} included"
        );
        // Whatever reached the upstream had a hold, and so has a row.
        assert!(
            rows.len() >= answers,
            "account {place}: {} rows, {answers} answers",
            rows.len()
        );
        // What was done and not paid was done for calls that failed or were not settled.
        let unsettled = rows
            .values()
            .filter(|row| row["outcome"] != "ok" || row["cost"] == "0");
        let exposed = i64::try_from(unsettled.count()).unwrap() * bound;
        let lost = (begun - (paid - estimated)).max(0);
        assert!(
            lost <= exposed,
            "account {place}: {lost} lost, {exposed} could be"
        );
        for row in rows.values().filter(|row| row["outcome"] == "crashed") {
            assert_eq!(row["cost"], "0", "{row}");
            summary.crashed += 1;
        }
        for (id, (_, cost)) in told.whole.iter().filter(|(_, (owner, _))| *owner == place) {
            let row = rows
                .get(id)
                .unwrap_or_else(|| panic!("{id} was answered and has no row"));
            let is_settled = row["outcome"] == "ok" && cost.is_none_or(|cost| nanos(&row["cost"]) == cost);
            // Where the database was away for long, an answer is given all the same, and its hold is released, or what it cost
            // is reported when its lease is gone: the operator bears it.
            let is_given_away = row["cost"] == "0";
            assert!(is_settled || is_given_away, "{id} was told {cost:?}: {row}");
            summary.given_away += usize::from(is_given_away);
        }
        summary.rows += rows.len();
        summary.revenue += paid;
        summary.lost += lost;
        summary.exposed += exposed;
    }
    summary
}

/// The books of the whole installation.
pub(super) fn check(check: &Check, summary: &Summary) {
    assert!(check.clean, "{check:?}");
    assert_eq!(check.open_holds, 0, "{check:?}");
    assert_eq!(json!(check.usage_rows), json!(summary.rows), "{check:?}");
    assert_eq!(check.crashed, summary.crashed as u64, "{check:?}");
}
