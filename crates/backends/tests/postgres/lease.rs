//! Tests of nodes that serve a busy account from leases of its balance.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use sqlx::Connection;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tollgate_backends::postgres::{self, LeaseConfig, PostgresConfig};
use tollgate_storage::audit::{Leg, TransferSubject};
use tollgate_storage::conformance::LedgerSnapshot;
use tollgate_storage::{
    Balance, Cadence, HoldOutcome, LedgerAccount, NewHold, NewSubscription, Payer, Payment, Product,
    SeriesQuery, SeriesStep, Storage,
};
use tollgate_testkit::postgres::PostgresServer;
use tollgate_types::clock::SystemClock;
use tollgate_types::id::min_id;
use tollgate_types::usage::Outcome;
use tollgate_types::{Clock, Credits, HoldId, SubscriptionId, Timestamp};

use crate::database::TestDatabase;
use crate::nodes::{ACCOUNT, NOW, hold, one_account, settlement};

/// Opens a node with leases, whose journal is in this directory.
pub async fn node(database: &TestDatabase, dir: &TempDir) -> Storage {
    node_with(database.config(), dir, Duration::from_secs(600)).await
}

/// Opens a node whose calls last at most `longest`.
async fn node_with(mut config: PostgresConfig, dir: &TempDir, longest: Duration) -> Storage {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    config.leases = Some(LeaseConfig::new(dir.path().join("leases"), longest, clock));
    postgres::open(config).await.unwrap()
}

/// Creates a hold that does not expire.
pub fn lasting(number: u128, amount: i64) -> NewHold {
    NewHold {
        expires_at: Timestamp::from_micros(i64::MAX),
        ..hold(number, amount)
    }
}

/// Makes cheap calls until the account has a lease; returns the number of the next call.
async fn make_busy(node: &Storage, first: u128) -> u128 {
    for number in first.. {
        call(node, number, 1, 1).await.unwrap();
        if !LedgerSnapshot::read(node).await.of(ACCOUNT).leases.is_empty() {
            return number + 1;
        }
    }
    unreachable!()
}

/// Makes a call; the error is the available credits of a denied hold.
async fn call(node: &Storage, number: u128, held: i64, charge: i64) -> Result<(), Credits> {
    match node.ledger.hold(lasting(number, held)).await.unwrap() {
        HoldOutcome::Denied { available } => Err(available),
        HoldOutcome::Held { .. } => {
            let resolution = node.ledger.settle(settlement(number, charge)).await.unwrap();
            assert!(resolution.first);
            assert_eq!(resolution.charge.nanos(), charge);
            Ok(())
        }
    }
}

/// Creates a temporary directory for a node.
pub fn dir() -> TempDir {
    TempDir::new().unwrap()
}

/// Calls of a busy account use its lease. The ledger contains each call, and nothing is leased
/// after the engine was closed.
#[test]
fn busy_accounts_are_served_from_a_lease() {
    let database = TestDatabase::create();
    database.block_on(async {
        let other = one_account(&database, 1_000_000).await;
        let (home, calls) = (dir(), 3_000);
        let node = node(&database, &home).await;
        for number in 1..=calls {
            call(&node, number, 10, 7).await.unwrap();
        }
        node.engine.flush().await.unwrap();
        let balance = other.ledger.balance(ACCOUNT).await.unwrap();
        let expected = Balance {
            credits: Credits::from_nanos(1_000_000 - 7 * 3_000),
            held: Credits::ZERO,
        };
        assert_eq!(balance, expected);
        node.engine.close().await.unwrap();
        let ledgers = LedgerSnapshot::read(&other).await;
        let ledger = ledgers.of(ACCOUNT);
        assert_eq!(ledger.usage.len(), 3_000);
        assert_eq!(ledger.balance(LedgerAccount::Lease), 0);
        let leased = ledger
            .transfers
            .iter()
            .filter(|transfer| transfer.leg == Leg::HoldLease)
            .count();
        assert!(leased > 2_000, "{leased} of {calls} calls were leased");
        assert_eq!(std::fs::read_dir(home.path().join("leases")).unwrap().count(), 0);
    });
}

/// Makes calls with separate numbers until one is denied; returns the total charge.
async fn spend(place: usize, node: &Storage) -> i64 {
    let mut charged = 0;
    for number in 1.. {
        match call(node, number * 64 + place as u128, 10, 10).await {
            Ok(()) => charged += 10,
            Err(_) => return charged,
        }
    }
    unreachable!()
}

/// Three nodes spend an account to its last credit. Their charges add up to the account's balance
/// before a call is denied.
#[test]
fn nodes_spend_the_last_credit_and_no_more() {
    let database = TestDatabase::create();
    database.block_on(async {
        let other = one_account(&database, 60_000).await;
        let homes = [dir(), dir(), dir()];
        let nodes = join_all(homes.iter().map(|home| node(&database, home))).await;
        let workers = (0..50).map(|place| spend(place, &nodes[place % 3]));
        let charged: i64 = join_all(workers).await.into_iter().sum();
        assert_eq!(charged, 60_000);
        for node in &nodes {
            node.engine.close().await.unwrap();
        }
        let ledgers = LedgerSnapshot::read(&other).await;
        let ledger = ledgers.of(ACCOUNT);
        assert_eq!(ledger.balance(LedgerAccount::Credits), 0);
        assert_eq!(ledger.balance(LedgerAccount::RevenueUsage), 60_000);
        assert!(
            ledger
                .transfers
                .iter()
                .any(|transfer| transfer.leg == Leg::HoldLease)
        );
    });
}

/// Like the test above, with fifty nodes, each with separate connections.
#[test]
fn fifty_nodes_spend_the_last_credit_and_no_more() {
    let server = Runtime::new().unwrap().block_on(PostgresServer::start());
    let database = TestDatabase::create_on(server.url());
    database.block_on(async {
        let other = one_account(&database, 60_000).await;
        let homes: Vec<TempDir> = (0..50).map(|_| dir()).collect();
        let few = PostgresConfig {
            max_connections: 2,
            ..database.config()
        };
        let nodes = homes
            .iter()
            .map(|home| node_with(few.clone(), home, Duration::from_secs(600)));
        let nodes: Vec<Storage> = join_all(nodes).await;
        let workers = nodes.iter().enumerate().map(|(place, node)| spend(place, node));
        let charged: i64 = join_all(workers).await.into_iter().sum();
        assert_eq!(charged, 60_000);
        join_all(nodes.iter().map(|node| node.engine.close()))
            .await
            .into_iter()
            .for_each(Result::unwrap);
        let ledgers = LedgerSnapshot::read(&other).await;
        let ledger = ledgers.of(ACCOUNT);
        assert_eq!(ledger.balance(LedgerAccount::Credits), 0);
        assert_eq!(ledger.balance(LedgerAccount::RevenueUsage), 60_000);
    });
}

/// Another node can spend the unused part of a lease. A hold is denied only if the account and all
/// leases together do not cover it.
#[test]
fn idle_leases_are_returned_on_demand() {
    let database = TestDatabase::create();
    database.block_on(async {
        let other = one_account(&database, 1_000).await;
        let (home, elsewhere) = (dir(), dir());
        let (idle, asking) = (node(&database, &home).await, node(&database, &elsewhere).await);
        let calls = make_busy(&idle, 1).await - 1;
        idle.engine.flush().await.unwrap();
        let left = 1_000 - i64::try_from(calls).unwrap();
        let HoldOutcome::Denied { available } = asking.ledger.hold(lasting(7_001, left + 1)).await.unwrap()
        else {
            panic!("more was held than there is");
        };
        assert_eq!(available.nanos(), left);
        // The database notifies the node of the lease. If the notification is lost, the node
        // releases the lease at the next renewal.
        let mut refusals = 0;
        while call(&asking, 7_002, left, left).await.is_err() {
            refusals += 1;
            assert!(refusals < 100, "the lease was not given back");
        }
        for node in [idle, asking] {
            node.engine.close().await.unwrap();
        }
        assert_eq!(
            LedgerSnapshot::read(&other)
                .await
                .of(ACCOUNT)
                .balance(LedgerAccount::Credits),
            0
        );
    });
}

/// A plan is paid from credits that an idle node had leased; afterwards the account has no lease.
#[test]
fn plan_fees_end_leases() {
    let database = TestDatabase::create();
    database.block_on(async {
        let other = one_account(&database, 1_000).await;
        let home = dir();
        let idle = node(&database, &home).await;
        let next = make_busy(&idle, 1).await;
        idle.engine.flush().await.unwrap();
        let left = 1_001 - i64::try_from(next).unwrap();
        let plan = NewSubscription {
            id: SubscriptionId::from_u128(1),
            account: ACCOUNT,
            product: Product::Plan,
            subject: Arc::from("lite"),
            price: Credits::from_nanos(left - 100),
            cadence: Cadence::Monthly,
            payer: Payer::Credits,
            allowance: Credits::from_nanos(500),
            anchor: NOW,
            paid_through: Timestamp::from_micros(i64::MAX),
        };
        let paid = other.subscriptions.subscribe(plan).await.unwrap();
        assert!(matches!(paid, Payment::Done(_)), "{paid:?}");
        for number in next..next + 50 {
            call(&idle, number, 1, 1).await.unwrap();
        }
        idle.engine.flush().await.unwrap();
        let ledgers = LedgerSnapshot::read(&other).await;
        let ledger = ledgers.of(ACCOUNT);
        assert!(ledger.leases.is_empty());
        assert_eq!(ledger.balance(LedgerAccount::Credits), 100);
        assert_eq!(ledger.balance(LedgerAccount::RevenueIncluded), 50);
        idle.engine.close().await.unwrap();
    });
}

/// Runs in a separate process, which the test below kills.
#[test]
#[ignore = "a child process of the test below"]
fn child_that_is_killed() {
    let mut lines = std::io::stdin().lines();
    let url = lines.next().unwrap().unwrap();
    let home = lines.next().unwrap().unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let mut config = PostgresConfig::new(url);
        config.leases = Some(LeaseConfig::new(home.into(), Duration::from_secs(600), clock));
        let node = postgres::open(config).await.unwrap();
        let mut reported = std::io::stdout().lock();
        let first = make_busy(&node, 1).await;
        for number in first.. {
            node.ledger.hold(lasting(number, 10)).await.unwrap();
            writeln!(reported, "held {number}").unwrap();
            if number % 5 != 0 {
                node.ledger.settle(settlement(number, 3)).await.unwrap();
                writeln!(reported, "settled {number}").unwrap();
            }
        }
    });
}

/// Calls answered from a lease survive the death of the process. The next process with the same
/// directory reports them.
#[test]
fn answered_calls_survive_kill_9() {
    let database = TestDatabase::create();
    database.block_on(async {
        let other = one_account(&database, 1_000_000_000).await;
        let home = dir();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--ignored",
                "--exact",
                "lease::child_that_is_killed",
                "--nocapture",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let leases = home.path().join("leases");
        writeln!(
            child.stdin.take().unwrap(),
            "{}\n{}",
            database.url(),
            leases.display()
        )
        .unwrap();
        let (mut held, mut settled) = (Vec::new(), Vec::new());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while settled.len() < 2_000 {
            let line = lines.next().unwrap().unwrap();
            if let Some(number) = line.strip_prefix("held ") {
                held.push(number.parse::<u128>().unwrap());
            } else if let Some(number) = line.strip_prefix("settled ") {
                settled.push(number.parse::<u128>().unwrap());
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let before = LedgerSnapshot::read(&other).await;
        assert_eq!(before.of(ACCOUNT).leases.len(), 1);
        node(&database, &home).await.engine.close().await.unwrap();
        let ledgers = LedgerSnapshot::read(&other).await;
        let ledger = ledgers.of(ACCOUNT);
        assert!(ledger.leases.is_empty());
        let leased: HashSet<HoldId> = ledger
            .transfers
            .iter()
            .filter_map(|transfer| match (transfer.subject, transfer.leg) {
                (TransferSubject::Hold(id), Leg::HoldLease) => Some(id),
                _ => None,
            })
            .collect();
        let row = |number: &u128| ledger.usage.iter().find(|row| row.id.as_u128() == *number);
        for number in &settled {
            let row = row(number).unwrap_or_else(|| panic!("{number} was settled and is lost"));
            assert_eq!((row.charge.nanos(), row.outcome), (3, Outcome::Ok), "{number}");
        }
        let open = held.iter().filter(|number| *number % 5 == 0);
        let open: Vec<&u128> = open
            .filter(|number| leased.contains(&HoldId::from_u128(**number)))
            .collect();
        assert!(open.len() > 100, "{}", open.len());
        for number in open {
            let row = row(number).unwrap();
            assert_eq!(
                (row.charge.nanos(), row.outcome),
                (0, Outcome::Crashed),
                "{number}"
            );
        }
    });
}

/// A node that stops reporting loses its lease after the maximum duration of a call. Charges that
/// it reports later are the operator's loss.
#[test]
fn late_reports_are_the_operators_loss() {
    let database = TestDatabase::create();
    database.block_on(async {
        let other = one_account(&database, 1_000).await;
        database.execute(&round(1, 1, Some(200), "")).await;
        assert_eq!(
            LedgerSnapshot::read(&other)
                .await
                .of(ACCOUNT)
                .balance(LedgerAccount::Lease),
            200
        );
        other.ledger.sweep(NOW, 100).await.unwrap();
        let ledgers = LedgerSnapshot::read(&other).await;
        assert_eq!(ledgers.of(ACCOUNT).balance(LedgerAccount::Lease), 0);
        assert_eq!(ledgers.of(ACCOUNT).balance(LedgerAccount::Credits), 1_000);
        for number in [2, 3] {
            database
                .execute(&round(1, number, None, "\\x00000000000000000000000000000007"))
                .await;
        }
        let ledgers = LedgerSnapshot::read(&other).await;
        let ledger = ledgers.of(ACCOUNT);
        assert_eq!(ledger.balance(LedgerAccount::Credits), 1_000);
        assert_eq!(ledger.balance(LedgerAccount::ExpenseCrashLoss), -30);
        assert_eq!(ledger.balance(LedgerAccount::RevenueUsage), 30);
        let [row] = ledger.usage.as_slice() else {
            panic!("{:?}", ledger.usage);
        };
        assert_eq!(
            (row.held.nanos(), row.charge.nanos(), row.overrun.nanos()),
            (0, 0, 30)
        );
    });
}

/// A call that is reported after its lease was closed is in the sums of usage, although its hour
/// was summed before.
#[test]
fn late_reports_are_summed() {
    let database = TestDatabase::create();
    database.block_on(async {
        let other = one_account(&database, 1_000_000).await;
        let home = dir();
        let node = node(&database, &home).await;
        let mut late = make_busy(&node, min_id(NOW)).await;
        loop {
            let held = node.ledger.hold(lasting(late, 10)).await.unwrap();
            assert!(matches!(held, HoldOutcome::Held { .. }));
            if LedgerSnapshot::read(&node).await.of(ACCOUNT).holds.is_empty() {
                break; // The hold is only in the lease.
            }
            node.ledger.settle(settlement(late, 3)).await.unwrap();
            late += 1;
        }
        let now = SystemClock::default().now();
        let calls = async || {
            while other.usage_hours.advance(ACCOUNT, now).await.unwrap() {}
            assert_eq!(other.usage_hours.differences().await.unwrap(), []);
            let query = SeriesQuery {
                from: NOW.minus(Duration::from_hours(1)),
                to: now,
                step: SeriesStep::Day,
                by: None,
            };
            let series = other.usage.series(ACCOUNT, query).await.unwrap();
            series.iter().map(|point| point.requests).sum::<u64>()
        };
        let before = calls().await;
        database.execute("UPDATE lease SET reclaim_at = 0").await;
        other.ledger.sweep(NOW, 100).await.unwrap();
        let behind = async || other.usage_hours.accounts_behind(now, None, 10).await.unwrap();
        assert_eq!(calls().await, before);
        assert_eq!(behind().await, []);
        node.ledger.settle(settlement(late, 3)).await.unwrap();
        node.engine.close().await.unwrap();
        assert_eq!(behind().await, [ACCOUNT]);
        assert_eq!(calls().await, before + 1);
        assert_eq!(behind().await, []);
    });
}

/// The mark of usage hours stays before the longest calls of a lease.
#[test]
fn leases_stop_the_mark_of_usage_hours() {
    let database = TestDatabase::create();
    database.block_on(async {
        let other = one_account(&database, 1_000_000).await;
        let home = dir();
        let longest = Duration::from_hours(20);
        let node = node_with(database.config(), &home, longest).await;
        let open = make_busy(&node, min_id(NOW)).await;
        node.ledger.hold(lasting(open, 10)).await.unwrap();
        let now = SystemClock::default().now();
        let mark = async || {
            while other.usage_hours.advance(ACCOUNT, now).await.unwrap() {}
            let mut connection = sqlx::PgConnection::connect(&database.url()).await.unwrap();
            let mark = sqlx::query_scalar("SELECT until FROM usage_hour_mark");
            let mark: i64 = mark.fetch_one(&mut connection).await.unwrap();
            Timestamp::from_micros(mark)
        };
        assert!(mark().await <= now.minus(longest));
        node.ledger.settle(settlement(open, 3)).await.unwrap();
        node.engine.close().await.unwrap();
        assert!(mark().await > now.minus(longest));
        assert_eq!(other.usage_hours.differences().await.unwrap(), []);
    });
}

/// A round that arrives after a round with a higher number changes nothing.
#[test]
fn late_rounds_change_nothing() {
    let database = TestDatabase::create();
    database.block_on(async {
        let other = one_account(&database, 1_000).await;
        database.execute(&round(1, 2, Some(200), "")).await;
        let before = LedgerSnapshot::read(&other).await;
        for (number, target) in [(1, 100), (2, 0), (1, 250)] {
            database.execute(&round(1, number, Some(target), "")).await;
        }
        assert_eq!(LedgerSnapshot::read(&other).await, before);
    });
}

/// A node closes leases that the database stores for it and that it does not have in memory.
#[test]
fn unknown_leases_are_closed() {
    let database = TestDatabase::create();
    database.block_on(async {
        let other = one_account(&database, 1_000_000).await;
        let home = dir();
        let node = node(&database, &home).await;
        let next = make_busy(&node, 1).await;
        database
            .execute(
                "SELECT lease_round(account_id, '\\x00000000000000000000000000000007', node, 1, TRUE, 500, 0, 0, 60000000, 60000000, '{}', '{}', '{}', '{}',
                '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')
                FROM lease",
            )
            .await;
        assert_eq!(LedgerSnapshot::read(&other).await.of(ACCOUNT).leases.len(), 2);
        node.ledger.sweep(NOW, 100).await.unwrap();
        let ledgers = LedgerSnapshot::read(&other).await;
        let left: Vec<u128> = ledgers.of(ACCOUNT).leases.iter().map(|lease| lease.id.as_u128()).collect();
        assert!(left.len() == 1 && left[0] != 7, "{left:?}");
        call(&node, next, 1, 1).await.unwrap();
        node.engine.close().await.unwrap();
    });
}

/// A lease takes at most a quarter of the account's remaining credits.
#[test]
fn a_lease_takes_a_small_part_of_the_balance() {
    let database = TestDatabase::create();
    database.block_on(async {
        let other = one_account(&database, 1_000).await;
        database.execute(&round(1, 1, Some(900), "")).await;
        database.execute(&round(2, 1, Some(900), "")).await;
        database.execute(&round(1, 2, Some(900), "")).await;
        let ledgers = LedgerSnapshot::read(&other).await;
        let leases: Vec<i64> = ledgers
            .of(ACCOUNT)
            .leases
            .iter()
            .map(|lease| lease.balance.nanos())
            .collect();
        assert_eq!(leases, [250, 187]);
        database.execute(&round(1, 3, Some(0), "")).await;
        let ledgers = LedgerSnapshot::read(&other).await;
        assert_eq!(ledgers.of(ACCOUNT).leases.len(), 1);
    });
}

/// Returns the statement of a round of another node, whose lease expires immediately.
fn round(lease: u128, number: u64, target: Option<i64>, call: &str) -> String {
    let target = target.map_or("NULL".to_owned(), |target| target.to_string());
    let of_call = |value: &str| match call {
        "" => "'{}'".to_owned(),
        _ => format!("ARRAY[{value}]"),
    };
    let calls = of_call(&format!("'{call}'::bytea"));
    let [text, nine, none] = ["'sim'", "9", "NULL::bigint"].map(of_call);
    let [held, charge, zero] = ["50", "30", "0"].map(of_call);
    let key = of_call("NULL::bytea");
    let zeros = vec![zero.clone(); 8].join(", ");
    format!(
        "SELECT * FROM lease_round('\\x{:032x}', '\\x{lease:032x}', '\\x01', {number}, TRUE, {target}, 0, 0, 0, 0, {calls}, {key}, {calls},
            {text}, {text}, {text}, {nine}, {held}, {charge}, {zero}, {zeros}, {}, {zero}, {nine}, {none}, {nine})",
        ACCOUNT.as_u128(),
        of_call("'ok'"),
    )
}
