//! What is cleared away from time to time, and forgotten when it changes.

use std::collections::HashSet;

use tollgate_billing::lots::expire_lots;
use tollgate_billing::notices::kept_since;
use tollgate_billing::plans::renew_due;
use tollgate_billing::sweep::sweep as sweep_holds;
use tollgate_pipeline::Pipeline;
use tollgate_storage::{Account, Result, Subscription};

use crate::wiring::Domains;

/// How many kept answers one pass deletes at the most: each is as large as a conversation.
const BATCH: u32 = 100;

/// Releases holds that nobody resolved, has lots expire, renews what is due, and deletes kept answers whose time is over and
/// the working folders of processes that died.
pub async fn sweep(domains: &Domains) {
    let (storage, clock) = (&domains.storage, &*domains.clock);
    if domains.time.is_sure() {
        sweep_holds(&*storage.ledger, clock).await;
    }
    expire_lots(&*storage.lots, clock).await;
    match storage.accounts.with_test_clocks().await {
        Ok(accounts) => renew(domains, &accounts).await,
        Err(error) => tracing::warn!(%error, "cannot look for subscriptions that are due"),
    }
    let now = clock.now();
    delete("responses", || storage.responses.sweep(now, BATCH)).await;
    delete("notices", || storage.notices.sweep(kept_since(now), BATCH)).await;
    delete("idempotency keys", || storage.idempotency.sweep(now, BATCH)).await;
    remove_folders().await;
}

async fn remove_folders() {
    match tokio::task::spawn_blocking(tollgate_studio::scratch::remove_left).await {
        Ok(Ok(0)) | Err(_) => {}
        Ok(Ok(removed)) => tracing::info!(removed, "removed working folders of processes that died"),
        Ok(Err(error)) => tracing::warn!(%error, "cannot look for working folders of processes that died"),
    }
}

async fn renew(domains: &Domains, with_test_clocks: &[Account]) {
    let (subscriptions, now) = (&*domains.storage.subscriptions, domains.clock.now());
    // Without a provider that could be asked they are like any other.
    let by_provider = match &domains.top_ups {
        Some(_) => domains.storage.provider_subscriptions.due(now, u32::MAX).await,
        None => Ok(Vec::new()),
    };
    let by_provider: HashSet<_> = match by_provider {
        Ok(due) => due.into_iter().map(|found| found.id).collect(),
        Err(error) => {
            tracing::warn!(%error, "cannot look for subscriptions that are due");
            return;
        }
    };
    let is_left = |due: &Subscription| {
        let owner = due.terms.account;
        by_provider.contains(&due.terms.id) || with_test_clocks.iter().any(|account| account.id == owner)
    };
    renew_due(subscriptions, &domains.plans, &domains.ids, now, is_left).await;
    for account in with_test_clocks {
        domains.test_clocks().catch_up(account).await;
    }
}

/// What others have a part in, and may keep waiting: balances are filled up, plans are kept as the payment provider has them,
/// accounts are told what they want to know, and media and files whose time is over are deleted.
pub async fn reach_out(domains: &Domains) {
    if let Some(top_ups) = &domains.top_ups {
        top_ups.fill_up().await;
        top_ups.look_after_plans().await;
    }
    domains.notices.tell().await;
    if let Err(error) = delete_media(domains).await {
        tracing::warn!(%error, "cannot delete media whose time is over");
    }
    if let Err(error) = domains.files.sweep().await {
        tracing::warn!(%error, "cannot delete files that are not there any more");
    }
}

/// Bytes go first and are noted as gone afterwards: what ends in between is deleted again.
pub async fn delete_media(domains: &Domains) -> Result<()> {
    let media = &domains.storage.media;
    loop {
        let now = domains.clock.now();
        let expired = media.expired(now, BATCH).await?;
        if expired.is_empty() {
            return Ok(());
        }
        for object in expired {
            domains.blobs.delete(object.blob()).await?;
            media.forget(object.account, object.id, now).await?;
        }
    }
}

/// Goes on from what was learned of models before this process began.
pub async fn recall_preferences(domains: &Domains, pipeline: &Pipeline) {
    if let Err(error) = pipeline.recall_preferences(&*domains.storage.label_priors).await {
        tracing::warn!(%error, "cannot read what models prefer: it is learned again");
    }
}

/// Keeps what was learned of models, for processes to come.
pub async fn keep_preferences(domains: &Domains, pipeline: &Pipeline) {
    if let Err(error) = pipeline.keep_preferences(&*domains.storage.label_priors).await {
        tracing::warn!(%error, "cannot keep what models prefer; it is tried again");
    }
}

/// Forgets what this node remembers of the database whenever that changes there, and hears what becomes of jobs. Never returns.
pub async fn hear_news(domains: &Domains) {
    const HEARD: &str = "tollgate_news_total";
    metrics::describe_counter!(
        HEARD,
        "Changes that this node was told of, by what they are about"
    );
    let mut reader = domains.storage.news.subscribe();
    let mut jobs = domains.storage.news.subscribe_to_jobs();
    loop {
        let kind = tokio::select! {
            news = reader.next() => {
                domains.keys.hear(news);
                news.kind()
            }
            news = jobs.next() => {
                domains.jobs.hear(news);
                news.kind()
            }
        };
        metrics::counter!(HEARD, "kind" => kind).increment(1);
    }
}

/// Deletes what has expired until nothing is left.
async fn delete<F: Future<Output = Result<u64>>>(what: &str, sweep: impl Fn() -> F) {
    loop {
        match sweep().await {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot delete {what} whose time is over");
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

    /// Domains on a data directory, with an account and two objects: the time of the first is over.
    async fn two_objects(data: &std::path::Path) -> Domains {
        let flags = Flags {
            data: Some(data.to_owned()),
            ..Flags::default()
        };
        let config = Config::load(&flags, Environment::default()).unwrap();
        let domains = wiring::domains(&config).await.unwrap();
        let now = domains.clock.now();
        let account = Account {
            id: ACCOUNT,
            name: "tenant".to_owned(),
            state: AccountState::Active,
            limits: Limits::default(),
            test_clock: None,
            created_at: now,
        };
        domains.storage.accounts.create(account).await.unwrap();
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
            domains.blobs.put(object.blob(), whole("text"), 4).await.unwrap();
            domains.storage.media.insert(object).await.unwrap();
        }
        domains
    }

    async fn object(domains: &Domains, number: u128) -> Media {
        let found = domains.storage.media.get(MediaId::from_u128(number)).await;
        found.unwrap().unwrap()
    }

    async fn is_kept(domains: &Domains, number: u128) -> bool {
        let key = object(domains, number).await.blob();
        domains.blobs.length(key).await.unwrap().is_some()
    }

    #[tokio::test]
    async fn media_whose_time_is_over_are_deleted() {
        let data = tempfile::tempdir().unwrap();
        let domains = two_objects(data.path()).await;
        delete_media(&domains).await.unwrap();
        assert!(object(&domains, 1).await.deleted_at.is_some());
        assert_eq!(object(&domains, 2).await.deleted_at, None);
        assert!(!is_kept(&domains, 1).await);
        assert!(is_kept(&domains, 2).await);
        delete_media(&domains).await.unwrap();
        domains.storage.engine.close().await.unwrap();
    }

    #[tokio::test]
    async fn bytes_that_are_gone_already_are_noted() {
        let data = tempfile::tempdir().unwrap();
        let domains = two_objects(data.path()).await;
        let key = object(&domains, 1).await.blob();
        domains.blobs.delete(key).await.unwrap();
        delete_media(&domains).await.unwrap();
        assert!(object(&domains, 1).await.deleted_at.is_some());
        domains.storage.engine.close().await.unwrap();
    }

    /// What cannot be deleted is not noted as gone, and is deleted later.
    #[tokio::test]
    async fn bytes_that_are_not_gone_are_not_noted() {
        let data = tempfile::tempdir().unwrap();
        let domains = two_objects(data.path()).await;
        // A file stands where the folder of media should be.
        let elsewhere = data.path().join("file");
        std::fs::write(&elsewhere, "").unwrap();
        let (media, aside) = (data.path().join("media"), data.path().join("aside"));
        std::fs::rename(&media, &aside).unwrap();
        std::fs::rename(&elsewhere, &media).unwrap();
        delete_media(&domains).await.unwrap_err();
        assert_eq!(object(&domains, 1).await.deleted_at, None);
        std::fs::rename(&media, &elsewhere).unwrap();
        std::fs::rename(&aside, &media).unwrap();
        delete_media(&domains).await.unwrap();
        assert!(object(&domains, 1).await.deleted_at.is_some());
        domains.storage.engine.close().await.unwrap();
    }
}
