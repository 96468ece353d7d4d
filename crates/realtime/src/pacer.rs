//! Pace of a reply: its audio is sent no earlier than a fixed time before it is played, so that
//! an interruption cancels the audio that the listener has not heard.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tollgate_edge::websocket::Outbox;

use crate::heard::Playback;

/// Pace of the audio of one response.
pub(crate) struct Pace {
    outbox: Outbox,
    lead_ms: u64,
    playback: Playback,
    started: Instant,
}

impl Pace {
    /// Creates the pace of a response that starts now. A lead of 0 means no limit.
    pub(crate) fn new(outbox: Outbox, lead_ms: u64) -> Self {
        Self {
            outbox,
            lead_ms,
            playback: Playback::default(),
            started: Instant::now(),
        }
    }

    /// Waits until the client has read enough, and until the audio would not precede its playback
    /// too far. Cancel-safe.
    pub(crate) async fn ready(&self) {
        self.outbox.ready().await;
        let played = self.playback.played_us(self.now());
        let wait = wait(self.lead_ms, played, self.playback.delivered_us());
        if wait > Duration::ZERO {
            sleep(wait).await;
        }
    }

    /// Records audio that was sent.
    pub(crate) fn deliver(&mut self, micros: u64) {
        self.playback.deliver(self.now(), micros);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// Returns the time to wait before the next audio may be sent. A lead of 0 means no limit.
const fn wait(lead_ms: u64, played_us: u64, delivered_us: u64) -> Duration {
    if lead_ms == 0 {
        return Duration::ZERO;
    }
    let limit_us = played_us.saturating_add(lead_ms.saturating_mul(1_000));
    Duration::from_micros(delivered_us.saturating_sub(limit_us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audio_is_sent_within_the_lead() {
        for (lead_ms, played_us, delivered_us, expected_us) in [
            (2_000, 0, 0, 0),
            (2_000, 0, 2_000_000, 0),
            (2_000, 0, 2_000_001, 1),
            (2_000, 1_500_000, 4_000_000, 500_000),
            (2_000, 9_000_000, 4_000_000, 0),
            (0, 0, u64::MAX, 0),
            (u64::MAX, u64::MAX, u64::MAX, 0),
        ] {
            let expected = Duration::from_micros(expected_us);
            assert_eq!(
                wait(lead_ms, played_us, delivered_us),
                expected,
                "{delivered_us} µs of {lead_ms} ms"
            );
        }
    }
}
