//! Tests of recovery after the death of the process.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tollgate_backends::sqlite::open;
use tollgate_storage::conformance::LedgerSnapshot;
use tollgate_storage::refund::refund_id;
use tollgate_storage::{
    DeliveryClaim, HoldOutcome, JobClaim, JobEnd, LedgerAccount, NewHold, NewJob, NewRefund, Storage,
    UsagePart,
};
use tollgate_types::clock::ManualClock;
use tollgate_types::usage::Outcome;
use tollgate_types::{AccountId, Credits, HoldId, JobId, JobStatus, PriceVersion, Usage, WorkerId};

use crate::samples::{
    DataDir, Directory, START, at, block_on, call, funded, grant, hold, nanos, plan, settlement, take,
};

/// Makes two ended and two open calls. The first two are in the database, the others are in the
/// journal only.
async fn four_calls(storage: &Storage) -> AccountId {
    let id = funded(storage, 1, 1000).await;
    call(storage, hold(1, id, 100), 30).await;
    take(storage, hold(2, id, 200)).await;
    storage.engine.flush().await.unwrap();
    call(storage, hold(3, id, 100), 50).await;
    take(storage, hold(4, id, 300)).await;
    id
}

async fn check_four_calls(directory: &DataDir, id: AccountId) {
    let storage = directory.open().await.unwrap();
    let balance = storage.ledger.balance(id).await.unwrap();
    assert_eq!((balance.credits, balance.held), (nanos(920), Credits::ZERO));
    let expected = [
        (1, 30, Outcome::Ok),
        (2, 0, Outcome::Crashed),
        (3, 50, Outcome::Ok),
        (4, 0, Outcome::Crashed),
    ];
    let ledgers = LedgerSnapshot::read(&storage).await;
    let ledger = ledgers.of(id);
    let rows = ledger
        .usage
        .iter()
        .map(|row| (row.id.as_u128(), row.charge.nanos(), row.outcome));
    assert_eq!(rows.collect::<Vec<_>>(), expected);
    assert_eq!(ledger.usage[3].ended_at, START);
    assert_eq!(
        (ledger.usage[3].held, &*ledger.usage[3].endpoint),
        (nanos(300), "/v1/chat/completions")
    );
    assert!(ledger.holds.is_empty());
    assert_eq!(ledger.balance(LedgerAccount::RevenueUsage), 80);
    // A late settlement shows that the call was voided.
    let late = storage
        .ledger
        .settle(settlement(&hold(4, id, 300), 200))
        .await
        .unwrap();
    assert_eq!((late.charge, late.first), (Credits::ZERO, false));
    storage.engine.close().await.unwrap();
}

/// Returns the path and the written bytes of each segment, without trailing zeros.
fn contents(directory: &DataDir) -> Vec<(PathBuf, Vec<u8>)> {
    let written = |path: PathBuf| {
        let mut bytes = fs::read(&path).unwrap();
        let mut end = 28;
        while let Some(length) = bytes[end..]
            .first_chunk()
            .map(|length| u32::from_le_bytes(*length))
            && length > 0
        {
            end += 8 + usize::try_from(length).unwrap();
        }
        bytes.truncate(end);
        (path, bytes)
    };
    directory.segments().into_iter().map(written).collect()
}

#[test]
fn answered_calls_survive_and_open_calls_are_void() {
    let directory = Directory::new();
    block_on(async {
        let storage = directory.path().open().await.unwrap();
        let id = four_calls(&storage).await;
        let crashed = directory.crash("crashed");
        check_four_calls(&crashed, id).await;
        // A second start finds the same state.
        check_four_calls(&crashed, id).await;
        storage.engine.close().await.unwrap();
    });
}

#[test]
fn dropped_handles_act_like_a_crash() {
    let directory = Directory::new();
    block_on(async {
        let storage = directory.path().open().await.unwrap();
        let id = four_calls(&storage).await;
        drop(storage);
        // The engine's tasks end after the last handle.
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        let storage = loop {
            match directory.path().open().await {
                Ok(storage) => break storage,
                Err(refused) => assert!(
                    refused.to_string().contains("another tollgate process"),
                    "{refused}"
                ),
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "the directory is never given back"
            );
            tokio::task::yield_now().await;
        };
        storage.engine.close().await.unwrap();
        drop(storage);
        check_four_calls(&directory.path(), id).await;
    });
}

#[test]
fn replayed_journals_are_applied_once() {
    let directory = Directory::new();
    block_on(async {
        let storage = directory.path().open().await.unwrap();
        let id = four_calls(&storage).await;
        let crashed = directory.crash("crashed");
        let journal = contents(&crashed);
        check_four_calls(&crashed, id).await;
        // Simulates a death during recovery: before the journal was removed, and before the mark
        // was updated.
        for mark in [
            "UPDATE journal_mark SET clean = 0",
            "UPDATE journal_mark SET clean = 0, committed = 0",
        ] {
            crashed.change(mark).await;
            journal
                .iter()
                .for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
            check_four_calls(&crashed, id).await;
        }
        storage.engine.close().await.unwrap();
    });
}

#[test]
fn database_may_be_ahead_of_the_journal() {
    let directory = Directory::new();
    block_on(async {
        let storage = directory.path().open().await.unwrap();
        let id = four_calls(&storage).await;
        let journal = contents(&directory.path());
        for (number, amount) in [(2, 200), (4, 300)] {
            let resolution = storage
                .ledger
                .settle(settlement(&hold(number, id, amount), 20))
                .await
                .unwrap();
            assert!(resolution.first);
        }
        call(&storage, hold(5, id, 10), 1).await;
        storage.engine.flush().await.unwrap();
        let crashed = directory.crash("crashed");
        journal.iter().for_each(|(path, bytes)| {
            let path = crashed.0.join("journal").join(path.file_name().unwrap());
            fs::write(path, bytes).unwrap();
        });
        let opened = crashed.open().await.unwrap();
        let ledgers = LedgerSnapshot::read(&opened).await;
        let charges = ledgers.of(id).usage.iter().map(|row| row.charge.nanos());
        assert_eq!(charges.collect::<Vec<_>>(), [30, 20, 50, 20, 1]);
        assert_eq!(
            opened.ledger.balance(id).await.unwrap().credits,
            nanos(1000 - 121)
        );
        // New records need higher numbers than those in the database, or the next recovery would
        // skip them.
        call(&opened, hold(6, id, 10), 2).await;
        let again = crashed.crash("again");
        opened.engine.close().await.unwrap();
        let opened = again.open().await.unwrap();
        assert_eq!(
            opened.ledger.balance(id).await.unwrap().credits,
            nanos(1000 - 123)
        );
        opened.engine.close().await.unwrap();
        storage.engine.close().await.unwrap();
    });
}

#[test]
fn torn_tail_is_cut() {
    let directory = Directory::new();
    block_on(async {
        let storage = directory.path().open().await.unwrap();
        let id = funded(&storage, 1, 1000).await;
        call(&storage, hold(1, id, 100), 30).await;
        let first_call = contents(&directory.path())[0].1.len();
        call(&storage, hold(2, id, 100), 50).await;
        let whole = contents(&directory.path())[0].1.clone();
        let length = u32::from_le_bytes(whole[first_call..first_call + 4].try_into().unwrap());
        let second_hold = first_call + 8 + usize::try_from(length).unwrap();
        let cuts = (first_call..whole.len())
            .step_by(29)
            .chain([second_hold, whole.len() - 1]);
        let cut = |length: usize| whole[..length].to_vec();
        let with_garbage = [whole.clone(), vec![7; 100]].concat();
        let with_zeros = [whole.clone(), vec![0; 64]].concat();
        for bytes in cuts.map(cut).chain([whole.clone(), with_garbage, with_zeros]) {
            let crashed = directory.crash(&format!("cut-{}", bytes.len()));
            fs::write(&crashed.segments()[0], &bytes).unwrap();
            let opened = crashed.open().await.unwrap();
            let rows = LedgerSnapshot::read(&opened).await.of(id).usage.clone();
            opened.engine.close().await.unwrap();
            let charges: Vec<i64> = rows.iter().map(|row| row.charge.nanos()).collect();
            let expected: &[i64] = match bytes.len() {
                length if length < second_hold => &[30],
                length if length < whole.len() => &[30, 0],
                _ => &[30, 50],
            };
            assert_eq!(charges, expected, "{}", bytes.len());
            let ends_within =
                ![first_call, second_hold, whole.len(), whole.len() + 64].contains(&bytes.len());
            assert_eq!(
                crashed.segments().len(),
                usize::from(ends_within),
                "damaged files are set aside"
            );
        }
        storage.engine.close().await.unwrap();
    });
}

#[test]
fn grants_are_durable_when_answered() {
    let directory = Directory::new();
    block_on(async {
        let storage = directory.path().open().await.unwrap();
        let id = funded(&storage, 1, 10).await;
        take(&storage, hold(1, id, 10)).await;
        assert_eq!(
            storage.ledger.grant(grant(7, id, 5)).await.unwrap().credits,
            nanos(5)
        );
        take(&storage, hold(2, id, 5)).await;
        let opened = directory.crash("crashed").open().await.unwrap();
        assert_eq!(opened.ledger.balance(id).await.unwrap().credits, nanos(15));
        assert_eq!(
            opened.ledger.grant(grant(7, id, 5)).await.unwrap().credits,
            nanos(15)
        );
        LedgerSnapshot::read(&opened).await;
        opened.engine.close().await.unwrap();
        storage.engine.close().await.unwrap();
    });
}

#[test]
fn crashes_during_recovery_recover() {
    let directory = Directory::new();
    block_on(async {
        let mut current = directory.path();
        let mut storage = current.open().await.unwrap();
        let id = funded(&storage, 1, 1_000_000).await;
        for round in 0..8 {
            for number in 0..10 {
                let number = round * 10 + number;
                call(&storage, hold(number, id, 10), 1).await;
            }
            if round % 3 == 0 {
                storage.engine.flush().await.unwrap();
            }
            let next = current.crash(&format!("crash-{round}"));
            storage.engine.close().await.unwrap();
            current = next;
            let mut config = current.config(Arc::new(ManualClock::at(START)));
            config.segment_bytes = 2048;
            storage = open(config).await.unwrap();
        }
        let ledgers = LedgerSnapshot::read(&storage).await;
        assert_eq!(ledgers.of(id).usage.len(), 80);
        assert_eq!(ledgers.of(id).balance(LedgerAccount::RevenueUsage), 80);
        storage.engine.close().await.unwrap();
    });
}

/// A refund that is in the journal only is recovered once. A refund that is also in the database is
/// not repeated.
#[test]
fn journaled_refunds_are_applied_once() {
    let directory = Directory::new();
    block_on(async {
        let storage = directory.path().open().await.unwrap();
        let id = funded(&storage, 1, 80).await;
        storage.subscriptions.subscribe(plan(1, id, 100)).await.unwrap();
        call(&storage, hold(11, id, 120), 110).await;
        storage.engine.flush().await.unwrap();
        let before = directory.crash("before");
        let refund = NewRefund {
            id: refund_id(HoldId::from_u128(11), "all"),
            account: id,
            hold: HoldId::from_u128(11),
            amount: None,
            reason: "größer".to_owned(),
            at: at(9),
        };
        storage.lots.refund(refund).await.unwrap();
        let expected = LedgerSnapshot::read(&storage).await;
        let (both, journal_alone) = (directory.crash("both"), directory.crash("journal-alone"));
        for file in ["tollgate.db", "tollgate.db-wal"] {
            fs::copy(before.0.join(file), journal_alone.0.join(file)).unwrap();
        }
        for crashed in [both, journal_alone] {
            let storage = crashed.open().await.unwrap();
            let ledgers = LedgerSnapshot::read(&storage).await;
            assert_eq!(ledgers.of(id).refunds, expected.of(id).refunds);
            assert_eq!(ledgers.of(id).balances, expected.of(id).balances);
            let week = storage.subscriptions.allowance(id).await.unwrap();
            assert_eq!(week, nanos(100));
            storage.engine.close().await.unwrap();
        }
        storage.engine.close().await.unwrap();
    });
}

/// Recovered transfers have the same links as without a crash.
#[test]
fn chain_is_the_same_after_a_crash() {
    let directory = Directory::new();
    block_on(async {
        let storage = directory.path().open().await.unwrap();
        let id = funded(&storage, 1, 10_000).await;
        storage.subscriptions.subscribe(plan(1, id, 150)).await.unwrap();
        let week = 7 * 24 * 3600;
        for (number, seconds) in [(1, 0), (2, 10), (3, week), (4, week + 1), (5, 3 * week)] {
            let mut hold = hold(number, id, 100);
            hold.created_at = at(seconds);
            call(&storage, hold, 30).await;
            if number == 2 {
                storage.engine.flush().await.unwrap();
            }
        }
        let not_covered = NewHold {
            not_covered_by: Arc::from([Arc::from("lite")]),
            ..hold(6, id, 100)
        };
        call(&storage, not_covered, 100).await;
        let crashed = directory.crash("crashed");
        let expected = LedgerSnapshot::read(&storage).await;
        let opened = crashed.open().await.unwrap();
        let found = LedgerSnapshot::read(&opened).await;
        assert_eq!(found.of(id).transfers, expected.of(id).transfers);
        assert_eq!(found.of(id).chain, expected.of(id).chain);
        // The chain continues after the recovered transfers.
        call(&opened, hold(7, id, 100), 30).await;
        let grown = LedgerSnapshot::read(&opened).await;
        let head = |ledgers: &LedgerSnapshot| ledgers.of(id).chain.head.unwrap().sequence;
        assert_eq!(head(&grown), head(&expected) + 3);
        opened.engine.close().await.unwrap();
        storage.engine.close().await.unwrap();
    });
}

/// A job and its hold survive the death of the process, unlike the hold of a call. An ended job has
/// its settlement.
#[test]
fn jobs_keep_their_holds() {
    let directory = Directory::new();
    block_on(async {
        let storage = directory.path().open().await.unwrap();
        let id = funded(&storage, 1, 1000).await;
        take(&storage, hold(1, id, 100)).await;
        for number in 2..=4 {
            accept(&storage, number, id).await;
        }
        let leased = storage.jobs.claim(claim(2)).await.unwrap();
        let done = leased
            .iter()
            .find(|leased| leased.job.terms.id.as_u128() == 2)
            .unwrap();
        let end = JobEnd {
            status: JobStatus::Completed,
            result: None,
            error: None,
            settlement: settlement(&hold(2, id, 200), 50),
            parts: vec![part(50)],
            events: Vec::new(),
        };
        storage.jobs.finish(done.lease, end).await.unwrap();
        let mut crashed = directory.crash("crashed");
        for next in ["again", "once more"] {
            let opened = crashed.open().await.unwrap();
            let balance = opened.ledger.balance(id).await.unwrap();
            assert_eq!((balance.credits, balance.held), (nanos(550), nanos(400)));
            let ledgers = LedgerSnapshot::read(&opened).await;
            assert_eq!(ledgers.of(id).usage.len(), 2);
            assert_eq!(ledgers.of(id).usage[0].outcome, Outcome::Crashed);
            assert_eq!(ledgers.of(id).usage[1].charge, nanos(50));
            let row = ledgers.of(id).usage[1].id;
            assert_eq!(ledgers.of(id).parts, [(row, part(50))]);
            crashed = crashed.crash(next);
            opened.engine.close().await.unwrap();
        }
        storage.engine.close().await.unwrap();
    });
}

/// Creates a usage part at this cost.
fn part(cost: i64) -> UsagePart {
    UsagePart {
        number: 0,
        name: "scene 0".into(),
        model: "maker/model".into(),
        target: "sim".into(),
        price_version: PriceVersion::from_u64(9),
        usage: Usage::tokens(0, 7),
        cost: nanos(cost),
    }
}

/// The process died after a job had ended and before its hold was resolved in the journal.
#[test]
fn ended_jobs_resolve_their_hold_after_a_crash() {
    let directory = Directory::new();
    block_on(async {
        let storage = directory.path().open().await.unwrap();
        let id = funded(&storage, 1, 1000).await;
        accept(&storage, 2, id).await;
        let crashed = directory.crash("crashed");
        crashed
            .change(
                "UPDATE job SET status = 'completed', charge = 50, overrun = 3, usage = '{\"output\":7}', outcome = 'ok', \
                 estimated = 1, provider = 'sim', completed_at = 1795181402000000; \
                 INSERT INTO usage_part SELECT account_id, hold_id, 0, 'scene 0', 'maker/model', 'sim', 9, 53, \
                 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM job",
            )
            .await;
        let opened = crashed.open().await.unwrap();
        let balance = opened.ledger.balance(id).await.unwrap();
        assert_eq!((balance.credits, balance.held), (nanos(950), Credits::ZERO));
        let ledgers = LedgerSnapshot::read(&opened).await;
        let row = &ledgers.of(id).usage[0];
        assert_eq!(
            (row.charge, row.overrun, row.estimated),
            (nanos(50), nanos(3), true)
        );
        assert_eq!((row.usage, row.ended_at), (Usage::tokens(0, 7), at(2)));
        assert_eq!(ledgers.of(id).parts, [(row.id, part(53))]);
        assert_eq!(opened.usage.parts(id, row.id).await.unwrap(), [part(53)]);
        opened.engine.close().await.unwrap();
        storage.engine.close().await.unwrap();
    });
}

/// After a crash, the webhook of an ended job and a webhook in flight are due for delivery.
#[test]
fn pending_webhooks_are_delivered_after_a_crash() {
    let directory = Directory::new();
    block_on(async {
        let storage = directory.path().open().await.unwrap();
        let id = funded(&storage, 1, 1000).await;
        for number in 2..=3 {
            accept(&storage, number, id).await;
            let job = JobId::from_u128(number);
            storage.jobs.cancel(id, job, at(1)).await.unwrap();
        }
        let claim = |limit| DeliveryClaim {
            now: at(1),
            until: at(60),
            limit,
            per_account: 9,
        };
        assert_eq!(storage.webhooks.claim(claim(1)).await.unwrap().len(), 1);
        let crashed = directory.crash("crashed");
        let opened = crashed.open().await.unwrap();
        let due = opened.webhooks.claim(claim(9)).await.unwrap();
        let mut attempts: Vec<u32> = due.iter().map(|leased| leased.attempt).collect();
        attempts.sort_unstable();
        assert_eq!(attempts, [1, 2]);
        opened.engine.close().await.unwrap();
        storage.engine.close().await.unwrap();
    });
}

/// An early release is applied once, whether it is in the database or in the journal only.
#[test]
fn shrunk_holds_stay_shrunk_after_a_crash() {
    let directory = Directory::new();
    block_on(async {
        let storage = directory.path().open().await.unwrap();
        let id = funded(&storage, 1, 1000).await;
        accept(&storage, 2, id).await;
        let leased = storage.jobs.claim(claim(1)).await.unwrap().remove(0);
        let shrink = |needed| storage.jobs.shrink_hold(leased.lease, nanos(needed), at(1));
        assert_eq!(shrink(150).await.unwrap(), nanos(150));
        storage.engine.flush().await.unwrap();
        assert_eq!(shrink(90).await.unwrap(), nanos(90));
        assert_eq!(shrink(80).await.unwrap(), nanos(80));
        let crashed = directory.crash("crashed");
        let again = crashed.crash("again");
        for directory in [&crashed, &crashed, &again] {
            let opened = directory.open().await.unwrap();
            let balance = opened.ledger.balance(id).await.unwrap();
            assert_eq!((balance.credits, balance.held), (nanos(920), nanos(80)));
            let ledgers = LedgerSnapshot::read(&opened).await;
            assert_eq!(ledgers.of(id).holds[0].amount, nanos(80));
            opened.engine.close().await.unwrap();
        }

        let ended = JobEnd {
            status: JobStatus::Completed,
            result: None,
            error: None,
            settlement: settlement(&hold(2, id, 200), 30),
            parts: Vec::new(),
            events: Vec::new(),
        };
        storage.jobs.finish(leased.lease, ended).await.unwrap();
        let opened = directory.crash("ended").open().await.unwrap();
        let balance = opened.ledger.balance(id).await.unwrap();
        assert_eq!((balance.credits, balance.held), (nanos(970), Credits::ZERO));
        let row = LedgerSnapshot::read(&opened).await.of(id).usage[0].clone();
        assert_eq!((row.held, row.charge), (nanos(200), nanos(30)));
        opened.engine.close().await.unwrap();
        storage.engine.close().await.unwrap();
    });
}

/// A hold is void if its job was not stored.
#[test]
fn a_hold_without_its_job_is_void() {
    let directory = Directory::new();
    block_on(async {
        let storage = directory.path().open().await.unwrap();
        let id = funded(&storage, 1, 1000).await;
        accept(&storage, 2, id).await;
        let crashed = directory.crash("crashed");
        crashed.change("DELETE FROM job_event").await;
        crashed.change("DELETE FROM job").await;
        let opened = crashed.open().await.unwrap();
        let balance = opened.ledger.balance(id).await.unwrap();
        assert_eq!((balance.credits, balance.held), (nanos(1000), Credits::ZERO));
        opened.engine.close().await.unwrap();
        storage.engine.close().await.unwrap();
    });
}

async fn accept(storage: &Storage, number: u128, account: AccountId) {
    let job = NewJob {
        id: JobId::from_u128(number),
        kind: Arc::from("image.generation"),
        body: Vec::new(),
        start_by: None,
        webhook: Some(b"https://example.com".to_vec()),
    };
    let accepted = storage
        .jobs
        .accept(job, hold(number, account, 200))
        .await
        .unwrap();
    assert!(matches!(accepted, HoldOutcome::Held { .. }), "{accepted:?}");
}

fn claim(limit: u32) -> JobClaim {
    JobClaim {
        worker: WorkerId::from_u128(1),
        now: START,
        until: at(30),
        limit,
        per_account: 9,
        caps: Default::default(),
    }
}
