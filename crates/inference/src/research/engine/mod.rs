//! The engine of a report: rounds of searching and reading, then an outline, sections and their
//! verification. Each call is a recorded step, so that a worker that takes over the job repeats
//! only unfinished ones.

mod judge;
mod models;
mod pages;
pub(super) mod prompts;
mod rounds;
mod steps;
mod verify;
mod writing;

use std::time::Duration;

use tollgate_jobs::Work;
use tollgate_pipeline::{Purse, Routed};
use tollgate_storage::StorageError;
use tollgate_types::usage::Outcome as Ending;
use tollgate_types::{Date, Error};
use tollgate_upstream::{CallContext, ResearchBrief, ResearchPlan, ResearchProvider};

pub(super) use models::ModelCalls;
pub(super) use pages::{PAGES, Page, off_the_runtime};
pub(super) use steps::{CALLS, count, spent, within};
pub(super) use verify::{Claim, ClaimStatus};
pub(super) use writing::Section;

use super::Research;
use super::backends::SourceBackend;
use super::payload::{Note, Payload, Source};

/// Number of concurrent calls of a job.
pub(super) const MAX_CONCURRENT_CALLS: usize = 8;
/// Number of sections that are written concurrently.
const MAX_CONCURRENT_SECTIONS: usize = 4;

/// Everything that the calls of one job share.
pub(super) struct Engine<'a> {
    pub(super) research: &'a Research,
    pub(super) work: &'a Work,
    pub(super) payload: &'a Payload,
    pub(super) routed: &'a Routed,
    pub(super) backends: Vec<SourceBackend>,
    /// Models of the stages; `None` if the named model executes them itself.
    pub(super) models: Option<ModelCalls<'a>>,
    /// Messages before the question, as text.
    pub(super) conversation: String,
    pub(super) purse: Purse,
    pub(super) ctx: CallContext,
}

/// Reason why the engine stopped before its report was complete.
#[derive(Debug)]
pub(super) enum Stop {
    Storage(StorageError),
    Cancelled,
    /// The content policy forbids a section.
    Blocked,
    Failed(Error, Ending),
    /// The job pauses and continues after this time.
    Later(Duration),
}

impl From<StorageError> for Stop {
    fn from(error: StorageError) -> Self {
        Stop::Storage(error)
    }
}

/// Reason why no further round was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoppedBy {
    Complete,
    Rounds,
    Searches,
    Pages,
    Budget,
    Time,
}

impl StoppedBy {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            StoppedBy::Complete => "complete",
            StoppedBy::Rounds => "rounds",
            StoppedBy::Searches => "searches",
            StoppedBy::Pages => "pages",
            StoppedBy::Budget => "budget",
            StoppedBy::Time => "time",
        }
    }
}

/// Findings of all rounds.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) plan: ResearchPlan,
    pub(super) sources: Vec<Source>,
    pub(super) notes: Vec<Note>,
    pub(super) searches: u32,
    /// Number of queries that at least one backend answered.
    pub(super) answered: u32,
    pub(super) pages: u32,
    /// Number of pages that could not be read.
    pub(super) failed_pages: u32,
    /// Number of pages from which notes were taken.
    pub(super) read: u32,
    /// Whether a call or a backend failed, so that the report may be incomplete.
    pub(super) is_degraded: bool,
}

/// A complete report before its assembly.
pub(super) struct Outcome {
    pub(super) findings: Findings,
    pub(super) sections: Vec<Section>,
    pub(super) stopped_by: StoppedBy,
    pub(super) lost_calls: u32,
}

impl Engine<'_> {
    /// Executes the job from its recorded steps.
    pub(super) async fn run(&self) -> Result<Outcome, Stop> {
        let mut findings = Findings::default();
        let stopped_by = Box::pin(self.search_and_read(&mut findings)).await?;
        if findings.notes.is_empty() {
            self.check_failed(&findings)?;
        }
        let sections = Box::pin(self.write(&mut findings)).await?;
        Ok(Outcome {
            findings,
            sections,
            stopped_by,
            lost_calls: steps::lost_calls(self.work),
        })
    }

    /// Returns an error if nothing was found because all backends or all pages failed.
    fn check_failed(&self, findings: &Findings) -> Result<(), Stop> {
        let has_no_answer = findings.searches > 0 && findings.answered == 0;
        let has_no_page = findings.pages > 0 && findings.read == 0;
        let has_failed = findings.is_degraded && (has_no_answer || has_no_page || findings.searches == 0);
        let has_only_failed_pages = findings.pages > 0 && findings.failed_pages == findings.pages;
        match has_failed || has_only_failed_pages {
            true => {
                let message = "No source could be searched or read. The report was not charged. Retry later.";
                let error = Error::new(tollgate_types::ErrorCode::UpstreamError, message);
                Err(Stop::Failed(error, Ending::UpstreamError))
            }
            false => Ok(()),
        }
    }

    /// Returns the calls of the job's model.
    fn provider(&self) -> &dyn ResearchProvider {
        if let Some(models) = &self.models {
            return models;
        }
        let provider = self
            .routed
            .first_provider()
            .and_then(|provider| provider.research());
        provider.unwrap_or(&*self.research.extractive)
    }

    fn brief<'b>(&'b self, findings: &'b Findings) -> ResearchBrief<'b> {
        ResearchBrief {
            question: self.payload.question(),
            parts: &findings.plan.parts,
            conversation: &self.conversation,
            instructions: self.payload.instructions.as_deref(),
            language: self.payload.filters.language.as_deref(),
            today: Date::of(self.payload.accepted_at),
        }
    }
}
