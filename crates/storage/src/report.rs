//! Reports: sums and lists of the transfers of one account.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_types::{AccountId, Credits, Timestamp};

use crate::Result;
use crate::audit::{Leg, TransferRow};

/// Sum of the transfers of one leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegSum {
    /// Leg of the summed transfers.
    pub leg: Leg,
    /// Number of transfers.
    pub count: u64,
    /// Sum of the amounts.
    pub amount: Credits,
}

/// Sums for a statement, as of one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Sums of the transfers before the span.
    pub before: Vec<LegSum>,
    /// Sums of the transfers within the span.
    pub within: Vec<LegSum>,
    /// Sums of the transfers up to the end of the span, computed independently of the other sums.
    pub until: Vec<LegSum>,
    /// Charges of the calls that ended within the span, sorted by model and endpoint.
    pub charges: Vec<ChargeSum>,
}

/// A half-open range of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Inclusive start; `None` for no lower bound.
    pub from: Option<Timestamp>,
    /// Exclusive end; `None` for no upper bound.
    pub to: Option<Timestamp>,
}

impl Span {
    /// Returns the time before the span; `None` if the span has no start.
    pub fn before(self) -> Option<Self> {
        self.from.map(|from| Self {
            from: None,
            to: Some(from),
        })
    }

    /// Returns the time up to the end of the span.
    pub fn until_end(self) -> Self {
        Self { from: None, ..self }
    }
}

/// Charges of the calls of one model at one endpoint, summed over their settlement transfers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChargeSum {
    /// Canonical id of the model.
    pub model: Arc<str>,
    /// Path of the endpoint.
    pub endpoint: Arc<str>,
    /// Number of calls with a charge.
    pub calls: u64,
    /// Amount paid by credits.
    pub paid: Credits,
    /// Amount paid by allowances.
    pub included: Credits,
}

/// Position of a transfer in a list of its account's transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferCursor {
    /// 128 bits of the id of the transfer's subject.
    pub entry: u128,
    /// Leg of the transfer.
    pub leg: Leg,
}

/// Reads reports. They include every call that was completed before; open holds may be missing.
#[async_trait]
pub trait ReportStore: Send + Sync {
    /// Returns the sums of an account's transfers before, within and up to the end of a span.
    async fn sums(&self, account: AccountId, span: Span) -> Result<Sums>;

    /// Lists up to `limit` transfers of an account in the span, sorted by entry and leg, after the
    /// position of `after`.
    async fn transfers(
        &self,
        account: AccountId,
        span: Span,
        after: Option<TransferCursor>,
        limit: u32,
    ) -> Result<Vec<TransferRow>>;
}
