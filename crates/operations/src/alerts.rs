//! Commands on low-balance alerts and their deliveries.

use serde::{Deserialize, Serialize};
use tollgate_billing::notices::AlertParams;
use tollgate_storage::{BalanceAlert, Notice};
use tollgate_types::{AccountId, Credits, Error, NoticeId};
use utoipa::ToSchema;

use crate::accounts::{find, no_such_account};
use crate::operation::{Completed, Declaration, Operation};
use crate::permission::{MemberPermission, Permission};
use crate::{Actor, Operations};

/// Maximum number of listed deliveries.
const PAGE: u32 = 200;

/// Sets the low-balance alert of an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetAlert {
    pub account: AccountId,
    /// Threshold in credits. The alert is sent when the available credits, without plan allowances,
    /// fall below it.
    pub below: Credits,
    /// Webhook URL that receives the alert.
    pub webhook: Option<String>,
    /// E-mail address that receives the alert.
    pub email: Option<String>,
    /// Whether to replace the signing secret of webhooks.
    pub new_secret: bool,
}

impl Operation for SetAlert {
    const NAME: &'static str = "set_alert";
    type Reply = AlertView;

    fn declaration(&self) -> Declaration {
        Declaration::change("alert.set", Permission::Accounts).extending(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let params = AlertParams {
            below: self.below,
            webhook: self.webhook,
            email: self.email,
            new_secret: self.new_secret,
        };
        let alert = operations.notices.set_alert(self.account, params).await?;
        Ok(view(operations, alert).await?.into())
    }
}

/// Returns the alert of an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShowAlert {
    pub account: AccountId,
}

impl Operation for ShowAlert {
    const NAME: &'static str = "show_alert";
    type Reply = Option<AlertView>;

    fn declaration(&self) -> Declaration {
        // The reply contains the signing secret of the account's webhooks.
        Declaration::read().requiring(vec![Permission::Accounts])
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        find(operations, self.account).await?;
        let alert = operations.storage.notices.alert(self.account).await;
        let view = match alert.map_err(Error::internal)? {
            Some(alert) => Some(view(operations, alert).await?),
            None => None,
        };
        Ok(view.into())
    }
}

/// Removes the alert of an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemoveAlert {
    pub account: AccountId,
}

impl Operation for RemoveAlert {
    const NAME: &'static str = "remove_alert";
    type Reply = Option<AlertView>;

    fn declaration(&self) -> Declaration {
        Declaration::change("alert.remove", Permission::Accounts).extending(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let removed = operations.storage.notices.set_alert(self.account, None).await;
        removed.map_err(no_such_account)?;
        Ok(None.into())
    }
}

/// Lists the latest deliveries of an account, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListNotices {
    pub account: AccountId,
}

impl Operation for ListNotices {
    const NAME: &'static str = "list_notices";
    type Reply = Vec<NoticeView>;

    fn declaration(&self) -> Declaration {
        Declaration::read()
            .for_members(MemberPermission::Manage)
            .of_account(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        find(operations, self.account).await?;
        let found = operations.storage.notices.list(self.account, PAGE).await;
        let found = found.map_err(Error::internal)?;
        Ok(found.iter().map(NoticeView::of).collect::<Vec<_>>().into())
    }
}

/// Checks all balances now and sends due alerts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SendAlerts;

impl Operation for SendAlerts {
    const NAME: &'static str = "send_alerts";
    type Reply = ();

    fn declaration(&self) -> Declaration {
        Declaration::read().requiring(vec![Permission::Accounts])
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        operations.notices.send_alerts().await;
        Ok(().into())
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
