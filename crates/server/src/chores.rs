//! What is cleared away from time to time, and forgotten when it changes.

use std::collections::HashSet;

use tollgate_billing::lots::expire_lots;
use tollgate_billing::notices::kept_since;
use tollgate_billing::plans::renew_due;
use tollgate_billing::sweep::sweep as sweep_holds;
use tollgate_storage::{Account, Result, Subscription};

use crate::wiring::Domains;

/// How many kept answers one pass deletes at the most: each is as large as a conversation.
const BATCH: u32 = 100;

/// Releases holds that nobody resolved, has lots expire, renews what is due, and deletes kept answers whose time is over.
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
/// and accounts are told what they want to know.
pub async fn reach_out(domains: &Domains) {
    if let Some(top_ups) = &domains.top_ups {
        top_ups.fill_up().await;
        top_ups.look_after_plans().await;
    }
    domains.notices.tell().await;
}

/// Forgets what this node remembers of the database whenever that changes there. Never returns.
pub async fn hear_news(domains: &Domains) {
    const HEARD: &str = "tollgate_news_total";
    metrics::describe_counter!(
        HEARD,
        "Changes that this node was told of, by what they are about"
    );
    let mut reader = domains.storage.news.subscribe();
    loop {
        let news = reader.next().await;
        domains.keys.hear(news);
        metrics::counter!(HEARD, "kind" => news.kind()).increment(1);
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
