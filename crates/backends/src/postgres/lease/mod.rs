//! Leases of balance: how a node holds and settles without a round trip to the database.
//!
//! A busy account's node takes a part of its credits in advance, as a lease. Holds are taken out of it in memory and kept
//! in a journal on this machine, so that they survive the death of the process. Calls that have ended are reported many at a
//! time, in rounds ([`round`]), which also renew the lease and let it grow and shrink ([`state`]). What a process has left
//! unreported when it dies is reported by the next one that is given the same directory ([`recover`]).
//!
//! Whatever happens to a node or its clock, an account cannot spend more than it has: a lease has left its credits. A node that
//! does not report is waited for as long as its calls can last; then its lease is closed, and what it reports afterwards is
//! the operator's loss. First calls, expensive ones, accounts with a plan and those that have little left take the exact
//! path ([`super::ledger`]), to which every lease gives back what it can.

mod recover;
mod round;
mod state;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, RwLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::Notify;
use tollgate_storage::{
    NewHold, News, NewsReader, NewsSource, Resolution, Result, Settlement, StorageError, StorageErrorKind,
};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Clock, Credits, Timestamp};

use super::pool::Pool;
use super::rows;
use crate::ids::{IdMap, lock};
use crate::journal::record::{Hold, Week, crashed};
use crate::journal::{Entry, Journal, JournalConfig, unavailable};
use round::{Report, Terms};
use state::{Room, State};

/// How a node leases.
#[derive(Clone, Debug)]
pub struct LeaseConfig {
    /// Where the journal of each node is, on a disk that outlives the process.
    pub dir: PathBuf,
    /// How long a call can last at the most.
    pub longest_call: Duration,
    /// How long a lease lasts that is not renewed.
    pub life: Duration,
    /// Calls of an account within a second that make it busy.
    pub busy: u32,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
}

impl LeaseConfig {
    /// Leases of ten seconds for accounts with ten calls within a second, with their journal in this directory.
    pub fn new(dir: PathBuf, longest_call: Duration, clock: Arc<dyn Clock>) -> LeaseConfig {
        LeaseConfig {
            dir,
            longest_call,
            life: Duration::from_secs(10),
            busy: 10,
            clock,
        }
    }

    /// Before a lease's end, its node takes no more holds out of it.
    fn margin(&self) -> Duration {
        self.life / 5
    }

    /// Between two rounds of a lease in which nothing happens.
    fn renewal(&self) -> Duration {
        self.life * 3 / 10
    }
}

/// Calls that end within this time are reported together: a round costs the database as much as two calls on the exact path.
const TOGETHER: Duration = Duration::from_millis(200);
/// So many are reported at once; and as many again, at most, with them.
const ENOUGH_TOGETHER: usize = 500;
const MOST_TOGETHER: usize = 1_000;
/// How long an account whose lease was refused or recalled has none.
const COOL: Duration = Duration::from_secs(2);
/// Pauses after a failed round, doubled up to the second one.
const RETRY_AFTER: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];
/// How long a read waits for what this process has to report, and between two looks.
const READERS_WAIT: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// How long the end of the process waits for it.
const CLOSERS_WAIT: Duration = Duration::from_secs(10);
/// Between two looks for journal files that nobody needs.
const TIDY_EVERY: Duration = Duration::from_secs(1);
/// A call that costs as much waits until its hold is on the database's disk.
const EXACT_FROM: Credits = Credits::from_nanos(1_000_000_000);

/// The leases of this process.
pub(super) struct Leases {
    config: LeaseConfig,
    pool: Arc<Pool>,
    node: TransferId,
    journal: Arc<Journal>,
    syncer: Mutex<Option<JoinHandle<()>>>,
    /// The directory is this process's as long as the file is locked.
    _own: std::fs::File,
    accounts: RwLock<IdMap<AccountId, Arc<Account>>>,
    heat: Mutex<Heat>,
    closing: AtomicBool,
    /// Tells which leases are recalled; it is heard from the first lease on.
    news: Arc<dyn NewsSource>,
    hears: Once,
}

/// The lease of one account.
struct Account {
    id: AccountId,
    state: Mutex<State>,
    /// There is something to report.
    wake: Notify,
    /// Somebody waits for the next round.
    hurry: Notify,
}

impl Account {
    fn hurry(&self) {
        self.wake.notify_one();
        self.hurry.notify_one();
    }
}

/// Which accounts are busy, and which have just been refused.
#[derive(Default)]
struct Heat {
    since: u64,
    calls: IdMap<AccountId, u32>,
    cool: IdMap<AccountId, u64>,
}

impl Leases {
    /// Reports what earlier processes have left in the directory and begins a journal in it.
    pub(super) async fn open(
        pool: Arc<Pool>,
        config: LeaseConfig,
        news: Arc<dyn NewsSource>,
    ) -> Result<Arc<Leases>> {
        let installation = round::installation(&pool).await?;
        recover::recover(&pool, &config, installation).await?;
        let node = round::new_id()?;
        let dir = recover::directory(&config.dir, node);
        std::fs::create_dir_all(&dir).map_err(unavailable)?;
        let own = recover::own(&dir).map_err(unavailable)?;
        let Some(own) = own else {
            let why = "another process has locked the directory of this node";
            return Err(StorageError::new(StorageErrorKind::Unavailable, why));
        };
        let journal = Arc::new(Journal::create(JournalConfig {
            dir,
            installation,
            next: 1,
            segment_bytes: 8 << 20,
            sync_after: Duration::from_millis(5),
            queues: false,
        })?);
        let syncer = journal.start_syncer().map_err(unavailable)?;
        let leases = Arc::new(Leases {
            config,
            pool,
            node,
            journal,
            syncer: Mutex::new(Some(syncer)),
            _own: own,
            accounts: RwLock::default(),
            heat: Mutex::default(),
            closing: AtomicBool::new(false),
            news,
            hears: Once::new(),
        });
        let weak = Arc::downgrade(&leases);
        leases.pool.accompany(async move {
            loop {
                tokio::time::sleep(TIDY_EVERY).await;
                match weak.upgrade() {
                    Some(leases) => leases.tidy(),
                    None => return,
                }
            }
        });
        Ok(leases)
    }

    /// Takes the hold out of the account's lease; `None` when it has to be taken out of the database. Answers what is left.
    pub(super) fn hold(self: &Arc<Self>, new: &NewHold) -> Result<Option<Credits>> {
        if new.amount >= EXACT_FROM || new.amount < Credits::ZERO {
            return Ok(None);
        }
        let Some(account) = self.account(new.account) else {
            if !new.amount.is_zero() {
                self.note_call(new);
            }
            return Ok(None);
        };
        let mut state = lock(&account.state);
        match state.room(self.now(), new.amount.nanos()) {
            Room::Enough => {}
            Room::Short => {
                account.hurry();
                return Ok(None);
            }
            Room::Closed => return Ok(None),
        }
        if state.knows(new.id) {
            return Err(StorageError::new(
                StorageErrorKind::Conflict,
                format!("{} was used", new.id),
            ));
        }
        let lease = Some(state.lease());
        let hold = Arc::new(Hold {
            lease,
            ..Hold::from(new.clone())
        });
        let (seq, _) = self.journal.append(|seq| Entry::Hold {
            seq,
            hold: hold.clone(),
        })?;
        Ok(Some(state.hold(seq, hold)))
    }

    /// Resolves a hold that was taken out of a lease; gives the settlement back when it was not.
    pub(super) fn settle(
        &self,
        settlement: Settlement,
    ) -> Result<std::result::Result<Resolution, Settlement>> {
        let Some(account) = self.account(settlement.account) else {
            return Ok(Err(settlement));
        };
        let mut state = lock(&account.state);
        if let Some(charge) = state.charge_of(settlement.hold) {
            return Ok(Ok(Resolution {
                charge,
                first: false,
                available: state.available(),
            }));
        }
        let Some((hold_seq, hold)) = state.open(settlement.hold) else {
            return Ok(Err(settlement));
        };
        let settlement = Settlement {
            charge: settlement.charge.min(hold.amount),
            ..settlement
        };
        self.journal.append(|seq| Entry::Settle {
            seq,
            hold_seq,
            hold: hold.clone(),
            settlement: settlement.clone(),
            week: Week::Open,
        })?;
        let charge = settlement.charge;
        state.settle(settlement);
        match state.waiting() >= ENOUGH_TOGETHER {
            true => account.hurry(),
            false => account.wake.notify_one(),
        }
        Ok(Ok(Resolution {
            charge,
            first: true,
            available: state.available(),
        }))
    }

    /// Gives back what calls do not hold of an account's lease: somebody else needs it.
    pub(super) fn give_back(&self, account: AccountId) {
        if let Some(account) = self.account(account) {
            lock(&account.state).close();
            account.hurry();
        }
    }

    /// Returns when the database knows of the calls that have ended here, of one account or of all, and of those that are in
    /// flight, so that a read sees them; after a while in any case.
    pub(super) async fn report(&self, account: Option<AccountId>) {
        let accounts = match account {
            Some(account) => Vec::from_iter(self.account(account)),
            None => self.all(),
        };
        let mut waited = Duration::ZERO;
        for account in accounts {
            let seen = lock(&account.state).seen();
            while !lock(&account.state).is_told(seen) && waited < READERS_WAIT {
                account.hurry();
                tokio::time::sleep(LOOK_AGAIN).await;
                waited += LOOK_AGAIN;
            }
        }
    }

    /// Closes leases of this node that it does not know: they were opened by a round that arrived when nobody waited for it.
    pub(super) async fn close_unknown(&self) -> Result<()> {
        let of_node = sqlx::query("SELECT account_id, id FROM lease WHERE node = $1");
        for row in self
            .pool
            .all(of_node.bind(self.node.as_u128().to_be_bytes()))
            .await?
        {
            let account = AccountId::from_u128(rows::id(&row, "account_id")?);
            let lease = TransferId::from_u128(rows::id(&row, "id")?);
            let is_known = self
                .account(account)
                .is_some_and(|account| lock(&account.state).lease() == lease);
            if !is_known {
                round::exchange(&self.pool, account, self.terms(), &Report::closing(lease)).await?;
            }
        }
        Ok(())
    }

    /// Voids holds whose time is over; answers how many.
    pub(super) fn sweep(&self, now: Timestamp) -> u64 {
        let mut voided = 0;
        for account in self.all() {
            let over = lock(&account.state).expired(now);
            for hold in over {
                voided += u64::from(matches!(self.settle(crashed((account.id, hold), now)), Ok(Ok(_))));
            }
        }
        voided
    }

    /// Reports everything, gives every lease back and removes the journal. What runs, or cannot be reported now, is left to
    /// the next process.
    pub(super) async fn close(&self) -> Result<()> {
        self.closing.store(true, Ordering::SeqCst);
        for account in self.all() {
            self.give_back(account.id);
        }
        let mut waited = Duration::ZERO;
        let has_more = |account: &Arc<Account>| !lock(&account.state).has_calls_only();
        while waited < CLOSERS_WAIT && self.all().iter().any(has_more) {
            tokio::time::sleep(LOOK_AGAIN).await;
            waited += LOOK_AGAIN;
        }
        self.journal.close();
        self.journal.stop_syncer();
        let syncer = lock(&self.syncer).take();
        if let Some(syncer) = syncer {
            // It syncs once more and ends.
            let _ = tokio::task::spawn_blocking(move || syncer.join()).await;
        }
        if self.all().is_empty() {
            self.journal.remove().map_err(unavailable)?;
            std::fs::remove_dir_all(recover::directory(&self.config.dir, self.node)).map_err(unavailable)?;
        }
        Ok(())
    }

    fn now(&self) -> u64 {
        self.config.clock.monotonic_micros()
    }

    fn account(&self, id: AccountId) -> Option<Arc<Account>> {
        let accounts = self
            .accounts
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        accounts.get(&id).cloned()
    }

    fn all(&self) -> Vec<Arc<Account>> {
        let accounts = self
            .accounts
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        accounts.values().cloned().collect()
    }

    /// Counts a call that took the exact path, and opens a lease when there are many.
    fn note_call(self: &Arc<Self>, new: &NewHold) {
        let now = self.now();
        {
            let mut heat = lock(&self.heat);
            if now.saturating_sub(heat.since) > 1_000_000 {
                heat.since = now;
                heat.calls.clear();
                heat.cool.retain(|_, until| *until > now);
            }
            if heat.cool.contains_key(&new.account) {
                return;
            }
            let calls = heat.calls.entry(new.account).or_default();
            *calls += 1;
            if *calls < self.config.busy || self.closing.load(Ordering::SeqCst) {
                return;
            }
            heat.calls.remove(&new.account);
        }
        let Ok(lease) = round::new_id() else { return };
        let account = Arc::new(Account {
            id: new.account,
            state: Mutex::new(State::new(lease, new.amount.nanos())),
            wake: Notify::new(),
            hurry: Notify::new(),
        });
        {
            let mut accounts = self
                .accounts
                .write()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            if accounts.contains_key(&new.account) {
                return;
            }
            accounts.insert(new.account, account.clone());
        }
        self.hears.call_once(|| {
            self.pool
                .accompany(hear(self.news.subscribe(), Arc::downgrade(self)))
        });
        account.wake.notify_one();
        self.pool.accompany(self.clone().keep(account));
    }

    /// Holds one conversation after another with the books until the lease is closed and every call is reported.
    async fn keep(self: Arc<Self>, account: Arc<Account>) {
        let mut failures = 0_u32;
        let mut renewed_at = self.now();
        loop {
            let due = tokio::time::sleep(self.config.renewal());
            let is_due = tokio::select! {
                () = account.wake.notified() => false,
                () = due => true,
            };
            let started_at = self.now();
            let renews = is_due || started_at.saturating_sub(renewed_at) >= micros(self.config.renewal());
            if renews {
                renewed_at = started_at;
            }
            let report = lock(&account.state).begin(renews, MOST_TOGETHER);
            match self.round(&account, report).await {
                Ok(()) => failures = 0,
                Err(error) => {
                    failures += 1;
                    if failures == 1 {
                        tracing::warn!(account = %account.id, %error, "cannot report to the ledger; calls are served out of the lease while it lasts");
                    }
                    let pause = RETRY_AFTER[0]
                        .saturating_mul(1 << failures.min(10))
                        .min(RETRY_AFTER[1]);
                    tokio::time::sleep(pause).await;
                    account.wake.notify_one();
                    continue;
                }
            }
            if self.end(&account) {
                return;
            }
            if lock(&account.state).has_more() {
                account.wake.notify_one();
            }
            // It makes no difference whether time is over or somebody waits.
            let _ = tokio::time::timeout(TOGETHER, account.hurry.notified()).await;
        }
    }

    async fn round(&self, account: &Account, report: Report) -> Result<()> {
        let started_at = self.now();
        let usable = self.config.life.saturating_sub(self.config.margin());
        match round::exchange(&self.pool, account.id, self.terms(), &report).await {
            Ok(reply) => {
                lock(&account.state).finish(report, reply, started_at.saturating_add(micros(usable)));
                Ok(())
            }
            Err(error) => {
                lock(&account.state).fail(report);
                Err(error)
            }
        }
    }

    fn terms(&self) -> Terms {
        Terms {
            node: self.node,
            life: self.config.life,
            keep: self.config.longest_call,
        }
    }

    /// Forgets an account whose lease is closed and whose calls are all reported.
    fn end(&self, account: &Account) -> bool {
        let mut accounts = self
            .accounts
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if !lock(&account.state).is_over() {
            return false;
        }
        accounts.remove(&account.id);
        lock(&self.heat)
            .cool
            .insert(account.id, self.now().saturating_add(micros(COOL)));
        true
    }

    /// Removes journal files that nobody needs.
    fn tidy(&self) {
        // Read before the accounts are looked through: what comes meanwhile has a later number.
        let mut needed = self.journal.last() + 1;
        for account in self.all() {
            needed = needed.min(lock(&account.state).oldest().unwrap_or(needed));
        }
        if let Err(error) = self.journal.tidy(needed) {
            tracing::warn!(%error, "cannot tidy the journal of leases");
        }
    }
}

/// Gives back what is recalled.
async fn hear(mut news: NewsReader, leases: Weak<Leases>) {
    loop {
        let news = news.next().await;
        let Some(leases) = leases.upgrade() else { return };
        match news {
            News::Lease(account) => leases.give_back(account),
            // A recall may have been missed: the next round sees it.
            News::Everything => leases.all().iter().for_each(|account| account.hurry()),
            News::Keys | News::Account(_) => {}
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
