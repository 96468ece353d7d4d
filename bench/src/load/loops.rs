//! The closed and the open loop: one blocking thread for each connection, so that only the kernel
//! wakes it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use super::connection::{Connection, Expected};
use super::report::{Report, Tally};
use super::{Gate, Mode, Options};
use crate::clock::{now_ns, sleep_until};

/// Nanoseconds from the start signal to the first request: every thread has then left the barrier.
const RUN_UP_NS: u64 = 20_000_000;
/// Lag in nanoseconds at which the open loop gives up: the tail is in the histogram by then.
const ABORT_AFTER_NS: u64 = 5_000_000_000;
/// A connection without any good answer stops after this many bad ones.
const ABORT_FAILURES: u64 = 200;

/// The data of one thread.
struct Lane {
    address: SocketAddr,
    warm: Option<Vec<u8>>,
    request: Vec<u8>,
    expected: Expected,
    schedule: Schedule,
}

/// The send times of a connection.
#[derive(Clone, Copy)]
struct Schedule {
    /// Offset of the first request from the start.
    offset_ns: u64,
    /// Interval between two requests of the open loop; 0 in the closed loop.
    step_ns: u64,
    length_ns: u64,
}

pub(super) fn run(options: &Options, gate: Gate) -> anyhow::Result<Report> {
    let requests = super::requests(options, &options.body)?;
    let warm = options
        .warm
        .as_ref()
        .map(|body| super::requests(options, body))
        .transpose()?;
    let warmed = Arc::new(Barrier::new(options.connections + 1));
    let started = Arc::new(Barrier::new(options.connections + 1));
    let start = Arc::new(AtomicU64::new(0));
    let mut threads = Vec::with_capacity(options.connections);
    for index in 0..options.connections {
        let lane = Lane {
            address: options.address[index % options.address.len()],
            warm: warm
                .as_ref()
                .map(|requests| requests[index % requests.len()].clone()),
            request: requests[index % requests.len()].clone(),
            expected: Expected {
                chunks: options.chunks,
            },
            schedule: Schedule::of(options, index),
        };
        let (warmed, started, start) = (warmed.clone(), started.clone(), start.clone());
        threads.push(
            std::thread::Builder::new()
                .stack_size(256 * 1024)
                .spawn(move || {
                    let mut connection = Connection::new(lane.address);
                    let mut tally = lane.warm_up(&mut connection);
                    warmed.wait();
                    started.wait();
                    lane.send(&mut connection, start.load(Ordering::Acquire), &mut tally);
                    tally
                })?,
        );
    }
    warmed.wait();
    gate.announce()?;
    gate.pass()?;
    let begin = now_ns() + RUN_UP_NS;
    start.store(begin, Ordering::Release);
    started.wait();
    let mut all = Tally::new();
    for thread in threads {
        all.merge(
            thread
                .join()
                .map_err(|_| anyhow::anyhow!("a connection's thread panicked"))?,
        );
    }
    Ok(all.report(options, now_ns().saturating_sub(begin) as f64 / 1e9))
}

impl Schedule {
    fn of(options: &Options, index: usize) -> Schedule {
        let share = index as f64 / options.connections as f64;
        let length_ns = (options.seconds * 1e9) as u64;
        match options.mode {
            Mode::Open => {
                let step = options.connections as f64 / options.rate * 1e9;
                Schedule {
                    offset_ns: (step * share) as u64,
                    step_ns: step as u64,
                    length_ns,
                }
            }
            Mode::Closed | Mode::Hold => {
                let spread = options.spread_ms as f64 * 1e6;
                Schedule {
                    offset_ns: (spread * share) as u64,
                    step_ns: 0,
                    length_ns,
                }
            }
        }
    }
}

impl Lane {
    fn warm_up(&self, connection: &mut Connection) -> Tally {
        let mut tally = Tally::new();
        if let Some(request) = &self.warm {
            match connection.probe(request) {
                Ok(()) => tally.warm = 1,
                Err(error) => tally.fail(format!("warming up: {error:#}")),
            }
        }
        tally
    }

    fn send(&self, connection: &mut Connection, begin: u64, tally: &mut Tally) {
        let end = begin + self.schedule.length_ns;
        let mut due = begin + self.schedule.offset_ns;
        sleep_until(due);
        while due < end {
            if now_ns() > end + ABORT_AFTER_NS {
                tally.missed += (end - due).div_ceil(self.schedule.step_ns.max(1));
                return;
            }
            sleep_until(due);
            if let Err(error) = connection.exchange(&self.request, due, self.expected, tally) {
                tally.fail(format!("{error:#}"));
                if tally.ok == 0 && tally.bad >= ABORT_FAILURES {
                    return;
                }
            } else {
                tally.ok += 1;
            }
            due = if self.schedule.step_ns > 0 {
                due + self.schedule.step_ns
            } else {
                now_ns()
            };
        }
    }
}
