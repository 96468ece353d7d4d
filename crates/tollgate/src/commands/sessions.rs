//! The `tollgate sessions` commands.

use clap::{Subcommand, value_parser};
use tollgate_operations::{EndRealtimeSession, ListRealtimeSessions};
use tollgate_types::RealtimeSessionId;

use super::arguments::AccountArg;
use super::send::{resolve_filter, send};
use super::start;
use crate::cli::Place;
use crate::failure::{Exit, Failure};
use crate::print::{Printer, sessions as tables};

/// Advice for an unknown session id.
const KNOWN: &str = "`tollgate sessions list` shows the open sessions of the running gateway.";

/// Subcommands of `tollgate sessions`.
#[derive(Debug, Subcommand)]
pub enum Sessions {
    /// List open realtime sessions of the running gateway, newest first.
    #[command(
        after_help = "Examples:\n  tollgate sessions list\n  tollgate sessions list --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --json"
    )]
    List {
        /// Filter by account (default: all).
        #[arg(long, value_name = "ID|NAME")]
        account: Option<AccountArg>,
        /// Maximum number of sessions to list, 1–1000.
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = value_parser!(u32).range(1..=1_000))]
        limit: u32,
    },
    /// End an open realtime session. Its running responses are cancelled and settled.
    #[command(after_help = "Examples:\n  tollgate sessions end rtsess_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a")]
    End {
        /// Session id (rtsess_…).
        #[arg(value_parser = session_id)]
        id: RealtimeSessionId,
    },
}

fn session_id(text: &str) -> Result<RealtimeSessionId, &'static str> {
    text.parse()
        .map_err(|_| "expected a session id: rtsess_ and 32 hex digits; see `tollgate sessions list`")
}

/// Runs `tollgate sessions`.
pub fn sessions(place: Place, command: Sessions, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    match command {
        Sessions::List { account, limit } => {
            let command = ListRealtimeSessions {
                account: resolve_filter(config, account.as_ref())?,
                before: None,
                limit,
            };
            let found = send(config, command, KNOWN)?;
            printer.answer(&found, || tables::sessions(&found))?;
            if found.is_empty() {
                printer.hint("No open realtime sessions on this node.");
            }
        }
        Sessions::End { id } => {
            let ended = send(config, EndRealtimeSession { id }, KNOWN)?;
            printer.answer(&ended, || tables::sessions(std::slice::from_ref(&ended)))?;
        }
    }
    Ok(Exit::Fine)
}
