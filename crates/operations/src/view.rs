//! Replies to commands. The command line prints them as tables or as JSON; the admin API returns
//! JSON.

pub mod admin;
pub mod prices;
pub mod providers;
mod replies;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tollgate_billing::{CheckReport, Plan};
use tollgate_catalog::{Candidate, Model, Snapshot};
use tollgate_storage::audit::{TransferRow, TransferSubject};
use tollgate_storage::report::ChargeSum;
use tollgate_storage::{
    Account, Balance, Key, KeyState, Lot, ProviderSubscription, Subscription, SubscriptionEvent, UsagePart,
    UsageRow,
};
use tollgate_types::id::TransferId;
use tollgate_types::{
    AccountId, Credits, HoldId, KeyId, MemberId, Principal, RequestId, SubscriptionId, Timestamp, Unit,
};
use utoipa::ToSchema;

/// An account with its limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AccountView {
    /// Id of the account: `acct_…`.
    #[schema(value_type = String)]
    pub id: AccountId,
    /// Display name of the account.
    pub name: String,
    /// `active`, `suspended` or `closed`.
    pub state: String,
    /// Maximum number of requests per minute; null for the default.
    pub rpm: Option<u32>,
    /// Maximum number of tokens per minute; null for the default.
    pub tpm: Option<u64>,
    /// Maximum number of unrevoked keys; null for the default.
    pub keys: Option<u32>,
    /// Maximum number of concurrent GPUs; null for the default. Not enforced yet.
    pub gpus: Option<u32>,
    /// Maximum number of hosted agents; null for the default. Not enforced yet.
    pub agents: Option<u32>,
    /// Maximum number of saved chats; null for the default.
    pub chats: Option<u32>,
    /// Maximum number of stored files; null for the default.
    #[serde(default)]
    pub files: Option<u32>,
    /// Maximum total size of stored files, in GiB; null for the default.
    #[serde(default)]
    pub files_gib: Option<u32>,
    /// Maximum sum of the estimated tokens of all unfinished batches; null for the default.
    #[serde(default)]
    pub batch_tokens: Option<u64>,
    /// Lead of the account's test clock over the real time, in seconds. Absent without a test
    /// clock.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub test_clock: Option<u64>,
    /// Creation time, RFC 3339.
    pub created_at: String,
    /// Balance of the account. Only present when a single account is requested.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub balance: Option<BalanceView>,
    /// Effective limits: the account's own limits, and the defaults for all others. Only present
    /// when a single account is requested.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false, required = false)]
    pub limits_in_force: Option<LimitsView>,
}

impl AccountView {
    /// Returns the view of an account without its balance and effective limits.
    pub fn of(account: &Account) -> Self {
        Self {
            id: account.id,
            name: account.name.clone(),
            state: account.state.as_str().to_owned(),
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
            limits_in_force: None,
        }
    }
}

/// The credits and the allowance of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BalanceView {
    /// Available credits, without held credits and allowances.
    #[schema(value_type = String)]
    pub credits: Credits,
    /// Credits held by running calls.
    #[schema(value_type = String)]
    pub held: Credits,
    /// Unused allowance of the current week of an active plan. It covers only models of the plan.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = String, nullable = false, required = false)]
    pub allowance: Option<Credits>,
    /// Sum of `credits` and `allowance`. Only present with an active plan.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = String, nullable = false, required = false)]
    pub spendable: Option<Credits>,
}

impl From<Balance> for BalanceView {
    fn from(balance: Balance) -> Self {
        Self {
            credits: balance.credits,
            held: balance.held,
            allowance: None,
            spendable: None,
        }
    }
}

/// The effective limits of an account: its own limits, and the defaults of the settings for all
/// others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LimitsView {
    /// Maximum number of requests per minute.
    pub rpm: u32,
    /// Maximum number of tokens per minute.
    pub tpm: u64,
    /// Maximum number of unrevoked keys.
    pub keys: u32,
    /// Maximum number of saved chats.
    #[serde(default)]
    pub chats: u32,
    /// Maximum number of stored files.
    pub files: u64,
    /// Maximum total size of stored files, in GiB.
    pub files_gib: u64,
    /// Maximum sum of the estimated tokens of all unfinished batches.
    pub batch_tokens: u64,
}

/// A limit of an account with its present use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LimitView {
    /// `rpm`, `tpm`, `keys`, `chats`, `files`, `files_gib` or `batch_tokens`.
    pub name: String,
    /// Maximum, in the unit of the name: requests, tokens, GiB or items.
    pub limit: u64,
    /// Present use, of `rpm` and `tpm` in the last minute; null if it is unknown.
    pub used: Option<u64>,
}

/// A grant of credits, and the resulting balance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GrantedView {
    /// Id of the grant: `xfer_…`.
    #[schema(value_type = String)]
    pub id: TransferId,
    /// `purchase` or `promotion`.
    pub kind: String,
    /// Credits added by the grant.
    #[schema(value_type = String)]
    pub amount: Credits,
    /// Spending priority; lower values are spent first.
    pub priority: u8,
    /// Expiry of unused credits, RFC 3339; null for never.
    pub expires_at: Option<String>,
    /// Note for operators.
    pub note: String,
    /// Whether this request repeated an earlier grant with the same key, so that no credits were
    /// added.
    pub repeated: bool,
    /// Available credits, without held credits and allowances.
    #[schema(value_type = String)]
    pub credits: Credits,
    /// Credits held by running calls.
    #[schema(value_type = String)]
    pub held: Credits,
}

/// A lot: the credits of one grant or refund.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LotView {
    /// Id of the grant or refund: `xfer_…`.
    #[schema(value_type = String)]
    pub id: TransferId,
    /// `purchase`, `promotion` or `refund`.
    pub kind: String,
    /// Credits of the grant or refund.
    #[schema(value_type = String)]
    pub amount: Credits,
    /// Remaining credits, including those held by running calls.
    #[schema(value_type = String)]
    pub remaining: Credits,
    /// Credits that expired unused.
    #[schema(value_type = String)]
    pub expired: Credits,
    /// Credits that an operator withdrew or that were returned to the payer.
    #[schema(value_type = String)]
    pub withdrawn: Credits,
    /// Spending priority; lower values are spent first.
    pub priority: u8,
    /// Time of the grant or refund, RFC 3339.
    pub created_at: String,
    /// Expiry of the remaining credits, RFC 3339; null for never.
    pub expires_at: Option<String>,
    /// Note for operators.
    pub note: String,
}

impl LotView {
    /// Returns the view of a lot with its current remainder.
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

/// A refund of a call's charge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefundView {
    /// Id of the refund. Refunded credits form a lot with the same id.
    #[schema(value_type = String)]
    pub id: TransferId,
    /// Account that receives the refund.
    #[schema(value_type = String)]
    pub account: AccountId,
    /// Display name of the account.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false, required = false)]
    pub account_name: Option<String>,
    /// The `x-request-id` of the call.
    #[schema(value_type = String)]
    pub request: RequestId,
    /// Refunded credits, which return to the balance.
    #[schema(value_type = String)]
    pub credits: Credits,
    /// Refunded allowance, which returns to its week of the plan.
    #[schema(value_type = String)]
    pub allowance: Credits,
    /// Time of the refund, RFC 3339.
    pub created_at: String,
    /// Note for operators.
    pub reason: String,
    /// Whether this request repeated an earlier refund, so that nothing more was refunded.
    pub repeated: bool,
}

/// A withdrawal of the unused part of a grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WithdrawalView {
    /// Id of the grant: `xfer_…`.
    #[schema(value_type = String)]
    pub id: TransferId,
    /// Account that received the grant.
    #[schema(value_type = String)]
    pub account: AccountId,
    /// Credits removed from the grant.
    #[schema(value_type = String)]
    pub withdrawn: Credits,
}

/// A new API key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedKeyView {
    /// Id of the key: `key_…`.
    #[schema(value_type = String)]
    pub id: KeyId,
    /// The key itself. It is returned only once.
    pub key: String,
}

/// An API key, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyView {
    /// Id of the key: `key_…`.
    #[schema(value_type = String)]
    pub id: KeyId,
    /// Account that owns the key.
    #[schema(value_type = String)]
    pub account: AccountId,
    /// Display name of the key.
    pub name: String,
    /// Last four characters of the key.
    pub last4: String,
    /// Compatibility level: `strict`, `standard` or `lenient`.
    #[serde(default)]
    pub compat: String,
    /// `live` or `test`. Test keys reach only simulated models.
    #[serde(default)]
    pub mode: String,
    /// Whether image requests wait for the images by default, instead of returning a job.
    #[serde(default)]
    pub sync: bool,
    /// Ids of the models that the key may use, and patterns such as `acme/*`; null for all models.
    #[serde(default)]
    pub models: Option<Vec<String>>,
    /// Scopes of the key, such as `text`; null for all scopes.
    #[serde(default)]
    pub scopes: Option<Vec<String>>,
    /// `active`, `expired` or `revoked`. A revoked key that also expired is `revoked`.
    pub state: String,
    /// Id of the member who created the key in the console; null for other keys.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub created_by: Option<MemberId>,
    /// Id of the key that replaces this one after a rotation. A replaced key works until it
    /// expires, and does not count towards the maximum number of keys.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub replaced_by: Option<KeyId>,
    /// Creation time, RFC 3339.
    pub created_at: String,
    /// Expiry, RFC 3339; null for never.
    pub expires_at: Option<String>,
    /// Time when the key's latest finished call was accepted, RFC 3339; null if the key made none.
    /// Requests without a usage row, such as lists of models, do not count.
    #[serde(default)]
    pub last_used_at: Option<String>,
}

impl KeyView {
    /// Returns the view of a key: its state at `now` and the time of its last use.
    pub fn of(key: &Key, last_used: Option<Timestamp>, now: Timestamp) -> Self {
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
            models: key
                .rights
                .models
                .as_ref()
                .map(|models| models.as_slice().to_vec()),
            scopes: key
                .rights
                .scopes
                .map(|scopes| scopes.iter().map(|scope| scope.as_str().to_owned()).collect()),
            state: state.to_owned(),
            created_by: key.created_by,
            replaced_by: key.replaced_by,
            created_at: key.created_at.to_rfc3339(),
            expires_at: key.expires_at.map(|at| at.to_rfc3339()),
            last_used_at: last_used.map(Timestamp::to_rfc3339),
        }
    }
}

/// A plan offered for subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanView {
    /// Name of the plan, as sent in `plan`.
    pub name: String,
    /// Price of a period, in credits.
    #[schema(value_type = String)]
    pub price: Credits,
    /// Default length of a period: `monthly` or `yearly`.
    pub cadence: String,
    /// Source of the payment: `credits` of the account, or the payment `provider`.
    pub payer: String,
    /// Allowance of each week, in credits.
    #[schema(value_type = String)]
    pub allowance: Credits,
    /// Patterns of the ids of models that the allowance covers.
    pub models: Vec<String>,
}

impl PlanView {
    /// Returns the view of a plan in the settings.
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

/// A subscription of an account to a plan or an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SubscriptionView {
    /// Id of the subscription: `sub_…`.
    #[schema(value_type = String)]
    pub id: SubscriptionId,
    /// Account that owns the subscription.
    #[schema(value_type = String)]
    pub account: AccountId,
    /// Display name of the account.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false, required = false)]
    pub account_name: Option<String>,
    /// `plan` or `agent`.
    pub product: String,
    /// Name of the plan, or id of the agent.
    pub subject: String,
    /// `active`, `past_due`, `canceled` or `expired`.
    pub state: String,
    /// Price of a period, in credits.
    #[schema(value_type = String)]
    pub price: Credits,
    /// Length of a period: `monthly` or `yearly`.
    pub cadence: String,
    /// Source of the payment: `credits` of the account, or the payment `provider`.
    pub payer: String,
    /// Start of the subscription, RFC 3339.
    pub started_at: String,
    /// Number of the last paid period, starting at 0.
    pub period: i64,
    /// End of the last paid period, RFC 3339.
    pub paid_through: String,
    /// Whether the subscription ends at `paid_through`.
    pub cancel_at_period_end: bool,
    /// Time since which a payment is overdue, RFC 3339; null if none is overdue.
    pub past_due_since: Option<String>,
    /// Scheduled plan for the next period, as its name and cadence. Absent without a scheduled
    /// change.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_plan: Option<[String; 2]>,
    /// Subscription at the payment provider. Only present when a single subscription is requested
    /// and the provider bills it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub renewed_by: Option<Box<RenewedByView>>,
    /// Current week of the allowance; null if the subscription has none.
    pub week: Option<WeekView>,
    /// Events of the subscription, oldest first. Only present when a single subscription is
    /// requested.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub events: Vec<EventView>,
}

/// The subscription at the payment provider that bills a subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RenewedByView {
    /// Name of the payment provider.
    pub provider: String,
    /// The provider's id of its subscription; null until the first payment.
    pub reference: Option<String>,
    /// Amount that the provider charges per period, without taxes, in the smallest currency unit.
    pub amount: i64,
    /// Currency of `amount`, as a lower-case ISO 4217 code such as `usd`.
    pub currency: String,
    /// The provider's id of the invoice for the last paid period; null until the first payment.
    pub invoice: Option<String>,
    /// Renewal state that the provider last reported: `renews` or `ends` after the paid period, or
    /// `ended`; null until the first payment.
    pub course: Option<String>,
}

impl RenewedByView {
    /// Returns the view of a subscription at the payment provider.
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

/// One week of a plan's allowance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WeekView {
    /// Start of the week, RFC 3339.
    pub start: String,
    /// End of the week, RFC 3339.
    pub end: String,
    /// Allowance of the week, in credits.
    #[schema(value_type = String)]
    pub limit: Credits,
    /// Credits of the allowance that are spent, or held by running calls.
    #[schema(value_type = String)]
    pub used: Credits,
}

impl SubscriptionView {
    /// Returns the view of a subscription without its events. `left` is the unused allowance of the
    /// account's current week.
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
            account_name: None,
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

/// A change of a subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventView {
    /// Time of the event, RFC 3339.
    pub at: String,
    /// Type of the event: `created`, `renewed`, `past_due`, `cancel_requested`, `resumed`,
    /// `canceled`, `expired`, `plan_change_requested`, `plan_change_withdrawn` or `replaced`.
    pub kind: String,
    /// State of the subscription after the event.
    pub state: String,
    /// Number of the last paid period after the event, starting at 0.
    pub period: i64,
}

impl EventView {
    pub fn of(event: &SubscriptionEvent) -> Self {
        Self {
            at: event.at.to_rfc3339(),
            kind: event.kind.clone(),
            state: event.state.as_str().to_owned(),
            period: event.period,
        }
    }
}

/// A transfer in the ledger. The fields have the order of the columns of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TransferView {
    /// Account whose ledger contains the transfer.
    #[schema(value_type = String)]
    pub account_id: AccountId,
    /// Id of the subject: `hold_…` for a call, otherwise `xfer_…`.
    pub entry_id: String,
    /// Type of the subject: `hold`, `grant`, `window`, `period`, `lot`, `refund` or `lease`.
    pub subject: String,
    /// Leg of the subject's transfers, such as `settle` of a hold.
    pub leg: String,
    /// Debited ledger account, such as `cash`.
    pub debit: String,
    /// Credited ledger account, such as `credits`.
    pub credit: String,
    /// Credits that move from `debit` to `credit`.
    #[schema(value_type = String)]
    pub amount: Credits,
    /// Time of the transfer, RFC 3339.
    pub created_at: String,
    /// Version of the prices that applied: `pv_…`; null unless the subject is a call.
    pub price_version: Option<String>,
    /// Position in the account's hash chain, from 1; null for transfers older than the chain.
    pub sequence: Option<i64>,
    /// Hash of the previous transfer in the chain, 64 hexadecimal digits; null for transfers older
    /// than the chain.
    pub prev_hash: Option<String>,
    /// Hash of this transfer, 64 hexadecimal digits; null for transfers older than the chain.
    pub hash: Option<String>,
}

impl TransferView {
    /// Returns the view of a transfer in the ledger of `account`.
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

/// The usage row of one call. The fields have the order of the columns of an export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageView {
    /// Account that made the call.
    #[schema(value_type = String)]
    pub account_id: AccountId,
    /// Id of the usage row, equal to the id of its hold.
    #[schema(value_type = String)]
    pub id: HoldId,
    /// The `x-request-id` of the call.
    #[schema(value_type = String)]
    pub request_id: RequestId,
    /// Id of the API key that made the call; null if the call was made without a key.
    #[schema(value_type = Option<String>)]
    pub key_id: Option<KeyId>,
    /// Time when the request was accepted, RFC 3339.
    pub created_at: String,
    /// Time of the first content of the response, RFC 3339; null if no content was produced.
    pub first_at: Option<String>,
    /// Time when the call ended, RFC 3339.
    pub ended_at: String,
    /// Path of the endpoint, such as `/v1/chat/completions`.
    pub endpoint: String,
    /// Canonical id of the model.
    pub model: String,
    /// Name of the provider that served the call; empty if no provider or several providers served
    /// it.
    pub provider: String,
    /// Outcome of the call: `ok`, `client_gone`, `upstream_error`, `timeout`, `blocked_input`,
    /// `blocked_output`, `cancelled` or `crashed`.
    pub outcome: String,
    /// Whether the gateway counted the usage because the provider reported none.
    pub estimated: bool,
    /// Amount held before the call, an upper bound of its cost.
    #[schema(value_type = String)]
    pub held: Credits,
    /// Cost of the call in credits, including the part that a plan's allowance paid.
    #[schema(value_type = String)]
    pub cost: Credits,
    /// Part of the cost that a plan's allowance paid.
    #[schema(value_type = String)]
    pub included: Credits,
    /// Part of the cost that was refunded.
    #[schema(value_type = String)]
    pub refunded: Credits,
    /// Cost beyond the held amount, borne by the operator.
    #[schema(value_type = String)]
    pub overrun: Credits,
    /// Share of the cost that the allowance paid: `none`, `partly` or `fully`.
    pub coverage: String,
    /// Name of the plan that applied at the time of the request; null without a plan.
    pub plan_name: Option<String>,
    /// Version of the prices that applied: `pv_…`.
    pub price_version: String,
    /// Number of input tokens, except audio tokens and tokens read from or written to a cache.
    pub input_tokens: u64,
    /// Number of input tokens read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Number of input tokens written to the provider's cache with its default lifetime.
    pub cache_write_tokens: u64,
    /// Number of input tokens written to the provider's cache with a lifetime of one hour.
    pub cache_write_1h_tokens: u64,
    /// Number of input tokens of audio content.
    pub input_audio_tokens: u64,
    /// Number of output tokens, except reasoning and audio tokens.
    pub output_tokens: u64,
    /// Number of output tokens spent on reasoning.
    pub reasoning_tokens: u64,
    /// Number of output tokens of audio content.
    pub output_audio_tokens: u64,
    /// Generated images, in millionths of a standard image.
    pub image_millionths: u64,
    /// Generated video, in microseconds of standard video.
    pub video_microseconds: u64,
    /// Generated or transcribed audio, in microseconds.
    pub audio_microseconds: u64,
    /// Number of characters of text converted to speech.
    pub characters: u64,
    /// Model name in the request: an id, an alias or a bare name.
    #[serde(default)]
    pub requested_model: String,
    /// Name of the model at the provider that served the call; null if no provider or several
    /// models served it.
    #[serde(default)]
    pub upstream_model: Option<String>,
    /// Separately priced parts of the call, such as the scenes of a composed video; empty for other
    /// calls. The costs of the parts add up to `cost` plus `overrun`.
    #[serde(default)]
    pub parts: Vec<UsagePartView>,
    /// Number of queries to search backends.
    #[serde(default)]
    pub searches: u64,
    /// Number of input tokens of images, if the provider counts them separately.
    #[serde(default)]
    pub input_image_tokens: u64,
    /// Number of audio tokens read from the provider's cache, if the provider counts them
    /// separately.
    #[serde(default)]
    pub cache_read_audio_tokens: u64,
}

/// A separately priced part of a call, such as one scene of a composed video.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsagePartView {
    /// Name of the part, such as `script` or `scene 3`.
    pub name: String,
    /// Canonical id of the model.
    pub model: String,
    /// Name of the model at the provider that served the part; null if no provider served it.
    #[serde(default)]
    pub upstream_model: Option<String>,
    /// Name of the provider that served the part; empty if no provider served it.
    pub provider: String,
    /// Consumption by unit, such as `input` or `image`. Omitted units are zero.
    pub usage: BTreeMap<String, u64>,
    /// Cost of the part in credits.
    #[schema(value_type = String)]
    pub cost: Credits,
    /// Version of the prices that applied: `pv_…`.
    pub price_version: String,
}

impl UsagePartView {
    fn of(part: &UsagePart) -> Self {
        let classes = part.usage.iter();
        Self {
            name: part.name.to_string(),
            model: part.model.to_string(),
            upstream_model: part.upstream_model().map(str::to_owned),
            provider: part.provider().to_owned(),
            usage: classes
                .map(|(unit, count)| (unit.as_str().to_owned(), count))
                .collect(),
            cost: part.cost,
            price_version: part.price_version.to_string(),
        }
    }
}

impl UsageView {
    /// Returns the view of a usage row with its parts.
    pub fn of(row: &UsageRow, parts: &[UsagePart]) -> Self {
        Self {
            account_id: row.account,
            id: row.id,
            request_id: row.request,
            key_id: row.principal.and_then(Principal::key),
            created_at: row.created_at.to_rfc3339(),
            first_at: row.first_at.map(Timestamp::to_rfc3339),
            ended_at: row.ended_at.to_rfc3339(),
            endpoint: row.endpoint.to_string(),
            model: row.model.to_string(),
            provider: row.provider().to_owned(),
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
            requested_model: row.requested_model.to_string(),
            upstream_model: row.upstream_model().map(str::to_owned),
            parts: parts.iter().map(UsagePartView::of).collect(),
            searches: row.usage.searches(),
            input_image_tokens: row.usage.get(Unit::InputImage),
            cache_read_audio_tokens: row.usage.get(Unit::CacheReadAudio),
        }
    }
}

/// The statement of an account for one month.
/// `opening + purchases + promotions + refunds - charged - plan_fees - expired - withdrawn` equals
/// `closing`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StatementView {
    /// Account that the statement covers.
    #[schema(value_type = String)]
    pub account: AccountId,
    /// Display name of the account.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false, required = false)]
    pub account_name: Option<String>,
    /// Month, such as `2026-11`.
    pub month: String,
    /// Start of the month, RFC 3339.
    pub start: String,
    /// End of the month, RFC 3339.
    pub end: String,
    /// Credits at the start of the month, including held credits.
    #[schema(value_type = String)]
    pub opening: Credits,
    /// Part of `opening` that running calls held.
    #[schema(value_type = String)]
    pub opening_held: Credits,
    /// Credits bought in the month.
    #[schema(value_type = String)]
    pub purchases: Credits,
    /// Credits that the operator granted as promotions.
    #[schema(value_type = String)]
    pub promotions: Credits,
    /// Charges of calls that were refunded as credits.
    #[schema(value_type = String)]
    pub refunds: Credits,
    /// Charges of calls paid with credits.
    #[schema(value_type = String)]
    pub charged: Credits,
    /// Plan fees paid with credits.
    #[schema(value_type = String)]
    pub plan_fees: Credits,
    /// Number of plan periods that `plan_fees` paid.
    pub plan_periods: u64,
    /// Credits that expired unused.
    #[schema(value_type = String)]
    pub expired: Credits,
    /// Credits withdrawn from purchases and promotions.
    #[schema(value_type = String)]
    pub withdrawn: Credits,
    /// Credits at the end of the month, including held credits. In the current month, the credits
    /// at the time of the request.
    #[schema(value_type = String)]
    pub closing: Credits,
    /// Part of `closing` that running calls held.
    #[schema(value_type = String)]
    pub closing_held: Credits,
    /// Charges of calls paid with plan allowances. They do not change the balance.
    #[schema(value_type = String)]
    pub allowance_used: Credits,
    /// Charges refunded to plan allowances. They do not change the balance.
    #[schema(value_type = String)]
    pub allowance_refunded: Credits,
    /// Charges by model and endpoint.
    pub charges: Vec<ChargeView>,
    /// Descriptions of inconsistencies between the figures. The statement is correct if the list is
    /// empty.
    pub faults: Vec<String>,
}

/// Charges of all calls of one model at one endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChargeView {
    /// Canonical id of the model.
    pub model: String,
    /// Path of the endpoint, such as `/v1/chat/completions`.
    pub endpoint: String,
    /// Number of calls with a cost above zero.
    pub calls: u64,
    /// Part of the charges paid with credits.
    #[schema(value_type = String)]
    pub paid: Credits,
    /// Part of the charges paid with plan allowances.
    #[schema(value_type = String)]
    pub included: Credits,
}

impl ChargeView {
    /// Returns the view of a sum of charges.
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

/// A model of the catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelView {
    /// Id of the model, as sent in `model`.
    pub id: String,
    /// Display name of the model.
    pub display_name: String,
    /// Release date, such as `2026-11-20`; `-` if unknown.
    pub release_date: String,
    /// Credits per 1,000,000 input tokens; 0 if the model has no token price.
    #[schema(value_type = String)]
    pub input_price: Credits,
    /// Credits per 1,000,000 output tokens; 0 if the model has no token price.
    #[schema(value_type = String)]
    pub output_price: Credits,
    /// Credits per million units by unit, such as `input`, `cache_read`, `image` or `character`. A
    /// million of `image` is one image; a million of `video` or `audio` is one second.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, String>)]
    pub prices: BTreeMap<String, Credits>,
    /// Context window in tokens; null if unknown.
    pub context_window: Option<u64>,
    /// Targets that serve the model, as `provider/model`, in order of preference.
    pub targets: Vec<String>,
}

impl ModelView {
    /// Returns the views of all models in the catalog.
    pub fn all(snapshot: &Snapshot) -> Vec<Self> {
        let models = snapshot.models().iter();
        models.map(|model| Self::of(model)).collect()
    }

    fn of(model: &Model) -> Self {
        let target = |candidate: &Candidate| format!("{}/{}", candidate.provider, candidate.upstream_model);
        Self {
            id: model.id.to_string(),
            display_name: model.display_name.clone(),
            release_date: model.release_date.clone().unwrap_or_else(|| "-".to_owned()),
            input_price: model.prices.per_million(Unit::Input),
            output_price: model.prices.per_million(Unit::Output),
            prices: model.prices.entries().collect(),
            context_window: model.context_window,
            targets: model.candidates.iter().map(target).collect(),
        }
    }
}

/// Result of the ledger check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckView {
    /// Whether the check found no faults.
    pub clean: bool,
    /// Number of accounts read.
    pub accounts: u64,
    /// Number of transfers read.
    pub transfers: u64,
    /// Number of usage rows read.
    pub usage_rows: u64,
    /// Number of holds that are neither settled nor released.
    pub open_holds: u64,
    /// Sum of the charges of all calls, in credits.
    #[schema(value_type = String)]
    pub revenue: Credits,
    /// Sum of the costs beyond the held amounts, borne by the operator, in credits.
    #[schema(value_type = String)]
    pub overrun: Credits,
    /// Number of calls that a crash of the server interrupted. They were not charged.
    pub crashed: u64,
    /// Number of hash chains, at most one per account.
    pub chain_heads: u64,
    /// Number of transfers older than the hash chains.
    pub unchained: u64,
    /// Number of faults found.
    pub fault_count: u64,
    /// Descriptions of the first 100 faults.
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
