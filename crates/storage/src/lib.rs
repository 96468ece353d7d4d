//! Ports: everything that is persisted. No transaction object crosses a trait: each method is one atomic unit,
//! shaped by its use, so that one conformance suite holds every engine to the same promises.

pub mod account;
pub mod admin;
pub mod audit;
pub mod audit_log;
pub mod batch;
pub mod blob;
pub mod calibration;
pub mod chain;
pub mod counter;
pub mod error;
pub mod file;
pub mod idempotency;
pub mod job;
pub mod key;
pub mod label_prior;
pub mod ledger;
pub mod lot;
pub mod media;
pub mod member;
pub mod news;
pub mod notice;
pub mod price;
pub mod provider_subscription;
pub mod refund;
pub mod report;
pub mod response;
pub mod subscription;
pub mod top_up;
pub mod usage;
pub mod webhook;

#[cfg(feature = "conformance")]
pub mod conformance;

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_types::Timestamp;

pub use account::{Account, AccountChange, AccountChanged, AccountState, AccountStore, Limits};
pub use admin::{Admin, AdminStore, Role};
pub use audit::{AuditVisitor, LedgerAccount, LedgerBalance};
pub use audit_log::{AuditEntry, AuditFilter, AuditLog};
pub use batch::{BatchLine, BatchStore, ChargedLine, LineCounts, LineState};
pub use blob::{Blob, BlobContent, BlobKey, BlobStore};
pub use calibration::{Calibration, CalibrationFilter, CalibrationStore, NewCalibration};
pub use chain::{Chain, Link, TransferHash};
pub use counter::{Budget, Counters, Decision};
pub use error::{StorageError, StorageErrorKind};
pub use file::{
    FileError, FileFilter, FilePurpose, FileResult, FileSource, FileStore, FileUse, KeptFile, NoFiles,
    StoredFile,
};
pub use idempotency::{Claim, Claimed, IdempotencyStore, RepeatKey};
pub use job::{
    Job, JobAdvance, JobCancel, JobClaim, JobEnd, JobError, JobEvent, JobFilter, JobLease, JobSearch,
    JobStep, JobStore, LeasedJob, NewJob, NewJobEvent,
};
pub use key::{Compat, Key, KeyChange, KeyMode, KeyOwner, KeyState, KeyStore, NewKey};
pub use label_prior::{LabelPriorStore, StoredLabelPrior};
pub use ledger::{Balance, Grant, HoldOutcome, LedgerStore, NewHold, Resolution, Settlement, Spendable};
pub use lot::{Lot, LotKind, LotStore, LotTerms};
pub use media::{Media, MediaStore};
pub use member::{Member, MemberRole, MemberStore};
pub use news::{JobNews, News, NewsReader, NewsSource, NoNews};
pub use notice::{BalanceAlert, Channel, Notice, NoticeOutcome, NoticeState, NoticeStore};
pub use price::{PriceChange, PriceRecord, PriceStore};
pub use provider_subscription::{
    ProviderSubscription, ProviderSubscriptionChange, ProviderSubscriptionState, ProviderSubscriptionStore,
};
pub use refund::{NewRefund, Refund, RefundOutcome};
pub use report::ReportStore;
pub use response::{ChainLimits, NewResponse, ResponseStore, StoredResponse};
pub use subscription::{
    Cadence, Change, NewSubscription, NextPlan, Payer, Payment, PlanUse, Product, Subscription,
    SubscriptionEvent, SubscriptionState, SubscriptionStore,
};
pub use top_up::{AutoTopUp, TopUp, TopUpChange, TopUpKind, TopUpState, TopUpStore};
pub use usage::{Coverage, UsageFilter, UsageGroup, UsagePage, UsagePart, UsageRow, UsageStore, UsageTotal};
pub use webhook::{Delivery, DeliveryClaim, DeliveryOutcome, DeliveryState, LeasedDelivery, WebhookStore};

/// What every storage method answers.
pub type Result<T> = std::result::Result<T, StorageError>;

/// Handles to every store; no logic.
#[derive(Clone)]
pub struct Storage {
    /// Tenants.
    pub accounts: Arc<dyn AccountStore>,
    /// API keys.
    pub keys: Arc<dyn KeyStore>,
    /// Balances, holds and transfers.
    pub ledger: Arc<dyn LedgerStore>,
    /// What is left of grants and refunds.
    pub lots: Arc<dyn LotStore>,
    /// What accounts are told.
    pub notices: Arc<dyn NoticeStore>,
    /// Purchases of credits.
    pub top_ups: Arc<dyn TopUpStore>,
    /// Usage rows.
    pub usage: Arc<dyn UsageStore>,
    /// Sums and pages of the books.
    pub reports: Arc<dyn ReportStore>,
    /// Who may use the admin API.
    pub admins: Arc<dyn AdminStore>,
    /// What was changed by whom.
    pub audit_log: Arc<dyn AuditLog>,
    /// Who belongs to accounts.
    pub members: Arc<dyn MemberStore>,
    /// Price versions.
    pub prices: Arc<dyn PriceStore>,
    /// Kept answers.
    pub responses: Arc<dyn ResponseStore>,
    /// What was made for accounts, as far as it is not bytes.
    pub media: Arc<dyn MediaStore>,
    /// What accounts have uploaded, as far as it is not bytes.
    pub files: Arc<dyn FileStore>,
    /// Profiles by which probabilities of decisions are corrected.
    pub calibrations: Arc<dyn CalibrationStore>,
    /// Plans and what else is paid for by the period.
    pub subscriptions: Arc<dyn SubscriptionStore>,
    /// Which of them a payment provider renews.
    pub provider_subscriptions: Arc<dyn ProviderSubscriptionStore>,
    /// Requests that may be repeated.
    pub idempotency: Arc<dyn IdempotencyStore>,
    /// Work that goes on after its request was answered.
    pub jobs: Arc<dyn JobStore>,
    /// Lines of batches, which are jobs.
    pub batches: Arc<dyn BatchStore>,
    /// What models prefer, for typed decisions.
    pub label_priors: Arc<dyn LabelPriorStore>,
    /// Who is told that it has ended.
    pub webhooks: Arc<dyn WebhookStore>,
    /// What others have changed.
    pub news: Arc<dyn NewsSource>,
    /// The engine as a whole.
    pub engine: Arc<dyn Engine>,
}

/// The engine as a whole.
#[async_trait]
pub trait Engine: Send + Sync {
    /// `sqlite` or `postgres`.
    fn name(&self) -> &'static str;

    /// Whether the engine answers now. Called by the readiness probe.
    async fn ping(&self) -> Result<()>;

    /// The time that every process goes by that shares the database; none where there is only one.
    async fn time(&self) -> Result<Option<Timestamp>> {
        Ok(None)
    }

    /// Returns when everything accepted so far is in the database, so that a read sees it.
    async fn flush(&self) -> Result<()>;

    /// Flushes and closes. Nothing may be called afterwards.
    async fn close(&self) -> Result<()>;
}
