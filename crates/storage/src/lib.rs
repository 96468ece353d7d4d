//! Storage ports: the traits of all persistent data. No transaction object crosses a trait: each
//! method is an atomic unit of work for one use case, so that one conformance suite can test every
//! engine.

pub mod account;
pub mod admin;
pub mod audit;
pub mod audit_log;
pub mod batch;
pub mod blob;
pub mod calibration;
pub mod chain;
pub mod chat;
pub mod client_secret;
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
pub mod notice;
pub mod notifications;
pub mod person;
pub mod price;
pub mod provider_subscription;
pub mod refund;
pub mod report;
pub mod response;
pub mod session;
pub mod subscription;
pub mod top_up;
pub mod usage;
pub mod usage_hour;
pub mod webhook;

#[cfg(feature = "conformance")]
pub mod conformance;

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_types::Timestamp;

/// Tolerated difference between the clocks of two nodes. A larger difference counts as a clock
/// fault.
pub const CLOCK_TOLERANCE: std::time::Duration = std::time::Duration::from_secs(10);

pub use account::{
    Account, AccountChange, AccountChanged, AccountState, AccountStore, CloseBlockers, CloseOutcome, Limits,
};
pub use admin::{Admin, AdminStore, Role};
pub use audit::{AuditVisitor, LedgerAccount, LedgerBalance};
pub use audit_log::{AuditEntry, AuditFilter, AuditLog};
pub use batch::{BatchLine, BatchStore, ChargedLine, LineCounts, LineState};
pub use blob::{Blob, BlobContent, BlobKey, BlobStore};
pub use calibration::{Calibration, CalibrationFilter, CalibrationStore, NewCalibration};
pub use chain::{Chain, Link, TransferHash};
pub use chat::{Chat, ChatSave, ChatSaveOutcome, ChatStore, ChatTurn};
pub use client_secret::{ClientSecret, ClientSecretCreation, ClientSecretStore};
pub use counter::{Budget, Counters, Decision};
pub use error::{StorageError, StorageErrorKind};
pub use file::{
    FileError, FileFilter, FilePurpose, FileRecord, FileResult, FileSource, FileStore, FileUse, NoFiles,
    StoredFile,
};
pub use idempotency::{Claim, ClaimOutcome, IdempotencyKeyHash, IdempotencyStore};
pub use job::{
    Job, JobActivity, JobAdvance, JobCancel, JobClaim, JobEnd, JobError, JobEvent, JobFilter, JobLease,
    JobSearch, JobStep, JobStore, KindCap, LeasedJob, NewJob, NewJobEvent, OpenJobs,
};
pub use key::{Compat, Key, KeyChange, KeyMode, KeyOwner, KeyRotation, KeyState, KeyStore, NewKey};
pub use label_prior::{LabelPriorStore, StoredLabelPrior};
pub use ledger::{
    Balance, Grant, HoldOutcome, LedgerStore, MAX_HOLD_LIFETIME, NewHold, Resolution, Settlement, Spendable,
    latest_expiry,
};
pub use lot::{Lot, LotKind, LotStore, LotTerms, Withdrawal};
pub use media::{Media, MediaStore};
pub use member::{Member, MemberRole, MemberStore};
pub use notice::{BalanceAlert, Channel, Notice, NoticeOutcome, NoticeState, NoticeStore};
pub use notifications::{
    JobNotification, NoNotifications, Notification, NotificationReader, NotificationSource,
};
pub use person::{
    Invitation, LinkPurpose, LinkTarget, Membership, Password, Person, PersonChange, PersonStore, Redemption,
    RedemptionOutcome, SignInFailures, SignInLink,
};
pub use price::{PriceChange, PriceRecord, PriceStore};
pub use provider_subscription::{
    ProviderSubscription, ProviderSubscriptionChange, ProviderSubscriptionState, ProviderSubscriptionStore,
};
pub use refund::{NewRefund, Refund, RefundOutcome};
pub use report::ReportStore;
pub use response::{ChainLimits, NewResponse, ResponseStore, StoredResponse};
pub use session::{Session, SessionOwner, SessionStore};
pub use subscription::{
    Cadence, Change, NewSubscription, NextPlan, Payer, Payment, PlanUse, Product, Subscription,
    SubscriptionEvent, SubscriptionState, SubscriptionStore,
};
pub use top_up::{AutoTopUp, TopUp, TopUpChange, TopUpKind, TopUpState, TopUpStore};
pub use usage::{
    CallPage, Coverage, OutcomeFilter, SeriesGroup, SeriesPoint, SeriesQuery, SeriesStep, UsageFilter,
    UsageGroup, UsagePage, UsagePart, UsageRow, UsageStore, UsageTotal,
};
pub use usage_hour::{HourDifference, HourSums, UsageHourStore};
pub use webhook::{
    Delivery, DeliveryClaim, DeliveryOutcome, DeliveryState, JobDelivery, LeasedDelivery, WebhookStore,
};

/// Result of every storage method.
pub type Result<T> = std::result::Result<T, StorageError>;

/// Handles to the stores of one database, without logic.
#[derive(Clone)]
pub struct Storage {
    /// Accounts of tenants, with their limits.
    pub accounts: Arc<dyn AccountStore>,
    /// API keys, stored by digest.
    pub keys: Arc<dyn KeyStore>,
    /// Balances, holds and transfers.
    pub ledger: Arc<dyn LedgerStore>,
    /// Credit lots: the unspent rest of each grant and refund.
    pub lots: Arc<dyn LotStore>,
    /// Balance alerts and the webhooks and e-mails sent to accounts.
    pub notices: Arc<dyn NoticeStore>,
    /// Purchases of credits.
    pub top_ups: Arc<dyn TopUpStore>,
    /// Usage rows: one for each settled call.
    pub usage: Arc<dyn UsageStore>,
    /// Sums of usage rows by hour.
    pub usage_hours: Arc<dyn UsageHourStore>,
    /// Sums and pages of the ledger.
    pub reports: Arc<dyn ReportStore>,
    /// Administrators: users of the admin API.
    pub admins: Arc<dyn AdminStore>,
    /// Audit log: the changes that operators made.
    pub audit_log: Arc<dyn AuditLog>,
    /// Members of accounts.
    pub members: Arc<dyn MemberStore>,
    /// People who can sign in to the console, their passwords and sign-in links.
    pub people: Arc<dyn PersonStore>,
    /// Sessions of the console.
    pub sessions: Arc<dyn SessionStore>,
    /// Client secrets of realtime sessions, stored by digest.
    pub client_secrets: Arc<dyn ClientSecretStore>,
    /// Price versions and their activations.
    pub prices: Arc<dyn PriceStore>,
    /// Stored responses of the Responses API.
    pub responses: Arc<dyn ResponseStore>,
    /// Metadata of generated media; the bytes are in a `BlobStore`.
    pub media: Arc<dyn MediaStore>,
    /// Metadata of uploaded files; the bytes are in a `BlobStore`.
    pub files: Arc<dyn FileStore>,
    /// Profiles that correct the probabilities of typed decisions.
    pub calibrations: Arc<dyn CalibrationStore>,
    /// Saved chats of the playground.
    pub chats: Arc<dyn ChatStore>,
    /// Subscriptions to plans and hosted agents, paid by the period.
    pub subscriptions: Arc<dyn SubscriptionStore>,
    /// Subscriptions that a payment provider renews.
    pub provider_subscriptions: Arc<dyn ProviderSubscriptionStore>,
    /// Idempotency keys with their claims and stored responses.
    pub idempotency: Arc<dyn IdempotencyStore>,
    /// Asynchronous jobs: work that continues after the response.
    pub jobs: Arc<dyn JobStore>,
    /// Lines of batches. A batch is a job.
    pub batches: Arc<dyn BatchStore>,
    /// Label priors of models, for typed decisions.
    pub label_priors: Arc<dyn LabelPriorStore>,
    /// Webhook deliveries for jobs that have ended.
    pub webhooks: Arc<dyn WebhookStore>,
    /// Change notifications from the database.
    pub notifications: Arc<dyn NotificationSource>,
    /// The storage engine itself: health, clock, flush and close.
    pub engine: Arc<dyn Engine>,
}

/// Operations on the engine as a whole.
#[async_trait]
pub trait Engine: Send + Sync {
    /// Returns the name of the engine: `sqlite` or `postgres`.
    fn name(&self) -> &'static str;

    /// Checks that the engine responds. The readiness probe calls this method.
    async fn ping(&self) -> Result<()>;

    /// Waits until the engine has failed permanently, and returns the reason: a task that the
    /// engine needs has died, or the disk lost written data. Only a restart of the process helps.
    /// While the engine works, the call does not return.
    async fn failed(&self) -> String {
        std::future::pending().await
    }

    /// Returns the current time of the clock that all processes of a shared database use; `None`
    /// for a database of one process.
    async fn time(&self) -> Result<Option<Timestamp>> {
        Ok(None)
    }

    /// Waits until all accepted writes are in the database, so that reads return them.
    async fn flush(&self) -> Result<()>;

    /// Flushes and closes the engine. No method may be called afterwards.
    async fn close(&self) -> Result<()>;
}
