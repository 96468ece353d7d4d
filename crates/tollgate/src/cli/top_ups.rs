//! `top-ups`.

use clap::Subcommand;
use tollgate_types::{AccountId, Credits};

use super::account_id;

/// `top-ups`.
#[derive(Debug, Subcommand)]
pub enum TopUps {
    /// Opens a page of the payment provider on which credits are paid for, and prints its address.
    #[command(
        after_help = "Examples:\n  tollgate top-ups open acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a 25\n\nThe credits are there when the provider has said that they are paid."
    )]
    Open {
        /// The account's id.
        #[arg(value_parser = account_id)]
        id: AccountId,
        /// Credits, within `payments.least` and `payments.most`.
        credits: Credits,
    },
    /// Opens the payment provider's page with an account's receipts and cards, and prints its address.
    #[command(after_help = "Examples:\n  tollgate top-ups portal acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a")]
    Portal {
        /// The account's id.
        #[arg(value_parser = account_id)]
        id: AccountId,
    },
    /// Lists the last 200 top-ups, newest first.
    #[command(
        after_help = "Examples:\n  tollgate top-ups list\n  tollgate top-ups list --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --json"
    )]
    List {
        /// The account whose they are; of all when it is not said.
        #[arg(long, value_name = "ID", value_parser = account_id)]
        account: Option<AccountId>,
    },
    /// Looks at all balances that fill themselves up now, instead of within 30 seconds.
    #[command(after_help = "Examples:\n  tollgate top-ups fill-up")]
    FillUp,
    /// Fills a balance up by itself, from the card that paid last; shows or stops it.
    #[command(
        after_help = "Examples:\n  tollgate top-ups auto acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --below 5 --add 25 --monthly-limit 200\n  tollgate top-ups auto acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a\n  tollgate top-ups auto acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --off\n\nThe card is charged within 30 seconds after less than --below can be spent. After three charges in a row that fail no\nfurther one is tried until this is set again."
    )]
    Auto {
        /// The account's id.
        #[arg(value_parser = account_id)]
        id: AccountId,
        /// When less than this can be spent.
        #[arg(long, value_name = "CREDITS", requires_all = ["add", "monthly_limit"])]
        below: Option<Credits>,
        /// By how many credits.
        #[arg(long, value_name = "CREDITS", requires = "below")]
        add: Option<Credits>,
        /// The most credits of a calendar month, in UTC.
        #[arg(long, value_name = "CREDITS", requires = "below")]
        monthly_limit: Option<Credits>,
        /// Stops it.
        #[arg(long, conflicts_with = "below")]
        off: bool,
    },
}
