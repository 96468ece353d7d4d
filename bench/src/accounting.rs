//! CPU time and memory of a process and its children, from the kernel's accounting, and the
//! scheduling class.

use std::collections::HashMap;
use std::fs;

use serde::{Deserialize, Serialize};

use crate::clock::nanoseconds;

/// A process id.
pub type Pid = libc::pid_t;

/// Raises the limit of open files to the hard limit, for this process and its future children.
pub fn raise_open_files() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: both calls get a pointer to a live rlimit.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

/// Returns the limit of open files of a process.
pub fn open_files() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to a live rlimit.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    limit.rlim_cur
}

/// Returns a process and all its living descendants.
pub fn tree(root: Pid) -> Vec<Pid> {
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for pid in processes() {
        if let Some(parent) = parent(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        let born = children.remove(pid).unwrap_or_default();
        found.extend(born);
        next += 1;
    }
    found
}

/// Returns every process whose command name is exactly this.
pub fn named(command: &str) -> Vec<Pid> {
    processes()
        .filter(|pid| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == command)
        })
        .collect()
}

fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn parent(pid: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command name stands in parentheses and may contain any character, so the fields are
    // counted after the last parenthesis.
    stat.rsplit_once(')')?
        .1
        .split_ascii_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// Returns the CPU time of these processes in nanoseconds, user and system, threads that have ended
/// included.
///
/// Each process's own CPU clock is read (`clock_getcpuclockid`): it is the sum of the scheduler's
/// run times, as `/proc/<pid>/task/*/schedstat` has them, but up to the present instant and with
/// the threads that are gone.
pub fn cpu_ns(pids: &[Pid]) -> u64 {
    pids.iter().filter_map(|pid| process_cpu_ns(*pid)).sum()
}

fn process_cpu_ns(pid: Pid) -> Option<u64> {
    let mut id: libc::clockid_t = 0;
    let mut at = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: both calls write to a live value of the type that they expect.
    let read =
        unsafe { libc::clock_getcpuclockid(pid, &mut id) == 0 && libc::clock_gettime(id, &mut at) == 0 };
    read.then(|| nanoseconds(&at))
}

/// Memory of a process tree in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Memory {
    /// Proportional set size: a page that n processes share counts 1/n in each.
    pub pss: u64,
    /// Resident set size, shared pages counted in every process.
    pub rss: u64,
}

/// Returns the memory of these processes, from `smaps_rollup`.
pub fn memory(pids: &[Pid]) -> Memory {
    let mut sum = Memory::default();
    for pid in pids {
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        for line in rollup.lines() {
            let mut words = line.split_ascii_whitespace();
            let (name, kib) = (
                words.next(),
                words.next().and_then(|number| number.parse::<u64>().ok()),
            );
            match (name, kib) {
                (Some("Pss:"), Some(kib)) => sum.pss += kib * 1024,
                (Some("Rss:"), Some(kib)) => sum.rss += kib * 1024,
                _ => {}
            }
        }
    }
    sum
}

/// Returns the CPU time that the whole machine has spent on anything but idling, in nanoseconds.
pub fn machine_busy_ns() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_ascii_whitespace()
        .skip(1)
        .take(8);
    let ticks: u64 = fields
        .enumerate()
        .filter(|(place, _)| !matches!(place, 3 | 4))
        .filter_map(|(_, ticks)| ticks.parse::<u64>().ok())
        .sum();
    // SAFETY: sysconf takes one integer and touches no memory of ours.
    let per_second = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) })
        .unwrap_or(100)
        .max(1);
    ticks * (1_000_000_000 / per_second)
}

/// Puts every thread of these processes under SCHED_RR, or back under the normal class; false when
/// the kernel refused.
///
/// Under SCHED_RR other processes cannot delay a request, so the measured tail is the gateway's
/// own. Only for light phases: a saturating one would starve the machine.
pub fn set_realtime(pids: &[Pid], on: bool) -> bool {
    let (class, priority) = if on {
        (libc::SCHED_RR, 1)
    } else {
        (libc::SCHED_OTHER, 0)
    };
    // SAFETY: an all-zero sched_param is valid.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority;
    let mut granted = true;
    for thread in pids.iter().flat_map(|pid| threads(*pid)) {
        // SAFETY: the parameters outlive the call, and a thread that has ended is an error return.
        let refused = unsafe { libc::sched_setscheduler(thread, class, &parameters) } != 0;
        granted &= !refused || std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
    }
    granted
}

fn threads(pid: Pid) -> Vec<Pid> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_matches_scheduler_accounting() {
        let me = std::process::id() as Pid;
        let scheduled_ns = |thread: Pid| {
            let stat = fs::read_to_string(format!("/proc/{me}/task/{thread}/schedstat")).unwrap();
            stat.split_ascii_whitespace()
                .next()
                .unwrap()
                .parse::<u64>()
                .unwrap()
        };
        let before: u64 = threads(me).into_iter().map(scheduled_ns).sum();
        let clock = cpu_ns(&[me]);
        assert!(before > 0 && clock >= before, "scheduler {before}, clock {clock}");
        let mut sum = 0_u64;
        for round in 0..1_000_000_u64 {
            sum = std::hint::black_box(sum.wrapping_add(round));
        }
        assert!(cpu_ns(&[me]) > clock);
    }

    #[test]
    fn a_child_belongs_to_the_tree_and_its_memory_is_counted() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let me = std::process::id() as Pid;
        assert!(tree(me).contains(&(child.id() as Pid)));
        let used = memory(&[me]);
        assert!(used.pss > 100_000 && used.rss >= used.pss, "{used:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(cpu_ns(&[child.id() as Pid]), 0);
        assert!(machine_busy_ns() > 0);
    }
}
