//! States of jobs and of their steps, with the allowed transitions.

use serde::{Deserialize, Serialize};

/// Status of a job, as callers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// Accepted but not started.
    Queued,
    /// A worker has started the job.
    InProgress,
    /// The result is available.
    Completed,
    /// The job failed; it has no result.
    Failed,
    /// The caller cancelled the job.
    Cancelled,
    /// The job, or a part of it, was not started in time.
    Expired,
}

impl JobStatus {
    /// All statuses, initial ones first.
    pub const ALL: [JobStatus; 6] = [
        JobStatus::Queued,
        JobStatus::InProgress,
        JobStatus::Completed,
        JobStatus::Failed,
        JobStatus::Cancelled,
        JobStatus::Expired,
    ];

    /// Returns the name used in storage and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            JobStatus::Queued => "queued",
            JobStatus::InProgress => "in_progress",
            JobStatus::Completed => "completed",
            JobStatus::Failed => "failed",
            JobStatus::Cancelled => "cancelled",
            JobStatus::Expired => "expired",
        }
    }

    /// Parses a name used in storage and on the wire.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }

    /// Whether the status is final.
    pub const fn is_terminal(self) -> bool {
        !matches!(self, JobStatus::Queued | JobStatus::InProgress)
    }

    /// Whether a job may change from this status to `next`. A queued job cannot complete without
    /// being started. A started job can expire only if its parts are started one by one, as in a
    /// batch.
    pub const fn may_become(self, next: JobStatus) -> bool {
        use JobStatus::{Cancelled, Completed, Expired, Failed, InProgress, Queued};
        matches!(
            (self, next),
            (Queued, InProgress | Failed | Cancelled | Expired)
                | (InProgress, Completed | Failed | Cancelled | Expired)
        )
    }
}

/// State of one submission of a job to a provider. A job can have many steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// The step is recorded, and the provider is about to be called. Until a handle is stored, it
    /// is unknown whether the call was made.
    Intended,
    /// The provider accepted the call and returned a handle for the result.
    Submitted,
    /// The result is stored.
    Done,
    /// The provider refused, failed or was unreachable.
    Failed,
    /// The process died, or the provider did not respond, after the call may have been made. The
    /// call must not be repeated.
    Unknown,
}

impl StepState {
    /// All states, initial ones first.
    pub const ALL: [StepState; 5] = [
        StepState::Intended,
        StepState::Submitted,
        StepState::Done,
        StepState::Failed,
        StepState::Unknown,
    ];

    /// Returns the name used in storage.
    pub const fn as_str(self) -> &'static str {
        match self {
            StepState::Intended => "intended",
            StepState::Submitted => "submitted",
            StepState::Done => "done",
            StepState::Failed => "failed",
            StepState::Unknown => "unknown",
        }
    }

    /// Parses a name used in storage.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }

    /// Whether a step may change from this state to `next`. A failed step may be retried as a new
    /// attempt. An unknown step may not, but its result may still be found.
    pub const fn may_become(self, next: StepState) -> bool {
        use StepState::{Done, Failed, Intended, Submitted, Unknown};
        matches!(
            (self, next),
            (Intended, Submitted | Done | Failed | Unknown)
                | (Submitted, Submitted | Done | Failed | Unknown)
                | (Unknown, Submitted | Done | Failed)
                | (Failed, Intended)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{JobStatus, StepState};

    #[test]
    fn names_round_trip() {
        for status in JobStatus::ALL {
            assert_eq!(JobStatus::parse(status.as_str()), Some(status));
        }
        for state in StepState::ALL {
            assert_eq!(StepState::parse(state.as_str()), Some(state));
        }
        assert_eq!(JobStatus::parse("done"), None);
    }

    #[test]
    fn terminal_states_do_not_change() {
        for status in JobStatus::ALL {
            let becomes_something = JobStatus::ALL.into_iter().any(|next| status.may_become(next));
            assert_eq!(becomes_something, !status.is_terminal(), "{status:?}");
            assert!(!status.may_become(status));
        }
        assert!(
            StepState::ALL
                .into_iter()
                .all(|next| !StepState::Done.may_become(next))
        );
    }

    #[test]
    fn only_failed_steps_are_retried() {
        for state in StepState::ALL {
            let again = state.may_become(StepState::Intended);
            assert_eq!(again, state == StepState::Failed, "{state:?}");
        }
    }
}
