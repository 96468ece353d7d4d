//! A minimal reference ledger, according to docs/money.md. All its fields are public, so that tests
//! can falsify them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tollgate_storage::audit::{Leg, OpenHold, TransferRow, TransferSubject};
use tollgate_storage::{
    AuditVisitor, Balance, Chain, Grant, HoldOutcome, LedgerAccount, LedgerBalance, LedgerStore, Lot,
    NewHold, PlanUse, Refund, Resolution, Result, Settlement, Spendable, StorageError, StorageErrorKind,
    UsagePart, UsageRow,
};
use tollgate_types::id::TransferId;
use tollgate_types::usage::Outcome;
use tollgate_types::{AccountId, Credits, HoldId, PriceVersion, Prices, Timestamp, Usage};

/// Tables of the ledger.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pages {
    pub prices: Vec<(PriceVersion, Prices)>,
    pub balances: BTreeMap<(AccountId, LedgerAccount), i64>,
    pub open: BTreeMap<HoldId, NewHold>,
    pub transfers: Vec<(AccountId, TransferRow)>,
    pub lots: Vec<Lot>,
    pub parts: Vec<(AccountId, HoldId, UsagePart)>,
    pub rows: Vec<UsageRow>,
    pub refunds: Vec<Refund>,
    pub plans: BTreeMap<AccountId, Plan>,
    /// Plan use and held allowance of open holds.
    pub shares: BTreeMap<HoldId, (PlanUse, i64)>,
    /// Stored chain head, if it differs from the transfers.
    pub end: Option<Chain>,
}

/// A plan whose weeks are counted from the Unix epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub weekly: i64,
    pub open: i64,
    pub is_active: bool,
}

pub const WEEK_MICROS: i64 = 7 * 24 * 60 * 60 * 1_000_000;

/// Returns the id of a week of an account's plan.
pub fn week(account: AccountId, number: i64) -> TransferId {
    TransferId::from_u128(account.as_u128() << 64 | u128::try_from(number).unwrap())
}

/// Rows of a call, in the order of the audit.
enum Line<'p> {
    Transfer(TransferRow),
    Part(HoldId, &'p UsagePart),
    Usage(&'p UsageRow),
}

impl Line<'_> {
    fn entry(&self) -> u128 {
        match self {
            Line::Transfer(transfer) => transfer.subject.entry(),
            Line::Part(row, _) => row.as_u128(),
            Line::Usage(row) => row.id.as_u128(),
        }
    }
}

/// A ledger for one thread.
#[derive(Debug, Default)]
pub struct TestLedger(Mutex<Pages>);

impl TestLedger {
    /// Creates an empty ledger of these accounts.
    pub fn of(accounts: &[AccountId], prices: &[(PriceVersion, Prices)]) -> TestLedger {
        let every = |account: &AccountId| LedgerAccount::ALL.map(|ledger| ((*account, ledger), 0));
        TestLedger::from(Pages {
            prices: prices.to_vec(),
            balances: accounts.iter().flat_map(every).collect(),
            ..Pages::default()
        })
    }

    /// Starts a plan with this weekly allowance, in nano-credits.
    pub fn subscribe(&self, account: AccountId, weekly: i64) {
        let mut pages = self.0.lock().unwrap();
        let plan = Plan {
            weekly,
            open: 0,
            is_active: true,
        };
        if let Some(known) = pages.plans.get_mut(&account) {
            known.weekly = weekly;
            return;
        }
        pages.plans.insert(account, plan);
        let first = TransferSubject::Window(week(account, 0));
        pages.transfer(account, first, Leg::OpenWindow, weekly);
    }

    /// Sets whether the plan gives access.
    pub fn set_active(&self, account: AccountId, is_active: bool) {
        let mut pages = self.0.lock().unwrap();
        if let Some(plan) = pages.plans.get_mut(&account) {
            plan.is_active = is_active;
        }
    }

    /// Returns a copy of the tables.
    pub fn pages(&self) -> Pages {
        self.0.lock().unwrap().clone()
    }
}

impl From<Pages> for TestLedger {
    fn from(pages: Pages) -> TestLedger {
        TestLedger(Mutex::new(pages))
    }
}

impl Pages {
    pub fn balance(&self, account: AccountId, ledger: LedgerAccount) -> i64 {
        self.balances.get(&(account, ledger)).copied().unwrap_or(0)
    }

    /// Writes and applies a transfer; does nothing for an amount of zero.
    pub fn transfer(&mut self, account: AccountId, subject: TransferSubject, leg: Leg, amount: i64) {
        if amount == 0 {
            return;
        }
        let (debit, credit) = leg.sides();
        *self.balances.entry((account, debit)).or_default() -= amount;
        *self.balances.entry((account, credit)).or_default() += amount;
        let row = TransferRow {
            subject,
            leg,
            debit,
            credit,
            amount: Credits::from_nanos(amount),
            created_at: Timestamp::from_micros(0),
            price_version: None,
            link: None,
        };
        self.transfers.push((account, row));
    }

    /// Returns the chained transfers of an account, and the chain head. Transfers that were
    /// falsified after chaining retain their old links, as does the head.
    pub fn chained(&self, account: AccountId) -> (Vec<TransferRow>, Chain) {
        let mut chain = Chain::default();
        let of_account = self.transfers.iter().filter(|(owner, _)| *owner == account);
        let link = |(_, mut row): (AccountId, TransferRow)| {
            row.link = row.link.or_else(|| Some(row.link_after(account, chain.head)));
            chain.head = row.link;
            row
        };
        let rows = of_account.copied().map(link).collect();
        (rows, self.end.unwrap_or(chain))
    }

    /// Stores the chain of an account, so that a later falsification breaks it.
    pub fn chain(&mut self, account: AccountId) {
        let (rows, chain) = self.chained(account);
        self.end = Some(chain);
        let mut of_account = rows.into_iter();
        for (_, row) in self.transfers.iter_mut().filter(|(owner, _)| *owner == account) {
            row.link = of_account.next().and_then(|row| row.link);
        }
    }

    /// Returns the number of the week that a call uses, and its remaining allowance.
    pub fn week_for(&self, account: AccountId, at: Timestamp) -> Option<(i64, i64)> {
        let plan = self.plans.get(&account).filter(|plan| plan.is_active)?;
        let now = at.as_micros().div_euclid(WEEK_MICROS);
        if now > plan.open {
            return Some((now, plan.weekly));
        }
        Some((plan.open, self.balance(account, LedgerAccount::Allowance)))
    }

    /// Closes the open week and opens this one, unless it is already open.
    fn open_week(&mut self, account: AccountId, number: i64) {
        let Some(plan) = self.plans.get_mut(&account).filter(|plan| plan.open != number) else {
            return;
        };
        let (weekly, before) = (plan.weekly, std::mem::replace(&mut plan.open, number));
        let left = self.balance(account, LedgerAccount::Allowance);
        let (old, new) = (week(account, before), week(account, number));
        self.transfer(account, TransferSubject::Window(old), Leg::CloseWindow, left);
        self.transfer(account, TransferSubject::Window(new), Leg::OpenWindow, weekly);
    }

    fn resolve(&mut self, hold: NewHold, settlement: Settlement) -> i64 {
        let (account, subject) = (hold.account, TransferSubject::Hold(hold.id));
        let charge = settlement.charge.min(hold.amount);
        let share = self.shares.remove(&hold.id);
        let allowance = share.as_ref().map_or(0, |(_, allowance)| *allowance);
        let included = charge.nanos().min(allowance);
        let paid = charge.nanos() - included;
        self.transfer(account, subject, Leg::Settle, paid);
        self.transfer(account, subject, Leg::SettleIncluded, included);
        self.transfer(
            account,
            subject,
            Leg::Release,
            hold.amount.nanos() - allowance - paid,
        );
        let open = self.plans.get(&account).map(|plan| week(account, plan.open));
        let lasts = share.as_ref().is_some_and(|(used, _)| Some(used.window) == open);
        let back = if lasts {
            Leg::ReleaseAllowance
        } else {
            Leg::ReleaseBreakage
        };
        self.transfer(account, subject, back, allowance - included);
        self.transfer(account, subject, Leg::Overrun, settlement.overrun.nanos());
        self.rows.push(UsageRow {
            id: hold.id,
            account,
            principal: hold.principal,
            request: hold.request,
            endpoint: hold.endpoint.into(),
            model: hold.model.clone(),
            requested_model: hold.model,
            target: settlement.target,
            price_version: hold.price_version,
            held: hold.amount,
            charge,
            included: Credits::from_nanos(included),
            plan: share.map(|(used, _)| used),
            refunded: Credits::ZERO,
            overrun: settlement.overrun,
            usage: settlement.usage,
            outcome: settlement.outcome,
            estimated: settlement.estimated,
            created_at: hold.created_at,
            first_at: settlement.first_at,
            ended_at: settlement.ended_at,
        });
        charge.nanos()
    }
}

fn conflict() -> StorageError {
    StorageError::new(StorageErrorKind::Conflict, "this cannot be written")
}

#[async_trait]
impl LedgerStore for TestLedger {
    async fn hold(&self, hold: NewHold) -> Result<HoldOutcome> {
        let mut pages = self.0.lock().unwrap();
        if pages.open.contains_key(&hold.id) || pages.rows.iter().any(|row| row.id == hold.id) {
            return Err(conflict());
        }
        let (account, amount) = (hold.account, hold.amount.nanos());
        let is_free = hold.amount.is_zero();
        let week_for = pages.week_for(account, hold.created_at).filter(|_| !is_free);
        let left = week_for.map_or(0, |(_, left)| left);
        let credits = pages.balance(account, LedgerAccount::Credits);
        if credits + left < amount {
            let available = Credits::from_nanos(credits + left);
            return Ok(HoldOutcome::Denied { available });
        }
        let (subject, drawn) = (TransferSubject::Hold(hold.id), left.min(amount));
        if let Some((number, _)) = week_for {
            pages.open_week(account, number);
            let used = PlanUse {
                name: "lite".into(),
                window: week(account, number),
            };
            pages.shares.insert(hold.id, (used, drawn));
        }
        pages.transfer(account, subject, Leg::Hold, amount - drawn);
        pages.transfer(account, subject, Leg::HoldAllowance, drawn);
        let available = Credits::from_nanos(pages.balance(hold.account, LedgerAccount::Credits));
        pages.open.insert(hold.id, hold);
        Ok(HoldOutcome::Held { available })
    }

    async fn settle(&self, settlement: Settlement) -> Result<Resolution> {
        let mut pages = self.0.lock().unwrap();
        let (account, id) = (settlement.account, settlement.hold);
        let (first, charge) = match pages.open.remove(&id) {
            Some(hold) => (true, pages.resolve(hold, settlement)),
            None => match pages.rows.iter().find(|row| row.id == id) {
                Some(row) => (false, row.charge.nanos()),
                None => return Err(StorageError::not_found(id)),
            },
        };
        Ok(Resolution {
            charge: Credits::from_nanos(charge),
            first,
            available: Credits::from_nanos(pages.balance(account, LedgerAccount::Credits)),
        })
    }

    async fn grant(&self, grant: Grant) -> Result<Balance> {
        let subject = TransferSubject::Grant(grant.id);
        {
            let mut pages = self.0.lock().unwrap();
            if pages.transfers.iter().all(|(_, row)| row.subject != subject) {
                let (account, terms) = (grant.account, grant.terms);
                pages.transfer(account, subject, terms.kind.leg(), grant.amount.nanos());
                // This ledger never assigns spending to lots; a real ledger may assign it at any
                // time.
                let lot = Lot::new(grant.id, account, grant.amount, terms, grant.at);
                pages.lots.push(lot);
            }
        }
        self.balance(grant.account).await
    }

    async fn spendable(&self, account: AccountId, _: Arc<[Arc<str>]>, at: Timestamp) -> Result<Spendable> {
        let pages = self.pages();
        let left = pages.week_for(account, at).map_or(0, |(_, left)| left);
        Ok(Spendable {
            credits: Credits::from_nanos(pages.balance(account, LedgerAccount::Credits)),
            allowance: Credits::from_nanos(left),
        })
    }

    async fn balance(&self, account: AccountId) -> Result<Balance> {
        let pages = self.pages();
        Ok(Balance {
            credits: Credits::from_nanos(pages.balance(account, LedgerAccount::Credits)),
            held: Credits::from_nanos(pages.balance(account, LedgerAccount::Hold)),
        })
    }

    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64> {
        let mut pages = self.0.lock().unwrap();
        let is_over = |hold: &&NewHold| hold.expires_at <= now;
        let over: Vec<NewHold> = pages
            .open
            .values()
            .filter(is_over)
            .take(limit as usize)
            .cloned()
            .collect();
        for hold in &over {
            pages.open.remove(&hold.id);
            let void = Settlement {
                hold: hold.id,
                account: hold.account,
                charge: Credits::ZERO,
                overrun: Credits::ZERO,
                usage: Usage::ZERO,
                outcome: Outcome::Crashed,
                estimated: false,
                target: "".into(),
                first_at: None,
                ended_at: now,
            };
            pages.resolve(hold.clone(), void);
        }
        Ok(over.len() as u64)
    }

    async fn audit(&self, only: Option<AccountId>, visitor: &mut dyn AuditVisitor) -> Result<()> {
        let pages = self.pages();
        for (version, prices) in &pages.prices {
            visitor.price(*version, "maker/model", prices);
        }
        let mut accounts: Vec<AccountId> = pages.balances.keys().map(|(account, _)| *account).collect();
        accounts.dedup();
        accounts.retain(|account| only.is_none_or(|only| only == *account));
        for account in accounts {
            visitor.account(account);
            for ((_, ledger), nanos) in pages.balances.iter().filter(|((owner, _), _)| *owner == account) {
                let balance = Credits::from_nanos(*nanos);
                visitor.balance(LedgerBalance {
                    account: *ledger,
                    balance,
                });
            }
            let (transfers, chain) = pages.chained(account);
            visitor.chain(chain);
            for lot in pages.lots.iter().filter(|lot| lot.account == account) {
                visitor.lot(lot);
            }
            for hold in pages.open.values().filter(|hold| hold.account == account) {
                let (id, amount, expires_at) = (hold.id, hold.amount, hold.expires_at);
                let share = pages.shares.get(&id);
                visitor.hold(OpenHold {
                    id,
                    amount,
                    allowance: Credits::from_nanos(share.map_or(0, |(_, allowance)| *allowance)),
                    plan: share.map(|(used, _)| used.clone()),
                    expires_at,
                });
            }
            for refund in pages.refunds.iter().filter(|refund| refund.account == account) {
                visitor.refund(refund);
            }
            let transfers = transfers.into_iter().map(Line::Transfer);
            let parts = pages.parts.iter().filter(|(owner, ..)| *owner == account);
            let parts = parts.map(|(_, row, part)| Line::Part(*row, part));
            let rows = pages.rows.iter().filter(|row| row.account == account);
            let mut lines: Vec<Line> = transfers.chain(parts).chain(rows.map(Line::Usage)).collect();
            lines.sort_by_key(Line::entry);
            for line in lines {
                match line {
                    Line::Transfer(transfer) => visitor.transfer(transfer),
                    Line::Part(row, part) => visitor.part(row, part),
                    Line::Usage(row) => visitor.usage(row),
                }
            }
            visitor.account_end();
        }
        Ok(())
    }
}
