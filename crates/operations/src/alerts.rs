//! Commands on low-balance alerts and their deliveries.

use serde::{Deserialize, Serialize};
use tollgate_billing::notices::AlertParams;
use tollgate_storage::{BalanceAlert, Notice};
use tollgate_types::{AccountId, Credits, Error, NoticeId};
use utoipa::ToSchema;

use crate::Operations;
use crate::accounts::{find, no_such_account};
use crate::view::Reply;

/// Maximum number of listed deliveries.
const PAGE: u32 = 200;

/// An action on alerts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum AlertCommand {
    /// Sets the low-balance alert of an account.
    Set {
        account: AccountId,
        /// Threshold in credits. The alert is sent when the available credits, without plan
        /// allowances, fall below it.
        below: Credits,
        /// Webhook URL that receives the alert.
        webhook: Option<String>,
        /// E-mail address that receives the alert.
        email: Option<String>,
        /// Whether to replace the signing secret of webhooks.
        new_secret: bool,
    },
    /// Returns the alert of an account.
    Show { account: AccountId },
    /// Removes the alert of an account.
    Stop { account: AccountId },
    /// Lists the latest deliveries of an account, newest first.
    List { account: AccountId },
    /// Checks all balances now and sends due alerts.
    Send,
}

impl AlertCommand {
    /// Returns the action name for the audit log and the account; `None` for actions that record
    /// nothing.
    pub(crate) fn audit_record(&self) -> Option<(&'static str, AccountId)> {
        match self {
            AlertCommand::Set { account, .. } => Some(("alert.set", *account)),
            AlertCommand::Stop { account } => Some(("alert.remove", *account)),
            AlertCommand::Show { .. } | AlertCommand::List { .. } | AlertCommand::Send => None,
        }
    }
}

/// A low-balance alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlertView {
    /// Account whose balance is watched.
    #[schema(value_type = String)]
    pub account: AccountId,
    /// Threshold in credits. The alert is sent when the available credits, without plan allowances,
    /// fall below it.
    #[schema(value_type = String)]
    pub below: Credits,
    /// Webhook URL that receives the alert; null if none.
    pub webhook: Option<String>,
    /// Secret that signs webhooks; null without a webhook.
    pub webhook_secret: Option<String>,
    /// E-mail address that receives the alert; null if none.
    pub email: Option<String>,
    /// Whether the alert was sent and the balance has been low since.
    pub is_low: bool,
}

/// A delivery of an alert to a webhook or an e-mail address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NoticeView {
    /// Id of the delivery, sent as `webhook-id`.
    #[schema(value_type = String)]
    pub id: NoticeId,
    /// `webhook` or `email`.
    pub channel: String,
    /// Webhook URL or e-mail address.
    pub address: String,
    /// `pending`, `delivered` or `failed`.
    pub state: String,
    /// Number of delivery attempts so far.
    pub attempts: u32,
    /// Error of the last attempt; null if the attempt succeeded or none was made.
    pub failure: Option<String>,
    /// Creation time, RFC 3339.
    pub created_at: String,
    /// Due time of the next attempt while the delivery is pending, RFC 3339.
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

pub(crate) async fn execute(operations: &Operations, command: AlertCommand) -> Result<Reply, Error> {
    let store = &operations.storage.notices;
    match command {
        AlertCommand::Set {
            account,
            below,
            webhook,
            email,
            new_secret,
        } => {
            let params = AlertParams {
                below,
                webhook,
                email,
                new_secret,
            };
            let alert = operations.notices.set_alert(account, params).await?;
            Ok(Reply::Alert(Some(view(operations, alert).await?)))
        }
        AlertCommand::Show { account } => {
            find(operations, account).await?;
            let alert = store.alert(account).await.map_err(Error::internal)?;
            Ok(Reply::Alert(match alert {
                Some(alert) => Some(view(operations, alert).await?),
                None => None,
            }))
        }
        AlertCommand::Stop { account } => {
            let stopped = store.set_alert(account, None).await;
            stopped.map_err(no_such_account)?;
            Ok(Reply::Alert(None))
        }
        AlertCommand::List { account } => {
            find(operations, account).await?;
            let found = store.list(account, PAGE).await.map_err(Error::internal)?;
            Ok(Reply::Notices(found.iter().map(NoticeView::of).collect()))
        }
        AlertCommand::Send => {
            operations.notices.send_alerts().await;
            Ok(Reply::Done)
        }
    }
}

async fn view(operations: &Operations, alert: BalanceAlert) -> Result<AlertView, Error> {
    let secret = operations.webhook_secrets.of(alert.account).await;
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
