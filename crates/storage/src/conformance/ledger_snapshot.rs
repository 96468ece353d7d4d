//! A visitor that collects the rows of an audit, and checks of the ledger that are independent of
//! any engine.

use std::collections::{BTreeMap, HashMap, HashSet};

use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, HoldId, PriceVersion, Prices, Timestamp};

use crate::audit::{
    AuditVisitor, LedgerAccount, LedgerBalance, Leg, MAX_EARLY_RELEASES, OpenHold, OpenLease, TransferRow,
    TransferSubject,
};
use crate::usage::{UsagePart, UsageRow};
use crate::{Chain, ChargedLine, Link, Lot, Refund, Storage};

/// The ledger of one tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountLedger {
    /// Stored balances in nano-credits.
    pub balances: BTreeMap<LedgerAccount, Credits>,
    /// Stored state of its chain.
    pub chain: Chain,
    /// Lots in the order of spending.
    pub lots: Vec<Lot>,
    /// Leases of nodes in order of id.
    pub leases: Vec<OpenLease>,
    /// Open holds in order of id.
    pub holds: Vec<OpenHold>,
    /// Transfers in order of subject and leg.
    pub transfers: Vec<TransferRow>,
    /// Parts of usage rows, in order of row and number.
    pub parts: Vec<(HoldId, UsagePart)>,
    /// Usage rows in order of id.
    pub usage: Vec<UsageRow>,
    /// Refunds in order of id.
    pub refunds: Vec<Refund>,
    /// Lines of batches with their charges.
    pub lines: Vec<ChargedLine>,
}

impl AccountLedger {
    /// Returns a stored balance in nano-credits; zero if none is stored.
    pub fn balance(&self, account: LedgerAccount) -> i64 {
        self.balances.get(&account).map_or(0, |balance| balance.nanos())
    }
}

fn is_lease(transfer: &TransferRow) -> bool {
    matches!(transfer.subject, TransferSubject::Lease(_))
}

/// All rows of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerSnapshot {
    /// Price versions with their models.
    pub prices: BTreeMap<PriceVersion, (String, Prices)>,
    /// Ledgers by account.
    pub ledgers: BTreeMap<AccountId, AccountLedger>,
    current: Option<AccountId>,
}

impl LedgerSnapshot {
    /// Asserts that the engine has the same rows now. Leases may differ, because a node opens and
    /// closes them in the background.
    pub async fn assert_unchanged(&self, storage: &Storage) {
        let now = LedgerSnapshot::read(storage).await;
        if now.lease_transfers() == self.lease_transfers() {
            assert_eq!(now, *self);
        } else {
            assert_eq!(now.without_leases(), self.clone().without_leases());
        }
    }

    fn lease_transfers(&self) -> usize {
        let transfers = self.ledgers.values().flat_map(|ledger| &ledger.transfers);
        transfers.filter(|transfer| is_lease(transfer)).count()
    }

    /// Returns the snapshot as if every lease had been returned to its account.
    fn without_leases(mut self) -> Self {
        for ledger in self.ledgers.values_mut() {
            let leased = ledger.balances.remove(&LedgerAccount::Lease).unwrap_or_default();
            let credits = ledger.balances.entry(LedgerAccount::Credits).or_default();
            *credits = Credits::from_nanos(credits.nanos() + leased.nanos());
            ledger.transfers.retain(|transfer| !is_lease(transfer));
            ledger.leases.clear();
            // The links of the remaining transfers are compared with these.
            ledger.chain = Chain::default();
        }
        self
    }

    /// Audits the engine and checks every invariant of the ledger.
    pub async fn read(storage: &Storage) -> LedgerSnapshot {
        let mut ledgers = LedgerSnapshot::default();
        storage.ledger.audit(None, &mut ledgers).await.unwrap();
        assert_eq!(ledgers.current, None, "the last book is not ended");
        for (account, ledger) in &mut ledgers.ledgers {
            ledger.lots.sort_by(Lot::burn_order);
            ledger.holds.sort_by_key(|hold| hold.id);
            ledger
                .transfers
                .sort_by_key(|transfer| (subject_order(transfer.subject), transfer.leg));
            ledger.usage.sort_by_key(|row| row.id);
            ledger.refunds.sort_by_key(|refund| refund.id);
            check(*account, ledger);
        }
        ledgers
    }

    /// Returns the ledger of an existing account.
    pub fn of(&self, account: AccountId) -> &AccountLedger {
        &self.ledgers[&account]
    }

    fn open_ledger(&mut self) -> &mut AccountLedger {
        let account = self.current.expect("a row outside of a book");
        self.ledgers.get_mut(&account).expect("the book was begun")
    }
}

impl AuditVisitor for LedgerSnapshot {
    fn price(&mut self, version: PriceVersion, model: &str, prices: &Prices) {
        assert!(self.ledgers.is_empty(), "prices come before the first account");
        let before = self.prices.insert(version, (model.to_owned(), *prices));
        assert_eq!(before, None, "{version} is shown twice");
    }

    fn account(&mut self, account: AccountId) {
        assert_eq!(self.current, None, "a book within a book");
        let before = self.ledgers.insert(account, AccountLedger::default());
        assert_eq!(before, None, "{account} is shown twice");
        self.current = Some(account);
    }

    fn balance(&mut self, balance: LedgerBalance) {
        let ledger = self.open_ledger();
        assert!(
            ledger.lots.is_empty() && ledger.holds.is_empty(),
            "balances come before lots and holds"
        );
        assert!(
            ledger.transfers.is_empty() && ledger.usage.is_empty(),
            "balances come before rows"
        );
        let before = ledger.balances.insert(balance.account, balance.balance);
        assert_eq!(before, None, "{:?} is shown twice", balance.account);
    }

    fn chain(&mut self, chain: Chain) {
        let ledger = self.open_ledger();
        assert!(ledger.lots.is_empty(), "the chain comes before lots");
        assert_eq!(ledger.chain, Chain::default(), "the chain is shown twice");
        ledger.chain = chain;
    }

    fn lot(&mut self, lot: &Lot) {
        assert_eq!(Some(lot.account), self.current, "a lot of another account");
        let ledger = self.open_ledger();
        assert!(ledger.holds.is_empty(), "lots come before holds");
        ledger.lots.push(lot.clone());
    }

    fn lease(&mut self, lease: OpenLease) {
        let ledger = self.open_ledger();
        assert!(ledger.holds.is_empty(), "leases come before holds");
        // The balance that the node reported changes independently of the ledger.
        ledger.leases.push(OpenLease {
            in_flight: Credits::ZERO,
            expires_at: Timestamp::from_micros(0),
            reclaim_at: Timestamp::from_micros(0),
            ..lease
        });
    }

    fn hold(&mut self, hold: OpenHold) {
        let ledger = self.open_ledger();
        assert!(
            ledger.transfers.is_empty() && ledger.usage.is_empty(),
            "holds come before rows"
        );
        ledger.holds.push(hold);
    }

    fn transfer(&mut self, transfer: TransferRow) {
        let ledger = self.open_ledger();
        let entry = transfer.subject.entry();
        let before = ledger.transfers.last().map(|row| row.subject.entry());
        let row = ledger.usage.last().map(|row| row.id.as_u128());
        assert!(before <= Some(entry), "{transfer:?} comes behind {before:?}");
        assert!(row < Some(entry), "{transfer:?} comes behind a later usage row");
        let part = ledger.parts.last().map(|(row, _)| row.as_u128());
        assert!(part < Some(entry), "{transfer:?} comes behind a later part");
        ledger.transfers.push(transfer);
    }

    fn part(&mut self, row: HoldId, part: &UsagePart) {
        let ledger = self.open_ledger();
        let before = ledger.parts.last().map(|(row, part)| (*row, part.number));
        assert!(before < Some((row, part.number)), "{part:?} of {row} comes late");
        let transfer = ledger.transfers.last().map(|row| row.subject.entry());
        assert!(
            transfer <= Some(row.as_u128()),
            "{part:?} comes behind later transfers"
        );
        let usage = ledger.usage.last().map(|row| row.id);
        assert!(usage < Some(row), "{part:?} comes behind its usage row");
        ledger.parts.push((row, part.clone()));
    }

    fn usage(&mut self, row: &UsageRow) {
        assert_eq!(Some(row.account), self.current, "a row of another account");
        let ledger = self.open_ledger();
        let before = ledger.transfers.last().map(|row| row.subject.entry());
        assert!(
            before <= Some(row.id.as_u128()),
            "{row:?} comes behind later transfers"
        );
        let part = ledger.parts.last().map(|(row, _)| *row);
        assert!(part <= Some(row.id), "{row:?} comes behind later parts");
        ledger.usage.push(row.clone());
    }

    fn line(&mut self, line: &ChargedLine) {
        let ledger = self.open_ledger();
        assert!(
            ledger.transfers.is_empty() && ledger.usage.is_empty(),
            "lines come before rows"
        );
        ledger.lines.push(*line);
    }

    fn refund(&mut self, refund: &Refund) {
        assert_eq!(Some(refund.account), self.current, "a refund of another account");
        let ledger = self.open_ledger();
        assert!(
            ledger.transfers.is_empty() && ledger.usage.is_empty(),
            "refunds come before rows"
        );
        self.open_ledger().refunds.push(refund.clone());
    }

    fn account_end(&mut self) {
        assert!(self.current.take().is_some(), "no book to end");
    }

    fn unreadable(&mut self, what: String) {
        unreachable!("a row cannot be read: {what}");
    }
}

fn subject_order(subject: TransferSubject) -> (u8, u128) {
    match subject {
        TransferSubject::Grant(id) => (0, id.as_u128()),
        TransferSubject::Hold(id) => (1, id.as_u128()),
        TransferSubject::Window(id) => (2, id.as_u128()),
        TransferSubject::Period(id) => (3, id.as_u128()),
        TransferSubject::Lot(id) => (4, id.as_u128()),
        TransferSubject::Refund(id) => (5, id.as_u128()),
        TransferSubject::Lease(id) => (6, id.as_u128()),
    }
}

/// Checks one ledger: it sums to zero, its balances are the sums of its transfers, no constrained
/// balance is negative, and every hold is either open or resolved by exactly its usage row.
fn check(account: AccountId, ledger: &AccountLedger) {
    let mut sums: BTreeMap<LedgerAccount, i128> = BTreeMap::new();
    let mut legs: HashMap<HoldId, BTreeMap<Leg, i64>> = HashMap::new();
    let mut weeks: HashMap<TransferId, i64> = HashMap::new();
    let mut seen = HashSet::new();
    for transfer in &ledger.transfers {
        let amount = transfer.amount.nanos();
        assert!(amount > 0, "{account}: {transfer:?}");
        assert!(
            seen.insert((transfer.subject, transfer.leg)),
            "{account}: twice {transfer:?}"
        );
        assert_eq!(
            (transfer.debit, transfer.credit),
            transfer.leg.sides(),
            "{account}: {transfer:?}"
        );
        *sums.entry(transfer.debit).or_default() -= i128::from(amount);
        *sums.entry(transfer.credit).or_default() += i128::from(amount);
        match transfer.subject {
            TransferSubject::Grant(_) => assert!(
                matches!(transfer.leg, Leg::Grant | Leg::Promotion),
                "{account}: {transfer:?}"
            ),
            TransferSubject::Hold(id) => {
                legs.entry(id).or_default().insert(transfer.leg, amount);
            }
            TransferSubject::Window(id) => match transfer.leg {
                Leg::OpenWindow => *weeks.entry(id).or_default() += amount,
                Leg::CloseWindow => *weeks.entry(id).or_default() -= amount,
                _ => unreachable!("{account}: {transfer:?}"),
            },
            TransferSubject::Period(_) => assert_eq!(transfer.leg, Leg::PlanFee, "{account}: {transfer:?}"),
            TransferSubject::Lot(_) => assert!(
                matches!(transfer.leg, Leg::Expire | Leg::Withdraw | Leg::RevokePromotion),
                "{account}: {transfer:?}"
            ),
            TransferSubject::Refund(_) => assert!(
                matches!(transfer.leg, Leg::Refund | Leg::RefundAllowance),
                "{account}: {transfer:?}"
            ),
            TransferSubject::Lease(_) => assert!(
                matches!(transfer.leg, Leg::Lease | Leg::ReturnLease),
                "{account}: {transfer:?}"
            ),
        }
    }
    for ledger_account in LedgerAccount::ALL {
        let (stored, summed) = (ledger.balance(ledger_account), sums.get(&ledger_account));
        assert_eq!(
            i128::from(stored),
            summed.copied().unwrap_or(0),
            "{account}: {ledger_account:?}"
        );
        assert!(
            stored >= 0 || !ledger_account.is_constrained(),
            "{account}: {ledger_account:?} {stored}"
        );
    }
    let total: i128 = ledger
        .balances
        .values()
        .map(|balance| i128::from(balance.nanos()))
        .sum();
    assert_eq!(total, 0, "{account}: the book does not sum to zero");
    let held: i64 = ledger.holds.iter().map(|hold| hold.amount.nanos()).sum();
    assert_eq!(held, ledger.balance(LedgerAccount::Hold), "{account}: open holds");
    let leased: i64 = ledger.leases.iter().map(|lease| lease.balance.nanos()).sum();
    assert_eq!(
        leased,
        ledger.balance(LedgerAccount::Lease),
        "{account}: open leases"
    );
    check_chain(account, ledger);
    check_lots(account, ledger);
    check_refunds(account, ledger);
    check_weeks(account, ledger, &legs, weeks);
    check_holds(account, ledger, legs);
}

/// Checks that every transfer is in the chain after its predecessor, up to the head.
fn check_chain(account: AccountId, ledger: &AccountLedger) {
    let mut chained: Vec<&TransferRow> = ledger.transfers.iter().collect();
    chained.sort_by_key(|transfer| transfer.link.map(|link| link.sequence));
    let head = chained.iter().fold(None, |head: Option<Link>, transfer| {
        let expected = transfer.link_after(account, head);
        assert_eq!(transfer.link, Some(expected), "{account}: {transfer:?}");
        transfer.link
    });
    assert_eq!(ledger.chain, Chain { head, unchained: 0 }, "{account}");
}

/// Checks that every grant and refund has a lot and every removal a transfer, and that the rest of
/// all lots equals the account's credits plus its unassigned spending.
fn check_lots(account: AccountId, ledger: &AccountLedger) {
    let created: BTreeMap<TransferId, (Leg, i64)> = ledger
        .transfers
        .iter()
        .filter_map(|transfer| match (transfer.subject, transfer.leg) {
            (TransferSubject::Grant(id), leg) | (TransferSubject::Refund(id), leg @ Leg::Refund) => {
                Some((id, (leg, transfer.amount.nanos())))
            }
            _ => None,
        })
        .collect();
    let lots = ledger.lots.iter();
    let lots: BTreeMap<TransferId, (Leg, i64)> = lots
        .map(|lot| (lot.id, (lot.terms.kind.leg(), lot.amount.nanos())))
        .collect();
    assert_eq!(lots, created, "{account}: a lot for each grant and refund");
    for lot in &ledger.lots {
        let parts = [lot.remaining, lot.expired, lot.withdrawn].map(Credits::nanos);
        assert!(parts.into_iter().all(|part| part >= 0), "{account}: {lot:?}");
        assert!(
            parts.into_iter().sum::<i64>() <= lot.amount.nanos(),
            "{account}: {lot:?}"
        );
    }
    let sum = |of: fn(&Lot) -> Credits| ledger.lots.iter().map(|lot| of(lot).nanos()).sum::<i64>();
    let moved = |leg| {
        let of_leg = ledger.transfers.iter().filter(|transfer| transfer.leg == leg);
        of_leg.map(|transfer| transfer.amount.nanos()).sum::<i64>()
    };
    assert_eq!(sum(|lot| lot.expired), moved(Leg::Expire), "{account}");
    let withdrawn = moved(Leg::Withdraw) + moved(Leg::RevokePromotion);
    assert_eq!(sum(|lot| lot.withdrawn), withdrawn, "{account}");
    let held: i64 = ledger
        .holds
        .iter()
        .map(|hold| hold.amount.nanos() - hold.allowance.nanos())
        .sum();
    let funds = ledger.balance(LedgerAccount::Credits) + ledger.balance(LedgerAccount::Lease) + held;
    let left = sum(|lot| lot.remaining);
    assert!(
        left >= funds,
        "{account}: {left} left of lots, {funds} in the account"
    );
}

/// Checks that each refund has its transfers and its call, and that no call is refunded more than
/// its charge.
fn check_refunds(account: AccountId, ledger: &AccountLedger) {
    let reported: BTreeMap<(TransferId, Leg), i64> = ledger
        .refunds
        .iter()
        .flat_map(|refund| {
            let parts = [
                (Leg::Refund, refund.credits),
                (Leg::RefundAllowance, refund.allowance),
            ];
            parts.map(|(leg, amount)| ((refund.id, leg), amount.nanos()))
        })
        .filter(|(_, amount)| *amount > 0)
        .collect();
    let moved: BTreeMap<(TransferId, Leg), i64> = ledger
        .transfers
        .iter()
        .filter_map(|transfer| match transfer.subject {
            TransferSubject::Refund(id) => Some(((id, transfer.leg), transfer.amount.nanos())),
            _ => None,
        })
        .collect();
    assert_eq!(reported, moved, "{account}: refunds");
    for row in &ledger.usage {
        let of_row = || ledger.refunds.iter().filter(|refund| refund.hold == row.id);
        let credits: i64 = of_row().map(|refund| refund.credits.nanos()).sum();
        let allowance: i64 = of_row().map(|refund| refund.allowance.nanos()).sum();
        let paid = row.charge.nanos() - row.included.nanos();
        assert!(
            credits <= paid && allowance <= row.included.nanos(),
            "{account}: {row:?}"
        );
        assert_eq!(row.refunded.nanos(), credits + allowance, "{account}: {row:?}");
    }
    let rows: HashSet<HoldId> = ledger.usage.iter().map(|row| row.id).collect();
    assert!(
        ledger.refunds.iter().all(|refund| rows.contains(&refund.hold)),
        "{account}: a refund of no call"
    );
}

/// Checks that no week gives more than its allowance, and that only the open week has a rest.
fn check_weeks(
    account: AccountId,
    ledger: &AccountLedger,
    legs: &HashMap<HoldId, BTreeMap<Leg, i64>>,
    mut weeks: HashMap<TransferId, i64>,
) {
    let resolved = ledger.usage.iter().map(|row| (row.id, &row.plan));
    for (id, plan) in resolved.chain(ledger.holds.iter().map(|hold| (hold.id, &hold.plan))) {
        let moved = |leg| {
            legs.get(&id)
                .and_then(|legs| legs.get(&leg))
                .copied()
                .unwrap_or(0)
        };
        let drawn = moved(Leg::HoldAllowance) - moved(Leg::ReleaseAllowance);
        match plan {
            Some(plan) => *weeks.entry(plan.window).or_default() -= drawn,
            None => assert_eq!(drawn, 0, "{account}: {id} draws on no plan's allowance"),
        }
    }
    for refund in &ledger.refunds {
        let row = ledger.usage.iter().find(|row| row.id == refund.hold);
        if let Some(plan) = row.and_then(|row| row.plan.as_ref()) {
            *weeks.entry(plan.window).or_default() += refund.allowance.nanos();
        }
    }
    let mut left: Vec<i64> = weeks.into_values().filter(|left| *left != 0).collect();
    assert!(left.len() <= 1, "{account}: several weeks are open: {left:?}");
    let open = left.pop().unwrap_or(0);
    assert_eq!(
        open,
        ledger.balance(LedgerAccount::Allowance),
        "{account}: the open week"
    );
}

/// Removes the early releases of a hold and returns their sum; their numbers must be consecutive.
fn early(legs: &mut BTreeMap<Leg, i64>) -> i64 {
    let times = (0..MAX_EARLY_RELEASES).map_while(|number| legs.remove(&Leg::ReleaseEarly(number)));
    times.sum()
}

fn check_holds(account: AccountId, ledger: &AccountLedger, mut legs: HashMap<HoldId, BTreeMap<Leg, i64>>) {
    let mut resolved = HashSet::new();
    let positive = |pairs: &[(Leg, i64)]| -> BTreeMap<Leg, i64> {
        pairs.iter().copied().filter(|(_, amount)| *amount > 0).collect()
    };
    for row in &ledger.usage {
        assert!(resolved.insert(row.id), "{account}: two usage rows of {}", row.id);
        let mut found = legs.remove(&row.id).unwrap_or_default();
        let early = early(&mut found);
        let allowance = found.get(&Leg::HoldAllowance).copied().unwrap_or(0);
        let included = row.charge.nanos().min(allowance);
        assert_eq!(row.included.nanos(), included, "{account}: {row:?}");
        assert!(allowance == 0 || row.plan.is_some(), "{account}: {row:?}");
        let (paid, credits) = (row.charge.nanos() - included, row.held.nanos() - allowance);
        let unused = [Leg::ReleaseAllowance, Leg::ReleaseBreakage].map(|leg| (leg, allowance - included));
        let unused = unused.into_iter().filter(|(leg, _)| found.contains_key(leg));
        let is_leased = found.contains_key(&Leg::HoldLease);
        let (taken, released) = match is_leased {
            true => (Leg::HoldLease, Leg::ReleaseLease),
            false => (Leg::Hold, Leg::Release),
        };
        let lost = match found.contains_key(&Leg::CrashLoss) {
            true => Leg::CrashLoss,
            false => Leg::Overrun,
        };
        let mut expected = positive(&[
            (taken, credits),
            (Leg::HoldAllowance, allowance),
            (Leg::Settle, paid),
            (Leg::SettleIncluded, included),
            (released, credits - paid - early),
            (lost, row.overrun.nanos()),
        ]);
        expected.extend(unused.clone());
        assert_eq!(
            unused.count(),
            usize::from(allowance > included),
            "{account}: {row:?}"
        );
        assert_eq!(found, expected, "{account}: {row:?}");
    }
    for hold in &ledger.holds {
        assert!(
            !resolved.contains(&hold.id),
            "{account}: resolved and open {hold:?}"
        );
        let allowance = hold.allowance.nanos();
        let mut found = legs.remove(&hold.id).unwrap_or_default();
        let early = early(&mut found);
        let expected = positive(&[
            (Leg::Hold, hold.amount.nanos() - allowance + early),
            (Leg::HoldAllowance, allowance),
        ]);
        assert_eq!(found, expected, "{account}: {hold:?}");
    }
    assert!(legs.is_empty(), "{account}: transfers of no hold: {legs:?}");
}
