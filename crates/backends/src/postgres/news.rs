//! News by LISTEN and NOTIFY: triggers of the schema tell, one connection beside the pool listens.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Once};
use std::time::Duration;

use metrics::{Gauge, gauge};
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::sync::broadcast::Sender;
use tokio::time::{sleep, timeout};
use tollgate_storage::{JobNews, News, NewsReader, NewsSource};

use super::pool::Pool;

/// What the triggers call it. Databases of one server do not hear each other.
const CHANNEL: &str = "tollgate";

/// The same for jobs. A node of a version that did not know them does not listen to it.
const JOBS: &str = "tollgate_jobs";

/// What the connection that listens is called in `pg_stat_activity`.
const NAME: &str = "tollgate-news";

/// News that a reader may be behind before it is told [`News::Everything`] instead.
const KEPT: usize = 1024;

/// A connection that has said nothing for so long is asked whether it still lives, and how long its answer may take.
const SILENCE: Duration = Duration::from_secs(2);

/// Between two attempts to listen; it doubles from one to the other.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Listens from the first reader on, so commands have no connection for it.
pub(super) struct Listener {
    pool: Arc<Pool>,
    readers: Readers,
    started: Once,
}

/// Those who are told.
#[derive(Clone)]
struct Readers {
    news: Sender<News>,
    jobs: Sender<JobNews>,
}

impl Readers {
    /// Tells what was heard on a channel. There may be no reader.
    fn tell(&self, channel: &str, text: &str) {
        match channel {
            JOBS => drop(self.jobs.send(JobNews::parse(text))),
            _ => drop(self.news.send(News::parse(text))),
        }
    }

    /// Nobody listened until now.
    fn tell_all(&self) {
        let _ = self.news.send(News::Everything);
        let _ = self.jobs.send(JobNews::Any);
    }
}

impl Listener {
    pub(super) fn new(pool: Arc<Pool>) -> Self {
        Self {
            pool,
            readers: Readers {
                news: Sender::new(KEPT),
                jobs: Sender::new(KEPT),
            },
            started: Once::new(),
        }
    }

    fn start(&self) {
        self.started.call_once(|| {
            let options = self.pool.options().clone().application_name(NAME);
            self.pool.accompany(listen(options, self.readers.clone()));
        });
    }
}

impl NewsSource for Listener {
    fn subscribe(&self) -> NewsReader {
        let reader = self.readers.news.subscribe();
        self.start();
        reader.into()
    }

    fn subscribe_to_jobs(&self) -> NewsReader<JobNews> {
        let reader = self.readers.jobs.subscribe();
        self.start();
        reader.into()
    }
}

/// Listens, and again whenever the connection is lost.
async fn listen(options: PgConnectOptions, readers: Readers) {
    let up = gauge!("tollgate_news_up");
    metrics::describe_gauge!("tollgate_news_up", "Whether changes by other nodes are heard of");
    let (mut pause, mut reason) = (SHORTEST_PAUSE, None);
    loop {
        up.set(0);
        let lost = match connect(&options).await {
            Ok(listener) => {
                pause = SHORTEST_PAUSE;
                if reason.take().is_some() {
                    tracing::info!("what other nodes change is noticed at once again");
                }
                let Err(lost) = relay(listener, &readers, &up).await;
                lost
            }
            Err(error) => error,
        };
        // Said once, and not at each attempt.
        let lost = Some(lost.to_string());
        if reason != lost {
            let error = lost.as_deref().unwrap_or_default();
            tracing::warn!(
                error,
                "what other nodes change is noticed late: the database cannot be listened to"
            );
            reason = lost;
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// A connection of its own that listens: one that takes from the pool could starve calls.
async fn connect(options: &PgConnectOptions) -> sqlx::Result<PgListener> {
    let alone = PgPoolOptions::new()
        .max_connections(1)
        .max_lifetime(None)
        .idle_timeout(None)
        .acquire_timeout(SILENCE);
    let alone = alone.connect_with(options.clone()).await?;
    let mut listener = PgListener::connect_with(&alone).await?;
    listener.ignore_pool_close_event(true);
    listener.eager_reconnect(false);
    listener.listen_all([CHANNEL, JOBS]).await?;
    Ok(listener)
}

/// Passes on what is heard until the connection is lost.
async fn relay(mut listener: PgListener, readers: &Readers, up: &Gauge) -> sqlx::Result<Infallible> {
    readers.tell_all();
    up.set(1);
    loop {
        match timeout(SILENCE, listener.try_recv()).await {
            Ok(Ok(Some(heard))) => readers.tell(heard.channel(), heard.payload()),
            Ok(Ok(None)) => return Err(lost(io::ErrorKind::ConnectionAborted)),
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                let ask = sqlx::query("SELECT 1").execute(&mut listener);
                timeout(SILENCE, ask)
                    .await
                    .map_err(|_| lost(io::ErrorKind::TimedOut))??;
            }
        }
    }
}

fn lost(kind: io::ErrorKind) -> sqlx::Error {
    sqlx::Error::Io(kind.into())
}
