//! Reports: sums and pages of the books of one account.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_types::{AccountId, Credits, Timestamp};

use crate::Result;
use crate::audit::{Leg, TransferRow};

/// Σ of the transfers of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegSum {
    /// Which step.
    pub leg: Leg,
    /// How many transfers there are.
    pub count: u64,
    /// What they moved.
    pub amount: Credits,
}

/// What a statement is made of, as it was at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Transfers before the span.
    pub before: Vec<LegSum>,
    /// Transfers within it.
    pub within: Vec<LegSum>,
    /// Transfers up to its end, summed for themselves.
    pub until: Vec<LegSum>,
    /// What calls that ended within it were charged, in ascending order of model and endpoint.
    pub charges: Vec<ChargeSum>,
}

/// From one instant to before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// At or after; from the beginning when it is not said.
    pub from: Option<Timestamp>,
    /// Before; to the end when it is not said.
    pub to: Option<Timestamp>,
}

impl Span {
    /// All that was before it; `None` when nothing can be.
    pub fn before(self) -> Option<Self> {
        self.from.map(|from| Self {
            from: None,
            to: Some(from),
        })
    }

    /// All that was until its end.
    pub fn until_end(self) -> Self {
        Self { from: None, ..self }
    }
}

/// What calls of one model at one endpoint were charged, by the transfers that settled them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChargeSum {
    /// The model as the callers named it.
    pub model: Arc<str>,
    /// The path of the endpoint.
    pub endpoint: Arc<str>,
    /// Calls that were charged something.
    pub calls: u64,
    /// What credits paid.
    pub paid: Credits,
    /// What allowances paid.
    pub included: Credits,
}

/// The place of a transfer among those of its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferPlace {
    /// The 128 bits of what it belongs to.
    pub entry: u128,
    /// Which step it is.
    pub leg: Leg,
}

/// Reads reports. What was answered before the call is seen; a hold that is open may not be.
#[async_trait]
pub trait ReportStore: Send + Sync {
    /// Sums of an account's transfers before, within and up to the end of a span.
    async fn sums(&self, account: AccountId, span: Span) -> Result<Sums>;

    /// Transfers of an account in ascending order of place, those after this one, at most `limit`.
    async fn transfers(
        &self,
        account: AccountId,
        span: Span,
        after: Option<TransferPlace>,
        limit: u32,
    ) -> Result<Vec<TransferRow>>;
}
