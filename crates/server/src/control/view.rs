//! What commands answer. The command line prints it as a table or as JSON.

use serde::{Deserialize, Serialize};
use tollgate_billing::{CheckReport, Plan};
use tollgate_storage::{Account, AccountState, Balance, Key, KeyState, Subscription, SubscriptionEvent};
use tollgate_types::{AccountId, Credits, KeyId, SubscriptionId, Timestamp};

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reply", content = "value")]
pub enum Reply {
    /// An account, with its balance where it was asked for.
    Account(AccountView),
    /// Accounts.
    Accounts(Vec<AccountView>),
    /// A key that was just made: the only time that it is shown.
    CreatedKey(CreatedKeyView),
    /// A key.
    Key(KeyView),
    /// Keys.
    Keys(Vec<KeyView>),
    /// What an account can spend.
    Balance(BalanceView),
    /// Plans.
    Plans(Vec<PlanView>),
    /// A subscription, with what happened to it where that was asked for.
    Subscription(SubscriptionView),
    /// Subscriptions.
    Subscriptions(Vec<SubscriptionView>),
    /// Models.
    Models(Vec<ModelView>),
    /// What the check found.
    Check(CheckView),
}

/// An account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccountView {
    /// Id.
    pub id: AccountId,
    /// For people.
    pub name: String,
    /// `active` or `suspended`.
    pub state: String,
    /// Requests per minute; null for the default.
    pub rpm: Option<u32>,
    /// Tokens per minute; null for the default.
    pub tpm: Option<u64>,
    /// RFC 3339.
    pub created_at: String,
    /// What it can spend, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub balance: Option<BalanceView>,
}

impl AccountView {
    /// An account without its balance.
    pub fn of(account: &Account) -> Self {
        Self {
            id: account.id,
            name: account.name.clone(),
            state: match account.state {
                AccountState::Active => "active".to_owned(),
                AccountState::Suspended => "suspended".to_owned(),
            },
            rpm: account.limits.rpm,
            tpm: account.limits.tpm,
            created_at: account.created_at.to_rfc3339(),
            balance: None,
        }
    }
}

/// What an account can spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BalanceView {
    /// What can be spent.
    pub credits: Credits,
    /// What is held by calls that run.
    pub held: Credits,
}

impl From<Balance> for BalanceView {
    fn from(balance: Balance) -> Self {
        Self {
            credits: balance.credits,
            held: balance.held,
        }
    }
}

/// A key that was just made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedKeyView {
    /// Id.
    pub id: KeyId,
    /// The key itself.
    pub key: String,
}

/// A key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyView {
    /// Id.
    pub id: KeyId,
    /// Whose.
    pub account: AccountId,
    /// For people.
    pub name: String,
    /// The last four characters.
    pub last4: String,
    /// `strict` or `lenient`.
    #[serde(default)]
    pub compat: String,
    /// `live` or `test`.
    #[serde(default)]
    pub mode: String,
    /// `active`, `expired`, or `revoked`, which an expired key can be, too.
    pub state: String,
    /// RFC 3339.
    pub created_at: String,
    /// RFC 3339; null when it never expires.
    pub expires_at: Option<String>,
}

impl KeyView {
    /// A key as it is now.
    pub fn of(key: &Key, now: Timestamp) -> Self {
        let expired = key.expires_at.is_some_and(|at| at <= now);
        let state = match key.state {
            KeyState::Revoked => "revoked",
            KeyState::Active if expired => "expired",
            KeyState::Active => "active",
        };
        Self {
            id: key.id,
            account: key.account,
            name: key.name.clone(),
            last4: key.last4.clone(),
            compat: key.compat.as_str().to_owned(),
            mode: key.mode.as_str().to_owned(),
            state: state.to_owned(),
            created_at: key.created_at.to_rfc3339(),
            expires_at: key.expires_at.map(|at| at.to_rfc3339()),
        }
    }
}

/// A plan that can be subscribed to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanView {
    /// What to give as `--plan`.
    pub name: String,
    /// Credits that a period costs.
    pub price: Credits,
    /// `monthly` or `yearly`.
    pub cadence: String,
    /// `credits` or `provider`.
    pub payer: String,
    /// Credits that a week includes.
    pub allowance: Credits,
    /// Patterns of the models that it covers.
    pub models: Vec<String>,
}

impl PlanView {
    /// A plan as it is offered.
    pub fn of(plan: &Plan) -> Self {
        Self {
            name: plan.name.to_string(),
            price: plan.price,
            cadence: plan.cadence.as_str().to_owned(),
            payer: plan.payer.as_str().to_owned(),
            allowance: plan.allowance,
            models: plan.models.clone(),
        }
    }
}

/// A subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubscriptionView {
    /// Id.
    pub id: SubscriptionId,
    /// Whose.
    pub account: AccountId,
    /// `plan` or `agent`.
    pub product: String,
    /// The plan's name, or the agent's id.
    pub subject: String,
    /// `active`, `past_due`, `canceled` or `expired`.
    pub state: String,
    /// Credits that a period costs.
    pub price: Credits,
    /// `monthly` or `yearly`.
    pub cadence: String,
    /// `credits` or `provider`.
    pub payer: String,
    /// When it began, RFC 3339.
    pub started_at: String,
    /// The number of the period that was paid last, from 0.
    pub period: i64,
    /// When it is over, RFC 3339.
    pub paid_through: String,
    /// Whether it ends then.
    pub cancel_at_period_end: bool,
    /// Since when a period is owed, RFC 3339.
    pub past_due_since: Option<String>,
    /// The week, while the subscription has one.
    pub week: Option<WeekView>,
    /// What happened to it, oldest first, where that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub events: Vec<EventView>,
}

/// A week of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeekView {
    /// RFC 3339.
    pub start: String,
    /// RFC 3339.
    pub end: String,
    /// Credits that it includes.
    pub limit: Credits,
    /// Credits of these that are used, or held by calls that run.
    pub used: Credits,
}

impl SubscriptionView {
    /// A subscription without its events; `left` is what is left of the account's open week.
    pub fn of(subscription: &Subscription, left: Credits, now: Timestamp) -> Self {
        let terms = &subscription.terms;
        let week = subscription.week_at(left, now).map(|week| WeekView {
            start: week.start.to_rfc3339(),
            end: week.end.to_rfc3339(),
            limit: week.limit,
            used: week.used,
        });
        Self {
            id: terms.id,
            account: terms.account,
            product: terms.product.as_str().to_owned(),
            subject: terms.subject.to_string(),
            state: subscription.state.as_str().to_owned(),
            price: terms.price,
            cadence: terms.cadence.as_str().to_owned(),
            payer: terms.payer.as_str().to_owned(),
            started_at: terms.anchor.to_rfc3339(),
            period: subscription.period,
            paid_through: terms.paid_through.to_rfc3339(),
            cancel_at_period_end: subscription.cancel_at_period_end,
            past_due_since: subscription.past_due_since.map(Timestamp::to_rfc3339),
            week,
            events: Vec::new(),
        }
    }
}

/// What happened to a subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventView {
    /// RFC 3339.
    pub at: String,
    /// `created`, `renewed`, `past_due`, `cancel_requested`, `resumed`, `canceled` or `expired`.
    pub kind: String,
    /// What the subscription was afterwards.
    pub state: String,
    /// The period that was paid last.
    pub period: i64,
}

impl EventView {
    /// An event.
    pub fn of(event: &SubscriptionEvent) -> Self {
        Self {
            at: event.at.to_rfc3339(),
            kind: event.kind.clone(),
            state: event.state.as_str().to_owned(),
            period: event.period,
        }
    }
}

/// A model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelView {
    /// What to send as `model`.
    pub id: String,
    /// For people.
    pub display_name: String,
    /// ISO date or `-`.
    pub release_date: String,
    /// Credits per 1,000,000 input tokens.
    pub input_price: Credits,
    /// Credits per 1,000,000 output tokens.
    pub output_price: Credits,
    /// Tokens.
    pub context_window: Option<u64>,
    /// Where it is reached, `provider/model`.
    pub targets: Vec<String>,
}

/// What `ledger check` found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckView {
    /// Whether every promise is kept.
    pub clean: bool,
    /// Books read.
    pub accounts: u64,
    /// Transfers read.
    pub transfers: u64,
    /// Usage rows read.
    pub usage_rows: u64,
    /// Holds that are not resolved.
    pub open_holds: u64,
    /// What callers paid.
    pub revenue: Credits,
    /// What the operator bore.
    pub overrun: Credits,
    /// Calls that a crash cut off; they were not charged.
    pub crashed: u64,
    /// How many faults there are.
    pub fault_count: u64,
    /// The first of them.
    pub faults: Vec<String>,
}

impl From<&CheckReport> for CheckView {
    fn from(report: &CheckReport) -> Self {
        let credits = |nanos: i128| Credits::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX));
        Self {
            clean: report.is_clean(),
            accounts: report.accounts,
            transfers: report.transfers,
            usage_rows: report.usage_rows,
            open_holds: report.open_holds,
            revenue: credits(report.revenue),
            overrun: credits(report.overrun),
            crashed: report.crashed,
            fault_count: report.fault_count,
            faults: report.faults.iter().map(ToString::to_string).collect(),
        }
    }
}
