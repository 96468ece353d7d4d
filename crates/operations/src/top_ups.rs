//! Commands on top-ups: credits sold through a payment provider.

use serde::{Deserialize, Serialize};
use tollgate_billing::TopUps;
use tollgate_storage::{AutoTopUp, TopUp};
use tollgate_types::{AccountId, Credits, Error, ErrorCode, SubscriptionId, TopUpId};
use utoipa::ToSchema;

use crate::accounts::{find, no_such_account};
use crate::operation::{Completed, Declaration, Operation};
use crate::permission::Permission;
use crate::{Actor, Operations};

/// Default number of top-ups per page.
const PAGE: u32 = 200;

/// Advice in errors about accounts that cannot buy credits.
const GRANT_HINT: &str = "use `tollgate credits grant` instead";

/// Creates a checkout page for credits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenTopUp {
    /// Account that receives the credits.
    pub account: AccountId,
    /// Number of credits to sell.
    pub credits: Credits,
}

impl Operation for OpenTopUp {
    const NAME: &'static str = "open_top_up";
    type Reply = PageView;

    fn declaration(&self) -> Declaration {
        Declaration::change("top_up.open", Permission::Grants).extending(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        check_time(operations, self.account, GRANT_HINT).await?;
        let opened = seller(operations)?.open(self.account, self.credits).await?;
        let view = PageView {
            url: opened.url,
            top_up: Some(TopUpView::of(&opened.top_up)),
            subscription: None,
        };
        Ok(view.into())
    }
}

/// Creates a page with the account's receipts and cards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenPortal {
    pub account: AccountId,
}

impl Operation for OpenPortal {
    const NAME: &'static str = "open_portal";
    type Reply = PageView;

    fn declaration(&self) -> Declaration {
        Declaration::change("top_up.portal", Permission::Grants).extending(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let view = PageView {
            url: seller(operations)?.open_portal(self.account).await?,
            top_up: None,
            subscription: None,
        };
        Ok(view.into())
    }
}

/// Lists top-ups, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListTopUps {
    /// Account of the top-ups; `None` for all accounts.
    pub account: Option<AccountId>,
    /// Id of the last top-up of the previous page.
    #[serde(default)]
    pub before: Option<TopUpId>,
    /// Page size; `None` for 200.
    #[serde(default)]
    pub limit: Option<u32>,
}

impl Operation for ListTopUps {
    const NAME: &'static str = "list_top_ups";
    type Reply = Vec<TopUpView>;

    fn declaration(&self) -> Declaration {
        Declaration::read()
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        if let Some(account) = self.account {
            find(operations, account).await?;
        }
        let limit = self.limit.unwrap_or(PAGE);
        let found = operations
            .storage
            .top_ups
            .list(self.account, self.before, limit)
            .await;
        let found = found.map_err(Error::internal)?;
        Ok(found.iter().map(TopUpView::of).collect::<Vec<_>>().into())
    }
}

/// Returns the automatic top-up of an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShowAutoTopUp {
    pub account: AccountId,
}

impl Operation for ShowAutoTopUp {
    const NAME: &'static str = "show_auto_top_up";
    type Reply = Option<AutoView>;

    fn declaration(&self) -> Declaration {
        Declaration::read().of_account(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        find(operations, self.account).await?;
        let auto = operations.storage.top_ups.auto(self.account).await;
        Ok(auto.map_err(Error::internal)?.map(AutoView::from).into())
    }
}

/// Sets the automatic top-up of an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetAutoTopUp {
    pub account: AccountId,
    /// Threshold in credits. A top-up starts when the available credits, without plan allowances,
    /// are below it.
    pub below: Credits,
    /// Number of credits that each automatic top-up buys.
    pub amount: Credits,
    /// Maximum number of credits that automatic top-ups buy per calendar month (UTC).
    pub monthly_limit: Credits,
}

impl Operation for SetAutoTopUp {
    const NAME: &'static str = "set_auto_top_up";
    type Reply = AutoView;

    fn declaration(&self) -> Declaration {
        Declaration::change("top_up.set_auto", Permission::Grants).extending(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        check_time(operations, self.account, GRANT_HINT).await?;
        let auto = AutoTopUp {
            account: self.account,
            below: self.below,
            amount: self.amount,
            monthly_limit: self.monthly_limit,
            failures: 0,
        };
        let set = seller(operations)?.set_auto(self.account, Some(auto)).await?;
        let set = set.ok_or_else(|| Error::internal("the automatic top-up was not stored"))?;
        Ok(AutoView::from(set).into())
    }
}

/// Removes the automatic top-up of an account. It works without a payment provider, because sales
/// may have been disabled since the automatic top-up was set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemoveAutoTopUp {
    pub account: AccountId,
}

impl Operation for RemoveAutoTopUp {
    const NAME: &'static str = "remove_auto_top_up";
    type Reply = Option<AutoView>;

    fn declaration(&self) -> Declaration {
        Declaration::change("top_up.stop_auto", Permission::Grants).extending(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let removed = operations.storage.top_ups.set_auto(self.account, None).await;
        removed.map_err(no_such_account)?;
        Ok(None.into())
    }
}

/// Checks all balances now and runs due top-ups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunTopUps;

impl Operation for RunTopUps {
    const NAME: &'static str = "run_top_ups";
    type Reply = ();

    fn declaration(&self) -> Declaration {
        Declaration::change("top_up.fill_up", Permission::Grants)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        seller(operations)?.fill_up().await;
        Ok(().into())
    }
}

/// Returns an error for an account with a test clock, because payments happen in real time.
/// `instead` is the advice in the error message.
pub(crate) async fn check_time(
    operations: &Operations,
    account: AccountId,
    instead: &str,
) -> Result<(), Error> {
    if find(operations, account).await?.test_clock.is_some() {
        let message = format!("An account with a test clock cannot buy credits or plans; {instead}.");
        return Err(Error::new(ErrorCode::InvalidParameter, message).with_param("account"));
    }
    Ok(())
}

/// A page of the payment provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageView {
    /// URL for the payer.
    pub url: String,
    /// The top-up that the page sells; `None` for other pages.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub top_up: Option<TopUpView>,
    /// Id of the subscription that starts when the page is paid; `None` for other pages.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub subscription: Option<SubscriptionId>,
}

/// A purchase of credits through the payment provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopUpView {
    /// Id of the top-up: `topup_…`.
    #[schema(value_type = String)]
    pub id: TopUpId,
    /// Account that receives the credits.
    #[schema(value_type = String)]
    pub account: AccountId,
    /// Display name of the account.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false, required = false)]
    pub account_name: Option<String>,
    /// `checkout`: paid on a checkout page. `auto`: charged automatically to a saved card.
    pub kind: String,
    /// `pending`, `paid` or `failed`.
    pub state: String,
    /// Amount of money in the smallest currency unit: the requested amount, or the paid amount
    /// after the payment.
    pub amount: i64,
    /// Currency of `amount`, as a lower-case ISO 4217 code such as `usd`.
    pub currency: String,
    /// Number of purchased credits.
    #[schema(value_type = String)]
    pub credits: Credits,
    /// The payment provider's id of the payment; null until the top-up is paid.
    pub reference: Option<String>,
    /// Id of the resulting grant; null until the top-up is paid.
    #[schema(value_type = Option<String>)]
    pub grant: Option<tollgate_types::id::TransferId>,
    /// Amount returned to the payer, in the smallest currency unit.
    pub returned: i64,
    /// Reason of the failure; null unless the payment failed.
    pub failure: Option<String>,
    /// Creation time, RFC 3339.
    pub created_at: String,
}

impl TopUpView {
    fn of(top_up: &TopUp) -> Self {
        Self {
            id: top_up.id,
            account: top_up.account,
            account_name: None,
            kind: top_up.kind.as_str().to_owned(),
            state: top_up.state.as_str().to_owned(),
            amount: top_up.money.amount,
            currency: top_up.money.currency.to_string(),
            credits: top_up.credits,
            reference: top_up.reference.clone(),
            grant: top_up.grant,
            returned: top_up.returned,
            failure: top_up.failure.clone(),
            created_at: top_up.created_at.to_rfc3339(),
        }
    }
}

/// The automatic top-up of an account. It charges the first saved payment method that the payment
/// provider lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AutoView {
    /// Account that receives the credits.
    #[schema(value_type = String)]
    pub account: AccountId,
    /// Threshold in credits. A top-up starts when the available credits, without plan allowances,
    /// are below it.
    #[schema(value_type = String)]
    pub below: Credits,
    /// Number of credits that each automatic top-up buys.
    #[schema(value_type = String)]
    pub amount: Credits,
    /// Maximum number of credits that automatic top-ups buy per calendar month (UTC).
    #[schema(value_type = String)]
    pub monthly_limit: Credits,
    /// Number of consecutive failed charges. After three, automatic top-ups pause until they are
    /// set again.
    pub failures: u32,
}

impl From<AutoTopUp> for AutoView {
    fn from(auto: AutoTopUp) -> Self {
        Self {
            account: auto.account,
            below: auto.below,
            amount: auto.amount,
            monthly_limit: auto.monthly_limit,
            failures: auto.failures,
        }
    }
}

pub(crate) fn seller(operations: &Operations) -> Result<&TopUps, Error> {
    operations.top_ups.as_deref().ok_or_else(|| {
        let message = "Sales are disabled: no payment provider is configured. Set provider in [payments], or use `tollgate credits grant` or `tollgate subscriptions create` instead.";
        Error::new(ErrorCode::InvalidParameter, message).with_param("payments.provider")
    })
}
