//! The command `tollgate move`.

use clap::Args;
use tollgate_server::moving::{self, MoveError, TransferProgress};
use tollgate_types::Clock;
use tollgate_types::clock::SystemClock;

use super::start;
use crate::cli::Place;
use crate::failure::{Exit, Failure};
use crate::print::{Printer, tables};

/// Interval between two progress lines of one table.
const REPORT_INTERVAL_MICROS: u64 = 2_000_000;

/// Minimum duration for a meaningful rate.
const LONG_MICROS: u64 = 200_000;

/// Arguments of `tollgate move`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tollgate move --from sqlite:/var/lib/tollgate/tollgate.db --to postgres://tollgate@db/tollgate
  tollgate move --from postgres://tollgate@db/tollgate --to sqlite:/var/lib/tollgate-new/tollgate.db --json

Stop every gateway first. The source is only read; with SQLite its journal is applied, as at any \
start. The target must be empty: a PostgreSQL database on which `tollgate migrate` was run, or a \
directory without a SQLite database. It receives everything or nothing; after a failure, run the \
command again. Every row is read back and compared, and the target's ledger is checked.

Pass the password in PGPASSWORD or ~/.pgpass: `ps` shows the URLs of the command line.

Exit code 1 on failure, 2 when the source or the target cannot be used, 3 when the moved ledger \
has faults; the source has the same ones.")]
pub struct Move {
    /// Source database: sqlite:DIR/tollgate.db or postgres://user@host:5432/database.
    #[arg(long, value_name = "URL")]
    pub from: String,
    /// Target database: an empty database of the other engine, in the same URL form.
    #[arg(long, value_name = "URL")]
    pub to: String,
}

/// Runs `tollgate move`.
pub fn run(place: Place, command: &Move, printer: &Printer) -> Result<Exit, Failure> {
    let config = start(place)?;
    let clock = SystemClock::default();
    let mut progress = Progress {
        printer,
        clock: &clock,
        started: clock.monotonic_micros(),
        reported: clock.monotonic_micros(),
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

/// Printer of the progress of a move on stderr.
struct Progress<'p> {
    printer: &'p Printer,
    clock: &'p dyn Clock,
    /// Start time of the current table, in monotonic microseconds.
    started: u64,
    reported: u64,
}

impl Progress<'_> {
    fn tell(&mut self, step: TransferProgress<'_>) {
        let now = self.clock.monotonic_micros();
        if let TransferProgress::Copying(_, 0) = step {
            self.started = now;
        }
        let is_due = now.saturating_sub(self.reported) >= REPORT_INTERVAL_MICROS;
        let (what, table, rows) = match step {
            TransferProgress::Copied(table, rows) => ("copied", table, rows),
            TransferProgress::Copying(table, rows) if is_due => ("copying", table, rows),
            TransferProgress::Comparing(table, rows) if is_due => ("comparing", table, rows),
            _ => return,
        };
        self.reported = now;
        let taken = now.saturating_sub(self.started);
        let rate = match step {
            TransferProgress::Copied(..) | TransferProgress::Copying(..) if taken >= LONG_MICROS => {
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
