//! Commands of operators, from the command line and the admin API. A command is a value that can be
//! sent to the server that owns the database. [`Operations::execute`] executes it: it checks the
//! actor's permission and writes the audit log. Commands know neither HTTP nor the settings.

mod accounts;
pub mod alerts;
mod audited;
pub mod batches;
mod credits;
mod execute;
pub mod export;
mod names;
mod operations;
mod people;
mod permission;
pub mod prices;
pub mod receipts;
mod reports;
pub mod top_ups;
pub mod view;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tollgate_storage::{AccountChange, AccountState};
use tollgate_types::id::TransferId;
use tollgate_types::{
    AccountId, AdminId, AuditId, BatchId, Credits, Error, ErrorCode, HoldId, KeyId, MemberId, RequestId,
    SubscriptionId, Timestamp,
};

pub use audited::Actor;
pub use operations::{BatchSource, DefaultLimits, Operations, ServerStatus};
pub use permission::Permission;
pub use prices::PriceTable;
pub use view::{Reply, TransferView};

/// A command of an operator. The control socket transfers it as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "command")]
pub enum Command {
    CreateAccount {
        /// Display name (1–200 characters).
        name: String,
        /// Whether the account has a test clock.
        #[serde(default)]
        test_clock: bool,
    },
    AdvanceClock {
        account: AccountId,
        /// New time of the test clock, at most 366 days ahead.
        to: Timestamp,
    },
    /// Lists accounts in order of creation.
    ListAccounts {
        /// Id of the last account of the previous page.
        #[serde(default)]
        after: Option<AccountId>,
        /// Page size; `None` for all.
        #[serde(default)]
        limit: Option<u32>,
        /// Text that the names must contain, ignoring case.
        #[serde(default)]
        name: Option<String>,
    },
    /// Returns an account with its balance and effective limits.
    ShowAccount {
        id: AccountId,
    },
    ChangeAccount {
        id: AccountId,
        /// Fields to change.
        #[serde(flatten)]
        change: AccountUpdate,
    },
    /// Closes an account and removes its personal data.
    CloseAccount {
        id: AccountId,
    },
    CreateKey {
        /// Account that owns the key.
        account: AccountId,
        /// Display name of the key.
        name: String,
        /// Number of days until the key expires; `None` for never.
        expires_in_days: Option<u32>,
        /// Compatibility level: `strict`, `standard` (default) or `lenient`.
        #[serde(default)]
        compat: Option<String>,
        /// Whether to create a test key, which reaches only simulated models and spends no credits.
        #[serde(default)]
        test: bool,
        /// Whether image requests wait for the images by default, instead of returning a job.
        #[serde(default)]
        sync: bool,
    },
    ListKeys {
        account: AccountId,
    },
    /// Changes the settings of a key; `None` leaves a setting unchanged.
    ChangeKey {
        id: KeyId,
        /// Compatibility level: `strict`, `standard` or `lenient`.
        compat: Option<String>,
        /// Whether image requests wait for the images by default.
        sync: Option<bool>,
    },
    /// Revokes a key permanently.
    RevokeKey {
        id: KeyId,
    },
    /// Adds credits to an account.
    Grant {
        account: AccountId,
        /// Amount and terms of the grant.
        #[serde(flatten)]
        grant: GrantParams,
    },
    /// Lists the grants and refunds of an account with their remaining credits.
    ListLots {
        account: AccountId,
        /// Whether to include used-up grants.
        all: bool,
    },
    /// Returns the available and held credits of an account.
    ShowBalance {
        account: AccountId,
    },
    /// Refunds the charge of a call.
    Refund {
        /// Id of the request that made the call.
        request: RequestId,
        /// Account that must own the call; `None` accepts any.
        #[serde(default)]
        account: Option<AccountId>,
        /// Credits to refund; `None` for the full refundable amount.
        amount: Option<Credits>,
        /// Note for operators.
        reason: Option<String>,
        /// Idempotency key of the refund. If `None`, the amount identifies the refund.
        key: Option<String>,
    },
    /// Withdraws the unused part of a purchase or promotion.
    RefundGrant {
        /// Id of the grant.
        id: TransferId,
    },
    /// Creates, configures or lists top-ups.
    TopUps {
        /// The action on top-ups.
        action: top_ups::TopUpAction,
    },
    /// Configures low-balance alerts, sends them, or lists their deliveries.
    Alerts {
        /// The action on alerts.
        action: alerts::AlertCommand,
    },
    /// Lists the plans of the settings.
    ListPlans,
    /// Subscribes an account to a plan and charges the first period.
    Subscribe {
        account: AccountId,
        /// Name of the plan.
        plan: String,
        /// `monthly` or `yearly`; `None` for the plan's default.
        cadence: Option<String>,
    },
    /// Creates a checkout page for a plan that the payment provider bills.
    OpenSubscription {
        account: AccountId,
        /// Name of the plan.
        plan: String,
        /// `monthly` or `yearly`; `None` for the plan's default.
        cadence: Option<String>,
    },
    /// Lists batches, newest first.
    ListBatches {
        /// Account of the batches; `None` for all accounts.
        account: Option<AccountId>,
        /// Last batch of the previous page.
        before: Option<BatchId>,
        /// Maximum number of batches to return.
        limit: u32,
    },
    ShowBatch {
        id: BatchId,
    },
    ListSubscriptions {
        account: AccountId,
    },
    /// Returns a subscription with its events.
    ShowSubscription {
        id: SubscriptionId,
    },
    /// Cancels, resumes or renews a subscription.
    ChangeSubscription {
        id: SubscriptionId,
        /// The action on the subscription.
        action: SubscriptionAction,
    },
    /// Changes the plan of a subscription.
    ChangePlan {
        id: SubscriptionId,
        /// Name of the new plan.
        plan: String,
        /// `monthly` or `yearly`; `None` for the plan's default.
        cadence: Option<String>,
    },
    /// Returns a page of an account's transfers, ordered by entry id and leg.
    ListTransfers {
        account: AccountId,
        /// Start of the time range, inclusive.
        from: Option<Timestamp>,
        /// End of the time range, exclusive.
        to: Option<Timestamp>,
        /// Last transfer of the previous page.
        after: Option<Box<TransferView>>,
    },
    /// Returns a page of an account's usage rows, newest first.
    ListUsage {
        account: AccountId,
        /// Start of the time range, inclusive.
        from: Option<Timestamp>,
        /// End of the time range, exclusive.
        to: Option<Timestamp>,
        /// Last row of the previous page.
        after: Option<HoldId>,
        /// Page size; `None` for the page size of exports.
        #[serde(default)]
        limit: Option<u32>,
    },
    /// Returns the balances and movements of an account in one month.
    ShowStatement {
        account: AccountId,
        /// Month, such as `2026-11`.
        month: String,
    },
    /// Lists the models of the catalog.
    ListModels,
    /// Recomputes the charges in the ledger and reports differences.
    AuditLedger {
        /// Account to audit; `None` for all.
        account: Option<AccountId>,
        /// Earliest end time of the audited calls, inclusive.
        from: Option<Timestamp>,
        /// Latest end time of the audited calls, exclusive.
        to: Option<Timestamp>,
    },
    /// Returns the charge of a call with its arithmetic.
    ShowReceipt {
        /// Id of the request. It has the same value as the id of the call's hold.
        request: RequestId,
    },
    /// Checks the invariants of the ledger.
    CheckLedger {
        /// Whether to recompute the cost of every usage row too.
        reprice: bool,
    },
    /// Creates an administrator and returns its token.
    CreateAdmin {
        /// Name in the audit log.
        name: String,
        /// `viewer`, `support`, `billing` or `owner`.
        role: String,
    },
    ListAdmins,
    /// Revokes an administrator permanently.
    RevokeAdmin {
        id: AdminId,
    },
    /// Returns a page of the audit log, newest first.
    ListAudit {
        /// Account that the entries concern; `None` for all.
        account: Option<AccountId>,
        /// Name of the actor; `None` for all.
        actor: Option<String>,
        /// Action, such as `credits.grant`; `None` for all.
        action: Option<String>,
        /// Start of the time range, inclusive.
        since: Option<Timestamp>,
        /// Last entry of the previous page.
        before: Option<AuditId>,
        /// Maximum number of entries to return.
        limit: u32,
    },
    /// Lists the configured providers with their health.
    ListProviders,
    /// Returns the addresses on which the running server listens.
    ShowServer,
    /// Lists the current prices of all models.
    ListPrices,
    /// Returns the price changes of a model.
    ShowPrices {
        /// Id of the model.
        model: String,
    },
    /// Compares proposed prices with the current ones, and applies them with `force`.
    CheckPrices {
        /// Proposed prices by model id.
        proposed: BTreeMap<String, PriceTable>,
        /// Whether to apply the proposed prices, regardless of the size of the changes.
        force: bool,
    },
    ListMembers {
        account: AccountId,
    },
    AddMember {
        account: AccountId,
        /// E-mail address of the member.
        email: String,
        /// `owner`, `admin`, `member` or `viewer`.
        role: String,
    },
    SetMemberRole {
        account: AccountId,
        /// Id of the member.
        id: MemberId,
        /// `owner`, `admin`, `member` or `viewer`.
        role: String,
    },
    RemoveMember {
        account: AccountId,
        /// Id of the member.
        id: MemberId,
    },
}

impl Command {
    /// Whether the command requires an existing database. Other commands create a database if none
    /// exists.
    pub fn needs_data(&self) -> bool {
        !matches!(self, Command::CreateAccount { .. } | Command::CreateAdmin { .. })
    }
}

/// Changes of an account; `None` leaves a field unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AccountUpdate {
    /// Display name (1–200 characters).
    pub name: Option<String>,
    /// Whether to suspend the account, so that its keys stop working.
    pub suspended: Option<bool>,
    /// Maximum number of requests per minute, above 0.
    pub rpm: Option<NewLimit<u32>>,
    /// Maximum number of tokens per minute, above 0.
    pub tpm: Option<NewLimit<u64>>,
    /// Maximum number of unrevoked keys.
    pub keys: Option<NewLimit<u32>>,
    /// Maximum number of concurrent GPUs. Not enforced yet.
    pub gpus: Option<NewLimit<u32>>,
    /// Maximum number of hosted agents. Not enforced yet.
    pub agents: Option<NewLimit<u32>>,
    /// Maximum number of saved chats. Not enforced yet.
    pub chats: Option<NewLimit<u32>>,
    /// Maximum number of stored files.
    pub files: Option<NewLimit<u32>>,
    /// Maximum total size of stored files, in GiB.
    pub files_gib: Option<NewLimit<u32>>,
    /// Maximum sum of the estimated tokens of all unfinished batches.
    pub batch_tokens: Option<NewLimit<u64>>,
}

impl AccountUpdate {
    /// Whether the update sets or removes any limit.
    pub fn sets_limits(&self) -> bool {
        let count_limits = [
            self.keys,
            self.gpus,
            self.agents,
            self.chats,
            self.files,
            self.files_gib,
        ];
        let tokens = [self.tpm, self.batch_tokens];
        self.rpm.is_some() || tokens.iter().any(Option::is_some) || count_limits.iter().any(Option::is_some)
    }
}

impl From<AccountUpdate> for AccountChange {
    fn from(change: AccountUpdate) -> Self {
        let state = |suspended| match suspended {
            true => AccountState::Suspended,
            false => AccountState::Active,
        };
        Self {
            name: change.name,
            state: change.suspended.map(state),
            rpm: change.rpm.map(NewLimit::own),
            tpm: change.tpm.map(NewLimit::own),
            keys: change.keys.map(NewLimit::own),
            gpus: change.gpus.map(NewLimit::own),
            agents: change.agents.map(NewLimit::own),
            chats: change.chats.map(NewLimit::own),
            files: change.files.map(NewLimit::own),
            files_gib: change.files_gib.map(NewLimit::own),
            batch_tokens: change.batch_tokens.map(NewLimit::own),
            test_clock: None,
        }
    }
}

/// Amount and terms of a grant of credits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantParams {
    /// Idempotency key of the grant within the account. If `None`, each command creates another
    /// grant.
    #[serde(default)]
    pub key: Option<String>,
    /// Credits to add, above zero.
    pub amount: Credits,
    /// Whether the credits are a promotion of the operator; otherwise they were paid for.
    #[serde(default)]
    pub promotion: bool,
    /// Number of days until unused credits expire, 1 to 36500.
    #[serde(default)]
    pub expires_in_days: Option<u32>,
    /// Expiry of unused credits. Cannot be combined with `expires_in_days`.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    /// Spending priority; lower values are spent first. `None` for
    /// [`LotTerms::PRIORITY`](tollgate_storage::LotTerms::PRIORITY).
    #[serde(default)]
    pub priority: Option<u8>,
    /// Note for operators.
    #[serde(default)]
    pub note: Option<String>,
}

/// An action on a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubscriptionAction {
    /// Ends the subscription at the end of the paid period.
    Cancel,
    /// Withdraws a scheduled cancellation.
    Resume,
    /// Charges the next period now.
    Renew,
}

/// A change of an account's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NewLimit<T> {
    /// Removes the override, so that the current and later defaults of the settings apply.
    Default,
    /// Sets an override of the default.
    Own(T),
}

impl<T> NewLimit<T> {
    /// Returns the override for the storage: `None` for the default.
    pub fn own(self) -> Option<T> {
        match self {
            NewLimit::Default => None,
            NewLimit::Own(limit) => Some(limit),
        }
    }
}

/// An error reply on the control socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandError {
    /// Error code, as in the public API.
    pub code: String,
    /// Message for operators, with the problem and its fix.
    pub message: String,
}

impl From<Error> for CommandError {
    fn from(error: Error) -> Self {
        if error.code == ErrorCode::InternalError {
            // Clients do not receive the source location of an internal error; the log contains it.
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::error!(cause, "command failed");
        }
        Self {
            code: error.code.as_str().to_owned(),
            message: error.operator_message(),
        }
    }
}

impl From<CommandError> for Error {
    fn from(error: CommandError) -> Self {
        let code = ErrorCode::parse(&error.code).unwrap_or(ErrorCode::InternalError);
        Error::new(code, error.message)
    }
}
