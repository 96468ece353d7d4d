//! Waiting for what another process does.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long anything may take. It ends what hangs; no test is judged by how fast it is.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// Between two looks: the longer it takes, the more seldom, so that looks stay below the limits of the API.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// Asks again and again until the condition holds. Only for what another process does without telling.
///
/// # Panics
/// When it does not hold within a minute; `what` is in the message.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !condition().await {
        let waited = start.elapsed();
        assert!(waited < DEADLINE, "waited in vain: {what}");
        sleep((waited / 20).clamp(INTERVALS.0, INTERVALS.1)).await;
    }
}

/// Waits for something that must come.
pub(super) async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    let result = tokio::time::timeout(DEADLINE, future).await;
    result.unwrap_or_else(|_| panic!("waited in vain: {what}"))
}
