//! Reports: sums and pages of the ledger of one account.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_types::{AccountId, Credits, Timestamp};

use crate::Result;
use crate::audit::{Leg, TransferRow};

/// Sum of the transfers of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegSum {
    /// Step of the transfers.
    pub leg: Leg,
    /// Number of transfers.
    pub count: u64,
    /// Sum of the amounts.
    pub amount: Credits,
}

/// The sums of a statement, as of one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Sums of the transfers before the span.
    pub before: Vec<LegSum>,
    /// Sums of the transfers within the span.
    pub within: Vec<LegSum>,
    /// Sums of the transfers up to the end of the span, computed independently.
    pub until: Vec<LegSum>,
    /// Charges of the calls that ended within the span, in ascending order of model and endpoint.
    pub charges: Vec<ChargeSum>,
}

/// A half-open range of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Start, inclusive; `None` for the beginning.
    pub from: Option<Timestamp>,
    /// End, exclusive; `None` for no end.
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
    /// The path of the endpoint.
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
    /// The 128 bits of its subject's id.
    pub entry: u128,
    /// Step of the transfer.
    pub leg: Leg,
}

/// Reads reports. They include every call answered before; open holds may be missing.
#[async_trait]
pub trait ReportStore: Send + Sync {
    /// Returns the sums of an account's transfers before, within and up to the end of a span.
    async fn sums(&self, account: AccountId, span: Span) -> Result<Sums>;

    /// Lists transfers of an account in ascending order of position, after `after`, at most
    /// `limit`.
    async fn transfers(
        &self,
        account: AccountId,
        span: Span,
        after: Option<TransferCursor>,
        limit: u32,
    ) -> Result<Vec<TransferRow>>;
}
