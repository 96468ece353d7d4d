//! Waits for changes in another process.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Maximum duration of every wait. It ends hung tests; it does not measure speed.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// First and longest interval between two polls. The interval grows, so that polls stay below the
/// rate limits of the API.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// Polls until the condition is true. Use it only for changes that another process does not
/// announce.
///
/// # Panics
/// If the condition is not true within a minute. The message contains `what`.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !condition().await {
        let waited = start.elapsed();
        assert!(waited < DEADLINE, "timed out: {what}");
        sleep((waited / 20).clamp(INTERVALS.0, INTERVALS.1)).await;
    }
}

/// Waits for a future. Panics if it takes longer than [`DEADLINE`].
pub(super) async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    let result = tokio::time::timeout(DEADLINE, future).await;
    result.unwrap_or_else(|_| panic!("timed out: {what}"))
}
