//! Tests that all answered calls survive the kill of the process.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;

use tollgate_backends::sqlite::{SqliteConfig, open};
use tollgate_storage::conformance::LedgerSnapshot;
use tollgate_types::clock::ManualClock;
use tollgate_types::usage::Outcome;

use crate::samples::{DataDir, Directory, START, account, block_on, funded, hold, settlement, take};

/// Number of lines that the parent reads before it kills the child.
const ANSWERS: usize = 3000;

/// Code of the child process: reads its directory from stdin, then holds and settles until the
/// process is killed. Prints a line after each answered step.
#[test]
#[ignore = "the other test runs it"]
fn child_that_is_killed() {
    let mut directory = String::new();
    std::io::stdin().read_line(&mut directory).unwrap();
    block_on(async {
        let clock = Arc::new(ManualClock::at(START));
        let mut config = SqliteConfig::new(directory.trim(), clock);
        config.segment_bytes = 20_000;
        config.commit_records = 64;
        let storage = open(config).await.unwrap();
        let id = funded(&storage, 1, 1_000_000_000).await;
        let mut answered = std::io::stdout().lock();
        for number in 0_u128.. {
            let held = take(&storage, hold(number, id, 10)).await;
            writeln!(answered, "held {number}").unwrap();
            if number % 5 != 0 {
                storage.ledger.settle(settlement(&held, 3)).await.unwrap();
                writeln!(answered, "settled {number}").unwrap();
            }
        }
    });
}

#[test]
fn answered_calls_survive_kill_9() {
    let directory = Directory::new();
    let DataDir(path) = directory.path();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "killed::child_that_is_killed",
            "--nocapture",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    writeln!(child.stdin.take().unwrap(), "{}", path.display()).unwrap();
    let (mut held, mut settled) = (Vec::new(), Vec::new());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while held.len() + settled.len() < ANSWERS {
        let line = lines.next().unwrap().unwrap();
        if let Some(number) = line.strip_prefix("held ") {
            held.push(number.parse::<u128>().unwrap());
        } else if let Some(number) = line.strip_prefix("settled ") {
            settled.push(number.parse::<u128>().unwrap());
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    block_on(async {
        let storage = directory.path().open().await.unwrap();
        let ledgers = LedgerSnapshot::read(&storage).await;
        let ledger = ledgers.of(account(1));
        assert!(ledger.holds.is_empty());
        let row = |number: &u128| ledger.usage.iter().find(|row| row.id.as_u128() == *number);
        for number in &settled {
            let row = row(number).unwrap();
            assert_eq!((row.charge.nanos(), row.outcome), (3, Outcome::Ok), "{number}");
        }
        for number in held.iter().filter(|number| *number % 5 == 0) {
            let row = row(number).unwrap();
            assert_eq!(
                (row.charge.nanos(), row.outcome),
                (0, Outcome::Crashed),
                "{number}"
            );
        }
        assert!(held.iter().all(|number| row(number).is_some()));
        storage.engine.close().await.unwrap();
    });
}
