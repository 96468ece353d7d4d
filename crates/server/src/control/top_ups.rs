//! Top-ups from the command line.

use serde::{Deserialize, Serialize};
use tollgate_billing::TopUps;
use tollgate_storage::{AutoTopUp, TopUp};
use tollgate_types::{AccountId, Credits, Error, ErrorCode, SubscriptionId, TopUpId};

use super::accounts::{find, no_such_account};
use super::view::Reply;
use crate::wiring::Domains;

/// Top-ups that one page has.
const PAGE: u32 = 200;

/// What gives credits to an account that buys none.
const GIVE: &str = "`tollgate credits grant` gives it credits";

/// What is to be done about top-ups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "wish")]
pub enum TopUpWish {
    /// Opens a page on which somebody pays.
    Open {
        /// For which account.
        account: AccountId,
        /// How many.
        credits: Credits,
    },
    /// Opens the page with receipts and cards.
    Portal {
        /// Of which account.
        account: AccountId,
    },
    /// Lists top-ups, newest first.
    List {
        /// Of which account; of all when it is not said.
        account: Option<AccountId>,
    },
    /// Shows by what a balance is filled up.
    ShowAuto {
        /// Whose.
        account: AccountId,
    },
    /// Sets by what a balance is filled up.
    SetAuto {
        /// Whose.
        account: AccountId,
        /// When less than this can be spent.
        below: Credits,
        /// By how many credits.
        amount: Credits,
        /// The most credits of a calendar month.
        monthly_limit: Credits,
    },
    /// Looks at all balances now.
    FillUp,
    /// A balance is no longer filled up.
    StopAuto {
        /// Whose.
        account: AccountId,
    },
}

impl TopUpWish {
    /// Whether something is changed, here or at the payment provider.
    pub(super) fn changes(&self) -> bool {
        self.deed().is_some()
    }

    /// What the audit log says of it, and whose it is; nothing where nothing is changed.
    pub(super) fn deed(&self) -> Option<(&'static str, Option<AccountId>)> {
        match self {
            TopUpWish::Open { account, .. } => Some(("top_up.open", Some(*account))),
            TopUpWish::Portal { account } => Some(("top_up.portal", Some(*account))),
            TopUpWish::SetAuto { account, .. } => Some(("top_up.set_auto", Some(*account))),
            TopUpWish::StopAuto { account } => Some(("top_up.stop_auto", Some(*account))),
            TopUpWish::FillUp => Some(("top_up.fill_up", None)),
            TopUpWish::List { .. } | TopUpWish::ShowAuto { .. } => None,
        }
    }
}

/// Money is paid by the time that it is. `instead` says what to do about an account with a time of its own.
pub(super) async fn check_time(domains: &Domains, account: AccountId, instead: &str) -> Result<(), Error> {
    if find(domains, account).await?.test_clock.is_some() {
        let message = format!("An account with a test clock buys nothing; {instead}.");
        return Err(Error::new(ErrorCode::InvalidParameter, message).with_param("account"));
    }
    Ok(())
}

/// A page of the payment provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageView {
    /// Where it is.
    pub url: String,
    /// The top-up that is paid on it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub top_up: Option<TopUpView>,
    /// The subscription that begins when it is paid.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub subscription: Option<SubscriptionId>,
}

/// A purchase of credits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopUpView {
    /// Id.
    pub id: TopUpId,
    /// Whose.
    pub account: AccountId,
    /// `checkout` or `auto`.
    pub kind: String,
    /// `pending`, `paid` or `failed`.
    pub state: String,
    /// What is paid, in the smallest unit of the currency.
    pub amount: i64,
    /// Of what.
    pub currency: String,
    /// What it buys.
    pub credits: Credits,
    /// The payment provider's id of the money.
    pub reference: Option<String>,
    /// The grant that it became.
    pub grant: Option<tollgate_types::id::TransferId>,
    /// What went back, in the smallest unit of the currency.
    pub returned: i64,
    /// Why it failed.
    pub failure: Option<String>,
    /// RFC 3339.
    pub created_at: String,
}

impl TopUpView {
    fn of(top_up: &TopUp) -> Self {
        Self {
            id: top_up.id,
            account: top_up.account,
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

/// By what a balance is filled up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutoView {
    /// Whose.
    pub account: AccountId,
    /// When less than this can be spent.
    pub below: Credits,
    /// By how many credits.
    pub amount: Credits,
    /// The most credits of a calendar month.
    pub monthly_limit: Credits,
    /// Charges that failed one after another; after three no further one is tried.
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

/// Carries it out.
pub(super) async fn carry_out(domains: &Domains, wish: TopUpWish) -> Result<Reply, Error> {
    match wish {
        TopUpWish::Open { account, credits } => {
            check_time(domains, account, GIVE).await?;
            let opened = seller(domains)?.open(account, credits).await?;
            Ok(Reply::Page(PageView {
                url: opened.url,
                top_up: Some(TopUpView::of(&opened.top_up)),
                subscription: None,
            }))
        }
        TopUpWish::Portal { account } => Ok(Reply::Page(PageView {
            url: seller(domains)?.open_portal(account).await?,
            top_up: None,
            subscription: None,
        })),
        TopUpWish::List { account } => {
            let found = domains.storage.top_ups.list(account, None, PAGE).await;
            let found = found.map_err(Error::internal)?;
            Ok(Reply::TopUps(found.iter().map(TopUpView::of).collect()))
        }
        TopUpWish::ShowAuto { account } => {
            let auto = domains
                .storage
                .top_ups
                .auto(account)
                .await
                .map_err(Error::internal)?;
            Ok(Reply::AutoTopUp(auto.map(AutoView::from)))
        }
        TopUpWish::SetAuto {
            account,
            below,
            amount,
            monthly_limit,
        } => {
            check_time(domains, account, GIVE).await?;
            let auto = AutoTopUp {
                account,
                below,
                amount,
                monthly_limit,
                failures: 0,
            };
            let set = seller(domains)?.set_auto(account, Some(auto)).await?;
            Ok(Reply::AutoTopUp(set.map(AutoView::from)))
        }
        TopUpWish::FillUp => {
            seller(domains)?.fill_up().await;
            Ok(Reply::Done)
        }
        // Also when nothing is sold any more.
        TopUpWish::StopAuto { account } => {
            let stopped = domains.storage.top_ups.set_auto(account, None).await;
            stopped.map_err(no_such_account)?;
            Ok(Reply::AutoTopUp(None))
        }
    }
}

pub(super) fn seller(domains: &Domains) -> Result<&TopUps, Error> {
    domains.top_ups.as_deref().ok_or_else(|| {
        let message = "Credits and plans are not sold here: set provider in [payments]. `tollgate credits grant` and `subscriptions create` work without it.";
        Error::new(ErrorCode::InvalidParameter, message).with_param("payments.provider")
    })
}
