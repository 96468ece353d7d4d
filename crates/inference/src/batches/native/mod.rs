//! Batches whose model's provider has batches of its own: their lines are handed over in chunks. A chunk is a step of the job. It is
//! intended while its lines are put in place, submitted from before the provider is asked to carry them out, and has a handle when
//! the provider has taken it; so what may have been taken is never handed over again. [`handover`] writes and submits chunks,
//! [`following`] asks how they go and settles their lines.

mod following;
mod handover;

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use tollgate_jobs::Work;
use tollgate_types::{Error, StepState, Timestamp};
use tollgate_upstream::BatchKind;

use super::request::Endpoint;

/// The step of the first chunk. Those before it are the files of what came of the batch.
const FIRST: u32 = 2;
/// What came of a chunk that the provider does not take at all.
const REFUSED: &[u8] = b"refused";

/// Lines that are handed over together.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Chunk {
    /// To whom.
    provider: String,
    /// The first line.
    from: u32,
    /// The line after the last one.
    to: u32,
    /// Lines between that are carried out one by one.
    left_out: Vec<u32>,
    /// What is said once for all of them.
    dialect: String,
    /// When.
    at: Timestamp,
    /// Where they were put, if somewhere.
    staged: Option<String>,
    /// By what the provider is asked how they go.
    handle: Option<String>,
    /// Whether the provider was told that nobody wants them any more.
    is_cancelled: bool,
}

impl Chunk {
    fn written(&self) -> Result<Vec<u8>, Error> {
        serde_json::to_vec(self).map_err(|error| Error::internal(error.to_string()))
    }

    fn lines(&self) -> impl Iterator<Item = u32> {
        (self.from..self.to).filter(|number| !self.left_out.contains(number))
    }
}

/// A chunk and its step.
struct Step {
    number: u32,
    state: StepState,
    is_refused: bool,
    chunk: Chunk,
}

/// What of a batch was handed over.
pub(super) struct Handed {
    steps: Vec<Step>,
}

impl Handed {
    /// What the steps of a job say.
    pub(super) fn of(work: &Work) -> Result<Self, Error> {
        let known = (FIRST..).map_while(|number| work.step(number));
        let read = known.map(|step| {
            let chunk = serde_json::from_slice(&step.handle);
            Ok(Step {
                number: step.number,
                state: step.state,
                is_refused: step.outcome == REFUSED,
                chunk: chunk.map_err(|error| Error::internal(format!("a step of a batch: {error}")))?,
            })
        });
        let steps = read.collect::<Result<_, Error>>()?;
        Ok(Self { steps })
    }

    /// Whether there is anything.
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Chunks that were handed over, or may have been.
    fn taken(&self) -> impl Iterator<Item = &Step> {
        let is_taken = |step: &&Step| matches!(step.state, StepState::Submitted | StepState::Done);
        self.steps.iter().filter(is_taken)
    }

    /// Chunks whose lines are not all settled.
    fn open(&self) -> impl Iterator<Item = &Step> {
        self.steps
            .iter()
            .filter(|step| step.state == StepState::Submitted)
    }

    /// Whether the provider does not take batches.
    fn is_refused(&self) -> bool {
        self.steps.iter().any(|step| step.is_refused)
    }

    /// The line after the last one that was handed over.
    fn reached(&self) -> u32 {
        self.taken().map(|step| step.chunk.to).max().unwrap_or(0)
    }

    /// The number of the next chunk: that of one that came to nothing, or a new one.
    fn next(&self) -> u32 {
        let open = |step: &&Step| matches!(step.state, StepState::Intended | StepState::Failed);
        let free = self.steps.iter().find(open).map(|step| step.number);
        free.unwrap_or(FIRST + u32::try_from(self.steps.len()).unwrap_or(u32::MAX - FIRST))
    }

    /// The lines that were handed over.
    pub(super) fn lines(&self) -> HashSet<u32> {
        self.taken().flat_map(|step| step.chunk.lines()).collect()
    }
}

impl Endpoint {
    /// What its requests ask for.
    const fn kind(self) -> BatchKind {
        match self {
            Endpoint::Chat | Endpoint::Messages => BatchKind::Text,
            Endpoint::Embeddings => BatchKind::Embeddings,
        }
    }
}
