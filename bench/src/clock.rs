//! The machine's monotonic clock. The processes of one machine share it, so the load tool can
//! measure the time of a chunk since the stub's stamp.

/// Returns CLOCK_MONOTONIC in nanoseconds.
pub fn now_ns() -> u64 {
    let mut at = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live timespec, and the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut at) };
    nanoseconds(&at)
}

/// Blocks the thread until the given instant of [`now_ns`]; returns immediately when it has passed.
pub fn sleep_until(instant_ns: u64) {
    let at = libc::timespec {
        tv_sec: (instant_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (instant_ns % 1_000_000_000) as libc::c_long,
    };
    while now_ns() < instant_ns {
        // SAFETY: the request is a live timespec; an absolute sleep writes nothing back, so null is
        // allowed.
        unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &at,
                std::ptr::null_mut(),
            )
        };
    }
}

/// Lets the kernel wake this process's threads within 1 µs of their instant (the default slack is
/// 50 µs).
pub fn sharpen_timers() {
    // SAFETY: PR_SET_TIMERSLACK takes one integer and touches no memory of ours.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_000_u64) };
}

/// Returns a timespec as nanoseconds.
pub(crate) fn nanoseconds(at: &libc::timespec) -> u64 {
    at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_ends_at_or_after_its_instant() {
        let due = now_ns() + 2_000_000;
        sleep_until(due);
        assert!(now_ns() >= due);
        sleep_until(0);
    }
}
