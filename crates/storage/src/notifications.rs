//! Notifications of changes in the database by any process, so that every process can invalidate
//! its caches.

use std::fmt;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tollgate_types::{AccountId, JobId};

/// A change of keys, accounts or leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// New keys were created.
    Keys,
    /// This account or one of its keys has changed.
    Account(AccountId),
    /// Nodes that lease credits of this account must return them.
    Lease(AccountId),
    /// Notifications may have been lost: all caches are invalid.
    Everything,
}

impl Notification {
    /// Parses a notification. Unknown text was sent by another version, and counts as
    /// [`Notification::Everything`].
    pub fn parse(text: &str) -> Notification {
        let account = |id: &str| u128::from_str_radix(id, 16).map(AccountId::from_u128);
        match text.split_once(' ') {
            None if text == "keys" => Notification::Keys,
            Some(("account", id)) => account(id).map_or(Notification::Everything, Notification::Account),
            Some(("lease", id)) => account(id).map_or(Notification::Everything, Notification::Lease),
            _ => Notification::Everything,
        }
    }

    /// Returns the kind as a label: `keys`, `account`, `lease` or `everything`.
    pub const fn kind(self) -> &'static str {
        match self {
            Notification::Keys => "keys",
            Notification::Account(_) => "account",
            Notification::Lease(_) => "lease",
            Notification::Everything => "everything",
        }
    }
}

/// Writes the text that [`Notification::parse`] reads.
impl fmt::Display for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notification::Account(id) | Notification::Lease(id) => {
                write!(f, "{} {:032x}", self.kind(), id.as_u128())
            }
            Notification::Keys | Notification::Everything => f.write_str(self.kind()),
        }
    }
}

/// A change of jobs by any process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobNotification {
    /// A job is due and can be leased.
    Due,
    /// This job has a new event or has ended.
    Changed(JobId),
    /// The caller of this job requested a cancellation.
    Cancelled(JobId),
    /// Notifications may have been lost: any job may be due, changed or cancelled.
    Any,
}

impl JobNotification {
    /// Parses a notification. Unknown text was sent by another version, and counts as
    /// [`JobNotification::Any`].
    pub fn parse(text: &str) -> JobNotification {
        let job = |id: &str| u128::from_str_radix(id, 16).map(JobId::from_u128);
        match text.split_once(' ') {
            None if text == "due" => JobNotification::Due,
            Some(("changed", id)) => job(id).map_or(JobNotification::Any, JobNotification::Changed),
            Some(("cancelled", id)) => job(id).map_or(JobNotification::Any, JobNotification::Cancelled),
            _ => JobNotification::Any,
        }
    }

    /// Returns the kind as a label: `job_due`, `job_changed`, `job_cancelled` or `job_any`.
    pub const fn kind(self) -> &'static str {
        match self {
            JobNotification::Due => "job_due",
            JobNotification::Changed(_) => "job_changed",
            JobNotification::Cancelled(_) => "job_cancelled",
            JobNotification::Any => "job_any",
        }
    }
}

/// A source of change notifications.
pub trait NotificationSource: Send + Sync {
    /// Subscribes to changes of keys, accounts and leases. Every change that is committed after
    /// this call has its own notification or is covered by a later [`Notification::Everything`].
    fn subscribe(&self) -> NotificationReader;

    /// Subscribes to changes of jobs. Lost notifications are replaced by [`JobNotification::Any`].
    /// The subscription is separate because jobs change much more often and would delay the other
    /// notifications.
    fn subscribe_to_jobs(&self) -> NotificationReader<JobNotification>;
}

/// Notification types with a value that replaces lost notifications.
pub trait CatchAll {
    /// Value that replaces lost notifications.
    const CATCH_ALL: Self;
}

impl CatchAll for Notification {
    const CATCH_ALL: Self = Notification::Everything;
}

impl CatchAll for JobNotification {
    const CATCH_ALL: Self = JobNotification::Any;
}

/// Receiver of notifications, for any async runtime.
#[derive(Debug)]
pub struct NotificationReader<N = Notification>(Option<Receiver<N>>);

impl<N: Clone + CatchAll> NotificationReader<N> {
    /// Returns the next notification. After the source is closed, the call never returns.
    pub async fn next(&mut self) -> N {
        match &mut self.0 {
            Some(receiver) => match receiver.recv().await {
                Ok(notification) => notification,
                Err(RecvError::Lagged(_)) => N::CATCH_ALL,
                Err(RecvError::Closed) => std::future::pending().await,
            },
            None => std::future::pending().await,
        }
    }
}

impl<N> From<Receiver<N>> for NotificationReader<N> {
    fn from(receiver: Receiver<N>) -> Self {
        Self(Some(receiver))
    }
}

/// Notification source of a single-process engine, which needs no notifications of its changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNotifications;

impl NotificationSource for NoNotifications {
    fn subscribe(&self) -> NotificationReader {
        NotificationReader(None)
    }

    fn subscribe_to_jobs(&self) -> NotificationReader<JobNotification> {
        NotificationReader(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_round_trip() {
        let id = AccountId::from_u128(0x0193_0000_0000_7000_8000_0000_0000_00ff);
        for (notification, text) in [
            (Notification::Keys, "keys"),
            (
                Notification::Account(id),
                "account 019300000000700080000000000000ff",
            ),
            (Notification::Lease(id), "lease 019300000000700080000000000000ff"),
            (Notification::Everything, "everything"),
        ] {
            assert_eq!(notification.to_string(), text);
            assert_eq!(Notification::parse(text), notification);
        }
        for text in [
            "",
            "keys 1",
            "account",
            "account ",
            "account x",
            "lease -1",
            "weather",
        ] {
            assert_eq!(Notification::parse(text), Notification::Everything, "{text:?}");
        }
    }

    #[test]
    fn job_texts_are_parsed() {
        let id = JobId::from_u128(0x0193_0000_0000_7000_8000_0000_0000_00ff);
        for (text, notification) in [
            ("due", JobNotification::Due),
            (
                "changed 019300000000700080000000000000ff",
                JobNotification::Changed(id),
            ),
            (
                "cancelled 019300000000700080000000000000ff",
                JobNotification::Cancelled(id),
            ),
            ("", JobNotification::Any),
            ("due 1", JobNotification::Any),
            ("changed", JobNotification::Any),
            ("changed x", JobNotification::Any),
            ("weather", JobNotification::Any),
        ] {
            assert_eq!(JobNotification::parse(text), notification, "{text:?}");
        }
    }
}
