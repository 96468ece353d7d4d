//! The command `tollgate corpus`.

use clap::Subcommand;
use tollgate_operations::research::CorpusView;
use tollgate_server::corpora;

use super::check::block_on;
use super::start;
use crate::cli::Place;
use crate::failure::{Exit, Failure};
use crate::print::{Printer, tables};

/// Number of files between two progress lines.
const REPORT_INTERVAL: u64 = 1_000;

/// Subcommands of `tollgate corpus`.
#[derive(Debug, Subcommand)]
pub enum Corpus {
    /// List the configured corpora with their indexes.
    #[command(after_help = "Examples:\n  tollgate corpus list\n  tollgate corpus list --json")]
    List,
    /// Build the index of a corpus.
    ///
    /// A running gateway indexes changed files within a minute. Use this command to build the index
    /// before the gateway starts, or after a change that the gateway did not detect.
    #[command(after_help = "Examples:\n  tollgate corpus rebuild handbook")]
    Rebuild {
        /// Name of the corpus: NAME of `[corpora.NAME]`.
        name: String,
    },
}

/// Runs `tollgate corpus`.
pub fn corpus(place: Place, command: Corpus, printer: &Printer) -> Result<Exit, Failure> {
    let config = start(place)?;
    match command {
        Corpus::List => {
            let states = corpora::list(&config)?;
            printer.answer(&states, || tables::corpora(&states))?;
        }
        Corpus::Rebuild { name } => {
            let reporter = Printer { json: printer.json };
            let progress = move |files: u64, total: u64| {
                if files.is_multiple_of(REPORT_INTERVAL) && files < total {
                    reporter.hint(&format!("indexed {files} of {total} files"));
                }
            };
            let built = block_on(corpora::rebuild(&config, &name, progress))??;
            printer.answer(&built, || summary(&built))?;
        }
    }
    Ok(Exit::Fine)
}

fn summary(built: &CorpusView) -> String {
    let skipped = match built.skipped {
        0 => String::new(),
        skipped => format!("; skipped {skipped} files or documents"),
    };
    format!(
        "indexed {} documents in {} passages{skipped}\n",
        built.documents, built.passages
    )
}
