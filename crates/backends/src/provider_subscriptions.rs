//! SQL of subscriptions at payment providers that SQLite and PostgreSQL share.

use tollgate_storage::{Cadence, ProviderSubscription, ProviderSubscriptionState, Result, StorageError};
use tollgate_types::{AccountId, Credits, Money, RenewalState, SubscriptionId, Timestamp};

use crate::columns::columns;
use crate::rows::{corrupt, id_from};

pub(crate) const INSERT: &str = "INSERT INTO provider_subscription (account_id, id, provider, plan, price, cadence, allowance, \
    currency, amount, state, checkout, reference, course, invoice, failure, created_at, updated_at) \
    SELECT id, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17 FROM account WHERE id = $1 \
    ON CONFLICT DO NOTHING";
pub(crate) const GET: &str = "SELECT * FROM provider_subscription WHERE id = $1";
pub(crate) const BY_REFERENCE: &str = "SELECT * FROM provider_subscription WHERE reference = $1";
pub(crate) const PENDING: &str = "SELECT * FROM provider_subscription \
    WHERE account_id = $1 AND state = 'pending' AND checkout IS NOT NULL ORDER BY id";
pub(crate) const UPDATE: &str = "UPDATE provider_subscription SET provider = $3, plan = $4, price = $5, cadence = $6, \
    allowance = $7, currency = $8, amount = $9, state = $10, checkout = $11, reference = $12, course = $13, invoice = $14, \
    failure = $15, created_at = $16, updated_at = $17 WHERE account_id = $1 AND id = $2";
pub(crate) const DUE: &str = "SELECT provider_subscription.* FROM subscription \
    JOIN provider_subscription ON provider_subscription.id = subscription.id \
    WHERE subscription.state IN ('active', 'past_due') AND paid_through <= $1 AND provider_subscription.state = 'begun' \
    ORDER BY paid_through, subscription.id LIMIT $2";
pub(crate) const OUT_OF_SYNC: &str = "SELECT provider_subscription.* FROM provider_subscription \
    LEFT JOIN subscription ON subscription.id = provider_subscription.id \
    WHERE course <> 'ended' AND course <> CASE \
        WHEN subscription.id IS NULL OR subscription.state IN ('canceled', 'expired') THEN 'ended' \
        WHEN cancel_at_period_end <> 0 THEN 'ends' ELSE 'renews' END \
    ORDER BY updated_at, provider_subscription.id LIMIT $1";

#[cfg(test)]
pub(crate) const STATEMENTS: &[&str] = &[INSERT, GET, BY_REFERENCE, PENDING, UPDATE, DUE, OUT_OF_SYNC];

/// Binds a subscription to [`INSERT`] or [`UPDATE`], for any engine.
macro_rules! bind_provider_subscription {
    ($statement:expr, $subscription:expr) => {{
        let subscription: &tollgate_storage::ProviderSubscription = $subscription;
        sqlx::query($statement)
            .bind($crate::rows::id_bytes(subscription.account.as_u128()))
            .bind($crate::rows::id_bytes(subscription.id.as_u128()))
            .bind(subscription.provider.clone())
            .bind(subscription.plan.to_string())
            .bind(subscription.price.nanos())
            .bind(subscription.cadence.as_str())
            .bind(subscription.allowance.nanos())
            .bind(subscription.money.currency.to_string())
            .bind(subscription.money.amount)
            .bind(subscription.state.as_str())
            .bind(subscription.checkout.clone())
            .bind(subscription.reference.clone())
            .bind(subscription.course.map(tollgate_types::RenewalState::as_str))
            .bind(subscription.invoice.clone())
            .bind(subscription.failure.clone())
            .bind(subscription.created_at.as_micros())
            .bind(subscription.updated_at.as_micros())
    }};
}

pub(crate) use bind_provider_subscription;

columns! {
    /// A row of `provider_subscription`.
    pub(crate) struct ProviderSubscriptionColumns {
        account_id: Vec<u8>,
        id: Vec<u8>,
        provider: String,
        plan: String,
        price: i64,
        cadence: String,
        allowance: i64,
        currency: String,
        amount: i64,
        state: String,
        checkout: Option<String>,
        reference: Option<String>,
        course: Option<String>,
        invoice: Option<String>,
        failure: Option<String>,
        created_at: i64,
        updated_at: i64,
    }
}

impl TryFrom<ProviderSubscriptionColumns> for ProviderSubscription {
    type Error = StorageError;

    fn try_from(columns: ProviderSubscriptionColumns) -> Result<ProviderSubscription> {
        let unknown = |what: &str, name: &str| corrupt(format!("unknown {what} '{name}'"));
        let currency = columns.currency.parse();
        let course = columns.course.map(|name| RenewalState::parse(&name).ok_or(name));
        Ok(ProviderSubscription {
            id: SubscriptionId::from_u128(id_from(&columns.id)?),
            account: AccountId::from_u128(id_from(&columns.account_id)?),
            provider: columns.provider,
            plan: columns.plan.into(),
            price: Credits::from_nanos(columns.price),
            cadence: Cadence::parse(&columns.cadence).ok_or_else(|| unknown("cadence", &columns.cadence))?,
            allowance: Credits::from_nanos(columns.allowance),
            money: Money {
                amount: columns.amount,
                currency: currency.map_err(|_| unknown("currency", &columns.currency))?,
            },
            state: ProviderSubscriptionState::parse(&columns.state)
                .ok_or_else(|| unknown("provider subscription state", &columns.state))?,
            checkout: columns.checkout,
            reference: columns.reference,
            course: course.transpose().map_err(|name| unknown("course", &name))?,
            invoice: columns.invoice,
            failure: columns.failure,
            created_at: Timestamp::from_micros(columns.created_at),
            updated_at: Timestamp::from_micros(columns.updated_at),
        })
    }
}
