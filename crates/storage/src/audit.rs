//! Visitor over all ledger rows, used by `tollgate ledger check` and `tollgate ledger audit`.

use std::fmt;

use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, HoldId, PriceVersion, Prices, Timestamp};

use crate::batch::ChargedLine;
use crate::chain::{Chain, Link};
use crate::lot::Lot;
use crate::refund::Refund;
use crate::subscription::PlanUse;
use crate::usage::{UsagePart, UsageRow};

/// The ledger accounts of one tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LedgerAccount {
    /// Counterpart of purchases and grants. The balance decreases as credits are bought or granted,
    /// and is never positive.
    Cash,
    /// Credits that the tenant can spend; never below zero.
    Credits,
    /// Credits and allowance held by running calls; never below zero.
    Hold,
    /// Charges of calls that credits paid, and the overruns and crash losses that the operator
    /// bears.
    RevenueUsage,
    /// Cost of calls beyond their hold, borne by the operator. The balance is never positive.
    ExpenseOverrun,
    /// Unused allowance of the open week of a plan; never below zero.
    Allowance,
    /// Source of allowances. The balance is never positive.
    GrantPlan,
    /// Charges of calls that allowances paid.
    RevenueIncluded,
    /// Fees paid with credits for plans and hosted agents.
    RevenuePlan,
    /// Unused allowances of closed weeks, and unspent credits of expired lots.
    Breakage,
    /// Promotional credits given by the operator. The balance is never positive.
    ExpenseGoodwill,
    /// Refunds of charges. The balance is never positive.
    RevenueRefunds,
    /// Credits that nodes have leased for the calls that they serve; never below zero.
    Lease,
    /// Cost of calls that a node reported after its lease had been reclaimed, borne by the
    /// operator. The balance is never positive.
    ExpenseCrashLoss,
}

impl LedgerAccount {
    /// All ledger accounts.
    pub const ALL: [LedgerAccount; 14] = [
        LedgerAccount::Cash,
        LedgerAccount::Credits,
        LedgerAccount::Hold,
        LedgerAccount::RevenueUsage,
        LedgerAccount::ExpenseOverrun,
        LedgerAccount::Allowance,
        LedgerAccount::GrantPlan,
        LedgerAccount::RevenueIncluded,
        LedgerAccount::RevenuePlan,
        LedgerAccount::Breakage,
        LedgerAccount::ExpenseGoodwill,
        LedgerAccount::RevenueRefunds,
        LedgerAccount::Lease,
        LedgerAccount::ExpenseCrashLoss,
    ];

    /// Returns the name used in storage.
    pub const fn as_str(self) -> &'static str {
        match self {
            LedgerAccount::Cash => "cash",
            LedgerAccount::Credits => "credits",
            LedgerAccount::Hold => "hold",
            LedgerAccount::RevenueUsage => "revenue:usage",
            LedgerAccount::ExpenseOverrun => "expense:overrun",
            LedgerAccount::Allowance => "allowance",
            LedgerAccount::GrantPlan => "grant:plan",
            LedgerAccount::RevenueIncluded => "revenue:included",
            LedgerAccount::RevenuePlan => "revenue:plan",
            LedgerAccount::Breakage => "breakage",
            LedgerAccount::ExpenseGoodwill => "expense:goodwill",
            LedgerAccount::RevenueRefunds => "revenue:refunds",
            LedgerAccount::Lease => "lease",
            LedgerAccount::ExpenseCrashLoss => "expense:crash_loss",
        }
    }

    /// Parses the name used in storage.
    pub fn parse(name: &str) -> Option<Self> {
        LedgerAccount::ALL
            .into_iter()
            .find(|account| account.as_str() == name)
    }

    /// Whether the balance must not go below zero.
    pub const fn is_constrained(self) -> bool {
        matches!(
            self,
            LedgerAccount::Credits | LedgerAccount::Hold | LedgerAccount::Allowance | LedgerAccount::Lease
        )
    }
}

/// Stored balance of one ledger account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerBalance {
    /// Ledger account of the balance.
    pub account: LedgerAccount,
    /// Balance in nano-credits; negative for the sources of credits, such as
    /// [`LedgerAccount::Cash`].
    pub balance: Credits,
}

/// Operation that a transfer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransferSubject {
    /// A hold. The leg of the transfer determines the step, such as hold, settlement or release.
    Hold(HoldId),
    /// A grant of credits from outside.
    Grant(TransferId),
    /// A week of a plan.
    Window(TransferId),
    /// A paid period of a subscription.
    Period(TransferId),
    /// Credits that expired or were withdrawn from a lot.
    Lot(TransferId),
    /// A refund of a call's charge.
    Refund(TransferId),
    /// A change of the size of a lease.
    Lease(TransferId),
}

impl TransferSubject {
    /// Returns the name used in storage.
    pub const fn as_str(self) -> &'static str {
        match self {
            TransferSubject::Hold(_) => "hold",
            TransferSubject::Grant(_) => "grant",
            TransferSubject::Window(_) => "window",
            TransferSubject::Period(_) => "period",
            TransferSubject::Lot(_) => "lot",
            TransferSubject::Refund(_) => "refund",
            TransferSubject::Lease(_) => "lease",
        }
    }

    /// Returns the 128 bits of the id.
    pub const fn entry(self) -> u128 {
        match self {
            TransferSubject::Hold(id) => id.as_u128(),
            TransferSubject::Grant(id)
            | TransferSubject::Window(id)
            | TransferSubject::Period(id)
            | TransferSubject::Lot(id)
            | TransferSubject::Refund(id)
            | TransferSubject::Lease(id) => id.as_u128(),
        }
    }

    /// Returns the subject with this stored name and id; `None` if the name is unknown.
    pub fn parse(name: &str, entry: u128) -> Option<Self> {
        match name {
            "hold" => Some(TransferSubject::Hold(HoldId::from_u128(entry))),
            "grant" => Some(TransferSubject::Grant(TransferId::from_u128(entry))),
            "window" => Some(TransferSubject::Window(TransferId::from_u128(entry))),
            "period" => Some(TransferSubject::Period(TransferId::from_u128(entry))),
            "lot" => Some(TransferSubject::Lot(TransferId::from_u128(entry))),
            "refund" => Some(TransferSubject::Refund(TransferId::from_u128(entry))),
            "lease" => Some(TransferSubject::Lease(TransferId::from_u128(entry))),
            _ => None,
        }
    }
}

/// The name and the id, such as `grant xfer_0197…`.
impl fmt::Display for TransferSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransferSubject::Hold(id) => write!(f, "hold {id}"),
            TransferSubject::Grant(id)
            | TransferSubject::Window(id)
            | TransferSubject::Period(id)
            | TransferSubject::Lot(id)
            | TransferSubject::Refund(id)
            | TransferSubject::Lease(id) => write!(f, "{} {id}", self.as_str()),
        }
    }
}

/// Step of an operation. Each step is one transfer, between the accounts that the variants name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Leg {
    /// `cash → credits`.
    Grant,
    /// `credits → hold`.
    Hold,
    /// `hold → revenue:usage`.
    Settle,
    /// `hold → credits`.
    Release,
    /// `expense:overrun → revenue:usage`.
    Overrun,
    /// `allowance → hold`: the part of a hold that a plan pays.
    HoldAllowance,
    /// `hold → revenue:included`.
    SettleIncluded,
    /// `hold → allowance`.
    ReleaseAllowance,
    /// `hold → breakage`: the week of the held allowance is closed.
    ReleaseBreakage,
    /// `grant:plan → allowance`.
    OpenWindow,
    /// `allowance → breakage`.
    CloseWindow,
    /// `credits → revenue:plan`.
    PlanFee,
    /// `expense:goodwill → credits`.
    Promotion,
    /// `credits → breakage`: a lot has expired.
    Expire,
    /// `credits → cash`: the unspent rest of a purchase is withdrawn.
    Withdraw,
    /// `revenue:refunds → credits`.
    Refund,
    /// `revenue:refunds → allowance`.
    RefundAllowance,
    /// `credits → lease`.
    Lease,
    /// `lease → credits`.
    ReturnLease,
    /// `lease → hold`: a hold paid from a node's lease.
    HoldLease,
    /// `hold → lease`.
    ReleaseLease,
    /// `expense:crash_loss → revenue:usage`: the lease had been reclaimed when the call was
    /// reported.
    CrashLoss,
    /// `credits → expense:goodwill`: the unspent rest of a promotion is withdrawn.
    RevokePromotion,
    /// `hold → credits` while the job of the hold still runs: the part that the job can no longer
    /// cost. The value is the number of the release, from 0.
    ReleaseEarly(u8),
}

/// Maximum number of partial releases of a hold before it is resolved.
pub const MAX_EARLY_RELEASES: u8 = 16;
/// Stored number of the first early release; the others follow it.
const FIRST_EARLY_RELEASE: i16 = 100;
const EARLY_RELEASE_NAMES: [&str; MAX_EARLY_RELEASES as usize] = [
    "release_early_1",
    "release_early_2",
    "release_early_3",
    "release_early_4",
    "release_early_5",
    "release_early_6",
    "release_early_7",
    "release_early_8",
    "release_early_9",
    "release_early_10",
    "release_early_11",
    "release_early_12",
    "release_early_13",
    "release_early_14",
    "release_early_15",
    "release_early_16",
];

/// The name shown to users.
impl fmt::Display for Leg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Leg {
    /// All steps except the numbered early releases. Each occurs at most once for a subject.
    const UNNUMBERED: [Leg; 23] = [
        Leg::Grant,
        Leg::Hold,
        Leg::Settle,
        Leg::Release,
        Leg::Overrun,
        Leg::HoldAllowance,
        Leg::SettleIncluded,
        Leg::ReleaseAllowance,
        Leg::ReleaseBreakage,
        Leg::OpenWindow,
        Leg::CloseWindow,
        Leg::PlanFee,
        Leg::Promotion,
        Leg::Expire,
        Leg::Withdraw,
        Leg::Refund,
        Leg::RefundAllowance,
        Leg::Lease,
        Leg::ReturnLease,
        Leg::HoldLease,
        Leg::ReleaseLease,
        Leg::CrashLoss,
        Leg::RevokePromotion,
    ];

    /// Returns all steps, including the numbered early releases.
    pub fn all() -> impl Iterator<Item = Leg> {
        Leg::UNNUMBERED
            .into_iter()
            .chain((0..MAX_EARLY_RELEASES).map(Leg::ReleaseEarly))
    }

    /// Returns the name shown to users.
    pub fn as_str(self) -> &'static str {
        match self {
            Leg::ReleaseEarly(number) => EARLY_RELEASE_NAMES
                .get(usize::from(number))
                .copied()
                .unwrap_or("release_early"),
            Leg::Grant => "grant",
            Leg::Hold => "hold",
            Leg::Settle => "settle",
            Leg::Release => "release",
            Leg::Overrun => "overrun",
            Leg::HoldAllowance => "hold_allowance",
            Leg::SettleIncluded => "settle_included",
            Leg::ReleaseAllowance => "release_allowance",
            Leg::ReleaseBreakage => "release_breakage",
            Leg::OpenWindow => "open_week",
            Leg::CloseWindow => "close_week",
            Leg::PlanFee => "plan_fee",
            Leg::Promotion => "promotion",
            Leg::Expire => "expire",
            Leg::Withdraw => "withdraw",
            Leg::Refund => "refund",
            Leg::RefundAllowance => "refund_allowance",
            Leg::Lease => "lease",
            Leg::ReturnLease => "return_lease",
            Leg::HoldLease => "hold_lease",
            Leg::ReleaseLease => "release_lease",
            Leg::CrashLoss => "crash_loss",
            Leg::RevokePromotion => "revoke_promotion",
        }
    }

    /// Parses the name shown to users.
    pub fn parse(name: &str) -> Option<Self> {
        Leg::all().find(|leg| leg.as_str() == name)
    }

    /// Returns the number used in storage.
    pub const fn as_i16(self) -> i16 {
        match self {
            Leg::Grant => 0,
            Leg::Hold => 1,
            Leg::Settle => 2,
            Leg::Release => 3,
            Leg::Overrun => 4,
            Leg::HoldAllowance => 5,
            Leg::SettleIncluded => 6,
            Leg::ReleaseAllowance => 7,
            Leg::ReleaseBreakage => 8,
            Leg::OpenWindow => 9,
            Leg::CloseWindow => 10,
            Leg::PlanFee => 11,
            Leg::Promotion => 12,
            Leg::Expire => 13,
            Leg::Withdraw => 14,
            Leg::Refund => 15,
            Leg::RefundAllowance => 16,
            Leg::Lease => 17,
            Leg::ReturnLease => 18,
            Leg::HoldLease => 19,
            Leg::ReleaseLease => 20,
            Leg::CrashLoss => 21,
            Leg::RevokePromotion => 22,
            Leg::ReleaseEarly(number) => FIRST_EARLY_RELEASE + number as i16,
        }
    }

    /// Parses the number used in storage.
    pub fn from_i16(number: i16) -> Option<Self> {
        Leg::all().find(|leg| leg.as_i16() == number)
    }

    /// Returns the debited and the credited ledger account.
    pub const fn sides(self) -> (LedgerAccount, LedgerAccount) {
        match self {
            Leg::Grant => (LedgerAccount::Cash, LedgerAccount::Credits),
            Leg::Hold => (LedgerAccount::Credits, LedgerAccount::Hold),
            Leg::Settle => (LedgerAccount::Hold, LedgerAccount::RevenueUsage),
            Leg::Release | Leg::ReleaseEarly(_) => (LedgerAccount::Hold, LedgerAccount::Credits),
            Leg::Overrun => (LedgerAccount::ExpenseOverrun, LedgerAccount::RevenueUsage),
            Leg::HoldAllowance => (LedgerAccount::Allowance, LedgerAccount::Hold),
            Leg::SettleIncluded => (LedgerAccount::Hold, LedgerAccount::RevenueIncluded),
            Leg::ReleaseAllowance => (LedgerAccount::Hold, LedgerAccount::Allowance),
            Leg::ReleaseBreakage => (LedgerAccount::Hold, LedgerAccount::Breakage),
            Leg::OpenWindow => (LedgerAccount::GrantPlan, LedgerAccount::Allowance),
            Leg::CloseWindow => (LedgerAccount::Allowance, LedgerAccount::Breakage),
            Leg::PlanFee => (LedgerAccount::Credits, LedgerAccount::RevenuePlan),
            Leg::Promotion => (LedgerAccount::ExpenseGoodwill, LedgerAccount::Credits),
            Leg::Expire => (LedgerAccount::Credits, LedgerAccount::Breakage),
            Leg::Withdraw => (LedgerAccount::Credits, LedgerAccount::Cash),
            Leg::Refund => (LedgerAccount::RevenueRefunds, LedgerAccount::Credits),
            Leg::RefundAllowance => (LedgerAccount::RevenueRefunds, LedgerAccount::Allowance),
            Leg::Lease => (LedgerAccount::Credits, LedgerAccount::Lease),
            Leg::ReturnLease => (LedgerAccount::Lease, LedgerAccount::Credits),
            Leg::HoldLease => (LedgerAccount::Lease, LedgerAccount::Hold),
            Leg::ReleaseLease => (LedgerAccount::Hold, LedgerAccount::Lease),
            Leg::CrashLoss => (LedgerAccount::ExpenseCrashLoss, LedgerAccount::RevenueUsage),
            Leg::RevokePromotion => (LedgerAccount::Credits, LedgerAccount::ExpenseGoodwill),
        }
    }
}

/// A stored transfer between two ledger accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferRow {
    /// Operation that the transfer belongs to.
    pub subject: TransferSubject,
    /// Step of that operation.
    pub leg: Leg,
    /// Ledger account whose balance decreases by the amount.
    pub debit: LedgerAccount,
    /// Ledger account whose balance increases by the amount.
    pub credit: LedgerAccount,
    /// Amount in nano-credits, above zero.
    pub amount: Credits,
    /// Time of the transfer.
    pub created_at: Timestamp,
    /// Price version that applied, for transfers of a call.
    pub price_version: Option<PriceVersion>,
    /// Position in the account's chain; `None` for transfers older than the chain.
    pub link: Option<Link>,
}

/// A hold that was neither settled nor released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenHold {
    /// Id of the hold and of its later usage row.
    pub id: HoldId,
    /// Held credits and allowance, less early releases.
    pub amount: Credits,
    /// Part of the amount that comes from a plan's allowance.
    pub allowance: Credits,
    /// Plan that applied when the hold was taken.
    pub plan: Option<PlanUse>,
    /// Time when the sweep may void the hold.
    pub expires_at: Timestamp,
}

/// Credits of an account that a node has leased for the calls that it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenLease {
    /// Unique id of the lease.
    pub id: TransferId,
    /// Unspent credits of the lease, as last reported by the node.
    pub balance: Credits,
    /// Credits held by running calls of the node, as last reported.
    pub in_flight: Credits,
    /// Time until which the node may take holds from the lease.
    pub expires_at: Timestamp,
    /// Time when another node may close the lease, even if its node has not reported.
    pub reclaim_at: Timestamp,
}

/// Receives all ledger rows. The rows of an account arrive in this order: `account`, its
/// `balance`s, its `chain`, its `lot`s, its open `lease`s and `hold`s, its `refund`s, its `line`s,
/// its `transfer`s, `part`s and `usage` rows, `account_end`. Transfers, parts and usage rows arrive
/// in ascending order of the 128 bits of their subject; a call's transfers precede its parts, and
/// both precede its usage row. All `price`s precede the first account.
pub trait AuditVisitor: Send {
    /// Receives a price version with its model.
    fn price(&mut self, version: PriceVersion, model: &str, prices: &Prices);
    /// Starts the rows of an account.
    fn account(&mut self, account: AccountId);
    /// Receives a stored balance of the account.
    fn balance(&mut self, balance: LedgerBalance);
    /// Receives the stored state of the account's chain.
    fn chain(&mut self, chain: Chain);
    /// Receives a lot of the account, spent or not.
    fn lot(&mut self, lot: &Lot);
    /// Receives an open lease of the account.
    fn lease(&mut self, lease: OpenLease);
    /// Receives an open hold of the account.
    fn hold(&mut self, hold: OpenHold);
    /// Receives a transfer of the account.
    fn transfer(&mut self, transfer: TransferRow);
    /// Receives a part of a usage row of the account.
    fn part(&mut self, row: HoldId, part: &UsagePart);
    /// Receives a usage row of the account.
    fn usage(&mut self, row: &UsageRow);
    /// Receives a refund of the account.
    fn refund(&mut self, refund: &Refund);
    /// Receives a batch line of the account, possibly still running.
    fn line(&mut self, line: &ChargedLine);
    /// Ends the rows of the account.
    fn account_end(&mut self);
    /// Reports a row that cannot be decoded, because a name or number is outside its range.
    fn unreadable(&mut self, what: String);
}
