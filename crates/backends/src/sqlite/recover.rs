//! Recovery at startup: writes the journal of an earlier run to the database, voids the open calls
//! of that run, and loads the balances.
//!
//! Recovery is idempotent and can be interrupted, because the ids of holds, weeks and refunds and
//! the number of early releases show which records are already in the database. A call that was
//! open when the process died is void and free, because its response may not have arrived.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use sqlx::Row;
use sqlx::sqlite::SqliteConnection;
use tollgate_storage::subscription::window_entry;
use tollgate_storage::{Refund, Result, Settlement, Subscription};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Clock, Credits, HoldId, RequestId, Timestamp};

use super::balances::{Balances, Sums};
use super::batch::{Batch, ResolvedCall};
use super::holds::Holds;
use super::job;
use super::statements::BatchWriter;
use super::writer::execute;
use crate::columns::columns;
use crate::ids::{HoldKey, IdMap, lock};
use crate::journal::record::{Hold, PlanShare, Record, Returned, Shrink, Week, Window, crashed};
use crate::journal::segment::{self, Installation};
use crate::journal::unavailable;
use crate::rows::{
    SubscriptionColumns, corrupt, id_bytes, id_from, plan_from, principal_from, storage_error, version_from,
};

const MARK: &str = "SELECT installation, committed, clean FROM journal_mark";
const OPEN_HOLDS: &str = "SELECT account_id, id, key_id, member_id, request_id, amount, price_version, model, endpoint, \
    created_at, expires_at, allowance, plan_name, window_id, returned, times_returned FROM hold";
const IS_RESOLVED: &str = "SELECT EXISTS (SELECT 1 FROM usage_row WHERE account_id = $1 AND id = $2)";
const IS_WRITTEN: &str = "SELECT EXISTS (SELECT 1 FROM transfer WHERE account_id = $1 AND entry_id = $2)";
pub(super) const BALANCES: &str = "SELECT account_id, kind, balance FROM ledger_account";
const PLANS: &str = "SELECT id, account_id, product, subject, price, cadence, payer, allowance, anchor, period, \
    paid_through, cancel_at_period_end, past_due_since, state, window_number, next_plan, next_cadence FROM subscription \
    WHERE product = 'plan' AND state IN ('active', 'past_due')";
const MAX_ID: &str = "SELECT MAX((SELECT MAX(id) FROM usage_row WHERE account_id = account.id)) FROM account";

/// Maximum number of recovered records in one transaction.
const MAX_TRANSACTION_CALLS: usize = 4096;

/// Initial state of the engine.
pub(super) struct Recovered {
    /// Random id of the database, repeated in the header of each journal segment.
    pub(super) installation: Installation,
    /// Last sequence number in use.
    pub(super) last: u64,
    /// Balances of all accounts.
    pub(super) balances: Balances,
    /// Holds that stay open: holds of jobs, and of calls if the engine was closed properly.
    pub(super) holds: Holds,
}

/// Journal records of an earlier run that may be missing from the database.
#[derive(Default)]
struct PendingJournal {
    /// Holds in the journal without a settlement in the database.
    holds: IdMap<HoldKey, Arc<Hold>>,
    /// Records that may be missing from the database, by sequence number.
    events: BTreeMap<u64, Event>,
}

/// A change of balances other than a hold.
enum Event {
    Settled(Settlement, Week),
    Opened(Window),
    Refunded(Refund),
    Shrunk(Shrink),
}

/// Open holds at the start, classified by their treatment in the recovery.
#[derive(Default)]
struct ClassifiedHolds {
    /// Holds that the recovery resolves, with their settlements.
    finished: Vec<(Arc<Hold>, Settlement)>,
    /// Holds that stay open, such as the holds of jobs that have not ended.
    surviving: IdMap<HoldKey, Arc<Hold>>,
}

/// A journal record to write to the database.
enum RecoveredEntry {
    Hold(Arc<Hold>),
    Call(ResolvedCall),
    Window(Window),
    Refund(Refund),
    Shrunk(Arc<Hold>, Shrink),
}

/// Writes the records of the journal to the database and loads the state. Returns `Corrupt` if a
/// segment belongs to another database or contains an unknown record type.
pub(super) async fn recover(
    connection: &mut SqliteConnection,
    journal: &Path,
    clock: &dyn Clock,
) -> Result<Recovered> {
    let (installation, committed, clean) = mark(connection).await?;
    let mut left = PendingJournal::default();
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
    let ClassifiedHolds { finished, surviving } = classify(connection, open, died, clock.now()).await?;
    // The database now contains the open weeks.
    let finished = resolved(&balances(connection).await?, &stored, finished);
    take_over(connection, finished).await?;
    let unstored = surviving.iter().filter(|(key, _)| !stored.contains_key(key));
    take_over(
        connection,
        unstored
            .map(|(_, hold)| RecoveredEntry::Hold(hold.clone()))
            .collect(),
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
    let balances = balances(connection).await?;
    let holds = Holds::new(max_id(connection).await?);
    for hold in surviving.into_values() {
        let account_balances = balances
            .get(hold.account)
            .ok_or_else(|| corrupt(format!("{} has no balances", hold.account)))?;
        lock(&account_balances.sums).drawn += hold.allowance();
        holds.shard(hold.id).open(hold, 0, account_balances);
    }
    Ok(Recovered {
        installation,
        last,
        balances,
        holds,
    })
}

impl PendingJournal {
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
                self.events.insert(seq, Event::Refunded(refund));
            }
            Record::Window(window) => {
                self.events.insert(seq, Event::Opened(window));
            }
        }
    }

    /// Returns the records to write and the holds that were open when the process died. Updates
    /// `stored` with the holds that an early release gives a row.
    async fn ended(
        self,
        connection: &mut SqliteConnection,
        stored: &mut IdMap<HoldKey, Arc<Hold>>,
    ) -> Result<(Vec<RecoveredEntry>, IdMap<HoldKey, Arc<Hold>>)> {
        let mut open = stored.clone();
        for (key, hold) in self.holds {
            // After a power failure the database may be ahead of the journal.
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
                        ended.push(RecoveredEntry::Window(window));
                    }
                }
                Event::Refunded(refund) => {
                    if !is_written(connection, refund.account, refund.id).await? {
                        ended.push(RecoveredEntry::Refund(refund));
                    }
                }
                Event::Shrunk(shrink) => {
                    let key = (shrink.account, shrink.hold);
                    let Some(hold) = open.get(&key).cloned() else {
                        continue;
                    };
                    // After a power failure the database may be ahead of the journal.
                    if hold.returned.times >= shrink.returned.times {
                        continue;
                    }
                    let left = Arc::new(hold.after(&shrink));
                    if stored.insert(key, left.clone()).is_none() {
                        ended.push(RecoveredEntry::Hold(hold.clone()));
                    }
                    open.insert(key, left);
                    ended.push(RecoveredEntry::Shrunk(hold, shrink));
                }
                Event::Settled(settlement, week) => {
                    let key = (settlement.account, settlement.hold);
                    ended.extend(open.remove(&key).map(|hold| {
                        RecoveredEntry::Call(ResolvedCall {
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

/// Classifies open holds. The hold of a job stays open until the job ends. If the process died, the
/// hold of a call is void.
async fn classify(
    connection: &mut SqliteConnection,
    open: IdMap<HoldKey, Arc<Hold>>,
    died: bool,
    now: Timestamp,
) -> Result<ClassifiedHolds> {
    let mut classified = ClassifiedHolds::default();
    let (mut calls, mut held) = (0_u64, 0_i128);
    for (key, hold) in open {
        match job::of_hold(connection, key).await? {
            Some(Some(settlement)) => classified.finished.push((hold, settlement)),
            Some(None) => drop(classified.surviving.insert(key, hold)),
            None if died => {
                calls += 1;
                held += i128::from(hold.held());
                classified.finished.push((hold, crashed(key, now)));
            }
            None => drop(classified.surviving.insert(key, hold)),
        }
    }
    if calls > 0 {
        tracing::warn!(calls, held_nanos = %held, "voided calls that were open when the process died");
    }
    Ok(classified)
}

/// Returns the records that resolve finished holds. Held allowance returns to the plan if the
/// plan's week is still open.
fn resolved(
    balances: &Balances,
    stored: &IdMap<HoldKey, Arc<Hold>>,
    finished: Vec<(Arc<Hold>, Settlement)>,
) -> Vec<RecoveredEntry> {
    let is_over = |hold: &Hold, share: &PlanShare| {
        let account_balances = balances.get(hold.account);
        account_balances.is_none_or(|account_balances| !lock(&account_balances.sums).is_open(&share.plan))
    };
    let resolve = |(hold, settlement): (Arc<Hold>, Settlement)| {
        let week = match &hold.plan {
            Some(share) if is_over(&hold, share) => Week::Closed,
            _ => Week::Open,
        };
        RecoveredEntry::Call(ResolvedCall {
            settlement,
            is_stored: stored.contains_key(&(hold.account, hold.id)),
            hold,
            week,
        })
    };
    finished.into_iter().map(resolve).collect()
}

async fn take_over(connection: &mut SqliteConnection, taken: Vec<RecoveredEntry>) -> Result<()> {
    let mut statements = BatchWriter::new();
    let mut taken = taken.into_iter().peekable();
    while taken.peek().is_some() {
        let mut batch = Batch::default();
        taken
            .by_ref()
            .take(MAX_TRANSACTION_CALLS)
            .for_each(|taken| match taken {
                RecoveredEntry::Hold(hold) => batch.store(hold),
                RecoveredEntry::Call(call) => batch.resolve(call),
                RecoveredEntry::Window(window) => batch.open_window(window),
                RecoveredEntry::Refund(refund) => batch.add_refund(refund),
                RecoveredEntry::Shrunk(hold, shrink) => batch.shrink(hold, shrink),
            });
        tracing::info!(calls = batch.len(), "recovering calls from the journal");
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
        .map_err(|_| corrupt("invalid journal mark"))?;
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

/// Whether the database contains the transfers of a week or a refund.
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

async fn max_id(connection: &mut SqliteConnection) -> Result<Option<HoldId>> {
    let id: Option<Vec<u8>> = sqlx::query_scalar(MAX_ID)
        .fetch_one(connection)
        .await
        .map_err(storage_error)?;
    let id = id.as_deref().map(id_from).transpose()?;
    Ok(id.map(HoldId::from_u128))
}

columns! {
    struct HoldColumns {
        account_id: Vec<u8>,
        id: Vec<u8>,
        key_id: Option<Vec<u8>>,
        member_id: Option<Vec<u8>>,
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
}

impl HoldColumns {
    fn hold(self) -> Result<Hold> {
        let allowance = Credits::from_nanos(self.allowance);
        let plan = plan_from(self.plan_name, self.window_id)?;
        Ok(Hold {
            plan: plan.map(|plan| Box::new(PlanShare { plan, allowance })),
            lease: None,
            returned: Returned {
                amount: Credits::from_nanos(self.returned),
                times: u8::try_from(self.times_returned)
                    .map_err(|_| corrupt(format!("invalid return count {}", self.times_returned)))?,
            },
            account: AccountId::from_u128(id_from(&self.account_id)?),
            id: HoldId::from_u128(id_from(&self.id)?),
            principal: principal_from(self.key_id, self.member_id)?,
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

async fn balances(connection: &mut SqliteConnection) -> Result<Balances> {
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
    let balances = Balances::default();
    sums.into_iter()
        .for_each(|(account, sums)| balances.open(account, sums));
    Ok(balances)
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[MARK, OPEN_HOLDS, IS_RESOLVED, IS_WRITTEN, BALANCES, PLANS, MAX_ID];
