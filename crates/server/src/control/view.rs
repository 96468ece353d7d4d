//! What commands answer. The command line prints it as a table or as JSON, the admin API as JSON.

pub mod admin;
pub mod prices;
pub mod providers;
mod recorded;

use std::collections::BTreeMap;

use super::receipts::{LedgerAuditView, ReceiptView};
use serde::{Deserialize, Serialize};
use tollgate_billing::{CheckReport, Plan};
use tollgate_storage::audit::{TransferRow, TransferSubject};
use tollgate_storage::report::ChargeSum;
use tollgate_storage::{
    Account, AccountState, Balance, Key, KeyState, Lot, ProviderSubscription, Subscription,
    SubscriptionEvent, UsagePart, UsageRow,
};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, HoldId, KeyId, RequestId, SubscriptionId, Timestamp, Unit};
use utoipa::ToSchema;

use prices::{PriceChangeView, PriceCheckView, PriceView};
use providers::ProviderView;

use admin::{AdminView, AuditView, CreatedAdminView, MemberView};

use super::alerts::{AlertView, NoticeView};
use super::batches::BatchView;
use super::top_ups::{AutoView, PageView, TopUpView};

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
    /// What was put into an account.
    Granted(GrantedView),
    /// What is left of grants and refunds.
    Lots(Vec<LotView>),
    /// What was given back of a call's charge.
    Refund(RefundView),
    /// What was taken back of a grant.
    Withdrawal(WithdrawalView),
    /// A page of the payment provider.
    Page(PageView),
    /// Purchases of credits.
    TopUps(Vec<TopUpView>),
    /// By what a balance is filled up, if by anything.
    AutoTopUp(Option<AutoView>),
    /// When an account is told that its balance is low, if it is.
    Alert(Option<AlertView>),
    /// What an account was told.
    Notices(Vec<NoticeView>),
    /// It was done; there is nothing to tell.
    Done,
    /// Batches.
    Batches(Vec<BatchView>),
    /// A batch.
    Batch(Box<BatchView>),
    /// Plans.
    Plans(Vec<PlanView>),
    /// A subscription, with what happened to it where that was asked for.
    Subscription(SubscriptionView),
    /// Subscriptions.
    Subscriptions(Vec<SubscriptionView>),
    /// A page of transfers.
    Transfers(Vec<TransferView>),
    /// A page of usage rows.
    UsageRows(Vec<UsageView>),
    /// A month of an account.
    Statement(Box<StatementView>),
    /// Models.
    Models(Vec<ModelView>),
    /// What the check found.
    Check(CheckView),
    /// What the audit found.
    LedgerAudit(LedgerAuditView),
    /// A charge with its arithmetic.
    Receipt(Box<ReceiptView>),
    /// An administrator who was just made: the only time that the token is shown.
    CreatedAdmin(CreatedAdminView),
    /// An administrator.
    Admin(AdminView),
    /// Administrators.
    Admins(Vec<AdminView>),
    /// A page of the audit log.
    Audit(Vec<AuditView>),
    /// Providers in use.
    Providers(Vec<ProviderView>),
    /// Prices in force.
    Prices(Vec<PriceView>),
    /// Changes of a model's prices.
    PriceHistory(Vec<PriceChangeView>),
    /// How prices differ from those in force.
    PriceCheck(PriceCheckView),
    /// A member of an account.
    Member(MemberView),
    /// Members of an account.
    Members(Vec<MemberView>),
}

/// An account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AccountView {
    /// Id.
    #[schema(value_type = String)]
    pub id: AccountId,
    /// For people.
    pub name: String,
    /// `active` or `suspended`.
    pub state: String,
    /// Requests per minute; null for the default.
    pub rpm: Option<u32>,
    /// Tokens per minute; null for the default.
    pub tpm: Option<u64>,
    /// Keys that are not revoked; null for the default.
    pub keys: Option<u32>,
    /// GPUs at once; null for the default. Nothing counts them yet.
    pub gpus: Option<u32>,
    /// Hosted agents; null for the default. Nothing counts them yet.
    pub agents: Option<u32>,
    /// Saved chats; null for the default. Nothing counts them yet.
    pub chats: Option<u32>,
    /// Files that are kept; null for the default.
    #[serde(default)]
    pub files: Option<u32>,
    /// GiB of all of them together; null for the default.
    #[serde(default)]
    pub files_gib: Option<u32>,
    /// Tokens that its unfinished batches may consume together; null for the default.
    #[serde(default)]
    pub batch_tokens: Option<u64>,
    /// By how many seconds its test clock is ahead, where it has one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub test_clock: Option<u64>,
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
            keys: account.limits.keys,
            gpus: account.limits.gpus,
            agents: account.limits.agents,
            chats: account.limits.chats,
            files: account.limits.files,
            files_gib: account.limits.files_gib,
            batch_tokens: account.limits.batch_tokens,
            test_clock: account.test_clock.map(|ahead| ahead.as_secs()),
            created_at: account.created_at.to_rfc3339(),
            balance: None,
        }
    }
}

/// What an account can spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BalanceView {
    /// What can be spent.
    #[schema(value_type = String)]
    pub credits: Credits,
    /// What is held by calls that run.
    #[schema(value_type = String)]
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

/// What was put into an account, and what it can spend now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GrantedView {
    /// Id of the grant; that of its lot.
    #[schema(value_type = String)]
    pub id: TransferId,
    /// `purchase` or `promotion`.
    pub kind: String,
    /// How many.
    #[schema(value_type = String)]
    pub amount: Credits,
    /// Lower ones are spent first.
    pub priority: u8,
    /// RFC 3339; null when they never expire.
    pub expires_at: Option<String>,
    /// What the operator wrote.
    pub note: String,
    /// Whether the same was sent before, and nothing was granted now.
    pub repeated: bool,
    /// What can be spent.
    #[schema(value_type = String)]
    pub credits: Credits,
    /// What is held by calls that run.
    #[schema(value_type = String)]
    pub held: Credits,
}

/// Credits that came in together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LotView {
    /// Id of the grant or refund that made it.
    #[schema(value_type = String)]
    pub id: TransferId,
    /// `purchase`, `promotion` or `refund`.
    pub kind: String,
    /// How many there were.
    #[schema(value_type = String)]
    pub amount: Credits,
    /// How many are left, those that calls hold included.
    #[schema(value_type = String)]
    pub remaining: Credits,
    /// How many were gone with their time.
    #[schema(value_type = String)]
    pub expired: Credits,
    /// How many were taken back.
    #[schema(value_type = String)]
    pub withdrawn: Credits,
    /// Lower ones are spent first.
    pub priority: u8,
    /// RFC 3339.
    pub created_at: String,
    /// RFC 3339; null when they never expire.
    pub expires_at: Option<String>,
    /// What the operator wrote.
    pub note: String,
}

impl LotView {
    /// A lot as it is now.
    pub fn of(lot: &Lot) -> Self {
        Self {
            id: lot.id,
            kind: lot.terms.kind.as_str().to_owned(),
            amount: lot.amount,
            remaining: lot.remaining,
            expired: lot.expired,
            withdrawn: lot.withdrawn,
            priority: lot.terms.priority,
            created_at: lot.created_at.to_rfc3339(),
            expires_at: lot.terms.expires_at.map(Timestamp::to_rfc3339),
            note: lot.terms.note.clone(),
        }
    }
}

/// What was given back of a call's charge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefundView {
    /// Id; where credits were given back also that of their lot.
    #[schema(value_type = String)]
    pub id: TransferId,
    /// Whose.
    #[schema(value_type = String)]
    pub account: AccountId,
    /// The request of the call.
    #[schema(value_type = String)]
    pub request: RequestId,
    /// How much became credits.
    #[schema(value_type = String)]
    pub credits: Credits,
    /// How much went back to the week of a plan.
    #[schema(value_type = String)]
    pub allowance: Credits,
    /// RFC 3339.
    pub created_at: String,
    /// What the operator wrote.
    pub reason: String,
    /// Whether the same was sent before, and nothing was given back now.
    pub repeated: bool,
}

/// What was taken back of a grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WithdrawalView {
    /// Id of the grant.
    #[schema(value_type = String)]
    pub id: TransferId,
    /// Credits that were taken back.
    #[schema(value_type = String)]
    pub withdrawn: Credits,
}

/// A key that was just made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedKeyView {
    /// Id.
    #[schema(value_type = String)]
    pub id: KeyId,
    /// The key itself.
    pub key: String,
}

/// A key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyView {
    /// Id.
    #[schema(value_type = String)]
    pub id: KeyId,
    /// Whose.
    #[schema(value_type = String)]
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
    /// Whether pictures are waited for, unless the request says otherwise.
    #[serde(default)]
    pub sync: bool,
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
            sync: key.sync,
            state: state.to_owned(),
            created_at: key.created_at.to_rfc3339(),
            expires_at: key.expires_at.map(|at| at.to_rfc3339()),
        }
    }
}

/// A plan that can be subscribed to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanView {
    /// What to give as `--plan`.
    pub name: String,
    /// Credits that a period costs.
    #[schema(value_type = String)]
    pub price: Credits,
    /// `monthly` or `yearly`.
    pub cadence: String,
    /// `credits` or `provider`.
    pub payer: String,
    /// Credits that a week includes.
    #[schema(value_type = String)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SubscriptionView {
    /// Id.
    #[schema(value_type = String)]
    pub id: SubscriptionId,
    /// Whose.
    #[schema(value_type = String)]
    pub account: AccountId,
    /// `plan` or `agent`.
    pub product: String,
    /// The plan's name, or the agent's id.
    pub subject: String,
    /// `active`, `past_due`, `canceled` or `expired`.
    pub state: String,
    /// Credits that a period costs.
    #[schema(value_type = String)]
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
    /// The plan of the next period, when it is another one, and its cadence.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_plan: Option<[String; 2]>,
    /// What renews it at a payment provider, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub renewed_by: Option<Box<RenewedByView>>,
    /// The week, while the subscription has one.
    pub week: Option<WeekView>,
    /// What happened to it, oldest first, where that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub events: Vec<EventView>,
}

/// What renews a subscription at a payment provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RenewedByView {
    /// The provider's name.
    pub provider: String,
    /// The provider's id of its subscription.
    pub reference: Option<String>,
    /// What the provider takes for a period, in the smallest unit of the currency and without taxes.
    pub amount: i64,
    /// Of what.
    pub currency: String,
    /// The provider's id of the invoice that paid the last period.
    pub invoice: Option<String>,
    /// What the provider is known to do when a period is over: `renews`, `ends` or `ended`.
    pub course: Option<String>,
}

impl RenewedByView {
    /// What renews one.
    pub fn of(found: &ProviderSubscription) -> Self {
        Self {
            provider: found.provider.clone(),
            reference: found.reference.clone(),
            amount: found.money.amount,
            currency: found.money.currency.to_string(),
            invoice: found.invoice.clone(),
            course: found.course.map(|course| course.as_str().to_owned()),
        }
    }
}

/// A week of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WeekView {
    /// RFC 3339.
    pub start: String,
    /// RFC 3339.
    pub end: String,
    /// Credits that it includes.
    #[schema(value_type = String)]
    pub limit: Credits,
    /// Credits of these that are used, or held by calls that run.
    #[schema(value_type = String)]
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
            next_plan: (subscription.next.as_ref())
                .map(|next| [next.name.to_string(), next.cadence.as_str().to_owned()]),
            renewed_by: None,
            week,
            events: Vec::new(),
        }
    }
}

/// What happened to a subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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

/// A transfer. The order of the fields is that of the columns of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TransferView {
    /// Whose book.
    #[schema(value_type = String)]
    pub account_id: AccountId,
    /// What it belongs to: `hold_…` for a call, else `xfer_…`.
    pub entry_id: String,
    /// What that is: `hold`, `grant`, `window`, `period`, `lot` or `refund`.
    pub subject: String,
    /// Which step of it.
    pub leg: String,
    /// The ledger account that loses the amount.
    pub debit: String,
    /// The ledger account that gains it.
    pub credit: String,
    /// Credits.
    #[schema(value_type = String)]
    pub amount: Credits,
    /// RFC 3339.
    pub created_at: String,
    /// The prices that applied, if it is of a call.
    pub price_version: Option<String>,
    /// Its place in the account's chain; none when it was made before there was one.
    pub sequence: Option<i64>,
    /// The hash of the transfer before, 64 hexadecimal digits.
    pub prev_hash: Option<String>,
    /// Its own.
    pub hash: Option<String>,
}

impl TransferView {
    /// A transfer of an account's book.
    pub fn of(account: AccountId, row: &TransferRow) -> Self {
        let entry_id = match row.subject {
            TransferSubject::Hold(id) => id.to_string(),
            other => TransferId::from_u128(other.entry()).to_string(),
        };
        Self {
            account_id: account,
            entry_id,
            subject: row.subject.as_str().to_owned(),
            leg: row.leg.as_str().to_owned(),
            debit: row.debit.as_str().to_owned(),
            credit: row.credit.as_str().to_owned(),
            amount: row.amount,
            created_at: row.created_at.to_rfc3339(),
            price_version: row.price_version.map(|version| version.to_string()),
            sequence: row.link.map(|link| link.sequence),
            prev_hash: row.link.map(|link| link.previous.to_string()),
            hash: row.link.map(|link| link.hash.to_string()),
        }
    }
}

/// A usage row. The order of the fields is that of the columns of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageView {
    /// Whose.
    #[schema(value_type = String)]
    pub account_id: AccountId,
    /// Id; that of its hold.
    #[schema(value_type = String)]
    pub id: HoldId,
    /// The request's `x-request-id`.
    #[schema(value_type = String)]
    pub request_id: RequestId,
    /// The key that was used.
    #[schema(value_type = Option<String>)]
    pub key_id: Option<KeyId>,
    /// When it was accepted, RFC 3339.
    pub created_at: String,
    /// When the first content arrived, RFC 3339.
    pub first_at: Option<String>,
    /// When it ended, RFC 3339.
    pub ended_at: String,
    /// The path.
    pub endpoint: String,
    /// The model as the request named it.
    pub model: String,
    /// Which upstream served.
    pub provider: String,
    /// How it ended.
    pub outcome: String,
    /// Whether the gateway counted because no report came.
    pub estimated: bool,
    /// What was held.
    #[schema(value_type = String)]
    pub held: Credits,
    /// What it cost, what a plan included of it as well.
    #[schema(value_type = String)]
    pub cost: Credits,
    /// How much of the cost a plan's allowance paid.
    #[schema(value_type = String)]
    pub included: Credits,
    /// How much of the cost was given back.
    #[schema(value_type = String)]
    pub refunded: Credits,
    /// What it cost beyond the hold; the operator bears it.
    #[schema(value_type = String)]
    pub overrun: Credits,
    /// `none`, `partly` or `fully`.
    pub coverage: String,
    /// The plan at the time of the request.
    pub plan_name: Option<String>,
    /// Names the prices that applied.
    pub price_version: String,
    /// Tokens read afresh.
    pub input_tokens: u64,
    /// Tokens read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Tokens written into it for some minutes.
    pub cache_write_tokens: u64,
    /// Tokens written into it for an hour.
    pub cache_write_1h_tokens: u64,
    /// Tokens of sound that went in.
    pub input_audio_tokens: u64,
    /// Tokens of the visible answer.
    pub output_tokens: u64,
    /// Tokens of reasoning.
    pub reasoning_tokens: u64,
    /// Tokens of sound that came out.
    pub output_audio_tokens: u64,
    /// Pictures that were made, in millionths of a plain one.
    pub image_millionths: u64,
    /// Film that was made, in microseconds of plain film.
    pub video_microseconds: u64,
    /// Sound that was made or heard, in microseconds.
    pub audio_microseconds: u64,
    /// Characters that were spoken.
    pub characters: u64,
    /// What each model did, when several did: their costs make `cost` and `overrun` together.
    #[serde(default)]
    pub parts: Vec<UsagePartView>,
}

/// What one model did of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsagePartView {
    /// What it is, such as `script` or `scene 3`.
    pub name: String,
    /// The model.
    pub model: String,
    /// Which upstream served.
    pub provider: String,
    /// What it consumed, by class; what is not named is zero.
    pub usage: BTreeMap<String, u64>,
    /// What that costs.
    #[schema(value_type = String)]
    pub cost: Credits,
    /// Names the prices that applied.
    pub price_version: String,
}

impl UsagePartView {
    fn of(part: &UsagePart) -> Self {
        let classes = part.usage.iter();
        Self {
            name: part.name.to_string(),
            model: part.model.to_string(),
            provider: part.provider.to_string(),
            usage: classes
                .map(|(unit, count)| (unit.as_str().to_owned(), count))
                .collect(),
            cost: part.cost,
            price_version: part.price_version.to_string(),
        }
    }
}

impl UsageView {
    /// A usage row with its parts.
    pub fn of(row: &UsageRow, parts: &[UsagePart]) -> Self {
        Self {
            account_id: row.account,
            id: row.id,
            request_id: row.request,
            key_id: row.key,
            created_at: row.created_at.to_rfc3339(),
            first_at: row.first_at.map(Timestamp::to_rfc3339),
            ended_at: row.ended_at.to_rfc3339(),
            endpoint: row.endpoint.to_string(),
            model: row.model.to_string(),
            provider: row.provider.to_string(),
            outcome: row.outcome.as_str().to_owned(),
            estimated: row.estimated,
            held: row.held,
            cost: row.charge,
            included: row.included,
            refunded: row.refunded,
            overrun: row.overrun,
            coverage: row.coverage().as_str().to_owned(),
            plan_name: row.plan.as_ref().map(|plan| plan.name.to_string()),
            price_version: row.price_version.to_string(),
            input_tokens: row.usage.get(Unit::Input),
            cache_read_tokens: row.usage.get(Unit::CacheRead),
            cache_write_tokens: row.usage.get(Unit::CacheWrite),
            cache_write_1h_tokens: row.usage.get(Unit::CacheWriteHour),
            input_audio_tokens: row.usage.get(Unit::InputAudio),
            output_tokens: row.usage.get(Unit::Output),
            reasoning_tokens: row.usage.get(Unit::Reasoning),
            output_audio_tokens: row.usage.get(Unit::OutputAudio),
            image_millionths: row.usage.get(Unit::Image),
            video_microseconds: row.usage.get(Unit::Video),
            audio_microseconds: row.usage.get(Unit::Audio),
            characters: row.usage.get(Unit::Character),
            parts: parts.iter().map(UsagePartView::of).collect(),
        }
    }
}

/// A month of an account. `opening + purchases + promotions + refunds - charged - plan_fees - expired - withdrawn` is
/// `closing`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StatementView {
    /// Whose.
    #[schema(value_type = String)]
    pub account: AccountId,
    /// Such as `2026-11`.
    pub month: String,
    /// When it begins, RFC 3339.
    pub start: String,
    /// When it is over, RFC 3339.
    pub end: String,
    /// What the account had then, what calls held of it included.
    #[schema(value_type = String)]
    pub opening: Credits,
    /// What calls held of it.
    #[schema(value_type = String)]
    pub opening_held: Credits,
    /// Credits that were paid for.
    #[schema(value_type = String)]
    pub purchases: Credits,
    /// Credits that the operator gave.
    #[schema(value_type = String)]
    pub promotions: Credits,
    /// Charges that became credits again.
    #[schema(value_type = String)]
    pub refunds: Credits,
    /// What calls cost credits.
    #[schema(value_type = String)]
    pub charged: Credits,
    /// What plans cost credits.
    #[schema(value_type = String)]
    pub plan_fees: Credits,
    /// How many periods that paid.
    pub plan_periods: u64,
    /// What was gone with its time.
    #[schema(value_type = String)]
    pub expired: Credits,
    /// What was taken back of purchases.
    #[schema(value_type = String)]
    pub withdrawn: Credits,
    /// What the account has at the end of the month, or now.
    #[schema(value_type = String)]
    pub closing: Credits,
    /// What calls hold of it.
    #[schema(value_type = String)]
    pub closing_held: Credits,
    /// What calls cost allowances; no credits.
    #[schema(value_type = String)]
    pub allowance_used: Credits,
    /// What went back to weeks of plans; no credits.
    #[schema(value_type = String)]
    pub allowance_refunded: Credits,
    /// What calls cost, by model and endpoint.
    pub charges: Vec<ChargeView>,
    /// What does not add up; nothing may.
    pub faults: Vec<String>,
}

/// What calls of one model at one endpoint cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChargeView {
    /// The model as the requests named it.
    pub model: String,
    /// The path.
    pub endpoint: String,
    /// Calls that cost something.
    pub calls: u64,
    /// What credits paid.
    #[schema(value_type = String)]
    pub paid: Credits,
    /// What allowances paid.
    #[schema(value_type = String)]
    pub included: Credits,
}

impl ChargeView {
    /// A sum of charges.
    pub fn of(sum: &ChargeSum) -> Self {
        Self {
            model: sum.model.to_string(),
            endpoint: sum.endpoint.to_string(),
            calls: sum.calls,
            paid: sum.paid,
            included: sum.included,
        }
    }
}

/// A model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelView {
    /// What to send as `model`.
    pub id: String,
    /// For people.
    pub display_name: String,
    /// ISO date or `-`.
    pub release_date: String,
    /// Credits per 1,000,000 input tokens.
    #[schema(value_type = String)]
    pub input_price: Credits,
    /// Credits per 1,000,000 output tokens.
    #[schema(value_type = String)]
    pub output_price: Credits,
    /// Tokens.
    pub context_window: Option<u64>,
    /// Where it is reached, `provider/model`.
    pub targets: Vec<String>,
}

/// What `ledger check` found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
    #[schema(value_type = String)]
    pub revenue: Credits,
    /// What the operator bore.
    #[schema(value_type = String)]
    pub overrun: Credits,
    /// Calls that a crash cut off; they were not charged.
    pub crashed: u64,
    /// Chains of transfers, one for each account that has any.
    pub chain_heads: u64,
    /// Transfers that were made before there were chains.
    pub unchained: u64,
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
            chain_heads: report.chain_heads,
            unchained: report.unchained,
            fault_count: report.fault_count,
            faults: report.faults.iter().map(ToString::to_string).collect(),
        }
    }
}
