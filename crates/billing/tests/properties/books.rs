//! Books kept in the plainest way, from docs/money.md. Everything in them is open, so that a test can falsify it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use tollgate_storage::audit::{Leg, OpenHold, TransferRow, TransferSubject};
use tollgate_storage::{
    AuditVisitor, Balance, Grant, HoldOutcome, LedgerAccount, LedgerBalance, LedgerStore, NewHold,
    Resolution, Result, Settlement, StorageError, StorageErrorKind, UsageRow,
};
use tollgate_types::usage::Outcome;
use tollgate_types::{AccountId, Credits, HoldId, PriceVersion, Prices, Timestamp, Usage};

/// What is written down.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pages {
    pub prices: Vec<(PriceVersion, Prices)>,
    pub balances: BTreeMap<(AccountId, LedgerAccount), i64>,
    pub open: BTreeMap<HoldId, NewHold>,
    pub transfers: Vec<(AccountId, TransferRow)>,
    pub rows: Vec<UsageRow>,
}

/// A ledger for one thread.
#[derive(Debug, Default)]
pub struct Books(Mutex<Pages>);

impl Books {
    /// Empty books of these accounts.
    pub fn of(accounts: &[AccountId], prices: &[(PriceVersion, Prices)]) -> Books {
        let every = |account: &AccountId| LedgerAccount::ALL.map(|ledger| ((*account, ledger), 0));
        Books::from(Pages {
            prices: prices.to_vec(),
            balances: accounts.iter().flat_map(every).collect(),
            ..Pages::default()
        })
    }

    /// A copy of what is written down.
    pub fn pages(&self) -> Pages {
        self.0.lock().unwrap().clone()
    }
}

impl From<Pages> for Books {
    fn from(pages: Pages) -> Books {
        Books(Mutex::new(pages))
    }
}

impl Pages {
    pub fn balance(&self, account: AccountId, ledger: LedgerAccount) -> i64 {
        self.balances.get(&(account, ledger)).copied().unwrap_or(0)
    }

    /// Writes a transfer and carries it out; none of nothing.
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
        };
        self.transfers.push((account, row));
    }

    fn resolve(&mut self, hold: NewHold, settlement: Settlement) -> i64 {
        let (account, subject) = (hold.account, TransferSubject::Hold(hold.id));
        let charge = settlement.charge.min(hold.amount);
        let rest = hold.amount.nanos() - charge.nanos();
        self.transfer(account, subject, Leg::Settle, charge.nanos());
        self.transfer(account, subject, Leg::Release, rest);
        self.transfer(account, subject, Leg::Overrun, settlement.overrun.nanos());
        self.rows.push(UsageRow {
            id: hold.id,
            account,
            key: hold.key,
            request: hold.request,
            endpoint: hold.endpoint.into(),
            model: hold.model,
            provider: settlement.provider,
            price_version: hold.price_version,
            held: hold.amount,
            charge,
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
impl LedgerStore for Books {
    async fn hold(&self, hold: NewHold) -> Result<HoldOutcome> {
        let mut pages = self.0.lock().unwrap();
        if pages.open.contains_key(&hold.id) || pages.rows.iter().any(|row| row.id == hold.id) {
            return Err(conflict());
        }
        let available = Credits::from_nanos(pages.balance(hold.account, LedgerAccount::Credits));
        if available < hold.amount {
            return Ok(HoldOutcome::Denied { available });
        }
        let subject = TransferSubject::Hold(hold.id);
        pages.transfer(hold.account, subject, Leg::Hold, hold.amount.nanos());
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
                pages.transfer(grant.account, subject, Leg::Grant, grant.amount.nanos());
            }
        }
        self.balance(grant.account).await
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
                provider: "".into(),
                first_at: None,
                ended_at: now,
            };
            pages.resolve(hold.clone(), void);
        }
        Ok(over.len() as u64)
    }

    async fn audit(&self, visitor: &mut dyn AuditVisitor) -> Result<()> {
        let pages = self.pages();
        for (version, prices) in &pages.prices {
            visitor.price(*version, "maker/model", prices);
        }
        let mut accounts: Vec<AccountId> = pages.balances.keys().map(|(account, _)| *account).collect();
        accounts.dedup();
        for account in accounts {
            visitor.account(account);
            for ((_, ledger), nanos) in pages.balances.iter().filter(|((owner, _), _)| *owner == account) {
                let balance = Credits::from_nanos(*nanos);
                visitor.balance(LedgerBalance {
                    account: *ledger,
                    balance,
                });
            }
            for hold in pages.open.values().filter(|hold| hold.account == account) {
                let (id, amount, expires_at) = (hold.id, hold.amount, hold.expires_at);
                visitor.hold(OpenHold {
                    id,
                    amount,
                    expires_at,
                });
            }
            for (_, row) in pages.transfers.iter().filter(|(owner, _)| *owner == account) {
                visitor.transfer(*row);
            }
            for row in pages.rows.iter().filter(|row| row.account == account) {
                visitor.usage(row);
            }
            visitor.account_end();
        }
        Ok(())
    }
}
