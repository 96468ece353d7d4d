//! Workers on both engines: every job ends once, is charged once, and no request is sent to a
//! provider twice.

#![expect(
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a handler panics on purpose, and the task of a worker is aborted"
)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tollgate_billing::check_ledger;
use tollgate_jobs::{Handler, JobOutcome, Jobs, Progress, Work, Worker, WorkerSettings};
use tollgate_storage::{HoldOutcome, Job, JobEnd, NewHold, NewJob, NewJobEvent, Result, Settlement};
use tollgate_types::clock::ManualClock;
use tollgate_types::usage::Outcome;
use tollgate_types::{
    Clock, Credits, ErrorCode, HoldId, JobId, JobStatus, Prices, RequestId, StepState, Usage, WorkerId,
};

use crate::ledger::engines::{ACCOUNT, ENGINES, Engine, START, TestLedger, VERSION};

const KIND: &str = "test.print";
/// Price of a page in nano-credits.
const PAGE: i64 = 7;
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Gate that blocks jobs of one kind until it opens.
struct Gate {
    arrived: Semaphore,
    opened: CancellationToken,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            arrived: Semaphore::new(0),
            opened: CancellationToken::new(),
        }
    }
}

impl Gate {
    async fn pass(&self) {
        self.arrived.add_permits(1);
        self.opened.cancelled().await;
    }

    /// Waits until a job has arrived.
    async fn reached(&self) {
        self.arrived.acquire().await.unwrap().forget();
    }
}

/// A provider that counts its requests by idempotency key.
#[derive(Default)]
struct Printer {
    /// Gates for jobs that run until the process dies (`kills`), run normally (`works`), or wait
    /// for a provider (`polls`).
    kills: Gate,
    works: Gate,
    polls: Gate,
    asked: Mutex<HashMap<String, u32>>,
    /// Notified when a job starts to wait.
    busy: Notify,
}

impl Printer {
    fn print(&self, key: String) {
        *self.asked.lock().unwrap().entry(key).or_default() += 1;
    }

    fn times(&self) -> u32 {
        self.asked.lock().unwrap().values().sum()
    }
}

/// Handler of jobs. The body of a job selects the behavior between its request and its result.
struct Printing(Arc<Printer>);

fn end(work: &Work, status: JobStatus, charge: i64, outcome: Outcome) -> Box<JobEnd> {
    Box::new(JobEnd {
        status,
        result: (status == JobStatus::Completed).then(|| b"a page".to_vec()),
        error: None,
        settlement: Settlement {
            hold: work.job().hold,
            account: work.job().account,
            charge: Credits::from_nanos(charge),
            overrun: Credits::ZERO,
            usage: Usage::tokens(0, u64::from(charge > 0)),
            outcome,
            estimated: false,
            target: Arc::from("printer"),
            first_at: None,
            ended_at: START,
        },
        parts: Vec::new(),
        events: Vec::new(),
    })
}

#[async_trait]
impl Handler for Printing {
    fn kind(&self) -> &'static str {
        KIND
    }

    async fn run(&self, work: &mut Work) -> Result<JobOutcome> {
        match work.step(0).map(|step| step.state) {
            None => {
                let key = work.intend(0, Vec::new()).await?;
                self.0.print(key);
            }
            // The previous process died, and it is unknown whether the page was printed.
            Some(StepState::Intended) => {
                work.record_outcome(0, StepState::Unknown, Vec::new()).await?;
                return Ok(JobOutcome::Ended(end(
                    work,
                    JobStatus::Failed,
                    0,
                    Outcome::UpstreamError,
                )));
            }
            Some(_) => {}
        }
        match &work.job().terms.body[..] {
            b"dies" => {
                self.0.busy.notify_one();
                std::future::pending().await
            }
            b"panics" => panic!("on purpose"),
            b"hangs" => {
                if work.step(0).unwrap().state == StepState::Intended {
                    work.submitted(0, b"page 1".to_vec()).await?;
                }
                self.0.busy.notify_one();
                work.cancelled().cancelled().await;
                return Ok(JobOutcome::Ended(end(
                    work,
                    JobStatus::Cancelled,
                    0,
                    Outcome::Cancelled,
                )));
            }
            body @ (b"kills" | b"works" | b"polls") => {
                if work.step(0).unwrap().state == StepState::Intended {
                    work.submitted(0, b"page 1".to_vec()).await?;
                }
                match body {
                    b"kills" => self.0.kills.pass().await,
                    b"works" => self.0.works.pass().await,
                    _ => {
                        work.pause_work().await?;
                        self.0.polls.pass().await;
                        work.resume_work().await?;
                    }
                }
            }
            b"waits" if work.step(0).unwrap().state == StepState::Intended => {
                work.submitted(0, b"page 1".to_vec()).await?;
                return Ok(JobOutcome::Later(Duration::ZERO));
            }
            _ => {}
        }
        if work.step(0).unwrap().state == StepState::Intended {
            work.submitted(0, b"page 1".to_vec()).await?;
        }
        work.report_progress(Progress {
            phase: Some(Arc::from("drying")),
            percent: Some(50),
            events: vec![NewJobEvent {
                kind: Arc::from("printed"),
                body: Vec::new(),
            }],
        })
        .await?;
        // The previous process may have died between this step and the end.
        if work.step(0).unwrap().state != StepState::Done {
            work.record_outcome(0, StepState::Done, Vec::new()).await?;
        }
        Ok(JobOutcome::Ended(end(
            work,
            JobStatus::Completed,
            PAGE,
            Outcome::Ok,
        )))
    }
}

/// Job storage, clock and printer of a test.
pub struct Shop {
    pub ledger: TestLedger,
    pub jobs: Arc<Jobs>,
    pub clock: Arc<ManualClock>,
    printer: Arc<Printer>,
}

/// Returns a job whose body selects its behavior.
pub fn page(number: u128, body: &str) -> NewJob {
    NewJob {
        id: JobId::from_u128(number),
        kind: Arc::from(KIND),
        body: body.as_bytes().to_vec(),
        start_by: None,
        webhook: None,
    }
}

/// A running worker. An aborted task simulates the death of its process.
pub struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    pub async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

impl Shop {
    pub async fn open(engine: Engine) -> Self {
        let ledger = TestLedger::open(engine).await;
        ledger.fund(ACCOUNT, 1_000).await;
        ledger
            .price(
                Prices::free()
                    .with_named("output", Credits::from_nanos(PAGE * 1_000_000))
                    .unwrap(),
            )
            .await;
        Self {
            jobs: Arc::new(Jobs::new(ledger.storage.jobs.clone())),
            ledger,
            clock: Arc::new(ManualClock::at(START)),
            printer: Arc::default(),
        }
    }

    async fn accept(&self, number: u128, body: &str) -> JobId {
        self.accept_job(page(number, body)).await
    }

    pub async fn accept_job(&self, job: NewJob) -> JobId {
        let (id, number) = (job.id, job.id.as_u128());
        let hold = NewHold {
            id: HoldId::from_u128(number),
            account: ACCOUNT,
            principal: None,
            request: RequestId::from_u128(number),
            amount: Credits::from_nanos(10),
            price_version: VERSION,
            model: Arc::from("maker/model"),
            endpoint: "/v1/pages",
            not_covered_by: Arc::default(),
            created_at: START,
            expires_at: START,
        };
        let accepted = self.jobs.accept(job, hold).await.unwrap();
        assert!(matches!(accepted, HoldOutcome::Held { .. }), "{accepted:?}");
        id
    }

    pub fn start(&self, number: u128, drain: Duration) -> Running {
        let settings = WorkerSettings {
            drain,
            ..WorkerSettings::default()
        };
        let worker = Worker::new(
            WorkerId::from_u128(number),
            self.jobs.clone(),
            self.clock.clone(),
            vec![Arc::new(Printing(self.printer.clone()))],
            settings,
        );
        let stop = CancellationToken::new();
        let task = tokio::spawn(worker.run(stop.clone()));
        Running { stop, task }
    }

    async fn ended(&self, id: JobId) -> Job {
        let job = self.jobs.wait(ACCOUNT, id, None, TIMEOUT).await.unwrap().unwrap();
        assert!(job.status.is_terminal(), "{job:?}");
        job
    }

    /// Starts a worker and kills it after its request to the printer, then advances the clock past
    /// its lease.
    async fn die(&self, worker: u128) {
        let running = self.start(worker, TIMEOUT);
        self.printer.busy.notified().await;
        running.task.abort();
        let _ = running.task.await;
        self.clock.advance(Duration::from_secs(31));
    }

    pub async fn close(self, revenue: i128) {
        let report = check_ledger(&*self.ledger.storage.ledger, true).await.unwrap();
        assert!(report.faults.is_empty(), "{:?}", report.faults);
        assert_eq!((report.revenue, report.open_holds), (revenue, 0));
        self.ledger.close().await;
    }
}

#[tokio::test]
async fn several_workers_carry_every_job_out_once() {
    for engine in ENGINES {
        let shop = Shop::open(engine).await;
        let workers = [1, 2, 3].map(|number| shop.start(number, TIMEOUT));
        for number in 1..=40 {
            shop.accept(number, if number % 2 == 0 { "waits" } else { "" })
                .await;
        }
        for number in 1..=40 {
            let job = shop.ended(JobId::from_u128(number)).await;
            assert_eq!(
                (job.status, &*job.phase),
                (JobStatus::Completed, "drying"),
                "{job:?}"
            );
        }
        assert_eq!(shop.printer.times(), 40, "{engine:?}");
        for worker in workers {
            worker.stop().await;
        }
        shop.close(40 * i128::from(PAGE)).await;
    }
}

#[tokio::test]
async fn what_may_have_been_asked_is_not_asked_again() {
    for engine in ENGINES {
        let shop = Shop::open(engine).await;
        let id = shop.accept(1, "dies").await;
        shop.die(1).await;
        let next = shop.start(2, TIMEOUT);
        let job = shop.ended(id).await;
        assert_eq!((job.status, job.charge), (JobStatus::Failed, Some(Credits::ZERO)));
        assert_eq!(shop.printer.times(), 1);
        next.stop().await;
        shop.close(0).await;
    }
}

#[tokio::test]
async fn a_job_that_panics_fails_and_costs_nothing() {
    for engine in ENGINES {
        let shop = Shop::open(engine).await;
        let worker = shop.start(1, TIMEOUT);
        let bad = shop.accept(1, "panics").await;
        let good = shop.accept(2, "").await;
        let job = shop.ended(bad).await;
        assert_eq!(job.error.unwrap().code, ErrorCode::InternalError);
        assert_eq!((job.status, job.charge), (JobStatus::Failed, Some(Credits::ZERO)));
        assert_eq!(shop.ended(good).await.status, JobStatus::Completed);
        worker.stop().await;
        shop.close(i128::from(PAGE)).await;
    }
}

#[tokio::test]
async fn who_carries_a_job_out_hears_that_it_is_not_wanted() {
    for engine in ENGINES {
        let shop = Shop::open(engine).await;
        let worker = shop.start(1, TIMEOUT);
        let id = shop.accept(1, "hangs").await;
        shop.printer.busy.notified().await;
        shop.jobs.cancel(ACCOUNT, id, shop.clock.now()).await.unwrap();
        assert_eq!(shop.ended(id).await.status, JobStatus::Cancelled);
        worker.stop().await;
        shop.close(0).await;
    }
}

#[tokio::test]
async fn a_worker_that_stops_leaves_its_jobs_to_others() {
    for engine in ENGINES {
        let shop = Shop::open(engine).await;
        let first = shop.start(1, Duration::ZERO);
        let id = shop.accept(1, "hangs").await;
        shop.printer.busy.notified().await;
        first.stop().await;
        let second = shop.start(2, TIMEOUT);
        shop.printer.busy.notified().await;
        shop.jobs.cancel(ACCOUNT, id, shop.clock.now()).await.unwrap();
        assert_eq!(shop.ended(id).await.status, JobStatus::Cancelled);
        assert_eq!(shop.printer.times(), 1);
        second.stop().await;
        shop.close(0).await;
    }
}

/// A job is abandoned after three crashes. A step from before a crash does not count as progress.
#[tokio::test]
async fn a_job_that_ends_processes_is_given_up() {
    for engine in ENGINES {
        let shop = Shop::open(engine).await;
        let id = shop.accept(1, "hangs").await;
        for worker in 1..=3 {
            shop.die(worker).await;
        }
        let last = shop.start(4, TIMEOUT);
        let job = shop.ended(id).await;
        assert_eq!(job.error.unwrap().code, ErrorCode::InternalError);
        last.stop().await;
        shop.close(0).await;
    }
}

/// One job crashes three processes and is abandoned. A job that ran beside it completes, and so
/// does one that waited for a provider each time.
#[tokio::test]
async fn a_job_that_ends_processes_takes_no_other_with_it() {
    for engine in ENGINES {
        let shop = Shop::open(engine).await;
        let mut jobs = Vec::new();
        for (number, body) in [(1, "kills"), (2, "works"), (3, "polls")] {
            jobs.push(shop.accept(number, body).await);
        }
        let printer = shop.printer.clone();
        for worker in 1..=3 {
            let running = shop.start(worker, TIMEOUT);
            if worker <= 2 {
                printer.works.reached().await;
            } else {
                // The job can now end whenever it runs, before or after the suspect.
                printer.works.opened.cancel();
            }
            printer.kills.reached().await;
            printer.polls.reached().await;
            running.task.abort();
            let _ = running.task.await;
            shop.clock.advance(Duration::from_secs(31));
        }
        printer.polls.opened.cancel();
        let last = shop.start(4, TIMEOUT);
        let [killer, worked, polled] = [jobs[0], jobs[1], jobs[2]];
        let job = shop.ended(killer).await;
        assert_eq!(job.error.unwrap().code, ErrorCode::InternalError);
        for id in [worked, polled] {
            assert_eq!(shop.ended(id).await.status, JobStatus::Completed, "{engine:?}");
        }
        last.stop().await;
        shop.close(2 * i128::from(PAGE)).await;
    }
}
