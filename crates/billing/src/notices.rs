//! Low-balance alerts: a signed POST, an e-mail, or both.
//!
//! POSTs follow the Standard Webhooks scheme (standardwebhooks.com): every attempt sends the same
//! notice id, and the signature covers id, time and body.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tollgate_accounts::WebhookSecrets;
use tollgate_storage::notice::MAX_RETRY_WAIT;
use tollgate_storage::{BalanceAlert, Channel, Notice, NoticeOutcome, NoticeState, Storage, StorageError};
use tollgate_types::id::IdSource;
use tollgate_types::{AccountId, Clock, Credits, Error, NoticeId, Timestamp};
use tollgate_upstream::{Mail, Mailer, NotifyError, Post, Poster};

use crate::refusal::{invalid, no_such_account};

/// Delays after the failed attempts. If the attempt after the last delay fails, the notice has
/// failed.
const RETRY_INTERVALS: [Duration; 7] = [
    minutes(1),
    minutes(5),
    minutes(30),
    minutes(2 * 60),
    minutes(5 * 60),
    minutes(10 * 60),
    minutes(14 * 60),
];
/// Duration of a claim, after which another node may send the notice.
const CLAIM_TIMEOUT: Duration = minutes(3);
const _: () = assert!(RETRY_INTERVALS[RETRY_INTERVALS.len() - 1].as_secs() <= MAX_RETRY_WAIT.as_secs());
/// Retention of sent and failed notices: 30 days.
pub const RETENTION: Duration = minutes(30 * 24 * 60);
/// Number of alerts per page of the balance check.
const PAGE: u32 = 500;
/// Maximum number of notices sent concurrently.
const BATCH: u32 = 16;

const fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

/// Service that stores and sends low-balance alerts.
pub struct Notices {
    /// Accounts, ledger and notices.
    pub storage: Storage,
    /// Signing secrets of the webhooks.
    pub secrets: WebhookSecrets,
    /// Sender of the webhook requests.
    pub poster: Arc<dyn Poster>,
    /// Sender of the e-mails; `None` without a configured mail server.
    pub mailer: Option<Arc<dyn Mailer>>,
    /// Name of this gateway in e-mail subjects.
    pub sender: String,
    /// Source of the current time.
    pub clock: Arc<dyn Clock>,
    /// Source of notice ids.
    pub ids: Arc<IdSource>,
}

/// Threshold and channels of an account's low-balance alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertParams {
    /// Threshold in credits: an alert is sent when the spendable balance falls below it.
    pub below: Credits,
    /// URL of the webhook.
    pub webhook: Option<String>,
    /// E-mail address of the recipient.
    pub email: Option<String>,
    /// Whether to replace the account's webhook signing secret.
    pub new_secret: bool,
}

impl Notices {
    /// Sets the low-balance alert of an account and returns it. The threshold must be above 0, and
    /// at least one channel is required.
    pub async fn set_alert(&self, account: AccountId, params: AlertParams) -> Result<BalanceAlert, Error> {
        if params.below <= Credits::ZERO {
            return Err(invalid("below", "'below' must be above 0."));
        }
        if params.webhook.is_none() && params.email.is_none() {
            return Err(invalid("webhook", "Set a webhook, an e-mail address, or both."));
        }
        if let Some(url) = &params.webhook {
            let checked = self.poster.check(url);
            checked.map_err(|error| invalid("webhook", format!("The address {error}.")))?;
        }
        if let Some(mailbox) = &params.email {
            let mailer = self.mailer.as_ref();
            let mailer = mailer.ok_or_else(|| invalid("email", "E-mail is not configured: set [mail]."))?;
            let checked = mailer.check(mailbox);
            checked.map_err(|error| invalid("email", format!("'{mailbox}': {error}.")))?;
        }
        let alert = BalanceAlert {
            account,
            below: params.below,
            webhook: params.webhook,
            email: params.email,
            is_low: false,
        };
        let set = self.storage.notices.set_alert(account, Some(alert.clone())).await;
        set.map_err(no_such_account)?;
        if params.new_secret {
            self.secrets.renew(account).await.map_err(no_such_account)?;
        }
        Ok(alert)
    }

    /// Checks the balances of all accounts with an alert, and sends the notices that are due. A
    /// failure is logged, and the next pass tries again.
    pub async fn send_alerts(&self) {
        self.check_balances().await;
        self.send_due().await;
    }

    async fn check_balances(&self) {
        let mut after = None;
        loop {
            let page = match self.storage.notices.alerts(after, PAGE).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!(%error, "cannot read the low-balance alerts");
                    return;
                }
            };
            let Some(last) = page.last() else { return };
            after = Some(last.account);
            for alert in page {
                if let Err(error) = self.check_balance(&alert).await {
                    tracing::warn!(%error, account.id = %alert.account, "cannot check the low-balance alert of {}", alert.account);
                }
            }
        }
    }

    async fn check_balance(&self, alert: &BalanceAlert) -> Result<(), StorageError> {
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

    /// Returns the notices of a low balance, one for each channel of the alert.
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
            let due = match self
                .storage
                .notices
                .claim(now, now.plus(CLAIM_TIMEOUT), BATCH)
                .await
            {
                Ok(due) => due,
                Err(error) => {
                    tracing::warn!(%error, "cannot claim due notices");
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
        let wait = attempts.checked_sub(1).and_then(|sent| RETRY_INTERVALS.get(sent));
        let outcome = match (sent, wait) {
            (Ok(()), _) => NoticeOutcome::Delivered,
            (Err(error), Some(wait)) if !error.is_final => NoticeOutcome::Retry {
                due_at: self.clock.now().plus(*wait),
                why: error.detail,
            },
            (Err(error), _) => {
                tracing::warn!(%error, account.id = %notice.account, "giving up on the delivery of {}", notice.id);
                NoticeOutcome::Failed { why: error.detail }
            }
        };
        if let Err(error) = self.storage.notices.finish(notice, outcome).await {
            tracing::warn!(%error, notice.id = %notice.id, "cannot store the outcome of {}; the notice may be sent again", notice.id);
        }
    }

    async fn post(&self, notice: &Notice) -> Result<(), NotifyError> {
        let alert = self
            .storage
            .notices
            .alert(notice.account)
            .await
            .map_err(storage_unavailable)?;
        if alert.is_none() {
            return Err(NotifyError::permanent(
                "the account no longer has a low-balance alert",
            ));
        }
        let secret = self
            .secrets
            .of(notice.account)
            .await
            .map_err(storage_unavailable)?;
        let post = Post {
            url: notice.address.clone(),
            headers: secret.headers(&notice.id.to_string(), self.clock.now(), &notice.body),
            body: notice.body.clone().into(),
        };
        self.poster.post(&post).await
    }

    async fn mail(&self, notice: &Notice) -> Result<(), NotifyError> {
        let mailer = self.mailer.as_ref();
        let mailer = mailer.ok_or_else(|| NotifyError::transient("e-mail is not configured: set [mail]"))?;
        let body: serde_json::Value = serde_json::from_str(&notice.body).unwrap_or_default();
        let field = |name: &str| body["data"][name].as_str().unwrap_or("?").to_owned();
        let (credits, below) = (field("credits"), field("below"));
        let mail = Mail {
            id: notice.id.to_string(),
            to: notice.address.clone(),
            subject: format!("{}: {credits} credits are left", self.sender),
            text: format!(
                "The balance of {} is {credits} credits, which is below the threshold of {below}.\n\n\
                 New requests fail with status 402 if they can cost more than the available credits and plan \
                 allowance. Running requests are not stopped. Add credits to continue.\n",
                notice.account
            ),
        };
        mailer.send(&mail).await
    }
}

/// Converts a storage failure into a transient notification error.
fn storage_unavailable(error: StorageError) -> NotifyError {
    NotifyError::transient(error.to_string())
}

/// Returns the creation time before which delivered and failed notices are deleted.
pub fn retention_start(now: Timestamp) -> Timestamp {
    now.minus(RETENTION)
}
