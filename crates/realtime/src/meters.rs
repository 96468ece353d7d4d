//! Metrics of sessions.

use std::time::Duration;

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use tollgate_types::usage::Outcome;

/// Name of the histogram of the time from the end of a turn to the first audio of its response.
pub const FIRST_AUDIO_SECONDS: &str = "tollgate_realtime_first_audio_seconds";

const SESSIONS: &str = "tollgate_realtime_sessions";
const RESPONSES: &str = "tollgate_realtime_responses_total";
const INTERRUPTIONS: &str = "tollgate_realtime_interruptions_total";
const DROPPED: &str = "tollgate_realtime_unpaid_audio_total";

/// Describes the metrics, once at the start.
pub(crate) fn describe() {
    describe_gauge!(SESSIONS, "Open realtime sessions, by kind and execution");
    describe_counter!(RESPONSES, "Ended responses of voice sessions, by outcome");
    describe_counter!(INTERRUPTIONS, "Responses that the speaker interrupted");
    describe_counter!(
        DROPPED,
        "Parts of audio that were dropped because they were not paid"
    );
    describe_histogram!(
        FIRST_AUDIO_SECONDS,
        Unit::Seconds,
        "Time from the end of a turn, or the request of a response, to its first audio"
    );
}

/// Counts a session as open until it is dropped.
pub(crate) struct OpenSession {
    kind: &'static str,
    way: &'static str,
}

impl OpenSession {
    /// Counts a session of this kind, whose work is executed in this way: `cascade` or `relay`.
    pub(crate) fn new(kind: &'static str, way: &'static str) -> Self {
        gauge!(SESSIONS, "kind" => kind, "way" => way).increment(1.0);
        Self { kind, way }
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        gauge!(SESSIONS, "kind" => self.kind, "way" => self.way).decrement(1.0);
    }
}

/// Counts the end of a response.
pub(crate) fn ended(outcome: Outcome) {
    counter!(RESPONSES, "outcome" => outcome.as_str()).increment(1);
}

/// Counts a response that the speaker interrupted.
pub(crate) fn interrupted() {
    counter!(INTERRUPTIONS).increment(1);
}

/// Counts audio that was dropped without a payment.
pub(crate) fn dropped() {
    counter!(DROPPED).increment(1);
}

/// Records the wait for the first audio of a response.
pub(crate) fn first_audio(wait: Duration) {
    histogram!(FIRST_AUDIO_SECONDS).record(wait);
}
