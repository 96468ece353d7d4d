//! Output of commands: tables for people, JSON for programs.

pub mod admin;
pub mod batches;
pub mod decisions;
pub mod receipts;
pub mod research;
pub mod sessions;
pub mod tables;

use std::io::{self, ErrorKind, Write};

use serde::Serialize;

use crate::failure::Failure;

/// Prints replies on stdout and messages on stderr.
#[derive(Clone, Copy, Debug)]
pub struct Printer {
    /// Whether the output is JSON (`--json`).
    pub json: bool,
}

impl Printer {
    /// Prints a reply on stdout: as one line of JSON, or as the text that `people` returns. That
    /// text includes its line ends.
    pub fn answer<T: Serialize>(&self, answer: &T, people: impl FnOnce() -> String) -> Result<(), Failure> {
        let text = if self.json {
            let line = serde_json::to_string(answer);
            line.map_err(|error| Failure::failed(format!("cannot write the reply as JSON: {error}")))? + "\n"
        } else {
            people()
        };
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            // The reader closed the pipe, as `| head` does.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(Failure::failed(format!("cannot write to stdout: {error}")))
            }
            _ => Ok(()),
        }
    }

    /// Prints additional information on stderr, unless the output is JSON.
    pub fn hint(&self, text: &str) {
        if !self.json {
            say(text);
        }
    }

    /// Prints a failure on stderr.
    pub fn complain(&self, failure: &Failure) {
        say(&failure.rendered(self.json));
    }
}

fn say(text: &str) {
    // If stderr is closed, the message is lost.
    let _ = writeln!(io::stderr().lock(), "{}", text.trim_end());
}
