//! Delays callers that guess keys. After 30 invalid keys per minute from one address, the response
//! to each further one is delayed by a second. Responses do not mention the delay, and valid keys
//! from the same address are not delayed.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tollgate_types::Clock;

const FREE_FAILURES: u32 = 30;
const WINDOW_MICROS: u64 = 60_000_000;
const FAILURE_DELAY: Duration = Duration::from_secs(1);
const MAX_ADDRESSES: usize = 100_000;
/// Maximum number of failures that wait concurrently, which bounds the memory. Further failures are
/// answered without delay.
const MAX_WAITING: usize = 1_000;

/// Counter of invalid keys per client address.
pub struct FailedKeys {
    clock: Arc<dyn Clock>,
    addresses: Mutex<HashMap<IpAddr, Failures>>,
    waiting: tokio::sync::Semaphore,
}

#[derive(Clone, Copy)]
struct Failures {
    since: u64,
    count: u32,
}

impl FailedKeys {
    /// Creates an empty counter.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            addresses: Mutex::default(),
            waiting: tokio::sync::Semaphore::new(MAX_WAITING),
        }
    }

    /// Counts a failure, and waits if the address had too many.
    pub(crate) async fn slow_down(&self, address: IpAddr) {
        if self.count(address) > FREE_FAILURES
            && let Ok(_permit) = self.waiting.try_acquire()
        {
            tokio::time::sleep(FAILURE_DELAY).await;
        }
    }

    fn count(&self, address: IpAddr) -> u32 {
        let now = self.clock.monotonic_micros();
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if addresses.len() >= MAX_ADDRESSES {
            addresses.retain(|_, failures| now < failures.since + WINDOW_MICROS);
            if addresses.len() >= MAX_ADDRESSES {
                addresses.clear();
            }
        }
        let failures = addresses
            .entry(address)
            .or_insert(Failures { since: now, count: 0 });
        if now >= failures.since + WINDOW_MICROS {
            *failures = Failures { since: now, count: 0 };
        }
        failures.count = failures.count.saturating_add(1);
        failures.count
    }
}

#[cfg(test)]
mod tests {
    use tollgate_types::Timestamp;
    use tollgate_types::clock::ManualClock;

    use super::*;

    #[test]
    fn counts_by_address_and_forgets_after_a_minute() {
        let clock = Arc::new(ManualClock::at(Timestamp::from_micros(1)));
        let failed = FailedKeys::new(clock.clone());
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        (1..=31).for_each(|expected| assert_eq!(failed.count(one), expected));
        assert_eq!(failed.count(other), 1);
        clock.advance(Duration::from_secs(60));
        assert_eq!(failed.count(one), 1);
    }
}
