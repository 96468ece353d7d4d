//! Executes the provider's job of a report, reads the cited pages, and completes the job.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate_accounts::Vault;
use tollgate_jobs::Progress;
use tollgate_pipeline::provider_job::{self, Handle, OutputError, ProviderJob, ProviderJobState, StepResult};
use tollgate_pipeline::{Pipeline, Routed};
use tollgate_storage::Job;
use tollgate_types::{Error, Usage};
use tollgate_upstream::{ProviderReport, ReportCall};

use super::super::Research;
use super::super::bounds::Stage;
use super::super::engine::{Engine, MAX_CONCURRENT_CALLS, Page, Stop, count, off_the_runtime, within};
use super::super::payload::{Hit, Payload, StepOutcome};
use super::result::{CitedReport, ListedSource, assemble};
use super::text::{formatted, verbatim};
use super::{RelayOrder, call};

/// Step of the provider's job.
pub(in super::super) const RELAY_STEP: u32 = 200_000;
/// Local step that reports the provider's searches.
const SEARCHES_STEP: u32 = 200_001;
/// First of the local steps that read the cited pages.
const PAGE_STEP: u32 = 200_100;
/// First of the local steps that send the sections to the owner of the job.
const SECTION_STEP: u32 = 201_000;
/// Maximum number of sources of a report, and of pages that are read.
const MAX_SOURCES: usize = 100;
/// Maximum size of the text of a report. A report of 100,000 tokens has about a tenth of it.
const MAX_REPORT_BYTES: usize = 4 << 20;
/// Timeout of the response to a submission.
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(120);
/// Time after which a report of the slowest provider is late.
const MAX_DURATION: Duration = Duration::from_hours(1);

/// Report of the provider's job, as recorded.
#[derive(Serialize, Deserialize)]
struct Relayed {
    report: ProviderReport,
    /// Whether the provider withholds the report.
    is_blocked: bool,
}

/// The provider's job of a report.
struct ReportJob<'a> {
    research: &'a Research,
    payload: &'a Payload,
    order: &'a RelayOrder,
}

#[async_trait]
impl ProviderJob for ReportJob<'_> {
    type Call = ReportCall;
    type Outcome = StepOutcome<Relayed>;
    const SUBMIT_TIMEOUT: Duration = SUBMIT_TIMEOUT;
    const MAX_DURATION: Duration = MAX_DURATION;
    const INPUT_PARAM: &'static str = "query";

    fn pipeline(&self) -> &Pipeline {
        &self.research.pipeline
    }

    fn vault(&self) -> &Vault {
        &self.research.vault
    }

    async fn routed(&self, job: &Job) -> Result<(Routed, ReportCall), Error> {
        let payload = self.payload;
        let (_, mut routed) = self.research.routed(job, payload).await?;
        let instructions = payload.instructions.as_ref();
        let call = call(&payload.messages, instructions, &payload.filters, self.order);
        routed.retain_job_providers(&call)?;
        Ok((routed, call))
    }

    async fn store(
        &self,
        _: &Job,
        handle: &Handle,
        mut report: ProviderReport,
    ) -> Result<Self::Outcome, OutputError> {
        if report.text.len() > MAX_REPORT_BYTES {
            return Err(OutputError::Wrong(format!(
                "the report has {} bytes; the maximum is {MAX_REPORT_BYTES}",
                report.text.len()
            )));
        }
        if !self.payload.disable_formatting {
            report.raw = Value::Null;
        }
        report.sources.truncate(MAX_SOURCES);
        count(Stage::Report, "done");
        let usage = within(report.usage, &self.payload.bounds.call(Stage::Report).usage);
        Ok(self.outcome(handle, usage, report, false))
    }

    fn withheld(&self, handle: &Handle) -> Self::Outcome {
        self.outcome(handle, Usage::ZERO, ProviderReport::default(), true)
    }

    fn phase(&self, state: ProviderJobState) -> String {
        let phase = match state {
            ProviderJobState::Submitting | ProviderJobState::Queued(_) => "planning",
            ProviderJobState::Running | ProviderJobState::Unknown => "searching",
            ProviderJobState::Fetching => "reading",
        };
        phase.to_owned()
    }
}

impl ReportJob<'_> {
    fn outcome(
        &self,
        handle: &Handle,
        usage: Usage,
        report: ProviderReport,
        is_blocked: bool,
    ) -> StepOutcome<Relayed> {
        StepOutcome {
            usage,
            target: handle.target(),
            backends: Vec::new(),
            value: Relayed { report, is_blocked },
        }
    }
}

/// Executes a job until its result is complete.
pub(in super::super) async fn execute(engine: &Engine<'_>, order: &RelayOrder) -> Result<Value, Stop> {
    let report_job = ReportJob {
        research: engine.research,
        payload: engine.payload,
        order,
    };
    let relayed = match provider_job::execute(&report_job, engine.work, RELAY_STEP).await? {
        StepResult::Done(outcome) => outcome.value,
        StepResult::Failed(error, ending) => {
            count(Stage::Report, "failed");
            return Err(Stop::Failed(error, ending));
        }
        StepResult::Cancelled => return Err(Stop::Cancelled),
        StepResult::Later(pause) => return Err(Stop::Later(pause)),
    };
    if relayed.is_blocked {
        return Err(Stop::Blocked);
    }
    engine.work.resume_work().await?;
    let report = relayed.report;
    engine.send_searches(&report).await?;
    engine.enter("reading", 60).await?;
    let listed = engine.read_sources(&report).await?;
    engine.enter("verifying", 90).await?;
    let is_verbatim = engine.payload.disable_formatting;
    let raw = is_verbatim.then(|| report.raw.clone());
    let cited = off_the_runtime(move || {
        let text = match is_verbatim {
            true => verbatim(&report),
            false => formatted(&report),
        };
        assemble(&text, is_verbatim, &report, &listed)
    })
    .await?;
    engine.send_sections(&cited).await?;
    let mut result = cited.result;
    if let Some(raw) = raw {
        result["raw"] = raw;
    }
    Ok(result)
}

impl Engine<'_> {
    /// Sends the provider's searches to the owner of the job.
    async fn send_searches(&self, report: &ProviderReport) -> Result<(), Stop> {
        let progress = |_: &()| {
            let searches = report.queries.iter();
            let searches = searches.map(|query| self.event("research.search", &json!({"query": query})));
            Progress {
                events: searches.flat_map(|progress| progress.events).collect(),
                ..Progress::default()
            }
        };
        self.local(self.work, SEARCHES_STEP, &progress, async { Ok(()) })
            .await
    }

    /// Reads the cited pages. Pages that cannot be read, or that a filter excludes, have no text.
    async fn read_sources(&self, report: &ProviderReport) -> Result<Vec<ListedSource>, Stop> {
        let tasks = report.sources.iter().zip(0_usize..).zip(0_u32..);
        let tasks = tasks.map(|((source, place), number)| async move {
            let is_cited = report.marks.iter().any(|mark| mark.sources.contains(&place));
            let page = Page::web(Hit {
                url: source.url.clone(),
                title: source.title.clone(),
                date: source.date,
                backend: String::new(),
                is_readable: false,
                is_date_filtered: true,
                text: None,
            });
            let stored = match is_cited {
                true => self.stored_page(PAGE_STEP + number, number + 1, &page).await?,
                false => None,
            };
            Ok::<_, Stop>(ListedSource {
                number: number + 1,
                url: source.url.clone(),
                title: source.title.clone(),
                date: source.date,
                excerpt: source.excerpt.clone(),
                stored,
            })
        });
        let tasks: Vec<_> = tasks.map(Box::pin).collect();
        stream::iter(tasks)
            .buffered(MAX_CONCURRENT_CALLS)
            .try_collect()
            .await
    }

    /// Sends the sections of the report to the owner of the job, after the content policy.
    async fn send_sections(&self, cited: &CitedReport) -> Result<(), Stop> {
        for ((title, text), number) in cited.sections.iter().zip(0..) {
            if self.research.pipeline.forbids_report(self.work.job(), text).await {
                return Err(Stop::Blocked);
            }
            let body = json!({"section": title, "text": text});
            let progress = |_: &()| self.event("research.delta", &body);
            let step = SECTION_STEP + number;
            self.local(self.work, step, &progress, async { Ok(()) }).await?;
        }
        Ok(())
    }
}
