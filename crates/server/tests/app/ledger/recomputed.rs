//! The ledger audit: it confirms the charges of both engines and finds each kind of falsified row.

use proptest::prelude::*;
use tollgate_billing::{AuditReport, Difference, Scope, audit_ledger, check_ledger};
use tollgate_storage::refund::refund_id;
use tollgate_storage::{JobClaim, JobEnd, NewHold, NewJob, NewRefund, PriceRecord, Settlement, UsagePart};
use tollgate_types::{
    Credits, HoldId, JobId, JobStatus, PriceVersion, Prices, Timestamp, Unit, Usage, WorkerId,
};

use super::engines::{ACCOUNT, ENGINES, Engine, START, TestLedger, VERSION, hold, settlement};

const WEEK_MICROS: i64 = 7 * 24 * 60 * 60 * 1_000_000;

async fn audit(ledger: &TestLedger) -> AuditReport {
    audit_ledger(&*ledger.storage.ledger, Scope::default())
        .await
        .unwrap()
}

/// Held amount, consumed units, and whether the call is in the next week.
type Call = (i64, Vec<u64>, bool);

fn prices() -> impl Strategy<Value = Prices> {
    let price = || prop::option::of(0..50_000_000_i64);
    let listed = prop::collection::vec(price(), Unit::ALL.len());
    (listed, price(), price(), 0..3000_u64).prop_map(|(listed, long_input, long_output, above)| {
        let plain = Unit::ALL.into_iter().zip(listed);
        let prices = plain.fold(Prices::default(), |prices, (unit, price)| match price {
            Some(price) => prices.with(unit, Credits::from_nanos(price)),
            None => prices,
        });
        [("input", long_input), ("output", long_output)]
            .into_iter()
            .filter_map(|(class, price)| Some((class, price?)))
            .fold(prices, |prices, (class, price)| {
                let name = format!("{class}>{above}");
                prices.with_named(&name, Credits::from_nanos(price)).unwrap()
            })
    })
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let usage = prop::collection::vec(prop_oneof![Just(0), 0..2000_u64], Unit::ALL.len());
    prop::collection::vec((0..200_000_i64, usage, prop::bool::weighted(0.1)), 1..30)
}

async fn random_ledger(engine: Engine, prices: Prices, weekly: i64, calls: Vec<Call>) {
    let ledger = TestLedger::open(engine).await;
    ledger.price(prices).await;
    ledger.fund(ACCOUNT, 1_000_000_000_000).await;
    if weekly > 0 {
        ledger.subscribe(ACCOUNT, weekly).await;
    }
    let (count, mut now) = (calls.len() as u64, START.as_micros());
    for (number, (amount, quantities, is_next_week)) in (1..).zip(calls) {
        now += if is_next_week { WEEK_MICROS } else { 1 };
        let usage = Unit::ALL.into_iter().zip(quantities);
        let usage = usage.fold(Usage::ZERO, |usage, (unit, quantity)| usage.with(unit, quantity));
        let cost = prices.cost(&usage).nanos();
        let hold = NewHold {
            created_at: Timestamp::from_micros(now),
            ..hold(number, ACCOUNT, amount)
        };
        let end = Settlement {
            overrun: Credits::from_nanos((cost - amount).max(0)),
            usage,
            ended_at: Timestamp::from_micros(now + 1),
            ..settlement(&hold, cost.min(amount))
        };
        ledger.call(hold, end).await;
    }
    let report = audit(&ledger).await;
    assert_eq!(report.differences, []);
    assert_eq!(report.calls, count);
    assert_eq!(ledger.faults().await, Vec::<String>::new());
    ledger.close().await;
}

fn block_on(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(work);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_calls_come_out(prices in prices(), weekly in 0..300_000_i64, calls in calls()) {
        block_on(random_ledger(Engine::Sqlite, prices, weekly, calls));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_calls_come_out_of_postgres(prices in prices(), weekly in 0..300_000_i64, calls in calls()) {
        block_on(random_ledger(Engine::Postgres, prices, weekly, calls));
    }
}

/// Creates a ledger in which a token costs one nano-credit and the plan includes 100 a week. Call
/// 1: the allowance pays 30 of 40 held. Call 2: allowance and credits pay 80 of 90 held. Call 3
/// exceeds its hold of 50 by 20. A refund returns 7 of call 2.
async fn consistent_ledger(engine: Engine) -> TestLedger {
    let ledger = TestLedger::open(engine).await;
    ledger
        .price(Prices::default().with(Unit::Input, Credits::from_nanos(1_000_000)))
        .await;
    ledger.fund(ACCOUNT, 1_000).await;
    ledger.subscribe(ACCOUNT, 100).await;
    for (number, amount, cost) in [(1, 40, 30), (2, 90, 80), (3, 50, 70)] {
        let hold = hold(number, ACCOUNT, amount);
        let end = Settlement {
            overrun: Credits::from_nanos((cost - amount).max(0)),
            usage: Usage::tokens(u64::try_from(cost).unwrap(), 0),
            ..settlement(&hold, cost.min(amount))
        };
        ledger.call(hold, end).await;
    }
    let hold = HoldId::from_u128(2);
    let refund = NewRefund {
        id: refund_id(hold, "complaint"),
        account: ACCOUNT,
        hold,
        amount: Some(Credits::from_nanos(7)),
        reason: String::new(),
        at: START,
    };
    ledger.storage.lots.refund(refund).await.unwrap();
    ledger
}

#[tokio::test]
async fn each_kind_of_falsified_row_is_found() {
    let of = |leg: i64, number: u128| {
        format!(
            "leg = {leg} AND sequence IS NOT NULL AND amount > 0 AND entry_id IN \
        (SELECT id FROM usage_row WHERE usage_row.held = {number})"
        )
    };
    let transfer = |leg, held| format!("UPDATE transfer SET amount = amount + 1 WHERE {}", of(leg, held));
    let usage = |change: &str, held: i64| format!("UPDATE usage_row SET {change} WHERE held = {held}");
    let falsified = [
        (usage("charge = charge + 1", 40), "charge", "31", "30"),
        (usage("input = input + 1", 40), "charge", "30", "31"),
        (usage("cache_read = 5", 40), "charge", "30", "35"),
        (usage("overrun = 19", 50), "overrun", "19", "20"),
        (
            usage("included = 29", 40),
            "included in the usage row",
            "29",
            "30",
        ),
        (usage("held = 41", 40), "held", "41", "40"),
        (
            usage("price_version = 8", 40),
            "price version",
            "pv_0000000000000008",
            "not recorded",
        ),
        (
            usage("plan_name = NULL, window_id = NULL", 40),
            "plan",
            "none",
            "a plan with an allowance",
        ),
        (
            usage("estimated = 1, outcome = 'timeout'", 40),
            "estimated",
            "yes, for timeout",
            "no",
        ),
        (
            usage("outcome = 'crashed'", 40),
            "usage of a call that a crash interrupted",
            "30",
            "0",
        ),
        (transfer(1, 50), "held", "50", "51"),
        (transfer(2, 50), "paid by credits", "51", "50"),
        (transfer(6, 40), "paid by the allowance", "31", "30"),
        (transfer(3, 90), "released to credits", "11", "10"),
        (transfer(7, 40), "unused allowance", "11", "10"),
        (transfer(4, 50), "overrun in the ledger", "21", "20"),
        (
            format!("UPDATE transfer SET price_version = 8 WHERE {}", of(6, 40)),
            "price version of the transfers",
            "pv_0000000000000008",
            "pv_0000000000000009",
        ),
        (
            "UPDATE price_version SET prices = '{\"input\":\"0.002\"}'".to_owned(),
            "charge",
            "30",
            "40",
        ),
        (
            "UPDATE refund SET credits = 11".to_owned(),
            "refunded to credits",
            "11",
            "at most 10",
        ),
        (
            "UPDATE refund SET allowance = 71".to_owned(),
            "refunded to the allowance",
            "71",
            "at most 70",
        ),
        (
            "UPDATE transfer SET amount = 99 WHERE leg = 9".to_owned(),
            "used",
            "100",
            "at most 99",
        ),
        (
            "DELETE FROM transfer WHERE leg = 9".to_owned(),
            "opened",
            "never",
            "once",
        ),
        (
            "UPDATE ledger_account SET balance = 5 WHERE kind = 'allowance'".to_owned(),
            "left",
            "5",
            "0",
        ),
    ];
    for (index, (statement, figure, recorded, recomputed)) in falsified.into_iter().enumerate() {
        // The result does not depend on the engine. Only every fourth case runs on both, because
        // creating a database is slow.
        for engine in ENGINES.into_iter().take(if index % 4 == 0 { 2 } else { 1 }) {
            let mut ledger = consistent_ledger(engine).await;
            let report = audit(&ledger).await;
            assert_eq!(
                (report.differences.len(), report.calls, report.charged),
                (0, 3, 160)
            );
            ledger.falsify(&statement).await;
            let report = audit(&ledger).await;
            let found = report.differences.iter().any(|found| {
                let reported = (found.figure, &*found.recorded, &*found.recomputed);
                found.account == ACCOUNT && reported == (figure, recorded, recomputed)
            });
            assert!(found, "{engine:?}: {statement}: {:#?}", report.differences);
            ledger.close().await;
        }
    }
}

/// Price version in which all units are free.
const FREE: PriceVersion = PriceVersion::from_u64(7);

/// Creates a ledger with a job that holds 100. Its two models cost 30 and 40, at one nano-credit
/// for each token.
async fn with_parts(engine: Engine) -> TestLedger {
    let ledger = TestLedger::open(engine).await;
    ledger
        .price(Prices::default().with(Unit::Input, Credits::from_nanos(1_000_000)))
        .await;
    let free = PriceRecord {
        version: FREE,
        model: "compose".to_owned(),
        prices: Prices::free(),
        created_at: START,
    };
    ledger.storage.prices.record(vec![free]).await.unwrap();
    ledger.fund(ACCOUNT, 1_000).await;
    let job = NewJob {
        id: JobId::from_u128(1),
        kind: "test.composition".into(),
        body: Vec::new(),
        start_by: None,
        webhook: None,
    };
    let hold = NewHold {
        price_version: FREE,
        ..hold(1, ACCOUNT, 100)
    };
    ledger.storage.jobs.accept(job, hold.clone()).await.unwrap();
    let claim = JobClaim {
        worker: WorkerId::from_u128(1),
        now: START,
        until: START,
        limit: 1,
        per_account: 1,
        caps: Default::default(),
    };
    let leased = ledger.storage.jobs.claim(claim).await.unwrap().remove(0);
    let part = |number: u32, tokens: u64| UsagePart {
        number,
        name: format!("scene {number}").into(),
        model: "maker/model".into(),
        target: "upstream".into(),
        price_version: VERSION,
        usage: Usage::tokens(tokens, 0),
        cost: Credits::from_nanos(i64::try_from(tokens).unwrap()),
    };
    let end = JobEnd {
        status: JobStatus::Completed,
        result: None,
        error: None,
        settlement: Settlement {
            usage: Usage::tokens(70, 0),
            ..settlement(&hold, 70)
        },
        parts: vec![part(0, 30), part(1, 40)],
        events: Vec::new(),
    };
    ledger.storage.jobs.finish(leased.lease, end).await.unwrap();
    ledger
}

#[tokio::test]
async fn each_kind_of_falsified_part_is_found() {
    for engine in ENGINES {
        for (statement, figure, recorded, recomputed) in [
            (
                "UPDATE usage_part SET cost = 31 WHERE cost = 30",
                "cost",
                "31",
                "30",
            ),
            (
                "UPDATE usage_part SET input = 31 WHERE cost = 30",
                "charge",
                "70",
                "71",
            ),
            (
                "UPDATE usage_part SET price_version = 8 WHERE cost = 30",
                "price version",
                "pv_0000000000000008",
                "not recorded",
            ),
            (
                "DELETE FROM usage_part WHERE cost = 30",
                "quantity (sum of the parts)",
                "70",
                "40",
            ),
            (
                "DELETE FROM usage_row",
                "parts",
                "2",
                "0: the call has no usage row",
            ),
        ] {
            let mut ledger = with_parts(engine).await;
            let report = audit(&ledger).await;
            assert_eq!((report.differences.as_slice(), report.charged), (&[][..], 70));
            let checked = check_ledger(&*ledger.storage.ledger, true).await.unwrap();
            assert!(checked.is_clean(), "{:?}", checked.faults);
            ledger.falsify(statement).await;
            let report = audit(&ledger).await;
            let reported =
                |found: &Difference| (found.figure, found.recorded.clone(), found.recomputed.clone());
            let expected = (figure, recorded.to_owned(), recomputed.to_owned());
            let found = report.differences.iter().any(|found| reported(found) == expected);
            assert!(found, "{engine:?}: {statement}: {:#?}", report.differences);
            let checked = check_ledger(&*ledger.storage.ledger, true).await.unwrap();
            let named = checked.faults.iter().any(|fault| fault.invariant == "I13");
            assert!(named, "{engine:?}: {statement}: {:#?}", checked.faults);
            ledger.close().await;
        }
    }
}

#[tokio::test]
async fn a_scope_leaves_the_others_out() {
    for engine in ENGINES {
        let ledger = consistent_ledger(engine).await;
        let ended = START.as_micros() + 1;
        let at = |micros| Some(Timestamp::from_micros(micros));
        for (from, to, calls) in [
            (at(ended), at(ended + 1), 3),
            (at(ended + 1), None, 0),
            (None, at(ended), 0),
        ] {
            let account = Some(ACCOUNT);
            let scope = Scope { account, from, to };
            let report = audit_ledger(&*ledger.storage.ledger, scope).await.unwrap();
            assert_eq!(
                (report.accounts, report.calls, report.difference_count),
                (1, calls, 0)
            );
        }
        let no_accounts = Scope {
            account: Some(tollgate_types::AccountId::from_u128(0)),
            ..Scope::default()
        };
        let report = audit_ledger(&*ledger.storage.ledger, no_accounts).await.unwrap();
        assert_eq!(report.accounts, 0);
        ledger.close().await;
    }
}
