//! Periodic maintenance: expiry, renewal and deletion, and invalidation of caches on notifications.

use std::collections::HashSet;
use std::time::Duration;

use tollgate_billing::lots::expire_lots;
use tollgate_billing::notices::retention_start;
use tollgate_billing::plans::renew_due;
use tollgate_billing::sweep::sweep as sweep_holds;
use tollgate_pipeline::Pipeline;
use tollgate_storage::{Account, Result, Subscription};

use crate::wiring::AppState;

/// Maximum number of expired rows that are processed together. A stored response can be as large as
/// a conversation.
const BATCH: u32 = 100;

/// Releases abandoned holds, expires lots, renews due subscriptions and processes due events of
/// test clocks. Deletes expired responses, notices, idempotency keys and client secrets, and the
/// working directories of crashed processes.
pub async fn sweep(app_state: &AppState) {
    let (storage, clock) = (&app_state.storage, &*app_state.clock);
    if app_state.time.is_trusted() {
        sweep_holds(&*storage.ledger, clock).await;
    }
    expire_lots(&*storage.lots, clock).await;
    match storage.accounts.with_test_clocks().await {
        Ok(accounts) => renew(app_state, &accounts).await,
        Err(error) => {
            tracing::warn!(%error, "cannot list the accounts with test clocks; due subscriptions are renewed later");
        }
    }
    let now = clock.now();
    delete("responses", || storage.responses.sweep(now, BATCH)).await;
    delete("notices", || storage.notices.sweep(retention_start(now), BATCH)).await;
    delete("idempotency keys", || storage.idempotency.sweep(now, BATCH)).await;
    delete("client secrets", || app_state.client_secrets.sweep(BATCH)).await;
    remove_folders().await;
}

async fn remove_folders() {
    match tokio::task::spawn_blocking(tollgate_media_tools::scratch::remove_abandoned).await {
        Ok(Ok(0)) | Err(_) => {}
        Ok(Ok(removed)) => tracing::info!(removed, "removed working directories of crashed processes"),
        Ok(Err(error)) => tracing::warn!(%error, "cannot list working directories of crashed processes"),
    }
}

async fn renew(app_state: &AppState, with_test_clocks: &[Account]) {
    let (subscriptions, now) = (&*app_state.storage.subscriptions, app_state.clock.now());
    // Without a payment provider, the gateway renews these subscriptions like any other.
    let by_provider = match &app_state.top_ups {
        Some(_) => app_state.storage.provider_subscriptions.due(now, u32::MAX).await,
        None => Ok(Vec::new()),
    };
    let by_provider: HashSet<_> = match by_provider {
        Ok(due) => due.into_iter().map(|found| found.id).collect(),
        Err(error) => {
            tracing::warn!(%error, "cannot list due subscriptions");
            return;
        }
    };
    let is_renewed_elsewhere = |due: &Subscription| {
        let owner = due.terms.account;
        by_provider.contains(&due.terms.id) || with_test_clocks.iter().any(|account| account.id == owner)
    };
    renew_due(
        subscriptions,
        &app_state.plans,
        &app_state.ids,
        now,
        is_renewed_elsewhere,
    )
    .await;
    for account in with_test_clocks {
        app_state.operations.test_clocks().catch_up(account).await;
    }
}

/// Runs the tasks that depend on external services and may be slow: automatic top-ups,
/// synchronization of subscriptions with the payment provider, alerts, and the deletion of expired
/// media and files.
pub async fn run_outbound_tasks(app_state: &AppState) {
    if let Some(top_ups) = &app_state.top_ups {
        top_ups.fill_up().await;
        top_ups.renew_plans().await;
    }
    app_state.operations.notices.send_alerts().await;
    if let Err(error) = delete_media(app_state).await {
        tracing::warn!(%error, "cannot delete expired media");
    }
    if let Err(error) = delete_sign_ins(app_state).await {
        tracing::warn!(%error, "cannot delete expired sessions and sign-in links");
    }
    if let Err(error) = app_state.files.sweep().await {
        tracing::warn!(%error, "cannot delete the bytes of deleted or expired files");
    }
}

/// Deletes expired sessions and sign-in links, and periods of failed sign-ins that have ended.
pub async fn delete_sign_ins(app_state: &AppState) -> Result<()> {
    let (people, sessions) = (&app_state.storage.people, &app_state.sign_ins.sessions);
    while sessions.sweep(BATCH).await? > 0 {}
    // The longest period of failed sign-ins is shorter than a day.
    let before = app_state.clock.now().minus(Duration::from_secs(24 * 60 * 60));
    while people.sweep(before, BATCH).await? > 0 {}
    Ok(())
}

/// Deletes expired media. The bytes are deleted before the record is updated, so after an
/// interruption the next run deletes them again.
pub async fn delete_media(app_state: &AppState) -> Result<()> {
    let media = &app_state.storage.media;
    loop {
        let now = app_state.clock.now();
        let expired = media.expired(now, BATCH).await?;
        if expired.is_empty() {
            return Ok(());
        }
        for object in expired {
            app_state.blobs.delete(object.blob()).await?;
            media.forget(object.account, object.id, now).await?;
        }
    }
}

/// Loads the label priors that earlier processes learned.
pub async fn load_label_priors(app_state: &AppState, pipeline: &Pipeline) {
    if let Err(error) = pipeline.load_label_priors(&*app_state.storage.label_priors).await {
        tracing::warn!(%error, "cannot load label priors; they are learned again");
    }
}

/// Saves the learned label priors for later processes.
pub async fn save_label_priors(app_state: &AppState, pipeline: &Pipeline) {
    if let Err(error) = pipeline.save_label_priors(&*app_state.storage.label_priors).await {
        tracing::warn!(%error, "cannot save label priors");
    }
}

/// Invalidates this node's caches when the database changes, and forwards job notifications. Never
/// returns.
pub async fn listen_for_notifications(app_state: &AppState) {
    const NOTIFICATIONS_METRIC: &str = "tollgate_notifications_total";
    metrics::describe_counter!(
        NOTIFICATIONS_METRIC,
        "Notifications that this node received, by kind"
    );
    let mut reader = app_state.storage.notifications.subscribe();
    let mut jobs = app_state.storage.notifications.subscribe_to_jobs();
    loop {
        let kind = tokio::select! {
            notifications = reader.next() => {
                app_state.keys.invalidate(notifications);
                notifications.kind()
            }
            notifications = jobs.next() => {
                app_state.jobs.apply_notification(notifications);
                notifications.kind()
            }
        };
        metrics::counter!(NOTIFICATIONS_METRIC, "kind" => kind).increment(1);
    }
}

/// Deletes expired rows in batches until none remains.
async fn delete<F: Future<Output = Result<u64>>>(what: &str, sweep: impl Fn() -> F) {
    loop {
        match sweep().await {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot delete expired {what}");
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate_storage::blob::whole;
    use tollgate_storage::{AccountState, Limits, Media};
    use tollgate_types::{AccountId, MediaId};

    use super::*;
    use crate::config::env::Environment;
    use crate::config::{Config, Flags};
    use crate::wiring;

    const ACCOUNT: AccountId = AccountId::from_u128(7);

    /// Creates an account with two media objects. The first one has expired.
    async fn two_objects(data: &std::path::Path) -> AppState {
        let flags = Flags {
            data: Some(data.to_owned()),
            ..Flags::default()
        };
        let config = Config::load(&flags, Environment::default()).unwrap();
        let app_state = wiring::app_state(&config).await.unwrap();
        let now = app_state.clock.now();
        let account = Account {
            id: ACCOUNT,
            name: "tenant".to_owned(),
            state: AccountState::Active,
            limits: Limits::default(),
            test_clock: None,
            created_at: now,
        };
        app_state.storage.accounts.create(account).await.unwrap();
        for (number, expires_at) in [(1, now), (2, now.plus(Duration::from_secs(3600)))] {
            let object = Media {
                id: MediaId::from_u128(number),
                account: ACCOUNT,
                object: number,
                sha256: [0; 32],
                bytes: 4,
                mime_type: "image/png".to_owned(),
                width: None,
                height: None,
                duration: None,
                created_at: now,
                expires_at,
                source: None,
                deleted_at: None,
            };
            app_state
                .blobs
                .put(object.blob(), whole("text"), 4)
                .await
                .unwrap();
            app_state.storage.media.insert(object).await.unwrap();
        }
        app_state
    }

    async fn object(app_state: &AppState, number: u128) -> Media {
        let found = app_state.storage.media.get(MediaId::from_u128(number)).await;
        found.unwrap().unwrap()
    }

    async fn exists(app_state: &AppState, number: u128) -> bool {
        let key = object(app_state, number).await.blob();
        app_state.blobs.length(key).await.unwrap().is_some()
    }

    #[tokio::test]
    async fn expired_media_are_deleted() {
        let data = tempfile::tempdir().unwrap();
        let app_state = two_objects(data.path()).await;
        delete_media(&app_state).await.unwrap();
        assert!(object(&app_state, 1).await.deleted_at.is_some());
        assert_eq!(object(&app_state, 2).await.deleted_at, None);
        assert!(!exists(&app_state, 1).await);
        assert!(exists(&app_state, 2).await);
        delete_media(&app_state).await.unwrap();
        app_state.storage.engine.close().await.unwrap();
    }

    #[tokio::test]
    async fn media_whose_bytes_are_missing_are_marked_deleted() {
        let data = tempfile::tempdir().unwrap();
        let app_state = two_objects(data.path()).await;
        let key = object(&app_state, 1).await.blob();
        app_state.blobs.delete(key).await.unwrap();
        delete_media(&app_state).await.unwrap();
        assert!(object(&app_state, 1).await.deleted_at.is_some());
        app_state.storage.engine.close().await.unwrap();
    }

    /// Media whose bytes could not be deleted are deleted by a later run.
    #[tokio::test]
    async fn media_whose_bytes_remain_are_not_marked_deleted() {
        let data = tempfile::tempdir().unwrap();
        let app_state = two_objects(data.path()).await;
        // A file replaces the media directory.
        let elsewhere = data.path().join("file");
        std::fs::write(&elsewhere, "").unwrap();
        let (media, aside) = (data.path().join("media"), data.path().join("aside"));
        std::fs::rename(&media, &aside).unwrap();
        std::fs::rename(&elsewhere, &media).unwrap();
        delete_media(&app_state).await.unwrap_err();
        assert_eq!(object(&app_state, 1).await.deleted_at, None);
        std::fs::rename(&media, &elsewhere).unwrap();
        std::fs::rename(&aside, &media).unwrap();
        delete_media(&app_state).await.unwrap();
        assert!(object(&app_state, 1).await.deleted_at.is_some());
        app_state.storage.engine.close().await.unwrap();
    }
}
