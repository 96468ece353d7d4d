//! Child processes of the comparison: started with a log, stopped by SIGTERM first, never left
//! behind.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::accounting::{self, Pid};

/// Timeout of a process's first line.
const FIRST_WORD: Duration = Duration::from_secs(60);

/// A running child with its output: stdout as lines, stderr in the log file.
pub(super) struct Process {
    child: Child,
    lines: Receiver<String>,
    stdin: Option<ChildStdin>,
    log: PathBuf,
}

impl Process {
    /// Starts the command; its log goes to `<folder>/<name>.log`, appended.
    pub(super) fn start(mut command: Command, folder: &Path, name: &str) -> anyhow::Result<Process> {
        let log = folder.join(format!("{name}.log"));
        let stderr = File::options().create(true).append(true).open(&log)?;
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr);
        // SAFETY: prctl is async-signal-safe, and nothing else happens between fork and exec.
        unsafe {
            command.pre_exec(|| {
                // If the comparison is killed, the kernel ends its children.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                Ok(())
            })
        };
        let mut child = command
            .spawn()
            .with_context(|| format!("starting {}", command.get_program().display()))?;
        let (sender, lines) = channel();
        let stdout = child.stdout.take().context("no stdout")?;
        std::thread::spawn(move || {
            // The pipe is read to its end even without a receiver, so that the child never blocks
            // on it.
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Ok(Process {
            stdin: child.stdin.take(),
            child,
            lines,
            log,
        })
    }

    pub(super) fn pid(&self) -> Pid {
        self.child.id() as Pid
    }

    /// Returns the process and its living descendants.
    pub(super) fn tree(&self) -> Vec<Pid> {
        accounting::tree(self.pid())
    }

    /// Returns the next line on stdout; fails after the timeout.
    pub(super) fn line(&self, stop_timeout: Duration) -> anyhow::Result<String> {
        self.lines
            .recv_timeout(stop_timeout)
            .map_err(|_| anyhow::anyhow!("no address on stdout; {}", self.output_tail()))
    }

    /// Finds the address in the first line on stdout.
    pub(super) fn bound_address(&self) -> anyhow::Result<SocketAddr> {
        let line = self.line(FIRST_WORD)?;
        find_address(&line).with_context(|| format!("no address in the first line on stdout: {line}"))
    }

    /// Returns the child's standard input at the first call, `None` later.
    pub(super) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Returns whether the child runs.
    pub(super) fn alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns the end of the log, for an error message.
    pub(super) fn output_tail(&self) -> String {
        let mut text = String::new();
        let read = File::open(&self.log).and_then(|mut file| file.read_to_string(&mut text));
        let lines: Vec<_> = text.lines().rev().take(3).collect();
        match read {
            Ok(_) if !lines.is_empty() => {
                let end: Vec<_> = lines.into_iter().rev().collect();
                format!("{}; its log ends with: {}", self.log.display(), end.join(" | "))
            }
            _ => format!("see {}", self.log.display()),
        }
    }

    /// Sends SIGTERM, then waits up to `stop_timeout` for the child to end by itself.
    pub(super) fn stop(mut self, stop_timeout: Duration) -> anyhow::Result<()> {
        drop(self.stdin.take());
        // SAFETY: a signal to a child that has not been waited for, so the id is still its own.
        unsafe { libc::kill(self.pid(), libc::SIGTERM) };
        let deadline = Instant::now() + stop_timeout;
        while self.alive() {
            if Instant::now() > deadline {
                bail!(
                    "did not stop within {} s of SIGTERM; {}",
                    stop_timeout.as_secs(),
                    self.output_tail()
                );
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.alive() {
            for pid in self.tree() {
                // SAFETY: our own descendants, listed a moment ago.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
            let _ = self.child.wait();
        }
    }
}

/// Finds the first `address:port` in a line of prose or in a URL.
fn find_address(line: &str) -> Option<SocketAddr> {
    line.split(|letter: char| !(letter.is_ascii_hexdigit() || ".:[]".contains(letter)))
        .find_map(|word| word.trim_matches('.').parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_prose() {
        let address = "127.0.0.1:80".parse().ok();
        for line in [
            "127.0.0.1:80",
            "listening on http://127.0.0.1:80/",
            "at http://127.0.0.1:80.",
            "<127.0.0.1:80>",
        ] {
            assert_eq!(find_address(line), address, "{line}");
        }
        assert_eq!(find_address("http://[::1]:9/"), "[::1]:9".parse().ok());
        assert_eq!(find_address("ready"), None);
    }

    #[test]
    fn a_process_is_read_and_stopped() {
        let folder = std::env::temp_dir().join(format!("tollgate-bench-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo http://127.0.0.1:7777; echo oops >&2; exec sleep 60"]);
        let mut process = Process::start(command, &folder, "sh").unwrap();
        assert_eq!(process.bound_address().unwrap().port(), 7777);
        assert!(process.alive());
        let pid = process.pid();
        process.stop(Duration::from_secs(20)).unwrap();
        assert_eq!(accounting::cpu_ns(&[pid]), 0);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
