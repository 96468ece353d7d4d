//! Alerts from the command line.

use serde::{Deserialize, Serialize};
use tollgate_billing::notices::AlertWish;
use tollgate_storage::{BalanceAlert, Notice};
use tollgate_types::{AccountId, Credits, Error, NoticeId};

use super::accounts::no_such_account;
use super::view::Reply;
use crate::wiring::Domains;

/// Notices that one page has.
const PAGE: u32 = 200;

/// What is to be done about alerts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "wish")]
pub enum AlertCommand {
    /// Sets when an account is told that its balance is low, and how.
    Set {
        /// Which account.
        account: AccountId,
        /// When less than this can be spent.
        below: Credits,
        /// An address to post to.
        webhook: Option<String>,
        /// A mailbox.
        email: Option<String>,
        /// Whether posts are signed with another secret from now on.
        new_secret: bool,
    },
    /// Shows it.
    Show {
        /// Of which account.
        account: AccountId,
    },
    /// The account is not told any more.
    Stop {
        /// Which account.
        account: AccountId,
    },
    /// Lists what an account was told.
    List {
        /// Which account.
        account: AccountId,
    },
    /// Looks at all balances now, and sends what is due.
    Send,
}

impl AlertCommand {
    /// What the audit log says of it, and whose it is; nothing where nothing is changed.
    pub(super) fn deed(&self) -> Option<(&'static str, AccountId)> {
        match self {
            AlertCommand::Set { account, .. } => Some(("alert.set", *account)),
            AlertCommand::Stop { account } => Some(("alert.remove", *account)),
            AlertCommand::Show { .. } | AlertCommand::List { .. } | AlertCommand::Send => None,
        }
    }
}

/// When an account is told that its balance is low, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertView {
    /// Which account.
    pub account: AccountId,
    /// When less than this can be spent.
    pub below: Credits,
    /// An address that is posted to.
    pub webhook: Option<String>,
    /// What posts are signed with.
    pub webhook_secret: Option<String>,
    /// A mailbox.
    pub email: Option<String>,
    /// Whether the account was told, and the balance has been low since.
    pub is_low: bool,
}

/// Something that an account was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoticeView {
    /// Id; `webhook-id` of the post.
    pub id: NoticeId,
    /// `webhook` or `email`.
    pub channel: String,
    /// Where.
    pub address: String,
    /// `pending`, `delivered` or `failed`.
    pub state: String,
    /// How often it was sent.
    pub attempts: u32,
    /// Why it did not arrive when it was sent last.
    pub failure: Option<String>,
    /// RFC 3339.
    pub created_at: String,
    /// When it is sent again, while it is pending.
    pub due_at: String,
}

impl NoticeView {
    fn of(notice: &Notice) -> Self {
        Self {
            id: notice.id,
            channel: notice.channel.as_str().to_owned(),
            address: notice.address.clone(),
            state: notice.state.as_str().to_owned(),
            attempts: notice.attempts,
            failure: notice.failure.clone(),
            created_at: notice.created_at.to_rfc3339(),
            due_at: notice.due_at.to_rfc3339(),
        }
    }
}

/// Carries it out.
pub(super) async fn carry_out(domains: &Domains, command: AlertCommand) -> Result<Reply, Error> {
    let store = &domains.storage.notices;
    match command {
        AlertCommand::Set {
            account,
            below,
            webhook,
            email,
            new_secret,
        } => {
            let wish = AlertWish {
                below,
                webhook,
                email,
                new_secret,
            };
            let alert = domains.notices.set_alert(account, wish).await?;
            Ok(Reply::Alert(Some(view(domains, alert).await?)))
        }
        AlertCommand::Show { account } => {
            let alert = store.alert(account).await.map_err(Error::internal)?;
            Ok(Reply::Alert(match alert {
                Some(alert) => Some(view(domains, alert).await?),
                None => None,
            }))
        }
        AlertCommand::Stop { account } => {
            let stopped = store.set_alert(account, None).await;
            stopped.map_err(no_such_account)?;
            Ok(Reply::Alert(None))
        }
        AlertCommand::List { account } => {
            let found = store.list(account, PAGE).await.map_err(Error::internal)?;
            Ok(Reply::Notices(found.iter().map(NoticeView::of).collect()))
        }
        AlertCommand::Send => {
            domains.notices.tell().await;
            Ok(Reply::Done)
        }
    }
}

async fn view(domains: &Domains, alert: BalanceAlert) -> Result<AlertView, Error> {
    let secret = domains.webhook_secrets.of(alert.account).await;
    let secret = secret.map_err(Error::internal)?.reveal();
    Ok(AlertView {
        account: alert.account,
        below: alert.below,
        webhook_secret: alert.webhook.as_ref().map(|_| secret),
        webhook: alert.webhook,
        email: alert.email,
        is_low: alert.is_low,
    })
}
