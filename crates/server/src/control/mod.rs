//! What operators do, from the command line and over the admin API. A command is a value: it is carried out in this
//! process, or by the server that has the database, over its socket or its admin listener. All ways run the same
//! [`perform`], which asks whether the actor may and keeps the audit log.

mod accounts;
pub mod alerts;
mod audited;
pub mod batches;
mod credits;
mod execute;
mod people;
mod permission;
pub mod prices;
pub mod receipts;
mod reports;
pub mod socket;
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

use crate::config::{Config, ConfigError};
use crate::{assemble, wiring};

pub use audited::{Actor, perform};
pub use permission::Permission;
pub use prices::PriceTable;
pub use view::{Reply, TransferView};

/// Something to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "command")]
pub enum Command {
    /// Creates an account.
    CreateAccount {
        /// For people.
        name: String,
        /// Whether it has a test clock.
        #[serde(default)]
        test_clock: bool,
    },
    /// Advances an account's test clock.
    AdvanceClock {
        /// Whose.
        account: AccountId,
        /// To which time of its own.
        to: Timestamp,
    },
    /// Lists accounts.
    ListAccounts {
        /// The last one of the page before.
        #[serde(default)]
        after: Option<AccountId>,
        /// How many; all when it is not said.
        #[serde(default)]
        limit: Option<u32>,
    },
    /// Shows an account with its balance.
    ShowAccount {
        /// Which.
        id: AccountId,
    },
    /// Changes an account.
    ChangeAccount {
        /// Which.
        id: AccountId,
        /// What becomes of it.
        #[serde(flatten)]
        change: AccountWish,
    },
    /// Creates a key.
    CreateKey {
        /// Whose.
        account: AccountId,
        /// For people.
        name: String,
        /// Days until it stops to work.
        expires_in_days: Option<u32>,
        /// Whether what a model cannot use is left out of requests.
        #[serde(default)]
        lenient: bool,
        /// Whether it reaches simulated models only and spends nothing.
        #[serde(default)]
        test: bool,
        /// Whether pictures are waited for, unless the request says otherwise.
        #[serde(default)]
        sync: bool,
    },
    /// Lists an account's keys.
    ListKeys {
        /// Whose.
        account: AccountId,
    },
    /// Changes a key; what is not said stays.
    ChangeKey {
        /// Which.
        id: KeyId,
        /// Whether what a model cannot use is left out of requests.
        lenient: Option<bool>,
        /// Whether pictures are waited for, unless the request says otherwise.
        sync: Option<bool>,
    },
    /// Revokes a key for ever.
    RevokeKey {
        /// Which.
        id: KeyId,
    },
    /// Puts credits into an account.
    Grant {
        /// Whose.
        account: AccountId,
        /// How many, and on which terms.
        #[serde(flatten)]
        grant: GrantWish,
    },
    /// Lists what is left of an account's grants and refunds.
    ListLots {
        /// Whose.
        account: AccountId,
        /// Whether those that are used up are listed, too.
        all: bool,
    },
    /// Shows what an account can spend.
    ShowBalance {
        /// Whose.
        account: AccountId,
    },
    /// Gives back what was charged for a call.
    Refund {
        /// The request of the call.
        request: RequestId,
        /// Whose call it must be, where that is said.
        #[serde(default)]
        account: Option<AccountId>,
        /// How many credits; all that can be given back when it is not said.
        amount: Option<Credits>,
        /// For operators.
        reason: Option<String>,
        /// What names the refund, so that it happens once; the amount when it is not said.
        key: Option<String>,
    },
    /// Takes back what is left of a grant that was paid for.
    RefundGrant {
        /// Which.
        id: TransferId,
    },
    /// Sells credits, or shows what was sold.
    TopUps {
        /// What is to be done.
        wish: top_ups::TopUpWish,
    },
    /// Tells accounts that their balance is low, or shows what they were told.
    Alerts {
        /// What is to be done.
        wish: alerts::AlertCommand,
    },
    /// Lists the plans that can be subscribed to.
    ListPlans,
    /// Subscribes an account to a plan.
    Subscribe {
        /// Which account.
        account: AccountId,
        /// The plan's name.
        plan: String,
        /// `monthly` or `yearly`; that of the plan when it is not said.
        cadence: Option<String>,
    },
    /// Opens a page on which a plan is begun that the payment provider renews.
    OpenSubscription {
        /// For which account.
        account: AccountId,
        /// The plan's name.
        plan: String,
        /// `monthly` or `yearly`; that of the plan when it is not said.
        cadence: Option<String>,
    },
    /// Lists batches, newest first.
    ListBatches {
        /// Of this account; of all when it is not said.
        account: Option<AccountId>,
        /// The last one of the page before.
        before: Option<BatchId>,
        /// How many.
        limit: u32,
    },
    /// Shows a batch.
    ShowBatch {
        /// Which.
        id: BatchId,
    },
    /// Lists an account's subscriptions.
    ListSubscriptions {
        /// Whose.
        account: AccountId,
    },
    /// Shows a subscription with what happened to it.
    ShowSubscription {
        /// Which.
        id: SubscriptionId,
    },
    /// Changes a subscription.
    ChangeSubscription {
        /// Which.
        id: SubscriptionId,
        /// How.
        wish: SubscriptionWish,
    },
    /// Makes another plan of a subscription.
    ChangePlan {
        /// Which.
        id: SubscriptionId,
        /// The plan's name.
        plan: String,
        /// `monthly` or `yearly`; that of the plan when it is not said.
        cadence: Option<String>,
    },
    /// A page of an account's transfers, in order of what they belong to.
    ListTransfers {
        /// Whose.
        account: AccountId,
        /// At or after.
        from: Option<Timestamp>,
        /// Before.
        to: Option<Timestamp>,
        /// The last one of the page before.
        after: Option<Box<TransferView>>,
    },
    /// A page of an account's usage rows, newest first.
    ListUsage {
        /// Whose.
        account: AccountId,
        /// At or after.
        from: Option<Timestamp>,
        /// Before.
        to: Option<Timestamp>,
        /// The last one of the page before.
        after: Option<HoldId>,
        /// How many; a page of exports when it is not said.
        #[serde(default)]
        limit: Option<u32>,
    },
    /// What an account had, got, spent and lost within a month.
    ShowStatement {
        /// Whose.
        account: AccountId,
        /// Such as `2026-11`.
        month: String,
    },
    /// Lists the models that can be called.
    ListModels,
    /// Recomputes charges.
    AuditLedger {
        /// Those of this account.
        account: Option<AccountId>,
        /// Of calls that ended at or after this time.
        from: Option<Timestamp>,
        /// Of calls that ended before it.
        to: Option<Timestamp>,
    },
    /// Shows the charge of a call with its arithmetic.
    ShowReceipt {
        /// The call's request; its hold has the same value.
        request: RequestId,
    },
    /// Checks the books.
    CheckLedger {
        /// Whether every usage row is priced again.
        reprice: bool,
    },
    /// Makes an administrator.
    CreateAdmin {
        /// The name in the audit log.
        name: String,
        /// `viewer`, `support`, `billing` or `owner`.
        role: String,
    },
    /// Lists administrators.
    ListAdmins,
    /// Revokes an administrator for ever.
    RevokeAdmin {
        /// Which.
        id: AdminId,
    },
    /// A page of the audit log, newest first.
    ListAudit {
        /// About this account.
        account: Option<AccountId>,
        /// By this name.
        actor: Option<String>,
        /// Those that did this.
        action: Option<String>,
        /// At or after.
        since: Option<Timestamp>,
        /// The last one of the page before.
        before: Option<AuditId>,
        /// How many.
        limit: u32,
    },
    /// Lists the providers in use.
    ListProviders,
    /// Lists the prices in force.
    ListPrices,
    /// Shows the changes of a model's prices.
    ShowPrices {
        /// The model's id.
        model: String,
    },
    /// Compares prices with those in force.
    CheckPrices {
        /// The new prices, by model.
        proposed: BTreeMap<String, PriceTable>,
        /// Whether they are in force from now on, however far they are.
        force: bool,
    },
    /// Lists the members of an account.
    ListMembers {
        /// Whose.
        account: AccountId,
    },
    /// Adds a member to an account.
    AddMember {
        /// Which account.
        account: AccountId,
        /// The member's address.
        email: String,
        /// `owner`, `admin`, `member` or `viewer`.
        role: String,
    },
    /// Changes what a member may do.
    SetMemberRole {
        /// Whose.
        account: AccountId,
        /// Which member.
        id: MemberId,
        /// `owner`, `admin`, `member` or `viewer`.
        role: String,
    },
    /// Removes a member from an account.
    RemoveMember {
        /// Whose.
        account: AccountId,
        /// Which member.
        id: MemberId,
    },
}

/// What is to become of an account; what is not said stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AccountWish {
    /// Its name.
    pub name: Option<String>,
    /// Whether its keys stop to work.
    pub suspended: Option<bool>,
    /// Requests per minute.
    pub rpm: Option<NewLimit<u32>>,
    /// Tokens per minute.
    pub tpm: Option<NewLimit<u64>>,
    /// Keys that are not revoked.
    pub keys: Option<NewLimit<u32>>,
    /// GPUs at once.
    pub gpus: Option<NewLimit<u32>>,
    /// Hosted agents.
    pub agents: Option<NewLimit<u32>>,
    /// Saved chats.
    pub chats: Option<NewLimit<u32>>,
    /// Files that are kept.
    pub files: Option<NewLimit<u32>>,
    /// GiB of all of them together.
    pub files_gib: Option<NewLimit<u32>>,
    /// Tokens that unfinished batches may consume together.
    pub batch_tokens: Option<NewLimit<u64>>,
}

impl AccountWish {
    /// Whether any limit is set.
    pub fn sets_limits(&self) -> bool {
        let things = [
            self.keys,
            self.gpus,
            self.agents,
            self.chats,
            self.files,
            self.files_gib,
        ];
        let tokens = [self.tpm, self.batch_tokens];
        self.rpm.is_some() || tokens.iter().any(Option::is_some) || things.iter().any(Option::is_some)
    }
}

impl From<AccountWish> for AccountChange {
    fn from(wish: AccountWish) -> Self {
        let state = |suspended| match suspended {
            true => AccountState::Suspended,
            false => AccountState::Active,
        };
        Self {
            name: wish.name,
            state: wish.suspended.map(state),
            rpm: wish.rpm.map(NewLimit::own),
            tpm: wish.tpm.map(NewLimit::own),
            keys: wish.keys.map(NewLimit::own),
            gpus: wish.gpus.map(NewLimit::own),
            agents: wish.agents.map(NewLimit::own),
            chats: wish.chats.map(NewLimit::own),
            files: wish.files.map(NewLimit::own),
            files_gib: wish.files_gib.map(NewLimit::own),
            batch_tokens: wish.batch_tokens.map(NewLimit::own),
            test_clock: None,
        }
    }
}

/// Credits to be put into an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantWish {
    /// What names the grant in the account, so that it happens once.
    #[serde(default)]
    pub key: Option<String>,
    /// How many.
    pub amount: Credits,
    /// Whether the operator gives them, as opposed to that they were paid for.
    #[serde(default)]
    pub promotion: bool,
    /// Days until what is left of them is gone.
    #[serde(default)]
    pub expires_in_days: Option<u32>,
    /// When what is left of them is gone, where no days are given.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    /// What has a lower priority is spent first; that of [`tollgate_storage::LotTerms`] when it is not said.
    #[serde(default)]
    pub priority: Option<u8>,
    /// For operators.
    #[serde(default)]
    pub note: Option<String>,
}

/// What is to become of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubscriptionWish {
    /// It ends with the time that is paid for.
    Cancel,
    /// It goes on after all.
    Resume,
    /// Its next period is paid.
    Renew,
}

/// What a limit of an account becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NewLimit<T> {
    /// The one of the settings, whatever they say from now on.
    Default,
    /// The account's own.
    Own(T),
}

impl<T> NewLimit<T> {
    /// As it is stored: nothing for the default.
    pub fn own(self) -> Option<T> {
        match self {
            NewLimit::Default => None,
            NewLimit::Own(limit) => Some(limit),
        }
    }
}

/// A failure that crosses the socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandError {
    /// The error code.
    pub code: String,
    /// What happened and what to do.
    pub message: String,
}

impl From<Error> for CommandError {
    fn from(error: Error) -> Self {
        // Operators are told the cause; callers of the public API never are.
        let cause = std::error::Error::source(&error)
            .map(|cause| format!(" ({cause})"))
            .unwrap_or_default();
        Self {
            code: error.code.as_str().to_owned(),
            message: format!("{}{cause}", error.message),
        }
    }
}

impl From<CommandError> for Error {
    fn from(error: CommandError) -> Self {
        let code = ErrorCode::parse(&error.code).unwrap_or(ErrorCode::InternalError);
        Error::new(code, error.message)
    }
}

/// Why a command was not carried out.
#[derive(Debug)]
pub enum RunError {
    /// The settings cannot be used.
    Settings(ConfigError),
    /// It failed.
    Command(Error),
}

impl From<ConfigError> for RunError {
    fn from(error: ConfigError) -> Self {
        Self::Settings(error)
    }
}

impl From<Error> for RunError {
    fn from(error: Error) -> Self {
        Self::Command(error)
    }
}

/// Carries out a command: by the server that has the database when one runs, else here. Blocks.
pub fn run(config: &Config, command: Command) -> Result<Reply, RunError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::internal)?;
    runtime.block_on(run_async(config, command))
}

/// Compares the prices of the settings with those in force; with `force` they are in force from now on. Blocks.
pub fn check_prices(config: &Config, force: bool) -> Result<Reply, RunError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::internal)?;
    runtime.block_on(async {
        let assembled = assemble::assemble(config, &assemble::http_client(config)).await?;
        let proposed = prices::tables(&assembled.snapshot);
        run_async(config, Command::CheckPrices { proposed, force }).await
    })
}

/// Carries out commands one after another as [`run`] does one, each made of the answer before it. Blocks.
pub fn run_each(
    config: &Config,
    first: Command,
    next: impl FnMut(Reply) -> Result<Option<Command>, Error>,
) -> Result<(), RunError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::internal)?;
    runtime.block_on(run_each_async(config, first, next))
}

async fn run_async(config: &Config, command: Command) -> Result<Reply, RunError> {
    let mut answer = None;
    run_each_async(config, command, |reply| {
        answer = Some(reply);
        Ok(None)
    })
    .await?;
    answer.ok_or_else(|| Error::internal("a command without an answer").into())
}

async fn run_each_async(
    config: &Config,
    command: Command,
    mut next: impl FnMut(Reply) -> Result<Option<Command>, Error>,
) -> Result<(), RunError> {
    if let Some(home) = config.home()
        && socket::is_served(home).await
    {
        let mut command = Some(command);
        while let Some(wanted) = command {
            command = next(socket::send(home, &wanted).await?)?;
        }
        return Ok(());
    }
    let assembled = match command {
        Command::ListModels => Some(assemble::assemble(config, &assemble::http_client(config)).await?),
        _ => None,
    };
    let domains = wiring::domains(config).await.map_err(unopened)?;
    if let Some(assembled) = assembled {
        domains.catalog.replace(assembled.snapshot);
    }
    let done = execute_each(&domains, command, next).await;
    domains.storage.engine.close().await.map_err(Error::internal)?;
    Ok(done?)
}

async fn execute_each(
    domains: &wiring::Domains,
    first: Command,
    mut next: impl FnMut(Reply) -> Result<Option<Command>, Error>,
) -> Result<(), Error> {
    let mut command = Some(first);
    let actor = Actor::command_line();
    while let Some(wanted) = command {
        command = next(perform(domains, &actor, wanted).await?)?;
    }
    Ok(())
}

fn unopened(error: anyhow::Error) -> RunError {
    match error.downcast::<ConfigError>() {
        Ok(error) => error.into(),
        Err(error) => Error::new(ErrorCode::Overloaded, format!("{error:#}")).into(),
    }
}
