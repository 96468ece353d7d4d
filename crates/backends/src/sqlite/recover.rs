//! Takes over what an earlier run left in the journal, voids the calls that it left open, and loads the books.
//!
//! It can be interrupted and begun again: what is in the database already is recognised by the ids of its holds.
//! A call that was open when the process died is void: nobody knows whether its answer arrived, so nobody pays for it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use sqlx::sqlite::SqliteConnection;
use sqlx::{FromRow, Row};
use tollgate_storage::subscription::window_entry;
use tollgate_storage::{Refund, Result, Settlement, Subscription};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Clock, Credits, HoldId, KeyId, RequestId, Timestamp};

use super::batch::{Batch, ResolvedCall};
use super::books::{Books, Sums};
use super::holds::Holds;
use super::job;
use super::statements::BatchWriter;
use super::writer::execute;
use crate::ids::{HoldKey, IdMap, lock};
use crate::journal::record::{Hold, PlanShare, Record, Returned, Shrink, Week, Window, crashed};
use crate::journal::segment::{self, Installation};
use crate::journal::unavailable;
use crate::rows::{SubscriptionColumns, corrupt, id_bytes, id_from, plan_from, storage_error, version_from};

const MARK: &str = "SELECT installation, committed, clean FROM journal_mark";
const OPEN_HOLDS: &str = "SELECT account_id, id, key_id, request_id, amount, price_version, model, endpoint, \
    created_at, expires_at, allowance, plan_name, window_id, returned, times_returned FROM hold";
const IS_RESOLVED: &str = "SELECT EXISTS (SELECT 1 FROM usage_row WHERE account_id = $1 AND id = $2)";
const IS_WRITTEN: &str = "SELECT EXISTS (SELECT 1 FROM transfer WHERE account_id = $1 AND entry_id = $2)";
pub(super) const BALANCES: &str = "SELECT account_id, kind, balance FROM ledger_account";
const PLANS: &str = "SELECT id, account_id, product, subject, price, cadence, payer, allowance, anchor, period, \
    paid_through, cancel_at_period_end, past_due_since, state, window_number, next_plan, next_cadence FROM subscription \
    WHERE product = 'plan' AND state IN ('active', 'past_due')";
const LARGEST: &str =
    "SELECT MAX((SELECT MAX(id) FROM usage_row WHERE account_id = account.id)) FROM account";

/// Calls that are taken over in one transaction.
const TOGETHER: usize = 4096;

/// What the engine begins with.
pub(super) struct Recovered {
    /// Which journal belongs to the database.
    pub(super) installation: Installation,
    /// The last number that was given.
    pub(super) last: u64,
    /// Every book.
    pub(super) books: Books,
    /// Holds that are open, because the engine was closed in order while they were.
    pub(super) holds: Holds,
}

/// What the journal of an earlier run tells beyond the database.
#[derive(Default)]
struct Left {
    /// Holds of the journal of which no resolution was taken over.
    holds: IdMap<HoldKey, Arc<Hold>>,
    /// What may not have been taken over, in order.
    events: BTreeMap<u64, Event>,
}

/// What changes the books beside holds.
enum Event {
    Settled(Settlement, Week),
    Opened(Window),
    GivenBack(Refund),
    Shrunk(Shrink),
}

/// Holds that are open at the start, by what becomes of them.
#[derive(Default)]
struct Sorted {
    /// They are resolved now.
    over: Vec<(Arc<Hold>, Settlement)>,
    /// They go on: their jobs do.
    kept: IdMap<HoldKey, Arc<Hold>>,
}

/// What is taken over from the journal.
enum Taken {
    Hold(Arc<Hold>),
    Call(ResolvedCall),
    Window(Window),
    Refund(Refund),
    Shrunk(Arc<Hold>, Shrink),
}

/// Brings the database up to date with the journal and reads it.
pub(super) async fn recover(
    connection: &mut SqliteConnection,
    journal: &Path,
    clock: &dyn Clock,
) -> Result<Recovered> {
    let (installation, committed, clean) = mark(connection).await?;
    let mut left = Left::default();
    let found = segment::replay(journal, installation, |seq, record| {
        left.note(seq, record, committed)
    })?;
    let mut stored = open_holds(connection).await?;
    let died = !clean || found.last > committed;
    let open = match died {
        true => {
            let (ended, open) = left.ended(connection, &mut stored).await?;
            take_over(connection, ended).await?;
            open
        }
        false => stored.clone(),
    };
    let Sorted { over, kept } = sort(connection, open, died, clock.now()).await?;
    // Now the database says which weeks are open.
    let over = resolved(&books(connection).await?, &stored, over);
    take_over(connection, over).await?;
    let unstored = kept.iter().filter(|(key, _)| !stored.contains_key(key));
    take_over(
        connection,
        unstored.map(|(_, hold)| Taken::Hold(hold.clone())).collect(),
    )
    .await?;
    let last = found.last.max(committed);
    let mark = "UPDATE journal_mark SET clean = 0, committed = $1";
    sqlx::query(mark)
        .bind(last.cast_signed())
        .execute(&mut *connection)
        .await
        .map_err(storage_error)?;
    segment::remove(journal, &found).map_err(unavailable)?;
    let books = books(connection).await?;
    let holds = Holds::new(largest(connection).await?);
    for hold in kept.into_values() {
        let book = books
            .get(hold.account)
            .ok_or_else(|| corrupt(format!("{} has no book", hold.account)))?;
        lock(&book.sums).drawn += hold.allowance();
        holds.shard(hold.id).open(hold, 0, book);
    }
    Ok(Recovered {
        installation,
        last,
        books,
        holds,
    })
}

impl Left {
    fn note(&mut self, seq: u64, record: Record, committed: u64) {
        match record {
            Record::Hold(hold) => {
                self.holds.insert((hold.account, hold.id), Arc::new(hold));
            }
            Record::Settle(settlement, _) if seq <= committed => {
                self.holds.remove(&(settlement.account, settlement.hold));
            }
            Record::Settle(settlement, week) => {
                self.events.insert(seq, Event::Settled(settlement, week));
            }
            Record::Window(_) | Record::Refund(_) | Record::Shrink(_) if seq <= committed => {}
            Record::Shrink(shrink) => {
                self.events.insert(seq, Event::Shrunk(shrink));
            }
            Record::Refund(refund) => {
                self.events.insert(seq, Event::GivenBack(refund));
            }
            Record::Window(window) => {
                self.events.insert(seq, Event::Opened(window));
            }
        }
    }

    /// What happened before the process died, and the holds that were open then. Those that get their rows by it are `stored`.
    async fn ended(
        self,
        connection: &mut SqliteConnection,
        stored: &mut IdMap<HoldKey, Arc<Hold>>,
    ) -> Result<(Vec<Taken>, IdMap<HoldKey, Arc<Hold>>)> {
        let mut open = stored.clone();
        for (key, hold) in self.holds {
            // After a power cut the database may know more than the journal.
            if !stored.contains_key(&key) && !is_resolved(connection, key).await? {
                open.insert(key, hold);
            }
        }
        let mut ended = Vec::new();
        for event in self.events.into_values() {
            match event {
                Event::Opened(window) => {
                    let entry = window_entry(window.subscription, window.opened.0);
                    if !is_written(connection, window.account, entry).await? {
                        ended.push(Taken::Window(window));
                    }
                }
                Event::GivenBack(refund) => {
                    if !is_written(connection, refund.account, refund.id).await? {
                        ended.push(Taken::Refund(refund));
                    }
                }
                Event::Shrunk(shrink) => {
                    let key = (shrink.account, shrink.hold);
                    let Some(hold) = open.get(&key).cloned() else {
                        continue;
                    };
                    // After a power cut the database may know more than the journal.
                    if hold.returned.times >= shrink.returned.times {
                        continue;
                    }
                    let left = Arc::new(hold.after(&shrink));
                    if stored.insert(key, left.clone()).is_none() {
                        ended.push(Taken::Hold(hold.clone()));
                    }
                    open.insert(key, left);
                    ended.push(Taken::Shrunk(hold, shrink));
                }
                Event::Settled(settlement, week) => {
                    let key = (settlement.account, settlement.hold);
                    ended.extend(open.remove(&key).map(|hold| {
                        Taken::Call(ResolvedCall {
                            hold,
                            settlement,
                            is_stored: stored.contains_key(&key),
                            week,
                        })
                    }));
                }
            }
        }
        Ok((ended, open))
    }
}

/// The hold of a job lasts as long as the job; that of a call that was open when the process died is void.
async fn sort(
    connection: &mut SqliteConnection,
    open: IdMap<HoldKey, Arc<Hold>>,
    died: bool,
    now: Timestamp,
) -> Result<Sorted> {
    let mut sorted = Sorted::default();
    let (mut calls, mut held) = (0_u64, 0_i128);
    for (key, hold) in open {
        match job::of_hold(connection, key).await? {
            Some(Some(settlement)) => sorted.over.push((hold, settlement)),
            Some(None) => drop(sorted.kept.insert(key, hold)),
            None if died => {
                calls += 1;
                held += i128::from(hold.held());
                sorted.over.push((hold, crashed(key, now)));
            }
            None => drop(sorted.kept.insert(key, hold)),
        }
    }
    if calls > 0 {
        tracing::warn!(calls, held_nanos = %held, "calls were open when the process died: they are void");
    }
    Ok(sorted)
}

/// Holds that are resolved now. What they held of an allowance goes back to it while its week is open.
fn resolved(
    books: &Books,
    stored: &IdMap<HoldKey, Arc<Hold>>,
    over: Vec<(Arc<Hold>, Settlement)>,
) -> Vec<Taken> {
    let is_over = |hold: &Hold, share: &PlanShare| {
        let book = books.get(hold.account);
        book.is_none_or(|book| !lock(&book.sums).is_open(&share.plan))
    };
    let resolve = |(hold, settlement): (Arc<Hold>, Settlement)| {
        let week = match &hold.plan {
            Some(share) if is_over(&hold, share) => Week::Closed,
            _ => Week::Open,
        };
        Taken::Call(ResolvedCall {
            settlement,
            is_stored: stored.contains_key(&(hold.account, hold.id)),
            hold,
            week,
        })
    };
    over.into_iter().map(resolve).collect()
}

async fn take_over(connection: &mut SqliteConnection, taken: Vec<Taken>) -> Result<()> {
    let mut statements = BatchWriter::new();
    let mut taken = taken.into_iter().peekable();
    while taken.peek().is_some() {
        let mut batch = Batch::default();
        taken.by_ref().take(TOGETHER).for_each(|taken| match taken {
            Taken::Hold(hold) => batch.store(hold),
            Taken::Call(call) => batch.resolve(call),
            Taken::Window(window) => batch.open_window(window),
            Taken::Refund(refund) => batch.give_back(refund),
            Taken::Shrunk(hold, shrink) => batch.shrink(hold, shrink),
        });
        tracing::info!(calls = batch.len(), "taking over calls from the journal");
        execute(connection, "BEGIN IMMEDIATE").await?;
        statements.write(connection, &batch).await?;
        execute(connection, "COMMIT").await?;
    }
    Ok(())
}

async fn mark(connection: &mut SqliteConnection) -> Result<(Installation, u64, bool)> {
    let row = sqlx::query(MARK)
        .fetch_one(connection)
        .await
        .map_err(storage_error)?;
    let installation: Vec<u8> = row.try_get("installation").map_err(storage_error)?;
    let committed: i64 = row.try_get("committed").map_err(storage_error)?;
    let clean: i64 = row.try_get("clean").map_err(storage_error)?;
    let installation = installation
        .try_into()
        .map_err(|_| corrupt("the mark of the journal"))?;
    Ok((installation, committed.cast_unsigned(), clean != 0))
}

async fn is_resolved(connection: &mut SqliteConnection, (account, hold): HoldKey) -> Result<bool> {
    sqlx::query_scalar(IS_RESOLVED)
        .bind(id_bytes(account.as_u128()))
        .bind(id_bytes(hold.as_u128()))
        .fetch_one(connection)
        .await
        .map_err(storage_error)
}

/// Whether the transfers of a week or a refund are in the database.
async fn is_written(
    connection: &mut SqliteConnection,
    account: AccountId,
    entry: TransferId,
) -> Result<bool> {
    sqlx::query_scalar(IS_WRITTEN)
        .bind(id_bytes(account.as_u128()))
        .bind(id_bytes(entry.as_u128()))
        .fetch_one(connection)
        .await
        .map_err(storage_error)
}

async fn largest(connection: &mut SqliteConnection) -> Result<Option<HoldId>> {
    let id: Option<Vec<u8>> = sqlx::query_scalar(LARGEST)
        .fetch_one(connection)
        .await
        .map_err(storage_error)?;
    let id = id.as_deref().map(id_from).transpose()?;
    Ok(id.map(HoldId::from_u128))
}

#[derive(FromRow)]
struct HoldColumns {
    account_id: Vec<u8>,
    id: Vec<u8>,
    key_id: Option<Vec<u8>>,
    request_id: Vec<u8>,
    amount: i64,
    price_version: i64,
    model: String,
    endpoint: String,
    created_at: i64,
    expires_at: i64,
    allowance: i64,
    plan_name: Option<String>,
    window_id: Option<Vec<u8>>,
    returned: i64,
    times_returned: i64,
}

impl HoldColumns {
    fn hold(self) -> Result<Hold> {
        let key = self.key_id.as_deref().map(id_from).transpose()?;
        let allowance = Credits::from_nanos(self.allowance);
        let plan = plan_from(self.plan_name, self.window_id)?;
        Ok(Hold {
            plan: plan.map(|plan| Box::new(PlanShare { plan, allowance })),
            lease: None,
            returned: Returned {
                amount: Credits::from_nanos(self.returned),
                times: u8::try_from(self.times_returned)
                    .map_err(|_| corrupt(format!("{} times returned", self.times_returned)))?,
            },
            account: AccountId::from_u128(id_from(&self.account_id)?),
            id: HoldId::from_u128(id_from(&self.id)?),
            key: key.map(KeyId::from_u128),
            request: RequestId::from_u128(id_from(&self.request_id)?),
            amount: Credits::from_nanos(self.amount),
            price_version: version_from(self.price_version),
            model: self.model.into(),
            endpoint: self.endpoint.into(),
            created_at: Timestamp::from_micros(self.created_at),
            expires_at: Timestamp::from_micros(self.expires_at),
        })
    }
}

async fn open_holds(connection: &mut SqliteConnection) -> Result<IdMap<HoldKey, Arc<Hold>>> {
    let rows: Vec<HoldColumns> = sqlx::query_as(OPEN_HOLDS)
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    let with_key = |row: HoldColumns| {
        let hold = row.hold()?;
        Ok(((hold.account, hold.id), Arc::new(hold)))
    };
    rows.into_iter().map(with_key).collect()
}

async fn books(connection: &mut SqliteConnection) -> Result<Books> {
    let rows = sqlx::query(BALANCES)
        .fetch_all(&mut *connection)
        .await
        .map_err(storage_error)?;
    let mut sums: IdMap<AccountId, Sums> = IdMap::default();
    for row in rows {
        let account = id_from(row.try_get("account_id").map_err(storage_error)?)?;
        let balance: i64 = row.try_get("balance").map_err(storage_error)?;
        let sums = sums.entry(AccountId::from_u128(account)).or_default();
        match row.try_get("kind").map_err(storage_error)? {
            "credits" => sums.credits = balance,
            "hold" => sums.held = balance,
            "revenue:usage" | "revenue:included" => sums.revenue = sums.revenue.saturating_add(balance),
            "allowance" => sums.allowance = balance,
            _ => {}
        }
    }
    let plans: Vec<SubscriptionColumns> = sqlx::query_as(PLANS)
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    for plan in plans {
        let plan = Subscription::try_from(plan)?;
        let account = plan.terms.account;
        sums.entry(account).or_default().plan = Some(Box::new(plan));
    }
    let books = Books::default();
    sums.into_iter()
        .for_each(|(account, sums)| books.open(account, sums));
    Ok(books)
}

/// Every statement of this file.
#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[
    MARK,
    OPEN_HOLDS,
    IS_RESOLVED,
    IS_WRITTEN,
    BALANCES,
    PLANS,
    LARGEST,
];
