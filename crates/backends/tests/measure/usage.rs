//! Measures pages and series of an account with a million calls in 90 days. The results are not
//! asserted.

use std::time::{Duration, Instant};

use tollgate_storage::{
    OutcomeFilter, SeriesGroup, SeriesQuery, SeriesStep, Storage, UsageFilter, UsagePage,
};
use tollgate_types::{AccountId, KeyId, Timestamp};

/// Number of calls.
pub const CALLS: i64 = 1_000_000;
/// Time between two calls, in microseconds.
pub const INTERVAL: i64 = 90 * 24 * 3_600_000_000 / CALLS;

const PAGES: usize = 100;
const SCAN: u32 = 10_000;

/// Measures the account, whose calls start at `start`. Its keys have the numbers 1 to 4.
#[expect(clippy::print_stdout, reason = "the figures are the result")]
#[expect(clippy::disallowed_methods, reason = "it measures")]
pub async fn measure(storage: &Storage, account: AccountId, start: Timestamp) {
    let end = start.plus(Duration::from_micros((CALLS * INTERVAL).cast_unsigned()));
    let usage = &storage.usage;
    let by_key = UsageFilter {
        key: Some(KeyId::from_u128(1)),
        outcome: Some(OutcomeFilter::ExceptOk),
        ..UsageFilter::default()
    };
    let by_time = UsageFilter {
        from: Some(start),
        to: Some(end),
        ..UsageFilter::default()
    };
    for (name, filter) in [
        ("all", UsageFilter::default()),
        ("key", by_key),
        ("time", by_time),
    ] {
        let (mut times, mut after, mut rows) = (Vec::new(), None, 0);
        for _ in 0..PAGES {
            let page = UsagePage { after, limit: 100 };
            let started = Instant::now();
            let found = usage.calls(account, filter.clone(), page, SCAN).await.unwrap();
            times.push(started.elapsed());
            rows += found.rows.len();
            after = found.next;
        }
        println!("{PAGES} pages of calls ({name}), {rows} rows: {}", figures(times));
    }
    let series = async |by| {
        let query = SeriesQuery {
            from: start.plus(Duration::from_mins(10)),
            to: end,
            step: SeriesStep::Day,
            by,
        };
        let mut times = Vec::new();
        let mut points = Vec::new();
        for _ in 0..30 {
            let started = Instant::now();
            points = usage.series(account, query).await.unwrap();
            times.push(started.elapsed());
        }
        (points, figures(times))
    };
    let (before, times) = series(Some(SeriesGroup::Model)).await;
    println!("series of 90 days by model, from rows: {times}");
    let (started, mut steps) = (Instant::now(), 1);
    while storage.usage_hours.advance(account, end).await.unwrap() {
        steps += 1;
    }
    println!("{steps} steps of sums: {} ms", started.elapsed().as_millis());
    let (after, times) = series(Some(SeriesGroup::Model)).await;
    println!("series of 90 days by model, from hours: {times}");
    assert_eq!(before, after);
    let (_, times) = series(Some(SeriesGroup::Key)).await;
    println!("series of 90 days by key, from hours: {times}");
    let started = Instant::now();
    assert_eq!(storage.usage_hours.differences().await.unwrap(), []);
    println!("comparison: {} ms", started.elapsed().as_millis());
}

fn figures(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)].as_micros();
    format!("p50 {} µs, p99 {} µs", at(50), at(99))
}
