//! Commands of operators, from the command line and the admin API. Each command is a struct that
//! implements [`Operation`]: it declares its permissions and its line in the audit log, and
//! executes itself. [`Operations::execute`] runs it for an [`Actor`]. [`wire`] defines the form in
//! which the command line sends commands to a server. Commands depend neither on HTTP nor on the
//! settings.
//!
//! Suggested reading order: [`operation`], [`audited`], one group such as [`people`], [`wire`].

#[macro_use]
pub mod wire;

mod accounts;
pub mod alerts;
mod audited;
pub mod batches;
mod credits;
pub mod export;
mod key_rights;
mod keys;
mod ledger;
mod members;
mod models;
mod names;
mod operation;
mod operations;
mod people;
mod permission;
pub mod prices;
mod providers;
pub mod receipts;
mod reports;
pub mod research;
pub mod sessions;
mod sign_ins;
mod subscriptions;
pub mod top_ups;
pub mod view;
pub mod webhooks;

pub use accounts::{AccountUpdate, NewLimit, check_not_suspended};
pub use audited::Actor;
pub use credits::GrantParams;
pub use key_rights::Selection;
pub use members::SignInTarget;
pub use operation::{Completed, Declaration, Operation, Reply};
pub use operations::{BatchSource, ConsoleUrls, DefaultLimits, Operations, ResearchSource, ServerStatus};
pub use permission::{MemberPermission, Permission};
pub use prices::PriceTable;
pub use sessions::SessionSource;
pub use subscriptions::SubscriptionAction;
pub use view::TransferView;
pub use wire::CommandError;

commands! {
    accounts: [
        CreateAccount, AdvanceClock, ListAccounts, ShowAccount, ShowLimits, ChangeAccount, CloseAccount,
    ],
    alerts: [SetAlert, ShowAlert, RemoveAlert, ListNotices, SendAlerts],
    batches: [ListBatches, ShowBatch],
    credits: [GrantCredits, ListLots, ShowBalance, RefundCall, RefundGrant],
    export: [ExportPage],
    keys: [CreateKey, ListKeys, ChangeKey, RotateKey, RevokeKey],
    ledger: [AuditLedger, ShowReceipt, ShowCall, CheckLedger],
    models: [ListModels],
    members: [
        ListMembers, AddMember, SetMemberRole, RemoveMember, InviteMember, RenewInvitation, CreateSignInLink,
    ],
    people: [CreateAdmin, ListAdmins, RevokeAdmin, ListAudit],
    prices: [ListPrices, ShowPrices, CheckPrices],
    providers: [ListProviders, ShowServer],
    reports: [ListTransfers, ListUsage, ShowStatement],
    research: [ListResearchJobs, ShowResearchJob, ShowResearchSources],
    sessions: [ListRealtimeSessions, EndRealtimeSession],
    subscriptions: [
        ListPlans, ListOfferedPlans, Subscribe, OpenSubscription, ListSubscriptions, ShowSubscription, ChangeSubscription,
        ChangePlan,
    ],
    top_ups: [
        OpenTopUp, OpenPortal, ListTopUps, ShowAutoTopUp, SetAutoTopUp, RemoveAutoTopUp, RunTopUps,
    ],
    webhooks: [ListDeliveries, Redeliver],
}
