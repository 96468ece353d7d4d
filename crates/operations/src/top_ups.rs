//! Commands on top-ups: credits sold through a payment provider.

use serde::{Deserialize, Serialize};
use tollgate_billing::TopUps;
use tollgate_storage::{AutoTopUp, TopUp};
use tollgate_types::{AccountId, Credits, Error, ErrorCode, SubscriptionId, TopUpId};
use utoipa::ToSchema;

use crate::Operations;
use crate::accounts::{find, no_such_account};
use crate::view::Reply;

/// Default number of top-ups per page.
const PAGE: u32 = 200;

/// Advice in errors about accounts that cannot buy credits.
const GRANT_HINT: &str = "use `tollgate credits grant` instead";

/// An action on top-ups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum TopUpAction {
    /// Creates a checkout page for credits.
    Open {
        /// Account that receives the credits.
        account: AccountId,
        /// Number of credits to sell.
        credits: Credits,
    },
    /// Creates a page with the account's receipts and cards.
    Portal { account: AccountId },
    /// Lists top-ups, newest first.
    List {
        /// Account of the top-ups; `None` for all accounts.
        account: Option<AccountId>,
        /// Id of the last top-up of the previous page.
        #[serde(default)]
        before: Option<TopUpId>,
        /// Page size; `None` for 200.
        #[serde(default)]
        limit: Option<u32>,
    },
    /// Returns the automatic top-up of an account.
    ShowAuto { account: AccountId },
    /// Sets the automatic top-up of an account.
    SetAuto {
        account: AccountId,
        /// Threshold in credits. A top-up starts when the available credits, without plan
        /// allowances, are below it.
        below: Credits,
        /// Number of credits that each automatic top-up buys.
        amount: Credits,
        /// Maximum number of credits that automatic top-ups buy per calendar month (UTC).
        monthly_limit: Credits,
    },
    /// Checks all balances now and runs due top-ups.
    FillUp,
    /// Removes the automatic top-up of an account.
    StopAuto { account: AccountId },
}

impl TopUpAction {
    /// Whether the action changes data here or at the payment provider.
    pub(crate) fn changes(&self) -> bool {
        self.audit_record().is_some()
    }

    /// Returns the action name for the audit log and the account; `None` for actions that only
    /// read.
    pub(crate) fn audit_record(&self) -> Option<(&'static str, Option<AccountId>)> {
        match self {
            TopUpAction::Open { account, .. } => Some(("top_up.open", Some(*account))),
            TopUpAction::Portal { account } => Some(("top_up.portal", Some(*account))),
            TopUpAction::SetAuto { account, .. } => Some(("top_up.set_auto", Some(*account))),
            TopUpAction::StopAuto { account } => Some(("top_up.stop_auto", Some(*account))),
            TopUpAction::FillUp => Some(("top_up.fill_up", None)),
            TopUpAction::List { .. } | TopUpAction::ShowAuto { .. } => None,
        }
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
    /// Unique id of the top-up.
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
    /// Requested amount of money, or the paid amount once it is paid, in the smallest currency
    /// unit.
    pub amount: i64,
    /// Currency code of `amount`.
    pub currency: String,
    /// Number of purchased credits.
    #[schema(value_type = String)]
    pub credits: Credits,
    /// The payment provider's id of the payment; null before it is paid.
    pub reference: Option<String>,
    /// Id of the resulting grant; null before it is paid.
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

/// The automatic top-up of an account, which charges the last used card.
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

pub(crate) async fn execute(operations: &Operations, action: TopUpAction) -> Result<Reply, Error> {
    match action {
        TopUpAction::Open { account, credits } => {
            check_time(operations, account, GRANT_HINT).await?;
            let opened = seller(operations)?.open(account, credits).await?;
            Ok(Reply::Page(PageView {
                url: opened.url,
                top_up: Some(TopUpView::of(&opened.top_up)),
                subscription: None,
            }))
        }
        TopUpAction::Portal { account } => Ok(Reply::Page(PageView {
            url: seller(operations)?.open_portal(account).await?,
            top_up: None,
            subscription: None,
        })),
        TopUpAction::List {
            account,
            before,
            limit,
        } => {
            if let Some(account) = account {
                find(operations, account).await?;
            }
            let limit = limit.unwrap_or(PAGE);
            let found = operations.storage.top_ups.list(account, before, limit).await;
            let found = found.map_err(Error::internal)?;
            Ok(Reply::TopUps(found.iter().map(TopUpView::of).collect()))
        }
        TopUpAction::ShowAuto { account } => {
            find(operations, account).await?;
            let auto = operations
                .storage
                .top_ups
                .auto(account)
                .await
                .map_err(Error::internal)?;
            Ok(Reply::AutoTopUp(auto.map(AutoView::from)))
        }
        TopUpAction::SetAuto {
            account,
            below,
            amount,
            monthly_limit,
        } => {
            check_time(operations, account, GRANT_HINT).await?;
            let auto = AutoTopUp {
                account,
                below,
                amount,
                monthly_limit,
                failures: 0,
            };
            let set = seller(operations)?.set_auto(account, Some(auto)).await?;
            Ok(Reply::AutoTopUp(set.map(AutoView::from)))
        }
        TopUpAction::FillUp => {
            seller(operations)?.fill_up().await;
            Ok(Reply::Done)
        }
        // This action works without a payment provider, because sales may have been disabled since
        // the automatic top-up was set.
        TopUpAction::StopAuto { account } => {
            let stopped = operations.storage.top_ups.set_auto(account, None).await;
            stopped.map_err(no_such_account)?;
            Ok(Reply::AutoTopUp(None))
        }
    }
}

pub(crate) fn seller(operations: &Operations) -> Result<&TopUps, Error> {
    operations.top_ups.as_deref().ok_or_else(|| {
        let message = "Sales are disabled: set provider in [payments]. `tollgate credits grant` and `subscriptions create` work without it.";
        Error::new(ErrorCode::InvalidParameter, message).with_param("payments.provider")
    })
}
