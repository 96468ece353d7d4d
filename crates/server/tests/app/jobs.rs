//! Workers on both engines: every job ends once, is paid once, and nothing is asked of a provider twice.

#![expect(
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a handler panics as it was asked to, and the task of a worker is aborted"
)]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tollgate_billing::check_ledger;
use tollgate_jobs::{Handler, Jobs, Progress, Ran, Work, Worker, WorkerSettings};
use tollgate_storage::{HoldOutcome, Job, JobEnd, NewHold, NewJob, NewJobEvent, Result, Settlement};
use tollgate_types::clock::ManualClock;
use tollgate_types::usage::Outcome;
use tollgate_types::{
    Clock, Credits, ErrorCode, HoldId, JobId, JobStatus, Prices, RequestId, StepState, Usage, WorkerId,
};

use crate::ledger::books::{ACCOUNT, Books, ENGINES, Engine, START, VERSION};

const KIND: &str = "test.print";
/// What a page costs.
const PAGE: i64 = 7;
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A provider that counts what it is asked for, by the key under which it is asked.
#[derive(Default)]
struct Printer {
    asked: Mutex<HashMap<String, u32>>,
    /// Told whenever somebody waits for it.
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

/// Carries out jobs whose body says what happens between the question and the answer.
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
            provider: Arc::from("printer"),
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

    async fn run(&self, work: &mut Work) -> Result<Ran> {
        match work.step(0).map(|step| step.state) {
            None => {
                let key = work.intend(0, Vec::new()).await?;
                self.0.print(key);
            }
            // Nobody knows whether it was printed.
            Some(StepState::Intended) => {
                work.became(0, StepState::Unknown, Vec::new()).await?;
                return Ok(Ran::Ended(end(
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
            b"panics" => panic!("as it was asked to"),
            b"hangs" => {
                if work.step(0).unwrap().state == StepState::Intended {
                    work.submitted(0, b"page 1".to_vec()).await?;
                }
                self.0.busy.notify_one();
                work.cancelled().cancelled().await;
                return Ok(Ran::Ended(end(work, JobStatus::Cancelled, 0, Outcome::Cancelled)));
            }
            b"waits" if work.step(0).unwrap().state == StepState::Intended => {
                work.submitted(0, b"page 1".to_vec()).await?;
                return Ok(Ran::Later(Duration::ZERO));
            }
            _ => {}
        }
        if work.step(0).unwrap().state == StepState::Intended {
            work.submitted(0, b"page 1".to_vec()).await?;
        }
        work.tell(Progress {
            phase: Some(Arc::from("drying")),
            percent: Some(50),
            events: vec![NewJobEvent {
                kind: Arc::from("printed"),
                body: Vec::new(),
            }],
        })
        .await?;
        work.became(0, StepState::Done, Vec::new()).await?;
        Ok(Ran::Ended(end(work, JobStatus::Completed, PAGE, Outcome::Ok)))
    }
}

/// Where jobs are accepted and carried out.
pub struct Shop {
    pub books: Books,
    pub jobs: Arc<Jobs>,
    pub clock: Arc<ManualClock>,
    printer: Arc<Printer>,
}

/// A job whose body says what happens to it.
pub fn page(number: u128, body: &str) -> NewJob {
    NewJob {
        id: JobId::from_u128(number),
        kind: Arc::from(KIND),
        body: body.as_bytes().to_vec(),
        start_by: None,
        webhook: None,
    }
}

/// A worker that runs. Aborting its task is the death of its process.
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
        let books = Books::open(engine).await;
        books.fund(ACCOUNT, 1_000).await;
        books
            .price(
                Prices::free()
                    .with_named("output", Credits::from_nanos(PAGE * 1_000_000))
                    .unwrap(),
            )
            .await;
        Self {
            jobs: Arc::new(Jobs::new(books.storage.jobs.clone())),
            books,
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
            key: None,
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
        let job = self
            .jobs
            .wait(ACCOUNT, id, None, PATIENCE)
            .await
            .unwrap()
            .unwrap();
        assert!(job.status.is_terminal(), "{job:?}");
        job
    }

    /// The printer is asked by a worker, which then dies; when its lease is over the next may have the job.
    async fn die(&self, worker: u128) {
        let running = self.start(worker, PATIENCE);
        self.printer.busy.notified().await;
        running.task.abort();
        let _ = running.task.await;
        self.clock.advance(Duration::from_secs(31));
    }

    pub async fn close(self, revenue: i128) {
        let report = check_ledger(&*self.books.storage.ledger, true).await.unwrap();
        assert!(report.faults.is_empty(), "{:?}", report.faults);
        assert_eq!((report.revenue, report.open_holds), (revenue, 0));
        self.books.close().await;
    }
}

#[tokio::test]
async fn several_workers_carry_every_job_out_once() {
    for engine in ENGINES {
        let shop = Shop::open(engine).await;
        let workers = [1, 2, 3].map(|number| shop.start(number, PATIENCE));
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
        let next = shop.start(2, PATIENCE);
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
        let worker = shop.start(1, PATIENCE);
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
        let worker = shop.start(1, PATIENCE);
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
        let second = shop.start(2, PATIENCE);
        shop.printer.busy.notified().await;
        shop.jobs.cancel(ACCOUNT, id, shop.clock.now()).await.unwrap();
        assert_eq!(shop.ended(id).await.status, JobStatus::Cancelled);
        assert_eq!(shop.printer.times(), 1);
        second.stop().await;
        shop.close(0).await;
    }
}

/// After three deaths a job is given up: a step that was taken before is no step forward.
#[tokio::test]
async fn a_job_that_ends_processes_is_given_up() {
    for engine in ENGINES {
        let shop = Shop::open(engine).await;
        let id = shop.accept(1, "hangs").await;
        for worker in 1..=3 {
            shop.die(worker).await;
        }
        let last = shop.start(4, PATIENCE);
        let job = shop.ended(id).await;
        assert_eq!(job.error.unwrap().code, ErrorCode::InternalError);
        last.stop().await;
        shop.close(0).await;
    }
}
