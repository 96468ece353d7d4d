//! Arguments of `tollgate top-ups`.

use clap::Subcommand;
use tollgate_types::Credits;

use super::AccountArg;

/// Subcommands of `tollgate top-ups`.
#[derive(Debug, Subcommand)]
pub enum TopUps {
    /// Create a checkout page for credits and print its URL.
    #[command(
        after_help = "Examples:\n  tollgate top-ups open acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a 25\n\nThe credits are granted when the payment provider reports the payment."
    )]
    Open {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        id: AccountArg,
        /// Credits to buy, from `payments.min_amount` to `payments.max_amount`.
        credits: Credits,
    },
    /// Create a payment provider page with the account's receipts and cards, and print its URL.
    #[command(after_help = "Examples:\n  tollgate top-ups portal acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a")]
    Portal {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        id: AccountArg,
    },
    /// List the last 200 top-ups, newest first.
    #[command(
        after_help = "Examples:\n  tollgate top-ups list\n  tollgate top-ups list --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --json"
    )]
    List {
        /// Filter by account (default: all).
        #[arg(long, value_name = "ID|NAME")]
        account: Option<AccountArg>,
    },
    /// Check all balances and run due automatic top-ups now, instead of within 30 seconds.
    #[command(after_help = "Examples:\n  tollgate top-ups fill-up")]
    FillUp,
    /// Set, show or disable an account's automatic top-up, which charges the first saved card that
    /// the payment provider lists.
    #[command(
        after_help = "Examples:\n  tollgate top-ups auto acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --below 5 --add 25 --monthly-limit 200\n  tollgate top-ups auto acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a\n  tollgate top-ups auto acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --off\n\nThe card is charged within 30 seconds after the available credits fall below --below. After three consecutive failed charges, automatic top-up pauses until it is set again."
    )]
    Auto {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        id: AccountArg,
        /// Threshold in credits, above 0.
        #[arg(long, value_name = "CREDITS", requires_all = ["add", "monthly_limit"])]
        below: Option<Credits>,
        /// Number of credits that each automatic top-up buys.
        #[arg(long, value_name = "CREDITS", requires = "below")]
        add: Option<Credits>,
        /// Maximum number of credits that automatic top-ups buy per calendar month (UTC).
        #[arg(long, value_name = "CREDITS", requires = "below")]
        monthly_limit: Option<Credits>,
        /// Disable automatic top-up.
        #[arg(long, conflicts_with = "below")]
        off: bool,
    },
}
