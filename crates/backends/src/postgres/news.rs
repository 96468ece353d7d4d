//! News by LISTEN and NOTIFY: triggers of the schema tell, one connection beside the pool listens.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Once};
use std::time::Duration;

use metrics::{Gauge, gauge};
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::sync::broadcast::Sender;
use tokio::time::{sleep, timeout};
use tollgate_storage::{News, NewsReader, NewsSource};

use super::pool::Pool;

/// What the triggers call it. Databases of one server do not hear each other.
const CHANNEL: &str = "tollgate";

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
    readers: Sender<News>,
    started: Once,
}

impl Listener {
    pub(super) fn new(pool: Arc<Pool>) -> Self {
        Self {
            pool,
            readers: Sender::new(KEPT),
            started: Once::new(),
        }
    }
}

impl NewsSource for Listener {
    fn subscribe(&self) -> NewsReader {
        let reader = self.readers.subscribe();
        self.started.call_once(|| {
            let options = self.pool.options().clone().application_name(NAME);
            self.pool.accompany(listen(options, self.readers.clone()));
        });
        reader.into()
    }
}

/// Listens, and again whenever the connection is lost.
async fn listen(options: PgConnectOptions, readers: Sender<News>) {
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
    listener.listen(CHANNEL).await?;
    Ok(listener)
}

/// Passes on what is heard until the connection is lost.
async fn relay(mut listener: PgListener, readers: &Sender<News>, up: &Gauge) -> sqlx::Result<Infallible> {
    // There may be no reader, and nobody listened until now.
    let tell = |news| drop(readers.send(news));
    tell(News::Everything);
    up.set(1);
    loop {
        match timeout(SILENCE, listener.try_recv()).await {
            Ok(Ok(Some(notification))) => tell(News::parse(notification.payload())),
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
