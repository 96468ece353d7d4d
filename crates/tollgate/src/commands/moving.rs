//! `move`.

use tollgate_server::moving::{self, MoveError, Step};
use tollgate_types::Clock;
use tollgate_types::clock::SystemClock;

use super::start;
use crate::cli::{Move, Place};
use crate::failure::{Exit, Failure};
use crate::print::{Printer, tables};

/// Between two words about a table that takes long.
const TOLD_EVERY_MICROS: u64 = 2_000_000;

/// How long a table takes at least for its pace to mean something.
const LONG_MICROS: u64 = 200_000;

/// Moves an installation to the other engine.
pub fn run(place: Place, command: &Move, printer: &Printer) -> Result<Exit, Failure> {
    let config = start(place)?;
    let clock = SystemClock::default();
    let mut progress = Progress {
        printer,
        clock: &clock,
        begun: clock.monotonic_micros(),
        told: clock.monotonic_micros(),
    };
    let moved = moving::run(&config, &command.from, &command.to, &mut |step| {
        progress.tell(step)
    });
    let moved = moved.map_err(|error| match error {
        MoveError::Settings(error) => Failure::from(error),
        MoveError::Refused(why) => Failure::usage(why),
        MoveError::Failed(error) => Failure::from(error),
    })?;
    printer.answer(&moved, || tables::moved(&moved))?;
    Ok(if moved.ledger.clean {
        Exit::Fine
    } else {
        Exit::Faults
    })
}

/// Says on stderr how far it is.
struct Progress<'p> {
    printer: &'p Printer,
    clock: &'p dyn Clock,
    /// When the table was begun.
    begun: u64,
    told: u64,
}

impl Progress<'_> {
    fn tell(&mut self, step: Step<'_>) {
        let now = self.clock.monotonic_micros();
        if let Step::Copying(_, 0) = step {
            self.begun = now;
        }
        let is_due = now.saturating_sub(self.told) >= TOLD_EVERY_MICROS;
        let (what, table, rows) = match step {
            Step::Copied(table, rows) => ("copied", table, rows),
            Step::Copying(table, rows) if is_due => ("copying", table, rows),
            Step::Comparing(table, rows) if is_due => ("comparing", table, rows),
            _ => return,
        };
        self.told = now;
        let taken = now.saturating_sub(self.begun);
        let rate = match step {
            Step::Copied(..) | Step::Copying(..) if taken >= LONG_MICROS => {
                format!(", {} rows/s", per_second(rows, taken))
            }
            _ => String::new(),
        };
        self.printer
            .hint(&format!("{what:9} {table:20} {rows:>12} rows{rate}"));
    }
}

fn per_second(rows: u64, micros: u64) -> u64 {
    let rate = u128::from(rows) * 1_000_000 / u128::from(micros.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}
