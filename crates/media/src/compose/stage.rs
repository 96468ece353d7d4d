//! A part of the work of which several pieces are made side by side, and how far it is.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::sync::Notify;
use tollgate_jobs::{Heard, Progress, Work};
use tollgate_storage::StorageError;
use tollgate_types::Error;
use tollgate_types::usage::Outcome as Ending;

use crate::making::tell;

/// By how many percent the work has to have gone on until that is told.
const STEP: u8 = 2;

/// Why the work does not go on.
#[derive(Debug)]
pub(super) enum Stop {
    /// Storage failed: whoever has the job next goes on.
    Storage(StorageError),
    /// It goes on after so long.
    Later(Duration),
    /// It is not wanted any more.
    Cancelled,
    /// What a model made was withheld; it is paid for.
    Blocked,
    /// It cannot be made.
    Failed(Error, Ending),
}

impl From<StorageError> for Stop {
    fn from(error: StorageError) -> Self {
        Stop::Storage(error)
    }
}

impl Stop {
    /// What decides of several: what ends the job before what lets it go on.
    fn weight(&self) -> u8 {
        match self {
            Stop::Storage(_) => 4,
            Stop::Cancelled => 3,
            Stop::Blocked => 2,
            Stop::Failed(..) => 1,
            Stop::Later(_) => 0,
        }
    }
}

/// A stage, and its share of the whole in percent.
pub(super) struct Stage {
    pub(super) phase: &'static str,
    pub(super) from: u8,
    pub(super) to: u8,
    /// How many pieces are made at once.
    pub(super) at_once: usize,
}

/// How far each piece of a stage is, in percent.
pub(super) struct Meter {
    pieces: Mutex<Vec<u8>>,
    changed: Notify,
}

impl Meter {
    pub(super) fn new(pieces: usize) -> Arc<Self> {
        Arc::new(Self {
            pieces: Mutex::new(vec![0; pieces]),
            changed: Notify::new(),
        })
    }

    /// A piece is so far.
    pub(super) fn set(&self, number: usize, percent: u8) {
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(piece) = pieces.get_mut(number) {
            *piece = percent.max(*piece).min(100);
        }
        self.changed.notify_one();
    }

    /// Hears how far this piece is.
    pub(super) fn of(self: &Arc<Self>, number: usize) -> Arc<dyn Heard> {
        Arc::new(Piece {
            meter: self.clone(),
            number,
        })
    }

    fn percent(&self) -> u64 {
        let pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let sum: u64 = pieces.iter().map(|percent| u64::from(*percent)).sum();
        sum / (pieces.len() as u64).max(1)
    }
}

struct Piece {
    meter: Arc<Meter>,
    number: usize,
}

impl Heard for Piece {
    fn hear(&self, progress: Progress) {
        if let Some(percent) = progress.percent {
            self.meter.set(self.number, percent);
        }
    }
}

impl Stage {
    /// Makes all pieces and tells how far they are. When some cannot be made the others are still made: what they are is kept.
    pub(super) async fn run<T>(
        &self,
        work: &Work,
        meter: &Arc<Meter>,
        pieces: Vec<impl Future<Output = Result<T, Stop>>>,
    ) -> Result<Vec<T>, Stop> {
        let count = pieces.len();
        let numbered = pieces.into_iter().enumerate().map(|(number, piece)| {
            let meter = meter.clone();
            async move {
                let made = piece.await;
                meter.set(number, 100);
                (number, made)
            }
        });
        let mut pieces = pin!(stream::iter(numbered).buffer_unordered(self.at_once.max(1)));
        let mut made: Vec<Option<T>> = std::iter::repeat_with(|| None).take(count).collect();
        let mut stop: Option<Stop> = None;
        let mut told = self.from;
        tell(work, self.phase, Some(told)).await?;
        loop {
            tokio::select! {
                next = pieces.next() => match next {
                    None => break,
                    Some((number, Ok(piece))) => {
                        if let Some(place) = made.get_mut(number) {
                            *place = Some(piece);
                        }
                    }
                    Some((_, Err(error))) => {
                        if stop.as_ref().is_none_or(|stop| stop.weight() < error.weight()) {
                            stop = Some(error);
                        }
                    }
                },
                () = meter.changed.notified() => {
                    let share = u64::from(self.to - self.from) * meter.percent() / 100;
                    let now = self.from + u8::try_from(share).unwrap_or_default();
                    if now >= told + STEP {
                        told = now;
                        tell(work, self.phase, Some(told)).await?;
                    }
                }
            }
        }
        match stop {
            Some(stop) => Err(stop),
            None => Ok(made.into_iter().flatten().collect()),
        }
    }
}
