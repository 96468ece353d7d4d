//! Jobs: what a job and one of its steps can be, and what may become of them.

use serde::{Deserialize, Serialize};

/// What a job is, as its callers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// It was accepted, and nothing was begun.
    Queued,
    /// A worker has begun it.
    InProgress,
    /// Its result is there.
    Completed,
    /// It has no result and will have none.
    Failed,
    /// Its caller did not want it any more.
    Cancelled,
    /// It was not begun in time.
    Expired,
}

impl JobStatus {
    /// Every status.
    pub const ALL: [JobStatus; 6] = [
        JobStatus::Queued,
        JobStatus::InProgress,
        JobStatus::Completed,
        JobStatus::Failed,
        JobStatus::Cancelled,
        JobStatus::Expired,
    ];

    /// The name used in storage and on the wire.
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

    /// The status with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }

    /// Whether nothing can change it any more.
    pub const fn is_terminal(self) -> bool {
        !matches!(self, JobStatus::Queued | JobStatus::InProgress)
    }

    /// Whether a job may go from this to that. What was not begun cannot be completed. What was begun expires only where its parts
    /// are begun one by one.
    pub const fn may_become(self, next: JobStatus) -> bool {
        use JobStatus::{Cancelled, Completed, Expired, Failed, InProgress, Queued};
        matches!(
            (self, next),
            (Queued, InProgress | Failed | Cancelled | Expired)
                | (InProgress, Completed | Failed | Cancelled | Expired)
        )
    }
}

/// What one submission of a job to a provider is. A job may have many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// It was written down that the provider is asked next. Whether it was is not known until there is a handle.
    Intended,
    /// The provider has accepted, and said how to ask for the result.
    Submitted,
    /// The result is kept.
    Done,
    /// The provider refused, failed or was not reached.
    Failed,
    /// The process died, or the provider did not answer, after it may have been asked. It must not be asked again.
    Unknown,
}

impl StepState {
    /// Every state.
    pub const ALL: [StepState; 5] = [
        StepState::Intended,
        StepState::Submitted,
        StepState::Done,
        StepState::Failed,
        StepState::Unknown,
    ];

    /// The name used in storage.
    pub const fn as_str(self) -> &'static str {
        match self {
            StepState::Intended => "intended",
            StepState::Submitted => "submitted",
            StepState::Done => "done",
            StepState::Failed => "failed",
            StepState::Unknown => "unknown",
        }
    }

    /// The state with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }

    /// Whether a step may go from this to that. A failed one may be intended again, as another attempt; an unknown one may
    /// not, but it may be found.
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
    fn names_are_read_back() {
        for status in JobStatus::ALL {
            assert_eq!(JobStatus::parse(status.as_str()), Some(status));
        }
        for state in StepState::ALL {
            assert_eq!(StepState::parse(state.as_str()), Some(state));
        }
        assert_eq!(JobStatus::parse("done"), None);
    }

    #[test]
    fn the_end_is_the_end() {
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
    fn what_may_have_been_submitted_is_not_submitted_again() {
        for state in StepState::ALL {
            let again = state.may_become(StepState::Intended);
            assert_eq!(again, state == StepState::Failed, "{state:?}");
        }
    }
}
