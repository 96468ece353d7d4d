//! Nodes that serve a busy account out of leases of its balance.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tollgate_backends::postgres::{self, LeaseConfig, PostgresConfig};
use tollgate_storage::audit::{Leg, TransferSubject};
use tollgate_storage::conformance::Books;
use tollgate_storage::{
    Balance, Cadence, HoldOutcome, LedgerAccount, NewHold, NewSubscription, Payer, Payment, Product, Storage,
};
use tollgate_testkit::postgres::PostgresServer;
use tollgate_types::clock::SystemClock;
use tollgate_types::usage::Outcome;
use tollgate_types::{Clock, Credits, HoldId, SubscriptionId, Timestamp};

use crate::database::TestDatabase;
use crate::nodes::{ACCOUNT, NOW, hold, one_account, settlement};

/// A node that leases, with its journal in this directory.
pub async fn node(database: &TestDatabase, dir: &TempDir) -> Storage {
    node_with(database.config(), dir).await
}

async fn node_with(mut config: PostgresConfig, dir: &TempDir) -> Storage {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    config.leases = Some(LeaseConfig::new(
        dir.path().join("leases"),
        Duration::from_secs(600),
        clock,
    ));
    postgres::open(config).await.unwrap()
}

/// A hold that nobody sweeps away meanwhile.
pub fn lasting(number: u128, amount: i64) -> NewHold {
    NewHold {
        expires_at: Timestamp::from_micros(i64::MAX),
        ..hold(number, amount)
    }
}

/// Makes cheap calls until the account has a lease here; answers the number of the next call.
async fn heat(node: &Storage, first: u128) -> u128 {
    for number in first.. {
        call(node, number, 1, 1).await.unwrap();
        if !Books::read(node).await.of(ACCOUNT).leases.is_empty() {
            return number + 1;
        }
    }
    unreachable!()
}

/// A call; what there was instead when it was refused.
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

/// A directory for a node.
pub fn dir() -> TempDir {
    TempDir::new().unwrap()
}

/// A busy account's calls go through its lease; the books have each of them, and after the end nothing is leased.
#[test]
fn a_busy_account_is_served_out_of_a_lease() {
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
        let books = Books::read(&other).await;
        let book = books.of(ACCOUNT);
        assert_eq!(book.usage.len(), 3_000);
        assert_eq!(book.balance(LedgerAccount::Lease), 0);
        let leased = book
            .transfers
            .iter()
            .filter(|transfer| transfer.leg == Leg::HoldLease)
            .count();
        assert!(leased > 2_000, "{leased} of {calls} calls were leased");
        assert_eq!(std::fs::read_dir(home.path().join("leases")).unwrap().count(), 0);
    });
}

/// Calls until one is refused, with numbers of its own; answers what was charged.
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

/// Three nodes spend an account to its last credit: what they charge is what it had, and only then they refuse.
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
        let books = Books::read(&other).await;
        let book = books.of(ACCOUNT);
        assert_eq!(book.balance(LedgerAccount::Credits), 0);
        assert_eq!(book.balance(LedgerAccount::RevenueUsage), 60_000);
        assert!(
            book.transfers
                .iter()
                .any(|transfer| transfer.leg == Leg::HoldLease)
        );
    });
}

/// The same with fifty nodes, each with connections of its own.
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
        let nodes = homes.iter().map(|home| node_with(few.clone(), home));
        let nodes: Vec<Storage> = join_all(nodes).await;
        let workers = nodes.iter().enumerate().map(|(place, node)| spend(place, node));
        let charged: i64 = join_all(workers).await.into_iter().sum();
        assert_eq!(charged, 60_000);
        join_all(nodes.iter().map(|node| node.engine.close()))
            .await
            .into_iter()
            .for_each(Result::unwrap);
        let books = Books::read(&other).await;
        let book = books.of(ACCOUNT);
        assert_eq!(book.balance(LedgerAccount::Credits), 0);
        assert_eq!(book.balance(LedgerAccount::RevenueUsage), 60_000);
    });
}

/// What one node has leased and does not use, another can spend: a hold is denied only when all together have not enough.
#[test]
fn what_an_idle_node_has_is_given_back_when_it_is_needed() {
    let database = TestDatabase::create();
    database.block_on(async {
        let other = one_account(&database, 1_000).await;
        let (home, elsewhere) = (dir(), dir());
        let (idle, asking) = (node(&database, &home).await, node(&database, &elsewhere).await);
        let calls = heat(&idle, 1).await - 1;
        idle.engine.flush().await.unwrap();
        let left = 1_000 - i64::try_from(calls).unwrap();
        let HoldOutcome::Denied { available } = asking.ledger.hold(lasting(7_001, left + 1)).await.unwrap()
        else {
            panic!("more was held than there is");
        };
        assert_eq!(available.nanos(), left);
        // Its node is told so by the database, or sees it when it renews the lease.
        let mut refusals = 0;
        while call(&asking, 7_002, left, left).await.is_err() {
            refusals += 1;
            assert!(refusals < 100, "the lease was not given back");
        }
        for node in [idle, asking] {
            node.engine.close().await.unwrap();
        }
        assert_eq!(
            Books::read(&other)
                .await
                .of(ACCOUNT)
                .balance(LedgerAccount::Credits),
            0
        );
    });
}

/// A plan is paid with what an idle node had of the balance, and from then on the account is not leased.
#[test]
fn a_fee_and_the_plan_that_it_pays_end_leases() {
    let database = TestDatabase::create();
    database.block_on(async {
        let other = one_account(&database, 1_000).await;
        let home = dir();
        let idle = node(&database, &home).await;
        let next = heat(&idle, 1).await;
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
        let books = Books::read(&other).await;
        let book = books.of(ACCOUNT);
        assert!(book.leases.is_empty());
        assert_eq!(book.balance(LedgerAccount::Credits), 100);
        assert_eq!(book.balance(LedgerAccount::RevenueIncluded), 50);
        idle.engine.close().await.unwrap();
    });
}

/// Runs in a process of its own, which is killed.
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
        let mut told = std::io::stdout().lock();
        let first = heat(&node, 1).await;
        for number in first.. {
            node.ledger.hold(lasting(number, 10)).await.unwrap();
            writeln!(told, "held {number}").unwrap();
            if number % 5 != 0 {
                node.ledger.settle(settlement(number, 3)).await.unwrap();
                writeln!(told, "settled {number}").unwrap();
            }
        }
    });
}

/// What was answered out of a lease survives the death of the process: the next one that has its directory reports it.
#[test]
fn what_was_answered_survives_kill_9() {
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
        let before = Books::read(&other).await;
        assert_eq!(before.of(ACCOUNT).leases.len(), 1);
        node(&database, &home).await.engine.close().await.unwrap();
        let books = Books::read(&other).await;
        let book = books.of(ACCOUNT);
        assert!(book.leases.is_empty());
        let leased: HashSet<HoldId> = book
            .transfers
            .iter()
            .filter_map(|transfer| match (transfer.subject, transfer.leg) {
                (TransferSubject::Hold(id), Leg::HoldLease) => Some(id),
                _ => None,
            })
            .collect();
        let row = |number: &u128| book.usage.iter().find(|row| row.id.as_u128() == *number);
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

/// A node that is not heard of loses its lease when its calls must be over. What it reports later the operator bears.
#[test]
fn what_is_reported_too_late_is_the_operators_loss() {
    let database = TestDatabase::create();
    database.block_on(async {
        let other = one_account(&database, 1_000).await;
        database.execute(&round(1, 1, Some(200), "")).await;
        assert_eq!(
            Books::read(&other)
                .await
                .of(ACCOUNT)
                .balance(LedgerAccount::Lease),
            200
        );
        other.ledger.sweep(NOW, 100).await.unwrap();
        let books = Books::read(&other).await;
        assert_eq!(books.of(ACCOUNT).balance(LedgerAccount::Lease), 0);
        assert_eq!(books.of(ACCOUNT).balance(LedgerAccount::Credits), 1_000);
        for number in [2, 3] {
            database
                .execute(&round(1, number, None, "\\x00000000000000000000000000000007"))
                .await;
        }
        let books = Books::read(&other).await;
        let book = books.of(ACCOUNT);
        assert_eq!(book.balance(LedgerAccount::Credits), 1_000);
        assert_eq!(book.balance(LedgerAccount::ExpenseCrashLoss), -30);
        assert_eq!(book.balance(LedgerAccount::RevenueUsage), 30);
        let [row] = book.usage.as_slice() else {
            panic!("{:?}", book.usage);
        };
        assert_eq!(
            (row.held.nanos(), row.charge.nanos(), row.overrun.nanos()),
            (0, 0, 30)
        );
    });
}

/// A round that arrives behind a later one does nothing.
#[test]
fn a_round_that_comes_behind_does_nothing() {
    let database = TestDatabase::create();
    database.block_on(async {
        let other = one_account(&database, 1_000).await;
        database.execute(&round(1, 2, Some(200), "")).await;
        let before = Books::read(&other).await;
        for (number, target) in [(1, 100), (2, 0), (1, 250)] {
            database.execute(&round(1, number, Some(target), "")).await;
        }
        assert_eq!(Books::read(&other).await, before);
    });
}

/// A lease of a node that the node does not know is given back when it looks.
#[test]
fn a_lease_that_nobody_knows_is_closed() {
    let database = TestDatabase::create();
    database.block_on(async {
        let other = one_account(&database, 1_000_000).await;
        let home = dir();
        let node = node(&database, &home).await;
        let next = heat(&node, 1).await;
        database
            .execute(
                "SELECT lease_round(account_id, '\\x00000000000000000000000000000007', node, 1, TRUE, 500, 0, 0, 60000000, 60000000, '{}', '{}', '{}', '{}',
                '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')
                FROM lease",
            )
            .await;
        assert_eq!(Books::read(&other).await.of(ACCOUNT).leases.len(), 2);
        node.ledger.sweep(NOW, 100).await.unwrap();
        let books = Books::read(&other).await;
        let left: Vec<u128> = books.of(ACCOUNT).leases.iter().map(|lease| lease.id.as_u128()).collect();
        assert!(left.len() == 1 && left[0] != 7, "{left:?}");
        call(&node, next, 1, 1).await.unwrap();
        node.engine.close().await.unwrap();
    });
}

/// No lease is of more than a quarter of what there is.
#[test]
fn a_lease_leaves_most_of_the_balance() {
    let database = TestDatabase::create();
    database.block_on(async {
        let other = one_account(&database, 1_000).await;
        database.execute(&round(1, 1, Some(900), "")).await;
        database.execute(&round(2, 1, Some(900), "")).await;
        database.execute(&round(1, 2, Some(900), "")).await;
        let books = Books::read(&other).await;
        let leases: Vec<i64> = books
            .of(ACCOUNT)
            .leases
            .iter()
            .map(|lease| lease.balance.nanos())
            .collect();
        assert_eq!(leases, [250, 187]);
        database.execute(&round(1, 3, Some(0), "")).await;
        let books = Books::read(&other).await;
        assert_eq!(books.of(ACCOUNT).leases.len(), 1);
    });
}

/// A round of another node that lives and keeps for no time: its lease is over at once.
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
