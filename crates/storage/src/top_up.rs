//! Top-ups: purchases of credits through a payment provider. One is written down before the provider hears of it, so that
//! whatever the provider says later belongs to something known; the credits themselves are a grant of the ledger.

use async_trait::async_trait;
use sha2::{Digest, Sha256};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, Money, Timestamp, TopUpId};

use crate::subscription::first_bits;
use crate::{Result, StorageError, StorageErrorKind};

/// How a top-up came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopUpKind {
    /// Somebody pays on a page of the provider.
    Checkout,
    /// A card that the provider keeps is charged, because a balance ran low.
    Auto,
}

impl TopUpKind {
    /// The name used in storage and by the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            TopUpKind::Checkout => "checkout",
            TopUpKind::Auto => "auto",
        }
    }

    /// The kind with this name.
    pub fn parse(name: &str) -> Option<Self> {
        [TopUpKind::Checkout, TopUpKind::Auto]
            .into_iter()
            .find(|kind| kind.as_str() == name)
    }
}

/// What a top-up is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopUpState {
    /// Nothing was paid yet.
    Pending,
    /// It was paid, and the credits are there.
    Paid,
    /// It was not paid. A provider may still say that it was, and then it was.
    Failed,
}

impl TopUpState {
    /// The name used in storage and by the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            TopUpState::Pending => "pending",
            TopUpState::Paid => "paid",
            TopUpState::Failed => "failed",
        }
    }

    /// The state with this name.
    pub fn parse(name: &str) -> Option<Self> {
        [TopUpState::Pending, TopUpState::Paid, TopUpState::Failed]
            .into_iter()
            .find(|state| state.as_str() == name)
    }
}

/// A purchase of credits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopUp {
    /// Id.
    pub id: TopUpId,
    /// Whose.
    pub account: AccountId,
    /// How it came about.
    pub kind: TopUpKind,
    /// What it is.
    pub state: TopUpState,
    /// What was asked for; what was paid, once it was.
    pub money: Money,
    /// The credits that it buys, or bought.
    pub credits: Credits,
    /// The provider's id of the money that moved.
    pub reference: Option<String>,
    /// The grant that it became.
    pub grant: Option<TransferId>,
    /// What went back to whoever paid, in the smallest unit of the currency.
    pub returned: i64,
    /// Why it failed.
    pub failure: Option<String>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it changed last.
    pub updated_at: Timestamp,
}

/// What becomes of a top-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopUpChange {
    /// It was paid.
    Paid {
        /// The provider's id of the money that moved.
        reference: String,
        /// What was paid.
        money: Money,
        /// What that bought.
        credits: Credits,
        /// The grant.
        grant: TransferId,
    },
    /// It was not paid.
    Failed {
        /// A word for why.
        why: String,
    },
    /// This much went back so far.
    Returned {
        /// In the smallest unit of the currency.
        total: i64,
    },
}

impl TopUp {
    /// The top-up after a change. What it already says changes nothing. `Conflict` when it cannot be: what was paid once
    /// is not paid otherwise, and nothing goes back of what was not paid.
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
            // What was paid stays paid, whatever is said of an earlier attempt.
            (TopUpState::Paid, TopUpChange::Failed { .. }) => {}
            (TopUpState::Paid, TopUpChange::Returned { total }) => {
                next.returned = total.clamp(self.returned, self.money.amount.max(self.returned));
            }
            (state, _) => {
                let why = format!("{} is {} and cannot be changed so", self.id, state.as_str());
                return Err(StorageError::new(StorageErrorKind::Conflict, why));
            }
        }
        if next != *self {
            next.updated_at = at;
        }
        Ok(next)
    }
}

/// What names the grant that money became: the provider, and its id of the money.
pub fn grant_id(provider: &str, reference: &str) -> TransferId {
    let length = (provider.len() as u64).to_be_bytes();
    let digest = Sha256::new()
        .chain_update(b"top-up")
        .chain_update(length)
        .chain_update(provider)
        .chain_update(reference);
    first_bits(digest)
}

/// The credits that belong to a part of the money that bought them, rounded down; all of them for all of it.
pub fn share_of(credits: Credits, part: i64, whole: i64) -> Credits {
    if part >= whole {
        return credits;
    }
    let share = i128::from(credits.nanos()) * i128::from(part.max(0)) / i128::from(whole.max(1));
    Credits::from_nanos(i64::try_from(share).unwrap_or(i64::MAX))
}

/// When and how an account's balance is filled up by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoTopUp {
    /// Whose.
    pub account: AccountId,
    /// It is filled up when less than this can be spent.
    pub below: Credits,
    /// By how much.
    pub amount: Credits,
    /// At most so many credits in a calendar month, in UTC.
    pub monthly_limit: Credits,
    /// Charges that failed one after another. After some, no further one is tried until somebody sets it anew.
    pub failures: u32,
}

/// Stores top-ups, who pays at the provider, and what is filled up by itself.
#[async_trait]
pub trait TopUpStore: Send + Sync {
    /// The provider's id of an account, if it has one.
    async fn payer(&self, account: AccountId, provider: &str) -> Result<Option<String>>;

    /// Keeps the provider's id of an account, unless there is one; answers the one that is kept. `NotFound` when there is
    /// no such account.
    async fn keep_payer(
        &self,
        account: AccountId,
        provider: &str,
        payer: &str,
        at: Timestamp,
    ) -> Result<String>;

    /// Writes a top-up down. Whether it was: of those of an account of kind [`TopUpKind::Auto`] one is pending at a time.
    /// `NotFound` when there is no such account, `Conflict` when the id was used.
    async fn create(&self, top_up: TopUp) -> Result<bool>;

    /// The top-up; `None` when there is none.
    async fn get(&self, id: TopUpId) -> Result<Option<TopUp>>;

    /// The top-up with the provider's id of the money that moved.
    async fn by_reference(&self, reference: &str) -> Result<Option<TopUp>>;

    /// Top-ups, of one account or of all, newest first, before `before`, at most `limit`.
    async fn list(
        &self,
        account: Option<AccountId>,
        before: Option<TopUpId>,
        limit: u32,
    ) -> Result<Vec<TopUp>>;

    /// Changes a top-up as [`TopUp::after`] says, and answers it. `NotFound` when there is none.
    async fn change(&self, id: TopUpId, change: TopUpChange, at: Timestamp) -> Result<TopUp>;

    /// Top-ups of kind [`TopUpKind::Auto`] that are pending since before this instant, oldest first, at most `limit`.
    async fn pending_auto(&self, before: Timestamp, limit: u32) -> Result<Vec<TopUp>>;

    /// Credits of an account's top-ups of kind [`TopUpKind::Auto`] since an instant, those that failed left out.
    async fn auto_since(&self, account: AccountId, since: Timestamp) -> Result<Credits>;

    /// Sets what an account's balance is filled up by, or that it is not. `NotFound` when there is no such account.
    async fn set_auto(&self, account: AccountId, auto: Option<AutoTopUp>) -> Result<()>;

    /// What an account's balance is filled up by.
    async fn auto(&self, account: AccountId) -> Result<Option<AutoTopUp>>;

    /// Everything that is filled up by itself, in order of account, after `after`, at most `limit`.
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
