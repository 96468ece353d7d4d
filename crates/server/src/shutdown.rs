//! When to stop: SIGTERM or SIGINT once to stop gracefully, twice to stop soon.

use anyhow::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask the process to stop.
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// By a service manager: load balancers are given time to notice.
    Terminate,
    /// By a person at a terminal.
    Interrupt,
}

impl StopSignals {
    /// Listens for them.
    pub fn new() -> Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// The next one.
    pub async fn next(&mut self) -> Stop {
        tokio::select! {
            _ = self.terminate.recv() => Stop::Terminate,
            _ = self.interrupt.recv() => Stop::Interrupt,
        }
    }
}
