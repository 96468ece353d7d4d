//! What one node or a hand changes, every node that listens hears of.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{Connection, PgConnection, Row};
use tollgate_backends::postgres;
use tollgate_storage::{
    AccountChange, AccountState, Compat, JobAdvance, JobClaim, JobEnd, JobNews, JobStep, Key, KeyChange,
    KeyMode, KeyState, NewJob, NewJobEvent, NewKey, News, NewsReader, Storage,
};
use tollgate_types::{AccountId, JobId, JobStatus, KeyId, StepState, Timestamp, WorkerId};

use crate::database::TestDatabase;
use crate::nodes::{ACCOUNT, hold, one_account, settlement};

const NOW: Timestamp = Timestamp::from_micros(1_795_181_400_000_000);

fn new_key(number: u8) -> NewKey {
    let key = Key {
        id: KeyId::from_u128(u128::from(number)),
        account: ACCOUNT,
        name: "key".to_owned(),
        digest: [number; 32],
        last4: "abcd".to_owned(),
        mode: KeyMode::Live,
        compat: Compat::Strict,
        sync: false,
        state: KeyState::Active,
        created_at: NOW,
        expires_at: None,
        revoked_at: None,
    };
    NewKey { key, quota: 50 }
}

async fn next(reader: &mut NewsReader) -> News {
    let next = tokio::time::timeout(Duration::from_secs(60), reader.next());
    next.await.expect("news is told")
}

/// A second engine and one who reads its news from the moment on at which it listens.
async fn listening(database: &TestDatabase) -> (Storage, NewsReader) {
    let storage = postgres::open(database.config()).await.unwrap();
    let mut reader = storage.news.subscribe();
    assert_eq!(
        next(&mut reader).await,
        News::Everything,
        "nobody listened before"
    );
    (storage, reader)
}

/// Connections that listen.
async fn listeners(connection: &mut PgConnection) -> i64 {
    let count = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'tollgate-news'";
    let row = sqlx::query(count).fetch_one(connection).await.unwrap();
    row.get(0)
}

async fn until_listeners(connection: &mut PgConnection, number: i64) {
    let wait = async { while listeners(connection).await != number {} };
    tokio::time::timeout(Duration::from_secs(60), wait)
        .await
        .expect("connections come and go");
}

#[test]
fn every_change_is_told_to_other_nodes() {
    let database = TestDatabase::create();
    database.block_on(async {
        let here = one_account(&database, 100).await;
        let (there, mut reader) = listening(&database).await;
        let mut second = there.news.subscribe();
        let about_it = News::Account(ACCOUNT);

        here.keys.create(new_key(1)).await.unwrap();
        assert_eq!(next(&mut reader).await, News::Keys);
        let lenient = KeyChange {
            compat: Some(Compat::Lenient),
            ..KeyChange::default()
        };
        here.keys.change(KeyId::from_u128(1), lenient).await.unwrap();
        assert_eq!(next(&mut reader).await, about_it);
        here.keys.revoke(KeyId::from_u128(1), NOW).await.unwrap();
        assert_eq!(next(&mut reader).await, about_it);
        let suspend = AccountChange {
            state: Some(AccountState::Suspended),
            ..AccountChange::default()
        };
        here.accounts.change(ACCOUNT, suspend).await.unwrap();
        assert_eq!(next(&mut reader).await, about_it);

        // What is done in one transaction is told when it is committed; what is not, is not.
        database
            .execute("BEGIN; UPDATE account SET rpm = 1; ROLLBACK")
            .await;
        database
            .execute(
                "BEGIN; UPDATE account SET rpm = 2; UPDATE account SET tpm = 2; DELETE FROM api_key; COMMIT",
            )
            .await;
        assert_eq!(next(&mut reader).await, about_it);
        database.execute("NOTIFY tollgate, 'keys'").await;
        assert_eq!(next(&mut reader).await, News::Keys, "once");

        let lease = News::Lease(AccountId::from_u128(7));
        database
            .execute(&format!("SELECT pg_notify('tollgate', '{lease}')"))
            .await;
        assert_eq!(next(&mut reader).await, lease);
        database.execute("NOTIFY tollgate, 'of a later version'").await;
        assert_eq!(next(&mut reader).await, News::Everything);

        let told = [
            News::Keys,
            about_it,
            about_it,
            about_it,
            about_it,
            News::Keys,
            lease,
        ];
        for news in told {
            assert_eq!(next(&mut second).await, news, "every reader is told");
        }
    });
}

/// What becomes of a job is told to every node when it is committed, and what concerns nobody is not.
#[test]
fn jobs_are_told_to_other_nodes() {
    let database = TestDatabase::create();
    database.block_on(async {
        let here = one_account(&database, 100).await;
        let there = postgres::open(database.config()).await.unwrap();
        let mut reader = there.news.subscribe_to_jobs();
        let next = async |reader: &mut NewsReader<JobNews>| {
            let next = tokio::time::timeout(Duration::from_secs(60), reader.next());
            next.await.expect("news is told")
        };
        assert_eq!(next(&mut reader).await, JobNews::Any, "nobody listened before");
        let (id, jobs) = (JobId::from_u128(1), &here.jobs);
        let changed = JobNews::Changed(id);

        let job = NewJob {
            id,
            kind: Arc::from("test"),
            body: Vec::new(),
            start_by: None,
            webhook: None,
        };
        jobs.accept(job, hold(1, 10)).await.unwrap();
        // Of one transaction, in the order of its statements.
        assert_eq!(next(&mut reader).await, JobNews::Due);
        assert_eq!(next(&mut reader).await, changed);
        let claim = JobClaim {
            worker: WorkerId::from_u128(7),
            now: NOW,
            until: NOW.plus(Duration::from_secs(30)),
            limit: 1,
            per_account: 1,
        };
        let lease = jobs.claim(claim).await.unwrap()[0].lease;
        assert_eq!(next(&mut reader).await, changed);

        // A lease that is prolonged, a step, and a wish that is repeated are nobody's news.
        jobs.renew(claim.worker, NOW.plus(Duration::from_secs(60)))
            .await
            .unwrap();
        let step = JobStep {
            number: 0,
            state: StepState::Intended,
            attempt: 1,
            handle: Vec::new(),
            outcome: Vec::new(),
        };
        let step = JobAdvance {
            step: Some(step),
            ..JobAdvance::default()
        };
        jobs.advance(lease, step, NOW).await.unwrap();
        jobs.cancel(ACCOUNT, id, NOW).await.unwrap();
        assert_eq!(next(&mut reader).await, JobNews::Cancelled(id));
        assert_eq!(next(&mut reader).await, changed);
        jobs.cancel(ACCOUNT, id, NOW).await.unwrap();
        let told = JobAdvance {
            events: vec![NewJobEvent::became(JobStatus::InProgress)],
            ..JobAdvance::default()
        };
        jobs.advance(lease, told, NOW).await.unwrap();
        assert_eq!(next(&mut reader).await, changed);
        jobs.release(lease, NOW).await.unwrap();
        assert_eq!(next(&mut reader).await, JobNews::Due);
        let lease = jobs.claim(claim).await.unwrap()[0].lease;
        let end = JobEnd {
            status: JobStatus::Completed,
            result: None,
            error: None,
            settlement: settlement(1, 5),
            parts: Vec::new(),
            events: Vec::new(),
        };
        jobs.finish(lease, end).await.unwrap();
        assert_eq!(next(&mut reader).await, changed);
        database
            .execute("NOTIFY tollgate_jobs, 'of a later version'")
            .await;
        assert_eq!(next(&mut reader).await, JobNews::Any);
    });
}

/// A connection that is lost is opened again, however often, and what happened in between is covered.
#[test]
fn what_may_have_been_missed_is_everything() {
    let database = TestDatabase::create();
    database.block_on(async {
        let here = one_account(&database, 100).await;
        let (_there, mut reader) = listening(&database).await;
        let mut beside = PgConnection::connect(&database.url()).await.unwrap();
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'tollgate-news'";
        for _ in 0..3 {
            sqlx::query(end).execute(&mut beside).await.unwrap();
            assert_eq!(next(&mut reader).await, News::Everything);
        }
        database.allow_connections(false).await;
        sqlx::query(end).execute(&mut beside).await.unwrap();
        until_listeners(&mut beside, 0).await;
        here.keys.create(new_key(1)).await.unwrap();
        database.allow_connections(true).await;
        assert_eq!(next(&mut reader).await, News::Everything);
        here.keys.revoke(KeyId::from_u128(1), NOW).await.unwrap();
        assert_eq!(next(&mut reader).await, News::Account(ACCOUNT));
    });
}

/// A command reads no news and needs no connection for it; an engine that is closed leaves none.
#[test]
fn only_who_reads_listens() {
    let database = TestDatabase::create();
    database.block_on(async {
        let command = one_account(&database, 100).await;
        let mut beside = PgConnection::connect(&database.url()).await.unwrap();
        let (node, _reader) = listening(&database).await;
        assert_eq!(listeners(&mut beside).await, 1);
        command.engine.close().await.unwrap();
        assert_eq!(listeners(&mut beside).await, 1);
        node.engine.close().await.unwrap();
        until_listeners(&mut beside, 0).await;

        let (node, reader) = listening(&database).await;
        until_listeners(&mut beside, 1).await;
        drop((node, reader));
        until_listeners(&mut beside, 0).await;
    });
}
