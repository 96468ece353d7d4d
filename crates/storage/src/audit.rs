//! Reading the books from outside: what `tollgate ledger check` is shown.

use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, HoldId, PriceVersion, Prices, Timestamp};

use crate::batch::ChargedLine;
use crate::chain::{Chain, Link};
use crate::lot::Lot;
use crate::refund::Refund;
use crate::subscription::PlanUse;
use crate::usage::{UsagePart, UsageRow};

/// The ledger accounts of a tenant's book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LedgerAccount {
    /// The world outside. It goes down as credits are bought or granted.
    Cash,
    /// What the tenant can spend. Never below zero.
    Credits,
    /// What is held by calls that run. Never below zero.
    Hold,
    /// What calls have cost.
    RevenueUsage,
    /// What calls cost beyond their hold, borne by the operator. It goes down.
    ExpenseOverrun,
    /// What is left of the open week of a plan. Never below zero.
    Allowance,
    /// Where allowances come from. It goes down.
    GrantPlan,
    /// What calls have cost and allowances paid.
    RevenueIncluded,
    /// What was paid for plans.
    RevenuePlan,
    /// What was left of allowances when their week was over, and of lots that expired.
    Breakage,
    /// What the operator gave away. It goes down.
    ExpenseGoodwill,
    /// What was charged and given back. It goes down.
    RevenueRefunds,
    /// What nodes have taken out of credits ahead of the calls that they serve. Never below zero.
    Lease,
    /// What calls cost that a node reported when its lease was gone, borne by the operator. It goes down.
    ExpenseCrashLoss,
}

impl LedgerAccount {
    /// Every ledger account.
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

    /// The name used in storage.
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

    /// The ledger account with this name.
    pub fn parse(name: &str) -> Option<Self> {
        LedgerAccount::ALL
            .into_iter()
            .find(|account| account.as_str() == name)
    }

    /// Whether the balance may not go below zero.
    pub const fn is_constrained(self) -> bool {
        matches!(
            self,
            LedgerAccount::Credits | LedgerAccount::Hold | LedgerAccount::Allowance | LedgerAccount::Lease
        )
    }
}

/// A stored balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerBalance {
    /// Which ledger account.
    pub account: LedgerAccount,
    /// Its balance.
    pub balance: Credits,
}

/// What a transfer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransferSubject {
    /// A hold; the leg says which step.
    Hold(HoldId),
    /// A grant.
    Grant(TransferId),
    /// A week of a plan.
    Window(TransferId),
    /// A period that was paid for.
    Period(TransferId),
    /// A part of a lot that left it.
    Lot(TransferId),
    /// A refund.
    Refund(TransferId),
    /// A change of the size of a lease.
    Lease(TransferId),
}

impl TransferSubject {
    /// The name used in storage.
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

    /// The 128 bits of the id.
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

    /// The subject with this name in storage.
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

/// Which step a transfer is.
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
    /// `allowance → hold`.
    HoldAllowance,
    /// `hold → revenue:included`.
    SettleIncluded,
    /// `hold → allowance`.
    ReleaseAllowance,
    /// `hold → breakage`: the week is closed.
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
    /// `credits → cash`: what is left of a purchase is taken back.
    Withdraw,
    /// `revenue:refunds → credits`.
    Refund,
    /// `revenue:refunds → allowance`.
    RefundAllowance,
    /// `credits → lease`.
    Lease,
    /// `lease → credits`.
    ReturnLease,
    /// `lease → hold`.
    HoldLease,
    /// `hold → lease`.
    ReleaseLease,
    /// `expense:crash_loss → revenue:usage`: the lease was gone when the call was reported.
    CrashLoss,
    /// `hold → credits` while the job of the hold goes on, by its number from 0: what it cannot cost any more.
    ReleaseEarly(u8),
}

/// How often a hold gives something back before it is resolved.
pub const MOST_EARLY: u8 = 16;
/// The number in storage of the first time.
const FIRST_EARLY: i16 = 100;
const EARLY: [&str; MOST_EARLY as usize] = [
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

impl Leg {
    /// Every step that is taken once.
    const ONCE: [Leg; 22] = [
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
    ];

    /// Every step.
    pub fn all() -> impl Iterator<Item = Leg> {
        Leg::ONCE
            .into_iter()
            .chain((0..MOST_EARLY).map(Leg::ReleaseEarly))
    }

    /// The name that people read.
    pub fn as_str(self) -> &'static str {
        match self {
            Leg::ReleaseEarly(number) => EARLY.get(usize::from(number)).copied().unwrap_or("release_early"),
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
        }
    }

    /// The step with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Leg::all().find(|leg| leg.as_str() == name)
    }

    /// The number used in storage.
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
            Leg::ReleaseEarly(number) => FIRST_EARLY + number as i16,
        }
    }

    /// The step with this number.
    pub fn from_i16(number: i16) -> Option<Self> {
        Leg::all().find(|leg| leg.as_i16() == number)
    }

    /// Where the amount comes from and where it goes.
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
        }
    }
}

/// A stored transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferRow {
    /// What it belongs to.
    pub subject: TransferSubject,
    /// Which step.
    pub leg: Leg,
    /// Loses the amount.
    pub debit: LedgerAccount,
    /// Gains the amount.
    pub credit: LedgerAccount,
    /// Above zero.
    pub amount: Credits,
    /// When.
    pub created_at: Timestamp,
    /// The prices that applied, if it is of a call.
    pub price_version: Option<PriceVersion>,
    /// Its place in the account's chain; `None` when it was made before there was one.
    pub link: Option<Link>,
}

/// A hold that is not resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenHold {
    /// Id.
    pub id: HoldId,
    /// What is held, of credits and allowance together, without what went back already.
    pub amount: Credits,
    /// How much of it is of a plan's allowance.
    pub allowance: Credits,
    /// The plan that applied.
    pub plan: Option<PlanUse>,
    /// When the sweep may void it.
    pub expires_at: Timestamp,
}

/// What a node has taken out of an account's credits ahead of the calls that it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenLease {
    /// Id.
    pub id: TransferId,
    /// What is left of it, as the node said last.
    pub balance: Credits,
    /// What calls that run hold of it, as the node said last.
    pub in_flight: Credits,
    /// Until when the node may take holds out of it.
    pub expires_at: Timestamp,
    /// When it is closed by others, whatever its node has not reported.
    pub reclaim_at: Timestamp,
}

/// Is shown the books. For each account, in this order: `account`, its `balance`s, its `chain`, its `lot`s, its open
/// `lease`s and `hold`s, its `refund`s, its `line`s, its `transfer`s, `part`s and `usage` rows, `account_end`. Transfers, parts and usage
/// rows come in ascending order of the 128 bits of what they belong to, a call's transfers before its parts and both before its usage row. All `price`s come before the
/// first account.
pub trait AuditVisitor: Send {
    /// A price version.
    fn price(&mut self, version: PriceVersion, model: &str, prices: &Prices);
    /// A tenant's book begins.
    fn account(&mut self, account: AccountId);
    /// A stored balance of the book.
    fn balance(&mut self, balance: LedgerBalance);
    /// What the book says about its chain.
    fn chain(&mut self, chain: Chain);
    /// A lot of the book, spent or not.
    fn lot(&mut self, lot: &Lot);
    /// A lease of the book.
    fn lease(&mut self, lease: OpenLease);
    /// A hold of the book that is not resolved.
    fn hold(&mut self, hold: OpenHold);
    /// A transfer of the book.
    fn transfer(&mut self, transfer: TransferRow);
    /// A part of a usage row of the book.
    fn part(&mut self, row: HoldId, part: &UsagePart);
    /// A usage row of the book.
    fn usage(&mut self, row: &UsageRow);
    /// A refund of the book.
    fn refund(&mut self, refund: &Refund);
    /// A line of a batch of the book, which may still run.
    fn line(&mut self, line: &ChargedLine);
    /// The book ends.
    fn account_end(&mut self);
    /// A row that cannot be read: a name or number outside its range.
    fn unreadable(&mut self, what: String);
}
