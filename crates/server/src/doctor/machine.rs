//! The clock and the limits of this machine.

use tollgate_types::{Clock, Timestamp};

use super::Finding;

/// 2026-01-01: no clock that is right shows less.
const EARLIEST: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
/// 2100-01-01.
const LATEST: Timestamp = Timestamp::from_micros(4_102_444_800_000_000);

/// A call that streams has a connection to its caller and one to its upstream.
const DESCRIPTORS_PER_CALL: u64 = 2;
/// Database, journal, logs, listeners, runtimes.
const DESCRIPTORS_OF_ITS_OWN: u64 = 128;
/// Calls at once below which an operator will want to know.
const FEW_CALLS: u64 = 1_000;

/// Whether the clock shows a time that can be.
pub fn clock(clock: &dyn Clock) -> Finding {
    let now = clock.now();
    let shown = now.to_rfc3339();
    if (EARLIEST..LATEST).contains(&now) {
        return Finding::fine("clock", shown);
    }
    Finding::fault(
        "clock",
        format!("it shows {shown}, which cannot be"),
        "set the clock (timedatectl set-ntp true): certificates, expiry of keys and usage rows go by it",
    )
}

/// How many calls fit into the limit on open files that a process started here gets.
pub fn descriptors() -> Finding {
    match std::fs::read_to_string("/proc/self/limits")
        .ok()
        .and_then(|limits| soft_limit(&limits))
    {
        Some(limit) => room(limit),
        None => Finding::note(
            "open files",
            "the limit cannot be read here",
            "see `ulimit -n`; two are needed for each call",
        ),
    }
}

/// The soft limit on open files in the text of `/proc/self/limits`.
fn soft_limit(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

fn room(limit: u64) -> Finding {
    let calls = limit.saturating_sub(DESCRIPTORS_OF_ITS_OWN) / DESCRIPTORS_PER_CALL;
    let detail = format!("the limit is {limit}: room for about {calls} calls at once");
    if calls >= FEW_CALLS {
        return Finding::fine("open files", detail);
    }
    let remedy = "for more start it after `ulimit -n 65536`, or with LimitNOFILE=65536 in its systemd unit";
    Finding::note("open files", detail, remedy)
}

#[cfg(test)]
mod tests {
    use tollgate_types::clock::ManualClock;

    use super::super::State;
    use super::*;

    #[test]
    fn a_clock_that_was_never_set_is_a_fault() {
        for (micros, state) in [
            (0, State::Fault),
            (1_795_000_000_000_000, State::Fine),
            (5_000_000_000_000_000, State::Fault),
        ] {
            assert_eq!(
                clock(&ManualClock::at(Timestamp::from_micros(micros))).state,
                state,
                "{micros}"
            );
        }
    }

    #[test]
    fn the_limit_is_read_and_weighed() {
        let text = "Limit                     Soft Limit           Hard Limit           Units\n\
                    Max processes             7                    8                    processes\n\
                    Max open files            1024                 524288               files\n";
        assert_eq!(soft_limit(text), Some(1024));
        assert_eq!(
            soft_limit("Max open files            unlimited            unlimited            files"),
            Some(u64::MAX)
        );
        assert_eq!(soft_limit("nothing"), None);
        assert_eq!(room(1024).state, State::Note);
        assert_eq!(room(65_536).state, State::Fine);
        assert_eq!(room(10).detail, "the limit is 10: room for about 0 calls at once");
    }
}
