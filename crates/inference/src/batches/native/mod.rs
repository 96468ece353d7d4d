//! Native batches: lines are submitted in chunks to a provider that has its own batch API. A chunk
//! is a step of the job. The step is `Intended` while the lines are uploaded. It becomes
//! `Submitted` before the gateway requests their execution, and has a handle once the provider has
//! accepted the chunk. A chunk that may have been accepted is never submitted again. [`submission`]
//! writes and submits chunks, [`polling`] polls them and settles their lines.

mod polling;
mod submission;

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use tollgate_jobs::Work;
use tollgate_types::{Error, StepState, Timestamp};
use tollgate_upstream::BatchKind;

use super::request::Endpoint;

/// Step of the first chunk. The steps before it are the result files.
const FIRST_CHUNK_STEP: u32 = 2;
/// Step outcome of a chunk that the provider rejected.
const REFUSED: &[u8] = b"refused";

/// Lines that are submitted together.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Chunk {
    /// Name of the provider.
    provider: String,
    /// Number of the first line. The lines of a batch are numbered from 0.
    from: u32,
    /// Number after the last line.
    to: u32,
    /// Lines in the range that are executed one by one instead.
    left_out: Vec<u32>,
    /// Options that the chunk states once for all lines.
    dialect: String,
    /// Time of the submission.
    at: Timestamp,
    /// Provider's id of the uploaded lines, if they were uploaded separately.
    staged: Option<String>,
    /// Provider's handle for polling the chunk.
    handle: Option<String>,
    /// Whether cancellation was requested at the provider.
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

/// A chunk and the state of its step.
struct Step {
    number: u32,
    state: StepState,
    is_refused: bool,
    chunk: Chunk,
}

/// All chunks of a batch.
pub(super) struct SubmittedChunks {
    steps: Vec<Step>,
}

impl SubmittedChunks {
    /// Reads the chunks from the steps of a job.
    pub(super) fn of(work: &Work) -> Result<Self, Error> {
        let known = (FIRST_CHUNK_STEP..).map_while(|number| work.step(number));
        let read = known.map(|step| {
            let chunk = serde_json::from_slice(&step.handle);
            Ok(Step {
                number: step.number,
                state: step.state,
                is_refused: step.outcome == REFUSED,
                chunk: chunk
                    .map_err(|error| Error::internal(format!("cannot parse a step of a batch: {error}")))?,
            })
        });
        let steps = read.collect::<Result<_, Error>>()?;
        Ok(Self { steps })
    }

    /// Whether the batch has no chunks.
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns the chunks that were submitted or may have been.
    fn submitted(&self) -> impl Iterator<Item = &Step> {
        let is_submitted = |step: &&Step| matches!(step.state, StepState::Submitted | StepState::Done);
        self.steps.iter().filter(is_submitted)
    }

    /// Returns the chunks with unsettled lines.
    fn open(&self) -> impl Iterator<Item = &Step> {
        self.steps
            .iter()
            .filter(|step| step.state == StepState::Submitted)
    }

    /// Whether the provider has rejected a chunk.
    fn is_refused(&self) -> bool {
        self.steps.iter().any(|step| step.is_refused)
    }

    /// Returns the number after the last submitted line.
    fn next_line(&self) -> u32 {
        self.submitted().map(|step| step.chunk.to).max().unwrap_or(0)
    }

    /// Returns the step number of the next chunk: the step of a failed or abandoned chunk, else a
    /// new step.
    fn next(&self) -> u32 {
        let open = |step: &&Step| matches!(step.state, StepState::Intended | StepState::Failed);
        let free = self.steps.iter().find(open).map(|step| step.number);
        free.unwrap_or(
            FIRST_CHUNK_STEP + u32::try_from(self.steps.len()).unwrap_or(u32::MAX - FIRST_CHUNK_STEP),
        )
    }

    /// Returns the numbers of all submitted lines.
    pub(super) fn lines(&self) -> HashSet<u32> {
        self.submitted().flat_map(|step| step.chunk.lines()).collect()
    }
}

impl Endpoint {
    /// Returns the kind of native batch for this endpoint.
    const fn kind(self) -> BatchKind {
        match self {
            Endpoint::Chat | Endpoint::Messages => BatchKind::Text,
            Endpoint::Embeddings => BatchKind::Embeddings,
        }
    }
}
