//! News: what has changed in the database, whoever changed it, so that a process forgets what it remembers of that.

use std::fmt;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tollgate_types::{AccountId, JobId};

/// What has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// There are keys that were not there before.
    Keys,
    /// An account, or a key of it, is another than it was.
    Account(AccountId),
    /// Nodes that have a lease of this account's balance are to give it back.
    Lease(AccountId),
    /// Something may have been missed: nothing that is remembered is to be believed.
    Everything,
}

impl News {
    /// The news with this text. What is not understood comes from another version and may mean anything.
    pub fn parse(text: &str) -> News {
        let account = |id: &str| u128::from_str_radix(id, 16).map(AccountId::from_u128);
        match text.split_once(' ') {
            None if text == "keys" => News::Keys,
            Some(("account", id)) => account(id).map_or(News::Everything, News::Account),
            Some(("lease", id)) => account(id).map_or(News::Everything, News::Lease),
            _ => News::Everything,
        }
    }

    /// What it is about: `keys`, `account`, `lease` or `everything`.
    pub const fn kind(self) -> &'static str {
        match self {
            News::Keys => "keys",
            News::Account(_) => "account",
            News::Lease(_) => "lease",
            News::Everything => "everything",
        }
    }
}

/// The text that [`News::parse`] reads.
impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            News::Account(id) | News::Lease(id) => write!(f, "{} {:032x}", self.kind(), id.as_u128()),
            News::Keys | News::Everything => f.write_str(self.kind()),
        }
    }
}

/// What has become of jobs, whichever process they are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobNews {
    /// There is one to be carried out.
    Due,
    /// This one has an event that it did not have before, or has ended.
    Changed(JobId),
    /// The caller of this one does not want it any more.
    Cancelled(JobId),
    /// Something may have been missed: any may be due, changed or cancelled.
    Any,
}

impl JobNews {
    /// The news with this text. What is not understood comes from another version and may mean anything.
    pub fn parse(text: &str) -> JobNews {
        let job = |id: &str| u128::from_str_radix(id, 16).map(JobId::from_u128);
        match text.split_once(' ') {
            None if text == "due" => JobNews::Due,
            Some(("changed", id)) => job(id).map_or(JobNews::Any, JobNews::Changed),
            Some(("cancelled", id)) => job(id).map_or(JobNews::Any, JobNews::Cancelled),
            _ => JobNews::Any,
        }
    }

    /// What it is about: `job_due`, `job_changed`, `job_cancelled` or `job_any`.
    pub const fn kind(self) -> &'static str {
        match self {
            JobNews::Due => "job_due",
            JobNews::Changed(_) => "job_changed",
            JobNews::Cancelled(_) => "job_cancelled",
            JobNews::Any => "job_any",
        }
    }
}

/// Where news comes from.
pub trait NewsSource: Send + Sync {
    /// News from now on: every change of keys and accounts that is committed after this call is told by its own news or
    /// covered by a later [`News::Everything`].
    fn subscribe(&self) -> NewsReader;

    /// The same of jobs, with [`JobNews::Any`]. They are many more, so who reads the other news does not fall behind by them.
    fn subscribe_to_jobs(&self) -> NewsReader<JobNews>;
}

/// What stands for everything that may have been missed.
pub trait Missed {
    /// That.
    const MISSED: Self;
}

impl Missed for News {
    const MISSED: Self = News::Everything;
}

impl Missed for JobNews {
    const MISSED: Self = JobNews::Any;
}

/// One that reads news. It may be read on any runtime.
#[derive(Debug)]
pub struct NewsReader<N = News>(Option<Receiver<N>>);

impl<N: Clone + Missed> NewsReader<N> {
    /// The next news; waits for ever when there is none any more.
    pub async fn next(&mut self) -> N {
        match &mut self.0 {
            Some(receiver) => match receiver.recv().await {
                Ok(news) => news,
                Err(RecvError::Lagged(_)) => N::MISSED,
                Err(RecvError::Closed) => std::future::pending().await,
            },
            None => std::future::pending().await,
        }
    }
}

impl<N> From<Receiver<N>> for NewsReader<N> {
    fn from(receiver: Receiver<N>) -> Self {
        Self(Some(receiver))
    }
}

/// An engine that one process has to itself: whoever changes something knows it.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNews;

impl NewsSource for NoNews {
    fn subscribe(&self) -> NewsReader {
        NewsReader(None)
    }

    fn subscribe_to_jobs(&self) -> NewsReader<JobNews> {
        NewsReader(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_they_are_written() {
        let id = AccountId::from_u128(0x0193_0000_0000_7000_8000_0000_0000_00ff);
        for (news, text) in [
            (News::Keys, "keys"),
            (News::Account(id), "account 019300000000700080000000000000ff"),
            (News::Lease(id), "lease 019300000000700080000000000000ff"),
            (News::Everything, "everything"),
        ] {
            assert_eq!(news.to_string(), text);
            assert_eq!(News::parse(text), news);
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
            assert_eq!(News::parse(text), News::Everything, "{text:?}");
        }
    }

    #[test]
    fn texts_about_jobs_are_read() {
        let id = JobId::from_u128(0x0193_0000_0000_7000_8000_0000_0000_00ff);
        for (text, news) in [
            ("due", JobNews::Due),
            ("changed 019300000000700080000000000000ff", JobNews::Changed(id)),
            (
                "cancelled 019300000000700080000000000000ff",
                JobNews::Cancelled(id),
            ),
            ("", JobNews::Any),
            ("due 1", JobNews::Any),
            ("changed", JobNews::Any),
            ("changed x", JobNews::Any),
            ("weather", JobNews::Any),
        ] {
            assert_eq!(JobNews::parse(text), news, "{text:?}");
        }
    }
}
