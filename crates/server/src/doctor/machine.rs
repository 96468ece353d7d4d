//! Checks of this machine: the clock and the limit on open files.

use tollgate_types::{Clock, Timestamp};

use super::Finding;

/// Earliest plausible time: 2026-01-01, before the first release.
const EARLIEST: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
/// Latest plausible time: 2100-01-01.
const LATEST: Timestamp = Timestamp::from_micros(4_102_444_800_000_000);

/// File descriptors of a streaming call: one for the caller's connection and one for the upstream's
/// connection.
const DESCRIPTORS_PER_CALL: u64 = 2;
/// File descriptors for the database, the journal, logs, listeners and runtimes.
const BASE_DESCRIPTORS: u64 = 128;
/// Minimum number of concurrent calls that the check accepts without a note.
const MIN_COMFORTABLE_CALLS: u64 = 1_000;

/// Checks that the clock is plausible.
pub fn clock(clock: &dyn Clock) -> Finding {
    let now = clock.now();
    let shown = now.to_rfc3339();
    if (EARLIEST..LATEST).contains(&now) {
        return Finding::fine("clock", shown);
    }
    Finding::fault(
        "clock",
        format!("the clock shows {shown}, which is wrong"),
        "set the clock (timedatectl set-ntp true): certificates, key expiry and usage records depend on it",
    )
}

/// Estimates the number of concurrent calls that the limit on open files allows.
pub fn descriptors() -> Finding {
    match std::fs::read_to_string("/proc/self/limits")
        .ok()
        .and_then(|limits| soft_limit(&limits))
    {
        Some(limit) => descriptor_headroom(limit),
        None => Finding::note(
            "open files",
            "the limit cannot be read on this system",
            "check `ulimit -n`; each call needs two descriptors",
        ),
    }
}

/// Parses the soft limit on open files from the text of `/proc/self/limits`.
fn soft_limit(limits: &str) -> Option<u64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

fn descriptor_headroom(limit: u64) -> Finding {
    let calls = limit.saturating_sub(BASE_DESCRIPTORS) / DESCRIPTORS_PER_CALL;
    let detail = match limit {
        u64::MAX => "the number is not limited".to_owned(),
        _ => format!("the limit is {limit}: enough for about {calls} concurrent calls"),
    };
    if calls >= MIN_COMFORTABLE_CALLS {
        return Finding::fine("open files", detail);
    }
    let remedy = "to allow more, run `ulimit -n 65536` before the start or set LimitNOFILE in the unit file";
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
        assert_eq!(descriptor_headroom(1024).state, State::Note);
        assert_eq!(descriptor_headroom(65_536).state, State::Fine);
        assert_eq!(
            descriptor_headroom(10).detail,
            "the limit is 10: enough for about 0 concurrent calls"
        );
    }
}
