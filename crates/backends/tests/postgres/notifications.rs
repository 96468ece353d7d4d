//! Tests that changes by a node or by other clients of the database reach every listening node.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{Connection, PgConnection, Row};
use tollgate_backends::postgres;
use tollgate_storage::{
    AccountChange, AccountState, Compat, JobAdvance, JobClaim, JobEnd, JobNotification, JobStep, Key,
    KeyChange, KeyMode, KeyRotation, KeyState, NewJob, NewJobEvent, NewKey, Notification, NotificationReader,
    Storage,
};
use tollgate_types::{AccountId, JobId, JobStatus, KeyId, KeyRights, StepState, Timestamp, WorkerId};

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
        rights: KeyRights::default(),
        state: KeyState::Active,
        created_at: NOW,
        expires_at: None,
        revoked_at: None,
        created_by: None,
        replaced_by: None,
    };
    NewKey { key, quota: 50 }
}

async fn next(reader: &mut NotificationReader) -> Notification {
    let next = tokio::time::timeout(Duration::from_secs(60), reader.next());
    next.await.expect("news is told")
}

/// Opens a second engine and returns it with a reader of its notifications that is already
/// connected.
async fn listening(database: &TestDatabase) -> (Storage, NotificationReader) {
    let storage = postgres::open(database.config()).await.unwrap();
    let mut reader = storage.notifications.subscribe();
    assert_eq!(
        next(&mut reader).await,
        Notification::Everything,
        "a new reader starts with everything"
    );
    (storage, reader)
}

/// Returns the number of listening connections.
async fn listeners(connection: &mut PgConnection) -> i64 {
    let count = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'tollgate-notifications'";
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
fn changes_notify_other_nodes() {
    let database = TestDatabase::create();
    database.block_on(async {
        let writer = one_account(&database, 100).await;
        let (other, mut reader) = listening(&database).await;
        let mut second = other.notifications.subscribe();
        let account_changed = Notification::Account(ACCOUNT);

        writer.keys.create(new_key(1)).await.unwrap();
        assert_eq!(next(&mut reader).await, Notification::Keys);
        let lenient = KeyChange {
            compat: Some(Compat::Lenient),
            ..KeyChange::default()
        };
        writer.keys.change(KeyId::from_u128(1), lenient).await.unwrap();
        assert_eq!(next(&mut reader).await, account_changed);
        let rotation = KeyRotation {
            old: KeyId::from_u128(1),
            new: new_key(2).key,
            overlap_end: NOW,
        };
        writer.keys.rotate(rotation).await.unwrap();
        assert_eq!(next(&mut reader).await, account_changed);
        assert_eq!(next(&mut reader).await, Notification::Keys);
        writer.keys.revoke(KeyId::from_u128(1), NOW).await.unwrap();
        assert_eq!(next(&mut reader).await, account_changed);
        let suspend = AccountChange {
            state: Some(AccountState::Suspended),
            ..AccountChange::default()
        };
        writer.accounts.change(ACCOUNT, suspend).await.unwrap();
        assert_eq!(next(&mut reader).await, account_changed);

        // Notifications of a transaction arrive at its commit; a rollback sends none.
        database
            .execute("BEGIN; UPDATE account SET rpm = 1; ROLLBACK")
            .await;
        database
            .execute(
                "BEGIN; UPDATE account SET rpm = 2; UPDATE account SET tpm = 2; DELETE FROM api_key; COMMIT",
            )
            .await;
        assert_eq!(next(&mut reader).await, account_changed);
        database.execute("NOTIFY tollgate, 'keys'").await;
        assert_eq!(next(&mut reader).await, Notification::Keys, "once");

        let lease = Notification::Lease(AccountId::from_u128(7));
        database
            .execute(&format!("SELECT pg_notify('tollgate', '{lease}')"))
            .await;
        assert_eq!(next(&mut reader).await, lease);
        database.execute("NOTIFY tollgate, 'of a later version'").await;
        assert_eq!(next(&mut reader).await, Notification::Everything);

        let expected = [
            Notification::Keys,
            account_changed,
            account_changed,
            Notification::Keys,
            account_changed,
            account_changed,
            account_changed,
            Notification::Keys,
            lease,
        ];
        for notifications in expected {
            assert_eq!(
                next(&mut second).await,
                notifications,
                "each reader receives every notification"
            );
        }
    });
}

/// Every node receives changes of jobs when they are committed. Internal changes send no
/// notification.
#[test]
fn job_changes_notify_other_nodes() {
    let database = TestDatabase::create();
    database.block_on(async {
        let writer = one_account(&database, 100).await;
        let other = postgres::open(database.config()).await.unwrap();
        let mut reader = other.notifications.subscribe_to_jobs();
        let next = async |reader: &mut NotificationReader<JobNotification>| {
            let next = tokio::time::timeout(Duration::from_secs(60), reader.next());
            next.await.expect("news is told")
        };
        assert_eq!(
            next(&mut reader).await,
            JobNotification::Any,
            "a new reader starts with everything"
        );
        let (id, jobs) = (JobId::from_u128(1), &writer.jobs);
        let changed = JobNotification::Changed(id);

        let job = NewJob {
            id,
            kind: Arc::from("test"),
            body: Vec::new(),
            start_by: None,
            webhook: None,
        };
        jobs.accept(job, hold(1, 10)).await.unwrap();
        // One transaction sends these notifications in the order of its statements.
        assert_eq!(next(&mut reader).await, JobNotification::Due);
        assert_eq!(next(&mut reader).await, changed);
        let claim = JobClaim {
            worker: WorkerId::from_u128(7),
            now: NOW,
            until: NOW.plus(Duration::from_secs(30)),
            limit: 1,
            per_account: 1,
            caps: Default::default(),
        };
        let lease = jobs.claim(claim.clone()).await.unwrap()[0].lease;
        assert_eq!(next(&mut reader).await, changed);

        // A renewed lease, a step and a repeated cancellation send no notification.
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
        assert_eq!(next(&mut reader).await, JobNotification::Cancelled(id));
        assert_eq!(next(&mut reader).await, changed);
        jobs.cancel(ACCOUNT, id, NOW).await.unwrap();
        let expected = JobAdvance {
            events: vec![NewJobEvent::status_changed(JobStatus::InProgress)],
            ..JobAdvance::default()
        };
        jobs.advance(lease, expected, NOW).await.unwrap();
        assert_eq!(next(&mut reader).await, changed);
        jobs.release(lease, NOW).await.unwrap();
        assert_eq!(next(&mut reader).await, JobNotification::Due);
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
        assert_eq!(next(&mut reader).await, JobNotification::Any);
    });
}

/// A lost connection is reopened each time, and the gap is reported as `Everything`.
#[test]
fn reconnect_reports_everything() {
    let database = TestDatabase::create();
    database.block_on(async {
        let writer = one_account(&database, 100).await;
        let (_other, mut reader) = listening(&database).await;
        let mut beside = PgConnection::connect(&database.url()).await.unwrap();
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'tollgate-notifications'";
        for _ in 0..3 {
            sqlx::query(end).execute(&mut beside).await.unwrap();
            assert_eq!(next(&mut reader).await, Notification::Everything);
        }
        database.allow_connections(false).await;
        sqlx::query(end).execute(&mut beside).await.unwrap();
        until_listeners(&mut beside, 0).await;
        writer.keys.create(new_key(1)).await.unwrap();
        database.allow_connections(true).await;
        assert_eq!(next(&mut reader).await, Notification::Everything);
        writer.keys.revoke(KeyId::from_u128(1), NOW).await.unwrap();
        assert_eq!(next(&mut reader).await, Notification::Account(ACCOUNT));
    });
}

/// A command without readers opens no listening connection, and a closed engine leaves none.
#[test]
fn engines_without_readers_do_not_listen() {
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
