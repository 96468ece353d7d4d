//! The `tollgate credits` commands.

use clap::{Args, Subcommand, ValueEnum, value_parser};
use tollgate_operations::view::{BalanceView, GrantedView};
use tollgate_operations::{GrantCredits, GrantParams, ListLots, RefundCall, RefundGrant, ShowBalance};
use tollgate_storage::LotTerms;
use tollgate_types::id::TransferId;
use tollgate_types::{Credits, RequestId, Timestamp};

use super::arguments::{AccountArg, instant, request_id};
use super::send::{KNOWN_ACCOUNTS, resolve_account, send};
use super::start;
use crate::cli::Place;
use crate::failure::{Exit, Failure};
use crate::print::{Printer, tables};

const KNOWN_GRANTS: &str = "`tollgate credits list ID` shows an account's grants with their ids.";

/// Subcommands of `tollgate credits`.
#[derive(Debug, Subcommand)]
pub enum Credit {
    /// Grant credits to an account.
    #[command(
        after_help = "Examples:\n  tollgate credits grant acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a 12.5\n  tollgate credits grant acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a 5 --kind promotion --expires-in-days 30 --note \"launch week\"\n  tollgate credits grant acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a 5 --expires-at 2027-01-01 --priority 10\n\nGrants are spent by ascending priority, then by earliest expiry, then by age."
    )]
    Grant {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        id: AccountArg,
        /// Credits to grant, above 0, with at most nine decimals.
        amount: Credits,
        /// Terms of the grant.
        #[command(flatten)]
        terms: Terms,
    },
    /// List grants and refunds with their remaining credits, in the order in which they are spent.
    #[command(
        after_help = "Examples:\n  tollgate credits list acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a\n  tollgate credits list acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --all --json"
    )]
    List {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        id: AccountArg,
        /// Include grants without remaining credits.
        #[arg(long)]
        all: bool,
    },
    /// Refund the charge of a call. Credits return to the balance, and plan allowance returns to
    /// its week while the week is open.
    #[command(
        after_help = "Examples:\n  tollgate credits refund req_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3d --reason \"wrong language\"\n  tollgate credits refund req_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3d --amount 0.5 --key complaint-17\n\nA repeated refund is executed once. A second refund of the same amount needs a --key.\n\nExit code 1 when the call does not exist or is still running, 2 when the amount exceeds the refundable amount."
    )]
    Refund {
        /// The call's request id, from the `x-request-id` response header.
        #[arg(value_parser = request_id)]
        request: RequestId,
        /// Credits to refund, above 0 (default: the full refundable amount). Paid credits are
        /// refunded before allowance.
        #[arg(long, value_name = "CREDITS")]
        amount: Option<Credits>,
        /// Note for operators (at most 200 characters).
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Idempotency key of the refund, at most 200 characters (default: the amount).
        #[arg(long, value_name = "TEXT")]
        key: Option<String>,
    },
    /// Withdraw the unspent part of a purchase or promotion.
    #[command(
        after_help = "Examples:\n  tollgate credits refund-grant xfer_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3e\n\nCredits held by running calls are not withdrawn. Exit code 1 when the grant does not exist, 2 when it is a refund or has no unspent credits."
    )]
    RefundGrant {
        /// Grant id, from `credits list`.
        #[arg(value_parser = grant_id)]
        id: TransferId,
    },
    /// Show an account's available and held credits.
    #[command(
        after_help = "Examples:\n  tollgate credits balance acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --json"
    )]
    Balance {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        id: AccountArg,
    },
}

/// Terms of a grant.
#[derive(Debug, Args)]
pub struct Terms {
    /// Idempotency key of the grant, at most 200 characters. If omitted, each run creates another
    /// grant.
    #[arg(long = "id", id = "grant_id", value_name = "TEXT")]
    pub id: Option<String>,
    /// Origin of the credits.
    #[arg(long, value_enum, default_value_t)]
    pub kind: Kind,
    /// Days until unused credits expire, 1–36500 (default: never).
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=36_500))]
    pub expires_in_days: Option<u32>,
    /// Expiry time of unused credits: RFC 3339, or a date in UTC.
    #[arg(long, value_name = "TIME", value_parser = instant, conflicts_with = "expires_in_days")]
    pub expires_at: Option<Timestamp>,
    /// Spending priority, 0–255. Grants with a lower value are spent first.
    #[arg(long, value_name = "N", default_value_t = LotTerms::PRIORITY)]
    pub priority: u8,
    /// Note for operators (at most 200 characters).
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
}

/// Origin of granted credits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Purchased by the customer.
    #[default]
    Purchase,
    /// Given away by the operator.
    Promotion,
}

/// Runs `tollgate credits`.
pub fn credits(place: Place, command: Credit, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    match command {
        Credit::Grant { id, amount, terms } => {
            let grant = GrantParams {
                key: terms.id,
                amount,
                promotion: terms.kind == Kind::Promotion,
                expires_in_days: terms.expires_in_days,
                expires_at: terms.expires_at,
                priority: Some(terms.priority),
                note: terms.note,
            };
            let account = resolve_account(config, &id)?;
            show_grant(
                send(config, GrantCredits { account, grant }, KNOWN_ACCOUNTS)?,
                printer,
            )?;
        }
        Credit::List { id, all } => {
            let account = resolve_account(config, &id)?;
            let lots = send(config, ListLots { account, all }, KNOWN_ACCOUNTS)?;
            printer.answer(&lots, || tables::lots(&lots))?;
            if lots.is_empty() {
                printer.hint("No credits left. `--all` lists used-up grants; `tollgate credits grant ID AMOUNT` grants more.");
            }
        }
        Credit::Refund {
            request,
            amount,
            reason,
            key,
        } => {
            let command = RefundCall {
                request,
                account: None,
                amount,
                reason,
                key,
            };
            let refund = send(config, command, "")?;
            printer.answer(&refund, || tables::refund(&refund))?;
            if refund.repeated {
                printer.hint(
                    "This refund already exists; nothing changed. To refund the same amount again, pass a new --key.",
                );
            }
        }
        Credit::RefundGrant { id } => {
            let taken = send(config, RefundGrant { id }, KNOWN_GRANTS)?;
            printer.answer(&taken, || tables::withdrawal(&taken))?;
        }
        Credit::Balance { id } => {
            let account = resolve_account(config, &id)?;
            let balance = send(config, ShowBalance { account }, KNOWN_ACCOUNTS)?;
            printer.answer(&balance, || tables::balance(&balance))?;
        }
    }
    Ok(Exit::Fine)
}

fn show_grant(granted: GrantedView, printer: &Printer) -> Result<(), Failure> {
    let balance = BalanceView {
        credits: granted.credits,
        held: granted.held,
        allowance: None,
        spendable: None,
    };
    printer.answer(&granted, || tables::balance(&balance))?;
    if granted.repeated {
        printer.hint("A grant with this id already exists; nothing changed.");
    }
    Ok(())
}

fn grant_id(text: &str) -> Result<TransferId, &'static str> {
    text.parse()
        .map_err(|_| "expected a grant id: xfer_ and 32 hex digits; `tollgate credits list ID` shows the ids")
}
