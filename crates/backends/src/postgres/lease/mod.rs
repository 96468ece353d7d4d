//! Balance leases: a node holds and settles calls without a round trip to the database.
//!
//! The node of a busy account takes a part of its credits in advance, as a lease. Holds are taken
//! from the lease in memory and written to a journal on this machine, so that they survive the
//! death of the process. Ended calls are reported in batches, in rounds ([`round`]), which also
//! renew and resize the lease ([`state`]). The next process with the same directory reports the
//! calls that a dead process did not report ([`recover`]).
//!
//! Leased credits have left the balance of the account. Therefore a failure of a node or of its
//! clock cannot make an account overspend. The lease of a node that stops reporting is closed after
//! the maximum duration of a call; charges that are reported later are the operator's loss. First
//! calls, expensive calls, accounts with a plan and accounts near zero take the exact path
//! ([`super::ledger`]), to which every lease releases its unused credits.

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
    NewHold, Notification, NotificationReader, NotificationSource, Resolution, Result, Settlement,
    StorageError, StorageErrorKind,
};
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Clock, Credits, Timestamp};

use super::pool::Pool;
use super::rows;
use crate::ids::{IdMap, lock};
use crate::journal::record::{Hold, Week, crashed};
use crate::journal::{Entry, Journal, JournalConfig, unavailable};
use round::{Report, Terms};
use state::{Capacity, State};

/// Lease settings of a node.
#[derive(Clone, Debug)]
pub struct LeaseConfig {
    /// Directory of the journals of all nodes, on a disk that outlives the process.
    pub dir: PathBuf,
    /// Maximum duration of a call.
    pub max_call_duration: Duration,
    /// Lifetime of a lease that is not renewed.
    pub ttl: Duration,
    /// Number of calls of an account within a second that make it busy.
    pub busy_calls: u32,
    /// Source of the current time.
    pub clock: Arc<dyn Clock>,
}

impl LeaseConfig {
    /// Creates settings with a lease lifetime of 10 seconds and 10 calls within a second for a busy
    /// account. The journals are in `dir`.
    pub fn new(dir: PathBuf, max_call_duration: Duration, clock: Arc<dyn Clock>) -> LeaseConfig {
        LeaseConfig {
            dir,
            max_call_duration,
            ttl: Duration::from_secs(10),
            busy_calls: 10,
            clock,
        }
    }

    /// Returns the time before the end of a lease from which its node takes no more holds.
    fn margin(&self) -> Duration {
        self.ttl / 5
    }

    /// Returns the interval between two rounds of an idle lease.
    fn renewal(&self) -> Duration {
        self.ttl * 3 / 10
    }
}

/// Interval between rounds. Calls that end within it are reported together, because a round costs
/// the database as much as two calls on the exact path.
const ROUND_INTERVAL: Duration = Duration::from_millis(200);
/// Number of ended calls that starts a round immediately. A round reports at most
/// `MAX_ROUND_CALLS`.
const ROUND_CALLS: usize = 500;
const MAX_ROUND_CALLS: usize = 1_000;
/// Time after the end of a lease in which its account gets no new lease.
const COOLDOWN: Duration = Duration::from_secs(2);
/// Base and maximum of the exponential backoff after failed rounds. The first pause is twice the
/// base.
const RETRY_PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];
/// Timeout of a read that waits for this process's reports, and the interval between its checks.
const READ_REPORT_TIMEOUT: Duration = Duration::from_secs(2);
const REPORT_POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Timeout of the final reports at shutdown.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between removals of unneeded journal files.
const TIDY_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum amount of a hold that takes the exact path, which stores the hold in the database.
const MIN_EXACT_AMOUNT: Credits = Credits::from_nanos(1_000_000_000);

/// The leases of this process.
pub(super) struct Leases {
    config: LeaseConfig,
    pool: Arc<Pool>,
    node: TransferId,
    journal: Arc<Journal>,
    syncer: Mutex<Option<JoinHandle<()>>>,
    /// Keeps the directory locked for this process.
    _directory_lock: std::fs::File,
    accounts: RwLock<IdMap<AccountId, Arc<Account>>>,
    busy_accounts: Mutex<BusyAccounts>,
    closing: AtomicBool,
    /// Source of lease recalls; subscribed to with the first lease.
    notifications: Arc<dyn NotificationSource>,
    listening: Once,
}

/// The lease of one account.
struct Account {
    id: AccountId,
    state: Mutex<State>,
    /// Notified when the lease has something to report.
    wake: Notify,
    /// Notified when a caller waits for the next round.
    round_now: Notify,
}

impl Account {
    fn round_now(&self) {
        self.wake.notify_one();
        self.round_now.notify_one();
    }
}

/// Call counts of accounts without a lease, and accounts in cooldown after the end of a lease.
#[derive(Default)]
struct BusyAccounts {
    since: u64,
    calls: IdMap<AccountId, u32>,
    cooling: IdMap<AccountId, u64>,
}

impl Leases {
    /// Reports the calls of dead processes in the directory and starts a journal in it.
    pub(super) async fn open(
        pool: Arc<Pool>,
        config: LeaseConfig,
        notifications: Arc<dyn NotificationSource>,
    ) -> Result<Arc<Leases>> {
        let installation = round::installation(&pool).await?;
        recover::recover(&pool, &config, installation).await?;
        let node = round::new_id()?;
        let dir = recover::directory(&config.dir, node);
        std::fs::create_dir_all(&dir).map_err(unavailable)?;
        let directory_lock = recover::directory_lock(&dir).map_err(unavailable)?;
        let Some(directory_lock) = directory_lock else {
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
            fatal: pool.fatal().clone(),
        })?);
        let syncer = journal.start_syncer().map_err(unavailable)?;
        let leases = Arc::new(Leases {
            config,
            pool,
            node,
            journal,
            syncer: Mutex::new(Some(syncer)),
            _directory_lock: directory_lock,
            accounts: RwLock::default(),
            busy_accounts: Mutex::default(),
            closing: AtomicBool::new(false),
            notifications,
            listening: Once::new(),
        });
        let weak = Arc::downgrade(&leases);
        leases.pool.spawn_background(async move {
            loop {
                tokio::time::sleep(TIDY_INTERVAL).await;
                match weak.upgrade() {
                    Some(leases) => leases.tidy(),
                    None => return,
                }
            }
        });
        Ok(leases)
    }

    /// Takes the hold from the account's lease and returns the credits that the account can still
    /// spend. Returns `None` if the hold must be taken from the database.
    pub(super) fn hold(self: &Arc<Self>, new: &NewHold) -> Result<Option<Credits>> {
        if new.amount >= MIN_EXACT_AMOUNT || new.amount < Credits::ZERO {
            return Ok(None);
        }
        let Some(account) = self.account(new.account) else {
            if !new.amount.is_zero() {
                self.note_call(new);
            }
            return Ok(None);
        };
        let mut state = lock(&account.state);
        match state.capacity(self.now(), new.amount.nanos()) {
            Capacity::Enough => {}
            Capacity::Short => {
                account.round_now();
                return Ok(None);
            }
            Capacity::Closed => return Ok(None),
        }
        if state.contains(new.id) {
            return Err(StorageError::new(
                StorageErrorKind::Conflict,
                format!("the id {} already exists", new.id),
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

    /// Resolves a hold that was taken from a lease. Returns the settlement as the error if the hold
    /// was not taken from a lease.
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
        match state.waiting() >= ROUND_CALLS {
            true => account.round_now(),
            false => account.wake.notify_one(),
        }
        Ok(Ok(Resolution {
            charge,
            first: true,
            available: state.available(),
        }))
    }

    /// Closes an account's lease and releases its unused part, so that other nodes can use it.
    pub(super) fn release(&self, account: AccountId) {
        if let Some(account) = self.account(account) {
            lock(&account.state).close();
            account.round_now();
        }
    }

    /// Waits until the calls of one account or of all accounts are reported to the database, so
    /// that a read includes them. Returns after `READ_REPORT_TIMEOUT` even if reports are missing.
    pub(super) async fn report(&self, account: Option<AccountId>) {
        let accounts = match account {
            Some(account) => Vec::from_iter(self.account(account)),
            None => self.all(),
        };
        let mut waited = Duration::ZERO;
        for account in accounts {
            let progress = lock(&account.state).progress();
            while !lock(&account.state).has_reported(progress) && waited < READ_REPORT_TIMEOUT {
                account.round_now();
                tokio::time::sleep(REPORT_POLL_INTERVAL).await;
                waited += REPORT_POLL_INTERVAL;
            }
        }
    }

    /// Closes leases that the database stores for this node and that the node does not have in
    /// memory. Such a lease is opened by a round that the database executed after its timeout.
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

    /// Voids expired holds and returns their number.
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

    /// Reports all calls, releases all leases and removes the journal. If calls are still running
    /// or reports fail, the journal stays for the next process.
    pub(super) async fn close(&self) -> Result<()> {
        self.closing.store(true, Ordering::SeqCst);
        for account in self.all() {
            self.release(account.id);
        }
        let mut waited = Duration::ZERO;
        let has_more = |account: &Arc<Account>| !lock(&account.state).has_calls_only();
        while waited < CLOSE_TIMEOUT && self.all().iter().any(has_more) {
            tokio::time::sleep(REPORT_POLL_INTERVAL).await;
            waited += REPORT_POLL_INTERVAL;
        }
        self.journal.close();
        self.journal.stop_syncer();
        let syncer = lock(&self.syncer).take();
        if let Some(syncer) = syncer {
            // The syncer syncs once more and then ends.
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

    /// Counts a call on the exact path, and opens a lease if the account is busy.
    fn note_call(self: &Arc<Self>, new: &NewHold) {
        let now = self.now();
        {
            let mut busy_accounts = lock(&self.busy_accounts);
            if now.saturating_sub(busy_accounts.since) > 1_000_000 {
                busy_accounts.since = now;
                busy_accounts.calls.clear();
                busy_accounts.cooling.retain(|_, until| *until > now);
            }
            if busy_accounts.cooling.contains_key(&new.account) {
                return;
            }
            let calls = busy_accounts.calls.entry(new.account).or_default();
            *calls += 1;
            if *calls < self.config.busy_calls || self.closing.load(Ordering::SeqCst) {
                return;
            }
            busy_accounts.calls.remove(&new.account);
        }
        let Ok(lease) = round::new_id() else { return };
        let account = Arc::new(Account {
            id: new.account,
            state: Mutex::new(State::new(lease, new.amount.nanos())),
            wake: Notify::new(),
            round_now: Notify::new(),
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
        self.listening.call_once(|| {
            self.pool.spawn_background(listen_for_recalls(
                self.notifications.subscribe(),
                Arc::downgrade(self),
            ))
        });
        account.wake.notify_one();
        self.pool.spawn_background(self.clone().keep(account));
    }

    /// Runs rounds until the lease is closed and every call is reported.
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
            let report = lock(&account.state).begin(renews, MAX_ROUND_CALLS);
            match self.round(&account, report).await {
                Ok(()) => failures = 0,
                Err(error) => {
                    failures += 1;
                    if failures == 1 {
                        tracing::warn!(
                            account = %account.id, %error,
                            "cannot report calls to the ledger; calls use the lease until it is \
                             exhausted or expires"
                        );
                    }
                    let pause = RETRY_PAUSES[0]
                        .saturating_mul(1 << failures.min(10))
                        .min(RETRY_PAUSES[1]);
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
            // A timeout and a waiting caller have the same effect.
            let _ = tokio::time::timeout(ROUND_INTERVAL, account.round_now.notified()).await;
        }
    }

    async fn round(&self, account: &Account, report: Report) -> Result<()> {
        let started_at = self.now();
        let usable = self.config.ttl.saturating_sub(self.config.margin());
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
            ttl: self.config.ttl,
            keep: self.config.max_call_duration,
        }
    }

    /// Removes an account whose lease is closed and whose calls are all reported. Returns whether
    /// the account was removed.
    fn end(&self, account: &Account) -> bool {
        let mut accounts = self
            .accounts
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if !lock(&account.state).is_over() {
            return false;
        }
        accounts.remove(&account.id);
        lock(&self.busy_accounts)
            .cooling
            .insert(account.id, self.now().saturating_add(micros(COOLDOWN)));
        true
    }

    /// Removes unneeded journal files.
    fn tidy(&self) {
        // Read before the accounts are visited, so that concurrent records have a higher number.
        let mut needed = self.journal.last() + 1;
        for account in self.all() {
            needed = needed.min(lock(&account.state).oldest().unwrap_or(needed));
        }
        if let Err(error) = self.journal.tidy(needed) {
            tracing::warn!(%error, "cannot compact the lease journal");
        }
    }
}

/// Releases recalled leases.
async fn listen_for_recalls(mut notifications: NotificationReader, leases: Weak<Leases>) {
    loop {
        let notifications = notifications.next().await;
        let Some(leases) = leases.upgrade() else { return };
        match notifications {
            Notification::Lease(account) => leases.release(account),
            // A recall may have been missed; the reply of the next round contains it.
            Notification::Everything => leases.all().iter().for_each(|account| account.round_now()),
            Notification::Keys | Notification::Account(_) => {}
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
