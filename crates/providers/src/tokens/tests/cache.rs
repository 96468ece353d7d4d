use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::join_all;
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Semaphore;
use tollgate_types::Timestamp;
use tollgate_types::clock::ManualClock;

use super::super::{Issued, Token, TokenCache, TokenError, TokenSource};
use crate::http::{HttpClient, HttpSettings};

const HOUR: u64 = 3_600;
const TIMEOUT: Duration = Duration::from_secs(5);

/// Issues `token-1`, `token-2`, … or fails, as scripted. Each attempt waits for a permit of the
/// test.
#[derive(Clone, Debug)]
struct Scripted(Arc<Script>);

#[derive(Debug)]
struct Script {
    /// Lifetimes in seconds, or errors. When the script is empty, the lifetime is one hour.
    next: Mutex<VecDeque<Result<u64, TokenError>>>,
    asked: Mutex<u64>,
    permits: Semaphore,
}

#[async_trait]
impl TokenSource for Scripted {
    async fn issue(&self, _http: &HttpClient, _timeout: Duration) -> Result<Issued, TokenError> {
        let number = {
            let mut asked = self.0.asked.lock().unwrap();
            *asked += 1;
            *asked
        };
        self.0.permits.acquire().await.unwrap().forget();
        let next = self.0.next.lock().unwrap().pop_front().unwrap_or(Ok(HOUR));
        Ok(Issued {
            secret: SecretString::from(format!("token-{number}")),
            lifetime: Duration::from_secs(next?),
        })
    }

    fn description(&self) -> &str {
        "the script"
    }
}

struct Bench {
    cache: TokenCache,
    clock: Arc<ManualClock>,
    source: Scripted,
    http: Arc<HttpClient>,
}

impl Bench {
    /// Creates a cache whose source has this number of permits.
    fn new(permits: usize) -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::from_micros(1_790_000_000_000_000)));
        let source = Scripted(Arc::new(Script {
            next: Mutex::default(),
            asked: Mutex::new(0),
            permits: Semaphore::new(permits),
        }));
        Self {
            cache: TokenCache::new(Box::new(source.clone()), clock.clone()),
            clock,
            source,
            http: HttpClient::new(HttpSettings::default()),
        }
    }

    fn script(&self, next: Result<u64, TokenError>) {
        self.source.0.next.lock().unwrap().push_back(next);
    }

    fn asked(&self) -> u64 {
        *self.source.0.asked.lock().unwrap()
    }

    async fn token(&self) -> Result<Arc<Token>, TokenError> {
        self.cache.token(&self.http, TIMEOUT).await
    }

    async fn text(&self) -> String {
        self.token().await.unwrap().secret.expose_secret().to_owned()
    }

    async fn replace_refused(&self, token: &Arc<Token>) -> Result<Option<Arc<Token>>, TokenError> {
        self.cache.replace_refused(token, &self.http, TIMEOUT).await
    }
}

#[tokio::test]
async fn a_token_is_used_until_shortly_before_its_end() {
    let bench = Bench::new(100);
    // Seconds that elapse, and the expected token of the next call.
    for (passed, expected) in [
        (0, "token-1"),
        (HOUR - 226, "token-1"),
        (1, "token-2"),
        (HOUR - 226, "token-2"),
        // No call renewed the token in time, so the token has expired.
        (300, "token-3"),
    ] {
        bench.clock.advance(Duration::from_secs(passed));
        assert_eq!(bench.text().await, expected);
    }
    assert_eq!(bench.asked(), 3);
}

#[tokio::test]
async fn a_token_that_could_end_under_way_is_not_used() {
    let bench = Bench::new(100);
    bench.script(Ok(11));
    bench.script(Ok(10));
    assert_eq!(bench.text().await, "token-1");
    assert_eq!(
        bench.text().await,
        "token-1",
        "with eleven seconds left, and just asked for"
    );
    bench.clock.advance(Duration::from_secs(1));
    assert_eq!(bench.text().await, "token-2");
    assert_eq!(bench.text().await, "token-3");
}

#[tokio::test]
async fn early_renewals_do_not_block_calls() {
    let bench = Bench::new(1);
    assert_eq!(bench.text().await, "token-1");
    bench.clock.advance(Duration::from_secs(HOUR - 100));
    let mut renewing = Box::pin(bench.text());
    assert!((&mut renewing).now_or_never().is_none());
    assert_eq!(bench.asked(), 2);
    assert_eq!(bench.text().await, "token-1");
    bench.source.0.permits.add_permits(1);
    assert_eq!(renewing.await, "token-2");
    assert_eq!((bench.text().await, bench.asked()), ("token-2".to_owned(), 2));
}

#[tokio::test]
async fn failed_early_renewals_keep_the_token() {
    let bench = Bench::new(100);
    bench.text().await;
    bench.script(Err(TokenError::unavailable("away")));
    bench.clock.advance(Duration::from_secs(HOUR - 100));
    for _ in 0..3 {
        assert_eq!(bench.text().await, "token-1");
    }
    assert_eq!(bench.asked(), 2, "not again at once");
    bench.clock.advance(Duration::from_secs(29));
    assert_eq!((bench.text().await, bench.asked()), ("token-1".to_owned(), 2));
    bench.clock.advance(Duration::from_secs(1));
    assert_eq!((bench.text().await, bench.asked()), ("token-3".to_owned(), 3));
}

#[tokio::test]
async fn concurrent_calls_share_one_renewal() {
    for failure in [None, Some(TokenError::refused("no"))] {
        let bench = Bench::new(0);
        failure
            .clone()
            .into_iter()
            .for_each(|error| bench.script(Err(error)));
        let mut calls = Box::pin(join_all((0..50).map(|_| bench.token())));
        assert!((&mut calls).now_or_never().is_none());
        bench.source.0.permits.add_permits(100);
        for result in calls.await {
            let result = result.map(|token| token.secret.expose_secret().to_owned());
            assert_eq!(
                result,
                failure.clone().map_or(Ok("token-1".to_owned()), Err),
                "{failure:?}"
            );
        }
        assert_eq!(bench.asked(), 1, "{failure:?}");
        // A later call starts a new attempt.
        let later = if failure.is_some() { "token-2" } else { "token-1" };
        assert_eq!(bench.text().await, later);
    }
}

#[tokio::test]
async fn cancelled_renewals_pass_to_the_next_caller() {
    let bench = Bench::new(0);
    let mut first = Box::pin(bench.text());
    let mut second = Box::pin(bench.text());
    assert!((&mut first).now_or_never().is_none());
    assert!((&mut second).now_or_never().is_none());
    drop(first);
    bench.source.0.permits.add_permits(1);
    assert_eq!(second.await, "token-2");
}

#[tokio::test]
async fn a_refused_token_is_renewed_once_for_all() {
    let bench = Bench::new(100);
    let first = bench.token().await.unwrap();
    let newer = join_all((0..50).map(|_| bench.replace_refused(&first))).await;
    for newer in newer {
        assert_eq!(newer.unwrap().unwrap().secret.expose_secret(), "token-2");
    }
    let second = bench.token().await.unwrap();
    assert_eq!(bench.asked(), 2);
    // The server also rejects the new token, so the token is not the cause.
    bench.clock.advance(Duration::from_secs(59));
    assert!(bench.replace_refused(&second).await.unwrap().is_none());
    assert_eq!(bench.asked(), 2);
    bench.clock.advance(Duration::from_secs(1));
    let third = bench.replace_refused(&second).await.unwrap().unwrap();
    assert_eq!(third.secret.expose_secret(), "token-3");
}

#[tokio::test]
async fn failed_renewal_of_a_refused_token_is_an_error() {
    let bench = Bench::new(100);
    let first = bench.token().await.unwrap();
    bench.script(Err(TokenError::unavailable("away")));
    assert_eq!(
        bench.replace_refused(&first).await.unwrap_err(),
        TokenError::unavailable("away")
    );
    assert!(bench.replace_refused(&first).await.unwrap().is_none());
    assert_eq!(bench.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn silent_token_sources_time_out() {
    let bench = Bench::new(0);
    let error = bench.token().await.unwrap_err();
    assert_eq!(
        error,
        TokenError::unavailable("the script did not respond in time")
    );
    let bounded = bench.cache.token(&bench.http, Duration::from_secs(1_000));
    let before = tokio::time::Instant::now();
    assert!(bounded.await.is_err());
    assert_eq!(before.elapsed(), Duration::from_secs(10));
    assert!(bench.token().now_or_never().is_none(), "and then asked again");
}
