//! `batches`.

use clap::{Subcommand, value_parser};
use tollgate_types::{AccountId, BatchId, MessageBatchId};

use super::account_id;

/// `batches`.
#[derive(Debug, Subcommand)]
pub enum Batches {
    /// Lists batches, newest first, with how far they are.
    #[command(
        after_help = "Examples:\n  tollgate batches list\n  tollgate batches list --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --limit 200 --json"
    )]
    List {
        /// The account whose they are; of all when it is not said.
        #[arg(long, value_name = "ID", value_parser = account_id)]
        account: Option<AccountId>,
        /// How many.
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = value_parser!(u32).range(1..=1_000))]
        limit: u32,
    },
    /// Shows a batch.
    #[command(
        after_help = "Examples:\n  tollgate batches show batch_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a\n  tollgate batches show msgbatch_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --json"
    )]
    Show {
        /// Its id.
        #[arg(value_parser = batch_id)]
        id: BatchId,
    },
}

/// A batch by its id in either format.
fn batch_id(text: &str) -> Result<BatchId, &'static str> {
    let of_messages = |_| {
        text.parse::<MessageBatchId>()
            .map(|id| BatchId::from_u128(id.as_u128()))
    };
    text.parse().or_else(of_messages).map_err(
        |_| "a batch's id is batch_ or msgbatch_ and 32 characters; `tollgate batches list` shows them",
    )
}
