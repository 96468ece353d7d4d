//! Cases for [`crate::LotStore`].

use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Timestamp};

use super::samples::{
    START, account, at, call, concurrently, funded, grant, hold, kind, nanos, plan, settlement, subscribe,
    take, warm_up,
};
use super::{Factory, LedgerSnapshot};
use crate::{Grant, HoldOutcome, LedgerAccount, Lot, LotKind, LotTerms, NewHold, Storage, StorageErrorKind};

/// Makes a grant with a priority that expires this many seconds after [`START`].
fn lasting(number: u128, account: AccountId, amount: i64, priority: u8, seconds: Option<u64>) -> Grant {
    let terms = LotTerms {
        priority,
        expires_at: seconds.map(at),
        ..LotTerms::default()
    };
    Grant {
        terms,
        ..grant(number, account, amount)
    }
}

/// Makes a hold of a call accepted this many seconds after [`START`].
fn hold_at(number: u128, account: AccountId, amount: i64, seconds: u64) -> NewHold {
    NewHold {
        created_at: at(seconds),
        ..hold(number, account, amount)
    }
}

/// Returns the rest of each lot, in the order of spending.
async fn left(storage: &Storage, account: AccountId, seconds: u64) -> Vec<(u128, i64)> {
    let lots = storage.lots.lots(account, at(seconds)).await.unwrap();
    LedgerSnapshot::read(storage).await;
    lots.iter()
        .map(|lot| (lot.id.as_u128(), lot.remaining.nanos()))
        .collect()
}

/// Returns the spendable credits and the breakage of expired lots.
async fn sums(storage: &Storage, account: AccountId) -> (i64, i64) {
    let ledgers = LedgerSnapshot::read(storage).await;
    let of = |ledger| ledgers.of(account).balance(ledger);
    (of(LedgerAccount::Credits), of(LedgerAccount::Breakage))
}

/// Checks that each grant is a lot with its terms; promotions come from goodwill and not from cash.
pub async fn grant_makes_a_lot(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    let gift = Grant {
        terms: LotTerms {
            kind: LotKind::Promotion,
            priority: 0,
            expires_at: Some(at(9)),
            note: "launch, \"größer\"".to_owned(),
        },
        at: at(3),
        ..grant(2, id, 7)
    };
    storage.ledger.grant(gift.clone()).await.unwrap();
    storage.engine.close().await.unwrap();
    drop(storage);
    let storage = factory.open().await;
    let expected = [
        Lot::new(gift.id, id, gift.amount, gift.terms, gift.at),
        Lot::new(
            TransferId::from_u128(1),
            id,
            nanos(100),
            LotTerms::default(),
            START,
        ),
    ];
    assert_eq!(storage.lots.lots(id, at(3)).await.unwrap(), expected);
    let ledgers = LedgerSnapshot::read(&storage).await;
    let of = |ledger| ledgers.of(id).balance(ledger);
    assert_eq!(
        (of(LedgerAccount::Cash), of(LedgerAccount::ExpenseGoodwill)),
        (-100, -7)
    );
}

/// Checks that a promotion is granted once; together with purchases it must not overflow.
pub async fn promotions_are_granted_once(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, i64::MAX - 5).await;
    let gift = |number, amount| Grant {
        terms: LotTerms {
            kind: LotKind::Promotion,
            ..LotTerms::default()
        },
        ..grant(number, id, amount)
    };
    let refused = storage.ledger.grant(gift(2, 6)).await;
    assert_eq!(kind(refused), StorageErrorKind::Conflict);
    for _ in 0..2 {
        let balance = storage.ledger.grant(gift(2, 5)).await.unwrap();
        assert_eq!(balance.credits, nanos(i64::MAX));
    }
    let other = funded(&storage, 3, 1).await;
    let elsewhere = Grant {
        account: other,
        ..gift(2, 5)
    };
    assert_eq!(
        kind(storage.ledger.grant(elsewhere).await),
        StorageErrorKind::Conflict
    );
    LedgerSnapshot::read(&storage).await;
}

/// Checks that spending takes lower priorities first, then earlier expiry with none last, then
/// earlier arrival; plan fees count as spending.
pub async fn spending_burns_in_order(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 10).await;
    for new in [
        lasting(2, id, 10, 100, Some(90)),
        lasting(3, id, 10, 100, Some(80)),
        lasting(4, id, 10, 7, None),
        lasting(5, id, 10, 100, None),
    ] {
        storage.ledger.grant(new).await.unwrap();
    }
    call(&storage, hold(11, id, 20), 12).await;
    assert_eq!(
        left(&storage, id, 0).await,
        [(4, 0), (3, 8), (2, 10), (1, 10), (5, 10)]
    );
    subscribe(&storage, plan(6, id, 0)).await;
    assert_eq!(
        left(&storage, id, 0).await,
        [(4, 0), (3, 0), (2, 0), (1, 0), (5, 8)]
    );
}

/// Checks that earlier spending is not assigned to a later lot, however soon that lot expires.
pub async fn spending_before_a_grant_burns_older_lots(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 10).await;
    call(&storage, hold(11, id, 6), 6).await;
    storage
        .ledger
        .grant(lasting(2, id, 10, 0, Some(90)))
        .await
        .unwrap();
    call(&storage, hold(12, id, 3), 3).await;
    assert_eq!(left(&storage, id, 0).await, [(2, 7), (1, 4)]);
}

/// Checks that a lot lasts until its expiry. Its rest becomes breakage, and other lots stay
/// unchanged.
pub async fn lots_expire_at_their_time(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 10).await;
    storage
        .ledger
        .grant(lasting(2, id, 10, 100, Some(90)))
        .await
        .unwrap();
    call(&storage, hold(11, id, 3), 3).await;
    assert_eq!(storage.lots.expire(at(89), 10).await.unwrap(), 0);
    assert_eq!(sums(&storage, id).await, (17, 0));
    assert_eq!(storage.lots.expire(at(90), 10).await.unwrap(), 1);
    assert_eq!(sums(&storage, id).await, (10, 7));
    assert_eq!(storage.lots.expire(at(91), 10).await.unwrap(), 0);
    let outcome = storage.ledger.hold(hold(12, id, 11)).await.unwrap();
    assert_eq!(outcome, HoldOutcome::Denied { available: nanos(10) });
    let lots = storage.lots.lots(id, at(91)).await.unwrap();
    assert_eq!((lots[0].remaining, lots[0].expired), (nanos(0), nanos(7)));
    storage.engine.close().await.unwrap();
    drop(storage);
    let storage = factory.open().await;
    assert_eq!(left(&storage, id, 91).await, [(2, 0), (1, 10)]);
    assert_eq!(sums(&storage, id).await, (10, 7));
}

/// Checks that reading lots expires the due ones.
pub async fn reading_lots_expires_them(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 0).await;
    storage
        .ledger
        .grant(lasting(2, id, 10, 100, Some(90)))
        .await
        .unwrap();
    assert_eq!(left(&storage, id, 90).await, [(2, 0)]);
    assert_eq!(sums(&storage, id).await, (0, 10));
}

/// Checks that calls accepted before the expiry of a lot may use the credits that they hold of it;
/// released credits expire with the next sweep. Later calls hold none of it.
pub async fn held_credits_expire_after_their_calls(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 10).await;
    storage
        .ledger
        .grant(lasting(2, id, 10, 100, Some(90)))
        .await
        .unwrap();
    let early = take(&storage, hold_at(11, id, 8, 89)).await;
    let late = take(&storage, hold_at(12, id, 4, 90)).await;
    assert_eq!(storage.lots.expire(at(90), 10).await.unwrap(), 1);
    assert_eq!(sums(&storage, id).await, (6, 2));
    storage.ledger.settle(settlement(&early, 5)).await.unwrap();
    assert_eq!(storage.lots.expire(at(120), 10).await.unwrap(), 1);
    assert_eq!(sums(&storage, id).await, (6, 5));
    storage.ledger.settle(settlement(&late, 4)).await.unwrap();
    assert_eq!(left(&storage, id, 150).await, [(2, 0), (1, 6)]);
}

/// Checks that held allowance is not held from lots.
pub async fn allowances_hold_no_lots(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 30).await;
    storage
        .ledger
        .grant(lasting(2, id, 10, 100, Some(90)))
        .await
        .unwrap();
    storage.ledger.grant(lasting(3, id, 30, 0, None)).await.unwrap();
    subscribe(&storage, plan(4, id, 100)).await;
    let held = take(&storage, hold(11, id, 100)).await;
    assert_eq!(storage.lots.expire(at(90), 10).await.unwrap(), 1);
    assert_eq!(sums(&storage, id).await, (30, 10));
    storage.ledger.settle(settlement(&held, 100)).await.unwrap();
    assert_eq!(left(&storage, id, 91).await, [(3, 0), (2, 0), (1, 30)]);
}

/// Checks that concurrent sweeps during calls expire a lot once, and that its credits cannot be
/// spent afterwards.
pub async fn concurrent_sweeps_expire_once(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 50).await;
    storage
        .ledger
        .grant(lasting(2, id, 1000, 100, Some(1)))
        .await
        .unwrap();
    warm_up(&storage, id).await;
    concurrently(24, |number| {
        let storage = storage.clone();
        Box::pin(async move {
            if number % 3 == 0 {
                storage.lots.expire(at(2), 10).await.unwrap();
                return;
            }
            for round in 0..4 {
                let new = hold_at(100 + number as u128 * 10 + round, id, 5, 0);
                if let HoldOutcome::Held { .. } = storage.ledger.hold(new.clone()).await.unwrap() {
                    storage.ledger.settle(settlement(&new, 2)).await.unwrap();
                }
            }
        })
    })
    .await;
    storage.lots.expire(at(3), 10).await.unwrap();
    let lots = storage.lots.lots(id, at(3)).await.unwrap();
    let ledgers = LedgerSnapshot::read(&storage).await;
    let charged: i64 = ledgers.of(id).usage.iter().map(|row| row.charge.nanos()).sum();
    let (expired, lasts) = (&lots[0], &lots[1]);
    assert_eq!((expired.id.as_u128(), expired.remaining), (2, nanos(0)));
    let (credits, breakage) = sums(&storage, id).await;
    assert_eq!(
        (credits, breakage),
        (lasts.remaining.nanos(), expired.expired.nanos())
    );
    assert_eq!(credits + breakage + charged, 1050);
}

/// Checks that an account must exist to have lots.
pub async fn unknown_account_is_not_found(factory: Factory) {
    let storage = factory.open().await;
    let found = storage.lots.lots(account(1).id, START).await;
    assert_eq!(kind(found), StorageErrorKind::NotFound);
    assert_eq!(storage.lots.expire(START, 10).await.unwrap(), 0);
}

/// Compares random histories with a model that burns every charge immediately.
pub async fn deferred_assignment_equals_immediate_burning(factory: Factory) {
    let storage = factory.open().await;
    for seed in 1..=12_u64 {
        let id = funded(&storage, seed.into(), 0).await;
        let mut history = History::new(seed, id);
        for _ in 0..40 {
            history.step(&storage).await;
        }
    }
    LedgerSnapshot::read(&storage).await;
}

/// Model of an account that burns lots at every charge.
struct History {
    random: u64,
    account: AccountId,
    next: u128,
    now: u64,
    /// Id, priority, expiry and rest, in the order of spending.
    lots: Vec<(u128, u8, u64, i64)>,
    holds: Vec<NewHold>,
}

impl History {
    fn new(seed: u64, account: AccountId) -> History {
        History {
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            account,
            next: u128::from(seed) * 1_000_000,
            now: 0,
            lots: Vec::new(),
            holds: Vec::new(),
        }
    }

    /// Returns a pseudo-random number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % end
    }

    fn amount(&mut self, end: u64) -> i64 {
        i64::try_from(self.below(end)).unwrap()
    }

    fn available(&self) -> i64 {
        let held: i64 = self.holds.iter().map(|hold| hold.amount.nanos()).sum();
        self.lots.iter().map(|lot| lot.3).sum::<i64>() - held
    }

    async fn step(&mut self, storage: &Storage) {
        self.next += 1;
        match self.below(10) {
            0 | 1 => {
                let (amount, priority) = (1 + self.amount(40), [10, 100][usize::from(self.below(2) == 0)]);
                let lasts = self.below(3);
                let seconds = (lasts > 0).then(|| self.now + 1 + lasts * 3);
                let new = lasting(self.next, self.account, amount, priority, seconds);
                storage.ledger.grant(new).await.unwrap();
                self.lots
                    .push((self.next, priority, seconds.unwrap_or(u64::MAX), amount));
                self.lots.sort_by_key(|lot| (lot.1, lot.2, lot.0));
            }
            2..=4 => {
                let amount = 1 + self.amount(20);
                let new = hold_at(self.next, self.account, amount, self.now);
                let outcome = storage.ledger.hold(new.clone()).await.unwrap();
                let fits = amount <= self.available();
                assert_eq!(matches!(outcome, HoldOutcome::Held { .. }), fits, "{outcome:?}");
                self.holds.extend(fits.then_some(new));
            }
            5..=7 if !self.holds.is_empty() => {
                let which = usize::try_from(self.below(self.holds.len() as u64)).unwrap();
                let held = self.holds.swap_remove(which);
                let charge = self.amount(held.amount.nanos().cast_unsigned() + 1);
                storage.ledger.settle(settlement(&held, charge)).await.unwrap();
                self.burn(charge);
            }
            8 => self.now += 1 + self.below(4),
            _ => {
                self.expire();
                let lots = storage.lots.lots(self.account, at(self.now)).await.unwrap();
                let left = |lot: &Lot| (lot.id.as_u128(), lot.remaining.nanos());
                let found: Vec<_> = lots.iter().map(left).collect();
                let expected: Vec<_> = self.lots.iter().map(|lot| (lot.0, lot.3)).collect();
                assert_eq!(found, expected);
                let balance = storage.ledger.balance(self.account).await.unwrap();
                assert_eq!(balance.credits, nanos(self.available()));
            }
        }
    }

    fn burn(&mut self, charge: i64) {
        for _ in 0..charge {
            let lot = self.lots.iter_mut().find(|lot| lot.3 > 0);
            lot.expect("what is charged was held").3 -= 1;
        }
    }

    /// Expires lots nano-credit by nano-credit. Each held nano-credit belongs to the first lot that
    /// has a rest and expires after the call was accepted.
    fn expire(&mut self) {
        let held_at: Vec<Timestamp> = self
            .holds
            .iter()
            .flat_map(|hold| (0..hold.amount.nanos()).map(|_| hold.created_at))
            .collect();
        let (mut reserved, mut available) = (0, self.available());
        for lot in &mut self.lots {
            let is_expired = lot.2 <= self.now;
            let before = held_at
                .iter()
                .filter(|at_hold| !is_expired || **at_hold < at(lot.2));
            let still_held = i64::try_from(before.count()).unwrap() - reserved;
            let still_held = still_held.clamp(0, lot.3);
            reserved += still_held;
            if is_expired {
                let gone = (lot.3 - still_held).min(available);
                available -= gone;
                lot.3 -= gone;
            }
        }
    }
}
