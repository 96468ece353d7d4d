//! The phases: payload, mode and duration of each.

use crate::load::Mode;
use crate::payload::{Payload, Plan};

/// Streams opened per second while a hold fills up.
const HOLD_RAMP_PER_SECOND: u64 = 400;
/// Seconds for which all streams of a hold are open together.
pub(super) const HOLD_STEADY_SECONDS: u64 = 4;

/// A load of fixed duration, measured by CPU and latency.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) payload: Payload,
    pub(super) mode: Mode,
    pub(super) connections: usize,
    pub(super) seconds: f64,
    pub(super) rate: f64,
    pub(super) spread_ms: u64,
    /// Under SCHED_RR: for phases that leave the machine mostly idle.
    pub(super) realtime: bool,
}

const CLOSED: Phase = Phase {
    name: "small",
    payload: Payload::Small,
    mode: Mode::Closed,
    connections: 32,
    seconds: 2.5,
    rate: 1.0,
    spread_ms: 0,
    realtime: false,
};

const OPEN: Phase = Phase {
    name: "open100",
    mode: Mode::Open,
    connections: 16,
    realtime: true,
    ..CLOSED
};

/// Every phase, in the order in which they are run. The names are those of `--phases` and of the
/// tables.
pub(super) const PHASES: [Phase; 8] = [
    CLOSED,
    Phase {
        name: "crossed",
        payload: Payload::Crossed,
        ..CLOSED
    },
    Phase {
        name: "large",
        payload: Payload::Large,
        connections: 16,
        ..CLOSED
    },
    Phase {
        name: "stream",
        payload: Payload::Stream(Plan::stream(100, 0)),
        connections: 8,
        ..CLOSED
    },
    Phase {
        name: "stream1",
        payload: Payload::Stream(Plan::stream(100, 0)),
        connections: 1,
        seconds: 2.0,
        ..CLOSED
    },
    Phase {
        seconds: 4.0,
        rate: 100.0,
        ..OPEN
    },
    Phase {
        name: "open1000",
        connections: 32,
        seconds: 3.0,
        rate: 1000.0,
        ..OPEN
    },
    // Twenty streams in step: their chunks arrive in bunches, as at a busy gateway, and have the
    // lowest possible cost.
    Phase {
        name: "paced",
        payload: Payload::Stream(Plan::stream(100, 20)),
        connections: 20,
        seconds: 5.0,
        realtime: true,
        ..CLOSED
    },
];

/// The load before the phases: it fills pools and caches.
pub(super) const WARM_UP: Phase = Phase {
    name: "warm-up",
    connections: 16,
    seconds: 1.5,
    ..CLOSED
};

impl Phase {
    /// Returns the same phase with a short duration.
    pub(super) fn quick(self) -> Phase {
        Phase {
            seconds: self.seconds * 0.4,
            ..self
        }
    }
}

/// Many concurrent slow streams, measured by memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) streams: u64,
}

impl Hold {
    pub(super) fn name(self) -> String {
        format!("hold{}", self.streams)
    }

    /// Milliseconds from the first stream to the last.
    pub(super) fn ramp_ms(self) -> u64 {
        self.streams * 1000 / HOLD_RAMP_PER_SECOND
    }

    /// Returns a stream of one chunk a second, long enough for the first stream to see the last one
    /// through the steady time.
    pub(super) fn payload(self) -> Payload {
        Payload::Stream(Plan::stream(
            self.ramp_ms().div_ceil(1000) + HOLD_STEADY_SECONDS + 3,
            1000,
        ))
    }

    /// Returns the number of open files of the busiest process: each stream is two sockets in a
    /// proxy.
    pub(super) fn open_files(self) -> u64 {
        2 * self.streams + 500
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_light_phases_alone_are_realtime() {
        for (place, phase) in PHASES.iter().enumerate() {
            assert!(
                PHASES[..place].iter().all(|before| before.name != phase.name),
                "{}",
                phase.name
            );
            let light = phase.mode == Mode::Open || phase.name == "paced";
            assert_eq!(phase.realtime, light, "{}", phase.name);
        }
    }

    #[test]
    fn held_streams_outlast_the_ramp_and_the_steady_time() {
        for streams in [1, 200, 1000, 5000] {
            let hold = Hold { streams };
            assert!(hold.payload().chunks() * 1000 >= hold.ramp_ms() + (HOLD_STEADY_SECONDS + 2) * 1000);
        }
    }
}
