//! Stop signals: the first SIGTERM or SIGINT starts a graceful stop, the second one a stop within
//! seconds.

use anyhow::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The stop signals of the process.
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

/// The stop signal that a process received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// SIGTERM, usually from a service manager. The server delays the stop so that load balancers
    /// can detect it.
    Terminate,
    /// SIGINT, usually from a terminal.
    Interrupt,
}

impl Stop {
    /// Returns the name of the signal.
    pub fn as_str(self) -> &'static str {
        match self {
            Stop::Terminate => "SIGTERM",
            Stop::Interrupt => "SIGINT",
        }
    }
}

impl StopSignals {
    /// Registers the signal handlers.
    pub fn new() -> Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next SIGTERM or SIGINT.
    pub async fn next(&mut self) -> Stop {
        tokio::select! {
            _ = self.terminate.recv() => Stop::Terminate,
            _ = self.interrupt.recv() => Stop::Interrupt,
        }
    }
}
