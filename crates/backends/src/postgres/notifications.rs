//! Notifications by LISTEN and NOTIFY. Triggers of the schema send them; one connection outside the
//! pool receives them.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Once};
use std::time::Duration;

use metrics::{Gauge, gauge};
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::sync::broadcast::Sender;
use tokio::time::{sleep, timeout};
use tollgate_storage::{JobNotification, Notification, NotificationReader, NotificationSource};

use super::pool::Pool;

/// Channel of the triggers. Each database of a server has separate channels.
const CHANNEL: &str = "tollgate";

/// Channel of job notifications. Nodes of older versions do not listen to it.
const JOBS_CHANNEL: &str = "tollgate_jobs";

/// `application_name` of the listening connection.
const NAME: &str = "tollgate-notifications";

/// Maximum number of unread notifications of a reader; beyond it, it receives
/// [`Notification::Everything`] instead.
const CHANNEL_CAPACITY: usize = 1024;

/// Idle time after which the connection is checked, and the timeout of the check.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Initial and maximum pause between attempts to listen, with exponential backoff.
const MIN_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Listener of this process. It connects when the first reader subscribes, so that commands without
/// readers open no connection.
pub(super) struct Listener {
    pool: Arc<Pool>,
    senders: Senders,
    started: Once,
}

/// Senders of notifications to the readers in this process.
#[derive(Clone)]
struct Senders {
    notifications: Sender<Notification>,
    jobs: Sender<JobNotification>,
}

impl Senders {
    /// Sends a received notification to the readers, if any.
    fn publish(&self, channel: &str, text: &str) {
        match channel {
            JOBS_CHANNEL => drop(self.jobs.send(JobNotification::parse(text))),
            _ => drop(self.notifications.send(Notification::parse(text))),
        }
    }

    /// Notifies the readers that notifications may have been missed.
    fn publish_missed(&self) {
        let _ = self.notifications.send(Notification::Everything);
        let _ = self.jobs.send(JobNotification::Any);
    }
}

impl Listener {
    pub(super) fn new(pool: Arc<Pool>) -> Self {
        Self {
            pool,
            senders: Senders {
                notifications: Sender::new(CHANNEL_CAPACITY),
                jobs: Sender::new(CHANNEL_CAPACITY),
            },
            started: Once::new(),
        }
    }

    fn start(&self) {
        self.started.call_once(|| {
            let options = self.pool.options().clone().application_name(NAME);
            self.pool.spawn_background(listen(options, self.senders.clone()));
        });
    }
}

impl NotificationSource for Listener {
    fn subscribe(&self) -> NotificationReader {
        let reader = self.senders.notifications.subscribe();
        self.start();
        reader.into()
    }

    fn subscribe_to_jobs(&self) -> NotificationReader<JobNotification> {
        let reader = self.senders.jobs.subscribe();
        self.start();
        reader.into()
    }
}

/// Listens, and reconnects whenever the connection is lost.
async fn listen(options: PgConnectOptions, senders: Senders) {
    let up = gauge!("tollgate_notifications_up");
    metrics::describe_gauge!(
        "tollgate_notifications_up",
        "1 while the listener for changes by other nodes is connected, else 0"
    );
    let (mut pause, mut reason) = (MIN_PAUSE, None);
    loop {
        up.set(0);
        let lost = match connect(&options).await {
            Ok(listener) => {
                pause = MIN_PAUSE;
                if reason.take().is_some() {
                    tracing::info!("notification listener reconnected");
                }
                let Err(lost) = relay(listener, &senders, &up).await;
                lost
            }
            Err(error) => error,
        };
        // Logged once, not for each attempt.
        let lost = Some(lost.to_string());
        if reason != lost {
            let error = lost.as_deref().unwrap_or_default();
            tracing::warn!(
                error,
                "cannot listen for changes by other nodes; these changes take effect within 5 seconds"
            );
            reason = lost;
        }
        sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

/// Opens a separate connection, because a listener that occupies a connection of the pool could
/// starve calls.
async fn connect(options: &PgConnectOptions) -> sqlx::Result<PgListener> {
    let alone = PgPoolOptions::new()
        .max_connections(1)
        .max_lifetime(None)
        .idle_timeout(None)
        .acquire_timeout(KEEPALIVE_TIMEOUT);
    let alone = alone.connect_with(options.clone()).await?;
    let mut listener = PgListener::connect_with(&alone).await?;
    listener.ignore_pool_close_event(true);
    listener.eager_reconnect(false);
    listener.listen_all([CHANNEL, JOBS_CHANNEL]).await?;
    Ok(listener)
}

/// Forwards notifications until the connection is lost.
async fn relay(mut listener: PgListener, senders: &Senders, up: &Gauge) -> sqlx::Result<Infallible> {
    senders.publish_missed();
    up.set(1);
    loop {
        match timeout(KEEPALIVE_TIMEOUT, listener.try_recv()).await {
            Ok(Ok(Some(received))) => senders.publish(received.channel(), received.payload()),
            Ok(Ok(None)) => return Err(lost(io::ErrorKind::ConnectionAborted)),
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                let ask = sqlx::query("SELECT 1").execute(&mut listener);
                timeout(KEEPALIVE_TIMEOUT, ask)
                    .await
                    .map_err(|_| lost(io::ErrorKind::TimedOut))??;
            }
        }
    }
}

fn lost(kind: io::ErrorKind) -> sqlx::Error {
    sqlx::Error::Io(kind.into())
}
