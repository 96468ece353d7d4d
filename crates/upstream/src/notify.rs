//! Notifications: by a POST to an untrusted URL, or by e-mail.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;

/// A POST request with a JSON body.
#[derive(Clone, Debug)]
pub struct Post {
    /// Untrusted target URL.
    pub url: String,
    /// Headers in addition to the default ones.
    pub headers: Vec<(&'static str, String)>,
    /// JSON document, sent unchanged.
    pub body: Bytes,
}

/// A plain-text e-mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    /// Unique id, the same on each attempt to send the e-mail. Contains only letters, digits, `_`
    /// and `-`.
    pub id: String,
    /// Address of the recipient.
    pub to: String,
    /// Subject header, on one line.
    pub subject: String,
    /// Body, plain text.
    pub text: String,
}

/// Reason why a delivery failed. The text is for the log and for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifyError {
    /// Whether the failure is permanent, so that the delivery is not retried.
    pub is_final: bool,
    /// Description of the failure.
    pub detail: String,
}

impl NotifyError {
    /// Creates the error of a transient failure: the delivery may be retried.
    pub fn transient(detail: impl Into<String>) -> Self {
        Self {
            is_final: false,
            detail: detail.into(),
        }
    }

    /// Creates the error of a permanent failure: the delivery must not be retried.
    pub fn permanent(detail: impl Into<String>) -> Self {
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

/// Port for posting to untrusted URLs. The implementation decides which hosts may be reached.
#[async_trait]
pub trait Poster: Send + Sync {
    /// Checks the syntax of a URL, without sending anything.
    fn check(&self, url: &str) -> Result<(), NotifyError>;

    /// Posts the request, and returns once the receiver has confirmed it. Redirects are not
    /// followed.
    async fn post(&self, post: &Post) -> Result<(), NotifyError>;
}

/// Port for sending e-mail.
#[async_trait]
pub trait Mailer: Send + Sync {
    /// Checks that a text is a valid e-mail address, without sending anything.
    fn check(&self, mailbox: &str) -> Result<(), NotifyError>;

    /// Sends an e-mail, and returns once a server has accepted it.
    async fn send(&self, mail: &Mail) -> Result<(), NotifyError>;
}
