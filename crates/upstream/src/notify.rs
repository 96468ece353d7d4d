//! Telling somebody something: by a POST to an address that a stranger wrote, or by mail.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

/// A POST of JSON.
#[derive(Clone, Debug)]
pub struct Post {
    /// The address, as a stranger wrote it.
    pub url: String,
    /// Headers beside those of every request.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Bytes,
}

/// A mail of plain text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    /// The mailbox.
    pub to: String,
    /// The subject.
    pub subject: String,
    /// The text.
    pub text: String,
}

/// Why something did not arrive. The text is for the log and for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifyError {
    /// Whether it never will: there is nobody who could be told, and nobody is asked again.
    pub is_final: bool,
    /// What happened.
    pub detail: String,
}

impl NotifyError {
    /// It may arrive later.
    pub fn for_now(detail: impl Into<String>) -> Self {
        Self {
            is_final: false,
            detail: detail.into(),
        }
    }

    /// It never will.
    pub fn for_good(detail: impl Into<String>) -> Self {
        Self {
            is_final: true,
            detail: detail.into(),
        }
    }
}

impl fmt::Display for NotifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for NotifyError {}

/// Posts to addresses that strangers wrote, of which it decides which may be reached at all.
#[async_trait]
pub trait Poster: Send + Sync {
    /// Whether an address is one that could be posted to, as far as its spelling says; nobody is asked.
    fn check(&self, url: &str) -> Result<(), NotifyError>;

    /// Posts, and answers when the other side has said that it has it. Redirects are not followed.
    async fn post(&self, post: &Post) -> Result<(), NotifyError>;
}

/// Sends mail.
#[async_trait]
pub trait Mailer: Send + Sync {
    /// Whether a text is a mailbox; nobody is asked.
    fn check(&self, mailbox: &str) -> Result<(), NotifyError>;

    /// Sends, and answers when a server has taken the mail.
    async fn send(&self, mail: &Mail) -> Result<(), NotifyError>;
}
