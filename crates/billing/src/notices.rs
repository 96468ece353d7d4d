//! Notices: an account is told that its balance is low, by a signed POST or by mail.
//!
//! Posts follow the Standard Webhooks scheme (standardwebhooks.com): the id of a notice is the same however often it is
//! sent, and the signature covers id, time and body.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tollgate_accounts::WebhookSecrets;
use tollgate_storage::{BalanceAlert, Channel, Notice, NoticeOutcome, NoticeState, Storage, StorageError};
use tollgate_types::id::IdSource;
use tollgate_types::{AccountId, Clock, Credits, Error, NoticeId, Timestamp};
use tollgate_upstream::{Mail, Mailer, NotifyError, Post, Poster};

use crate::refusal::{invalid, no_such_account};

/// How long is waited after each attempt that came to nothing; after the last one it is given up.
const WAITS: [Duration; 7] = [
    minutes(1),
    minutes(5),
    minutes(30),
    minutes(2 * 60),
    minutes(5 * 60),
    minutes(10 * 60),
    minutes(14 * 60),
];
/// How long an attempt may take before somebody else tries.
const CLAIMED: Duration = minutes(3);
/// How long what was told is kept.
pub const KEPT: Duration = minutes(30 * 24 * 60);
/// Accounts that one pass looks at together.
const PAGE: u32 = 500;
/// Notices that are sent at once.
const BATCH: u32 = 16;

const fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

/// Tells accounts what they want to know.
pub struct Notices {
    /// Everything that is kept.
    pub storage: Storage,
    /// What posts are signed with.
    pub secrets: WebhookSecrets,
    /// Posts.
    pub poster: Arc<dyn Poster>,
    /// Sends mail, if there is a server for it.
    pub mailer: Option<Arc<dyn Mailer>>,
    /// Who tells it, as mails have it.
    pub sender: String,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Makes ids.
    pub ids: Arc<IdSource>,
}

/// When an account wants to be told that its balance is low, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertWish {
    /// When less than this can be spent.
    pub below: Credits,
    /// An address to post to.
    pub webhook: Option<String>,
    /// A mailbox.
    pub email: Option<String>,
    /// Whether posts are signed with another secret from now on.
    pub new_secret: bool,
}

impl Notices {
    /// Sets when an account is told that its balance is low.
    pub async fn set_alert(&self, account: AccountId, wish: AlertWish) -> Result<BalanceAlert, Error> {
        if wish.below <= Credits::ZERO {
            return Err(invalid("below", "It is above 0."));
        }
        if wish.webhook.is_none() && wish.email.is_none() {
            return Err(invalid("webhook", "Say where to: a webhook, a mailbox, or both."));
        }
        if let Some(url) = &wish.webhook {
            let checked = self.poster.check(url);
            checked.map_err(|error| invalid("webhook", format!("The address {error}.")))?;
        }
        if let Some(mailbox) = &wish.email {
            let mailer = self.mailer.as_ref();
            let mailer = mailer.ok_or_else(|| invalid("email", "Mail is not set up here: see [mail]."))?;
            let checked = mailer.check(mailbox);
            checked.map_err(|error| invalid("email", format!("'{mailbox}': {error}.")))?;
        }
        let alert = BalanceAlert {
            account,
            below: wish.below,
            webhook: wish.webhook,
            email: wish.email,
            is_low: false,
        };
        let set = self.storage.notices.set_alert(account, Some(alert.clone())).await;
        set.map_err(no_such_account)?;
        if wish.new_secret {
            self.secrets.renew(account).await.map_err(no_such_account)?;
        }
        Ok(alert)
    }

    /// Looks at the balances of those who want to be told, and sends what is due. A failure is logged and the next pass
    /// tries again.
    pub async fn tell(&self) {
        self.look().await;
        self.send_due().await;
    }

    async fn look(&self) {
        let mut after = None;
        loop {
            let page = match self.storage.notices.alerts(after, PAGE).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!(%error, "cannot look for balances that may be low");
                    return;
                }
            };
            let Some(last) = page.last() else { return };
            after = Some(last.account);
            for alert in page {
                if let Err(error) = self.look_at(&alert).await {
                    tracing::warn!(%error, account.id = %alert.account, "cannot tell {} of its balance", alert.account);
                }
            }
        }
    }

    async fn look_at(&self, alert: &BalanceAlert) -> Result<(), StorageError> {
        let credits = self.storage.ledger.balance(alert.account).await?.credits;
        let is_low = credits < alert.below;
        if is_low == alert.is_low {
            return Ok(());
        }
        let notices = match is_low {
            true => self.low(alert, credits),
            false => Vec::new(),
        };
        self.storage
            .notices
            .note_low(alert.account, is_low, notices)
            .await
            .map(drop)
    }

    /// What is sent about a low balance.
    fn low(&self, alert: &BalanceAlert, credits: Credits) -> Vec<Notice> {
        let now = self.clock.now();
        let body = json!({
            "type": "balance.low",
            "timestamp": now.to_rfc3339(),
            "data": {"account": alert.account, "credits": credits, "below": alert.below},
        });
        let webhook = alert.webhook.iter().map(|url| (Channel::Webhook, url));
        let email = alert.email.iter().map(|mailbox| (Channel::Email, mailbox));
        let notice = |(channel, address): (Channel, &String)| Notice {
            id: NoticeId::from_u128(self.ids.next(now)),
            account: alert.account,
            channel,
            address: address.clone(),
            body: body.to_string(),
            state: NoticeState::Pending,
            attempts: 0,
            due_at: now,
            failure: None,
            created_at: now,
        };
        webhook.chain(email).map(notice).collect()
    }

    async fn send_due(&self) {
        loop {
            let now = self.clock.now();
            let due = match self.storage.notices.claim(now, now.plus(CLAIMED), BATCH).await {
                Ok(due) => due,
                Err(error) => {
                    tracing::warn!(%error, "cannot look for notices that are due");
                    return;
                }
            };
            if due.is_empty() {
                return;
            }
            futures_util::future::join_all(due.iter().map(|notice| self.send(notice))).await;
        }
    }

    async fn send(&self, notice: &Notice) {
        let sent = match notice.channel {
            Channel::Webhook => self.post(notice).await,
            Channel::Email => self.mail(notice).await,
        };
        let attempts = usize::try_from(notice.attempts).unwrap_or(usize::MAX);
        let wait = attempts.checked_sub(1).and_then(|sent| WAITS.get(sent));
        let outcome = match (sent, wait) {
            (Ok(()), _) => NoticeOutcome::Delivered,
            (Err(error), Some(wait)) if !error.is_final => NoticeOutcome::Again {
                due_at: self.clock.now().plus(*wait),
                why: error.detail,
            },
            (Err(error), _) => {
                tracing::warn!(%error, account.id = %notice.account, "{} is given up", notice.id);
                NoticeOutcome::Failed { why: error.detail }
            }
        };
        if let Err(error) = self.storage.notices.finish(notice, outcome).await {
            tracing::warn!(%error, notice.id = %notice.id, "what became of {} is lost; it may be sent again", notice.id);
        }
    }

    async fn post(&self, notice: &Notice) -> Result<(), NotifyError> {
        let alert = self.storage.notices.alert(notice.account).await.map_err(away)?;
        if alert.is_none() {
            return Err(NotifyError::for_good("nobody wants to be told any more"));
        }
        let secret = self.secrets.of(notice.account).await.map_err(away)?;
        let post = Post {
            url: notice.address.clone(),
            headers: secret.headers(&notice.id.to_string(), self.clock.now(), &notice.body),
            body: notice.body.clone().into(),
        };
        self.poster.post(&post).await
    }

    async fn mail(&self, notice: &Notice) -> Result<(), NotifyError> {
        let mailer = self.mailer.as_ref();
        let mailer = mailer.ok_or_else(|| NotifyError::for_now("mail is not set up"))?;
        let body: serde_json::Value = serde_json::from_str(&notice.body).unwrap_or_default();
        let said = |name: &str| body["data"][name].as_str().unwrap_or("?").to_owned();
        let (credits, below) = (said("credits"), said("below"));
        let mail = Mail {
            to: notice.address.clone(),
            subject: format!("{}: {credits} credits are left", self.sender),
            text: format!(
                "The balance of {} is {credits} credits, which is less than {below}.\n\n\
                 Requests that cost more than what is left are refused with 402 until there are more credits. Work that \
                 runs is not stopped.\n",
                notice.account
            ),
        };
        mailer.send(&mail).await
    }
}

/// Storage does not answer; it may later.
fn away(error: StorageError) -> NotifyError {
    NotifyError::for_now(error.to_string())
}

/// Before when what was told is not kept any more.
pub fn kept_since(now: Timestamp) -> Timestamp {
    now.minus(KEPT)
}
