//! `alerts`.

use clap::Subcommand;
use tollgate_types::{AccountId, Credits};

use super::account_id;

/// `alerts`.
#[derive(Debug, Subcommand)]
pub enum Alerts {
    /// Tells an account that its balance is low, by a signed POST, by mail, or both.
    #[command(
        after_help = "Examples:\n  tollgate alerts set acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --below 5 --webhook https://example.com/hooks/tollgate\n  tollgate alerts set acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --below 5 --email billing@example.com\n\nIt is told once, within 30 seconds after less than --below can be spent, and again when it was not low in between.\nMail needs [mail] in the settings."
    )]
    Set {
        /// The account's id.
        #[arg(value_parser = account_id)]
        id: AccountId,
        /// When less than this can be spent.
        #[arg(long, value_name = "CREDITS")]
        below: Credits,
        /// An address to post to; it must be public, or allowed by egress.allow.
        #[arg(long, value_name = "URL")]
        webhook: Option<String>,
        /// A mailbox.
        #[arg(long, value_name = "ADDRESS")]
        email: Option<String>,
        /// Signs posts with another secret from now on.
        #[arg(long)]
        new_secret: bool,
    },
    /// Shows when an account is told, where, and the secret that posts are signed with.
    #[command(after_help = "Examples:\n  tollgate alerts show acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a")]
    Show {
        /// The account's id.
        #[arg(value_parser = account_id)]
        id: AccountId,
    },
    /// Tells an account nothing any more. What is still to be sent is not sent.
    #[command(after_help = "Examples:\n  tollgate alerts remove acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a")]
    Remove {
        /// The account's id.
        #[arg(value_parser = account_id)]
        id: AccountId,
    },
    /// Lists what an account was told in the last 30 days, newest first, and what became of it.
    #[command(after_help = "Examples:\n  tollgate alerts list acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --json")]
    List {
        /// The account's id.
        #[arg(value_parser = account_id)]
        id: AccountId,
    },
    /// Looks at all balances now, instead of within 30 seconds, and sends what is due.
    #[command(after_help = "Examples:\n  tollgate alerts send")]
    Send,
}
