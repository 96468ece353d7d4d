//! Top-ups: purchases of credits through a payment provider. A top-up is stored before the provider
//! receives the request, so that every later event of the provider refers to a stored top-up. The
//! credits are a grant in the ledger.

use async_trait::async_trait;
use sha2::{Digest, Sha256};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, Money, Timestamp, TopUpId};

use crate::subscription::first_bits;
use crate::{Result, StorageError, StorageErrorKind};

/// Origin of a top-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopUpKind {
    /// A person pays on a checkout page of the provider.
    Checkout,
    /// The provider charges a saved card because the balance is low.
    Auto,
}

impl TopUpKind {
    /// Returns the name used in storage and by the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            TopUpKind::Checkout => "checkout",
            TopUpKind::Auto => "auto",
        }
    }

    /// Parses a name returned by [`Self::as_str`]; `None` for any other text.
    pub fn parse(name: &str) -> Option<Self> {
        [TopUpKind::Checkout, TopUpKind::Auto]
            .into_iter()
            .find(|kind| kind.as_str() == name)
    }
}

/// Payment state of a top-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopUpState {
    /// The payment has not been made.
    Pending,
    /// The payment was made, and the credits are granted.
    Paid,
    /// The payment failed. A later event of the provider can still make the top-up paid.
    Failed,
}

impl TopUpState {
    /// Returns the name used in storage and by the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            TopUpState::Pending => "pending",
            TopUpState::Paid => "paid",
            TopUpState::Failed => "failed",
        }
    }

    /// Parses a name returned by [`Self::as_str`]; `None` for any other text.
    pub fn parse(name: &str) -> Option<Self> {
        [TopUpState::Pending, TopUpState::Paid, TopUpState::Failed]
            .into_iter()
            .find(|state| state.as_str() == name)
    }
}

/// A purchase of credits through a payment provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopUp {
    /// Unique id of the top-up.
    pub id: TopUpId,
    /// Account that buys the credits.
    pub account: AccountId,
    /// Origin of the top-up.
    pub kind: TopUpKind,
    /// State of the payment.
    pub state: TopUpState,
    /// Requested amount of money; after the payment, the paid amount.
    pub money: Money,
    /// Credits that the account buys.
    pub credits: Credits,
    /// Provider's id of the payment; `None` before the payment.
    pub reference: Option<String>,
    /// Id of the grant of the credits; `None` before the payment.
    pub grant: Option<TransferId>,
    /// Amount of money returned to the payer, in the smallest unit of the currency.
    pub returned: i64,
    /// Reason why the payment failed.
    pub failure: Option<String>,
    /// Time when the top-up was requested.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

/// A change reported by the payment provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopUpChange {
    /// The payment succeeded.
    Paid {
        /// Provider's id of the payment.
        reference: String,
        /// Paid amount of money.
        money: Money,
        /// Credits that the money bought.
        credits: Credits,
        /// Id of the grant in the ledger.
        grant: TransferId,
    },
    /// The payment failed.
    Failed {
        /// Short reason code.
        why: String,
    },
    /// Money was returned to the payer.
    Returned {
        /// Total amount returned so far, in the smallest unit of the currency.
        total: i64,
    },
}

impl TopUp {
    /// Returns the top-up after a change. A repeated change has no effect. `Conflict` if the change
    /// is impossible: a second payment with another grant, or a return of money that was never
    /// paid.
    pub fn after(&self, change: TopUpChange, at: Timestamp) -> Result<TopUp> {
        let mut next = self.clone();
        match (self.state, change) {
            (
                TopUpState::Pending | TopUpState::Failed,
                TopUpChange::Paid {
                    reference,
                    money,
                    credits,
                    grant,
                },
            ) => {
                next.state = TopUpState::Paid;
                (next.money, next.credits) = (money, credits);
                (next.reference, next.grant) = (Some(reference), Some(grant));
                next.failure = None;
            }
            (TopUpState::Paid, TopUpChange::Paid { grant, .. }) if self.grant == Some(grant) => {}
            (TopUpState::Pending | TopUpState::Failed, TopUpChange::Failed { why }) => {
                next.state = TopUpState::Failed;
                next.failure = Some(why);
            }
            // A paid top-up stays paid, regardless of later reports about an earlier attempt.
            (TopUpState::Paid, TopUpChange::Failed { .. }) => {}
            (TopUpState::Paid, TopUpChange::Returned { total }) => {
                next.returned = total.clamp(self.returned, self.money.amount.max(self.returned));
            }
            (state, _) => {
                let why = format!(
                    "{} is {} and cannot be changed in this way",
                    self.id,
                    state.as_str()
                );
                return Err(StorageError::new(StorageErrorKind::Conflict, why));
            }
        }
        if next != *self {
            next.updated_at = at;
        }
        Ok(next)
    }
}

/// Derives the id of a grant from the provider's name and its id of the payment.
pub fn grant_id(provider: &str, reference: &str) -> TransferId {
    let length = (provider.len() as u64).to_be_bytes();
    let digest = Sha256::new()
        .chain_update(b"top-up")
        .chain_update(length)
        .chain_update(provider)
        .chain_update(reference);
    first_bits(digest)
}

/// Returns the share of the credits for a part of the money, rounded down; all credits if the part
/// is not less than the whole.
pub fn share_of(credits: Credits, part: i64, whole: i64) -> Credits {
    if part >= whole {
        return credits;
    }
    let share = i128::from(credits.nanos()) * i128::from(part.max(0)) / i128::from(whole.max(1));
    Credits::from_nanos(i64::try_from(share).unwrap_or(i64::MAX))
}

/// Automatic top-up settings of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoTopUp {
    /// Account whose balance is topped up.
    pub account: AccountId,
    /// Threshold: a top-up starts if fewer credits can be spent.
    pub below: Credits,
    /// Number of credits that each top-up buys.
    pub amount: Credits,
    /// Maximum number of credits that automatic top-ups buy in a calendar month, in UTC.
    pub monthly_limit: Credits,
    /// Number of consecutive failed charges. After the maximum number, automatic top-ups stop until
    /// they are configured again.
    pub failures: u32,
}

/// Stores top-ups, payer ids at the provider, and automatic top-up settings.
#[async_trait]
pub trait TopUpStore: Send + Sync {
    /// Returns the id of an account at the provider; `None` if it has none.
    async fn payer(&self, account: AccountId, provider: &str) -> Result<Option<String>>;

    /// Stores the id of an account at the provider, unless one is stored; returns the stored id.
    /// `NotFound` if the account does not exist.
    async fn save_payer(
        &self,
        account: AccountId,
        provider: &str,
        payer: &str,
        at: Timestamp,
    ) -> Result<String>;

    /// Stores a top-up and returns whether it was stored: an account can have only one pending
    /// top-up of kind [`TopUpKind::Auto`]. `NotFound` if the account does not exist, `Conflict` if
    /// the id was used.
    async fn create(&self, top_up: TopUp) -> Result<bool>;

    /// Returns the top-up; `None` if it does not exist.
    async fn get(&self, id: TopUpId) -> Result<Option<TopUp>>;

    /// Returns the top-up with this provider's id of the payment; `None` if it does not exist.
    async fn by_reference(&self, reference: &str) -> Result<Option<TopUp>>;

    /// Lists up to `limit` top-ups of one account or of all, newest first; only those older than
    /// `before`, if set.
    async fn list(
        &self,
        account: Option<AccountId>,
        before: Option<TopUpId>,
        limit: u32,
    ) -> Result<Vec<TopUp>>;

    /// Applies a change by [`TopUp::after`] and returns the result. `NotFound` if the top-up does
    /// not exist.
    async fn change(&self, id: TopUpId, change: TopUpChange, at: Timestamp) -> Result<TopUp>;

    /// Lists up to `limit` top-ups of kind [`TopUpKind::Auto`] that have been pending since before
    /// this time, oldest first.
    async fn pending_auto(&self, before: Timestamp, limit: u32) -> Result<Vec<TopUp>>;

    /// Returns the total credits of an account's top-ups of kind [`TopUpKind::Auto`] since this
    /// time, without failed ones.
    async fn auto_since(&self, account: AccountId, since: Timestamp) -> Result<Credits>;

    /// Sets or removes the automatic top-up of an account. `NotFound` if the account does not
    /// exist.
    async fn set_auto(&self, account: AccountId, auto: Option<AutoTopUp>) -> Result<()>;

    /// Returns the automatic top-up settings of an account; `None` if it has none.
    async fn auto(&self, account: AccountId) -> Result<Option<AutoTopUp>>;

    /// Lists up to `limit` automatic top-up settings of accounts with an id greater than `after`,
    /// sorted by account.
    async fn autos(&self, after: Option<AccountId>, limit: u32) -> Result<Vec<AutoTopUp>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_never_more_than_the_whole() {
        let of = |credits, part, whole| share_of(Credits::from_nanos(credits), part, whole).nanos();
        assert_eq!(of(1_000, 1, 3), 333);
        assert_eq!(of(1_000, 3, 3), 1_000);
        assert_eq!(of(1_000, 9, 3), 1_000);
        assert_eq!(of(1_000, 0, 3), 0);
        assert_eq!(of(1_000, -1, 3), 0);
        assert_eq!(of(i64::MAX, i64::MAX - 1, i64::MAX), i64::MAX - 1);
    }

    #[test]
    fn grants_are_named_by_provider_and_money() {
        let of = |provider, reference| grant_id(provider, reference);
        assert_eq!(of("stripe", "pi_1"), of("stripe", "pi_1"));
        assert_ne!(of("stripe", "pi_1"), of("stripe", "pi_2"));
        assert_ne!(of("stripe", "pi_1"), of("stripep", "i_1"));
    }
}
