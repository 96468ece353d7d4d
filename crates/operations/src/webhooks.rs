//! Commands on the webhook deliveries of jobs.

use serde::{Deserialize, Serialize};
use tollgate_jobs::event_id;
use tollgate_storage::{DeliveryState, JobDelivery};
use tollgate_types::{AccountId, Error, ErrorCode, JobId, JobStatus};
use utoipa::ToSchema;

use crate::accounts::find;
use crate::operation::{Completed, Declaration, Operation};
use crate::permission::{MemberPermission, Permission};
use crate::{Actor, Operations};

/// Lists the webhook deliveries of the ended jobs of an account, newest job first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListDeliveries {
    pub account: AccountId,
    /// Job of the last delivery of the previous page.
    pub before: Option<JobId>,
    /// Maximum number of deliveries to return.
    pub limit: u32,
}

impl Operation for ListDeliveries {
    const NAME: &'static str = "list_deliveries";
    type Reply = Vec<DeliveryView>;

    fn declaration(&self) -> Declaration {
        Declaration::read()
            .for_members(MemberPermission::Manage)
            .of_account(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        find(operations, self.account).await?;
        let webhooks = &operations.storage.webhooks;
        let found = webhooks.list(self.account, self.before, self.limit).await;
        let views = found.map_err(Error::from)?;
        let views = views
            .iter()
            .map(|one| DeliveryView::of(operations, self.account, one));
        Ok(views.collect::<Vec<_>>().into())
    }
}

/// Sends the webhook of an ended job again, also if it was delivered or has failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Redeliver {
    pub account: AccountId,
    pub job: JobId,
}

impl Operation for Redeliver {
    const NAME: &'static str = "redeliver";
    type Reply = DeliveryView;

    fn declaration(&self) -> Declaration {
        Declaration::change("webhook.redeliver", Permission::Accounts)
            .for_members(MemberPermission::Manage)
            .of_account(self.account)
            .of_object(self.job)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let (webhooks, now) = (&operations.storage.webhooks, operations.clock.now());
        let found = webhooks.redeliver(self.account, self.job, now).await;
        let found = found.map_err(Error::from)?.ok_or_else(|| {
            let message = "There is no ended job with a webhook and this id.";
            Error::new(ErrorCode::NotFound, message)
        })?;
        Ok(DeliveryView::of(operations, self.account, &found).into())
    }
}

/// The webhook delivery of an ended job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeliveryView {
    /// Id of the job: `job_…`.
    #[schema(value_type = String)]
    pub id: JobId,
    /// Id of the event, sent as `webhook-id`: `evt_…`.
    pub event_id: String,
    /// Type of the job, such as `image`.
    pub job_type: String,
    /// Final status of the job.
    #[schema(value_type = String)]
    pub job_status: JobStatus,
    /// Webhook URL without its query, which may contain secrets.
    pub url: String,
    /// `pending`, `delivered` or `failed`.
    pub state: String,
    /// Number of delivery attempts so far.
    pub attempts: u32,
    /// Error of the last attempt; null if the attempt succeeded or none was made.
    pub failure: Option<String>,
    /// Time when the job ended, RFC 3339.
    pub ended_at: String,
    /// Due time of the next attempt, RFC 3339; null unless the delivery is pending.
    pub due_at: Option<String>,
    /// Time when the receiver accepted the delivery, RFC 3339; null until then.
    pub delivered_at: Option<String>,
}

impl DeliveryView {
    fn of(operations: &Operations, account: AccountId, found: &JobDelivery) -> Self {
        let (id, delivery) = (found.job, &found.delivery);
        let url = operations.vault.open(account, id.as_u128(), &found.webhook);
        let url = String::from_utf8(url.unwrap_or_default()).unwrap_or_default();
        let is_pending = delivery.state == DeliveryState::Pending;
        Self {
            id,
            event_id: event_id(id),
            job_type: found.kind.to_string(),
            job_status: found.status,
            url: without_query(&url),
            state: delivery.state.as_str().to_owned(),
            attempts: delivery.attempts,
            failure: delivery.failure.clone(),
            ended_at: found.completed_at.to_rfc3339(),
            due_at: is_pending.then(|| delivery.due_at.to_rfc3339()),
            delivered_at: delivery.delivered_at.map(|at| at.to_rfc3339()),
        }
    }
}

/// Returns a URL without query, fragment and user name.
fn without_query(url: &str) -> String {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let url = &url[..end];
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.find('/').unwrap_or(rest.len());
            let (authority, path) = rest.split_at(host);
            let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            format!("{scheme}://{authority}{path}")
        }
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_shown_without_their_secrets() {
        for (url, shown) in [
            ("https://example.com/hook?token=x", "https://example.com/hook"),
            (
                "https://me:pass@example.com:8443/a@b#c",
                "https://example.com:8443/a@b",
            ),
            ("https://example.com", "https://example.com"),
            ("https://example.com?token=a/b@c", "https://example.com"),
            ("", ""),
        ] {
            assert_eq!(without_query(url), shown);
        }
    }
}
