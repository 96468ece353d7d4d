//! What commands print: tables for people, JSON for programs.

pub mod admin;
pub mod batches;
pub mod decisions;
pub mod receipts;
pub mod tables;

use std::io::{self, ErrorKind, Write};

use serde::Serialize;

use crate::failure::Failure;

/// Where answers go.
#[derive(Clone, Copy, Debug)]
pub struct Printer {
    /// Whether a program reads them.
    pub json: bool,
}

impl Printer {
    /// Prints an answer on stdout: as one line of JSON, or as `people` writes it, with its line ends.
    pub fn answer<T: Serialize>(&self, answer: &T, people: impl FnOnce() -> String) -> Result<(), Failure> {
        let text = if self.json {
            let line = serde_json::to_string(answer);
            line.map_err(|error| Failure::failed(format!("cannot write the answer as JSON: {error}")))? + "\n"
        } else {
            people()
        };
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            // `| head` has read what it wanted.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(Failure::failed(format!("cannot write to stdout: {error}")))
            }
            _ => Ok(()),
        }
    }

    /// Tells people on stderr what else they want to know. Programs are spared it.
    pub fn hint(&self, text: &str) {
        if !self.json {
            say(text);
        }
    }

    /// Says on stderr what went wrong.
    pub fn complain(&self, failure: &Failure) {
        say(&failure.rendered(self.json));
    }
}

fn say(text: &str) {
    // Nothing can be done for a process whose stderr is closed.
    let _ = writeln!(io::stderr().lock(), "{}", text.trim_end());
}
