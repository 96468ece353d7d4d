//! The `tollgate plans` and `tollgate subscriptions` commands.

use clap::{Subcommand, ValueEnum};
use tollgate_operations::view::SubscriptionView;
use tollgate_operations::{
    ChangePlan, ChangeSubscription, ListPlans, ListSubscriptions, OpenSubscription, ShowSubscription,
    Subscribe, SubscriptionAction,
};
use tollgate_types::SubscriptionId;

use super::arguments::AccountArg;
use super::send::{KNOWN_ACCOUNTS, resolve_account, send};
use super::start;
use crate::cli::Place;
use crate::failure::{Exit, Failure};
use crate::print::{Printer, tables};

const KNOWN_SUBSCRIPTIONS: &str =
    "`tollgate subscriptions list --account ID` shows an account's subscriptions with their ids.";

/// Subcommands of `tollgate plans`.
#[derive(Debug, Subcommand)]
pub enum Plans {
    /// List plans with their price per period and weekly allowance, in credits.
    #[command(after_help = "Examples:\n  tollgate plans list\n  tollgate plans list --json")]
    List,
}

/// Subcommands of `tollgate subscriptions`.
#[derive(Debug, Subcommand)]
pub enum Subscriptions {
    /// Subscribe an account to a plan.
    ///
    /// A plan with payer = "credits" is charged for the first period immediately. A plan with payer
    /// = "provider" starts without a charge; record each further paid period with
    /// `subscriptions renew`.
    #[command(
        after_help = "Examples:\n  tollgate subscriptions create --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --plan pro\n  tollgate subscriptions create --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --plan lite --cadence yearly"
    )]
    Create {
        /// Account id, or account name if unique.
        #[arg(long, value_name = "ID|NAME")]
        account: AccountArg,
        /// Plan name, as in `plans list`.
        #[arg(long, value_name = "NAME")]
        plan: String,
        /// Billing period (default: the plan's). A year of a monthly plan costs twelve times the
        /// monthly price.
        #[arg(long, value_enum)]
        cadence: Option<Cadence>,
    },
    /// Change the plan of a subscription.
    ///
    /// A plan starts immediately, as a new subscription, if it has at least the same allowance and
    /// period length and its price covers the unused part of the current period, which is credited.
    /// Other plans start with the next period. Pass the current plan and cadence to undo a
    /// scheduled change.
    #[command(
        after_help = "Examples:\n  tollgate subscriptions change-plan sub_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3c --plan max\n  tollgate subscriptions change-plan sub_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3c --plan lite --cadence yearly"
    )]
    ChangePlan {
        /// Subscription id (sub_…).
        #[arg(value_parser = subscription_id)]
        id: SubscriptionId,
        /// Plan name, as in `plans list`.
        #[arg(long, value_name = "NAME")]
        plan: String,
        /// Billing period (default: the plan's).
        #[arg(long, value_enum)]
        cadence: Option<Cadence>,
    },
    /// Create a checkout page for a plan billed by the payment provider, and print its URL.
    ///
    /// The plan must have payer = "provider". The account's earlier checkout pages for plans
    /// become invalid.
    #[command(
        after_help = "Examples:\n  tollgate subscriptions open --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --plan team\n\nThe plan starts when the payment provider reports the payment, and renews with each further payment."
    )]
    Open {
        /// Account id, or account name if unique.
        #[arg(long, value_name = "ID|NAME")]
        account: AccountArg,
        /// Plan name, as in `plans list`.
        #[arg(long, value_name = "NAME")]
        plan: String,
        /// Billing period (default: the plan's). A year of a monthly plan costs twelve times the
        /// monthly price.
        #[arg(long, value_enum)]
        cadence: Option<Cadence>,
    },
    /// List an account's subscriptions, newest first.
    #[command(
        after_help = "Examples:\n  tollgate subscriptions list --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a"
    )]
    List {
        /// Account id, or account name if unique.
        #[arg(long, value_name = "ID|NAME")]
        account: AccountArg,
    },
    /// Show a subscription with its current week and events.
    #[command(after_help = "Examples:\n  tollgate subscriptions show sub_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3c")]
    Show {
        /// Subscription id (sub_…).
        #[arg(value_parser = subscription_id)]
        id: SubscriptionId,
    },
    /// Cancel a subscription at the end of the paid period. It can be resumed until then.
    #[command(after_help = "Examples:\n  tollgate subscriptions cancel sub_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3c")]
    Cancel {
        /// Subscription id (sub_…).
        #[arg(value_parser = subscription_id)]
        id: SubscriptionId,
    },
    /// Resume a subscription that is scheduled for cancellation.
    #[command(after_help = "Examples:\n  tollgate subscriptions resume sub_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3c")]
    Resume {
        /// Subscription id (sub_…).
        #[arg(value_parser = subscription_id)]
        id: SubscriptionId,
    },
    /// Renew a subscription for the next period now.
    ///
    /// If the plan has payer = "credits", the command charges the period. If the plan has payer =
    /// "provider", the command records that the period was paid, and charges nothing.
    #[command(after_help = "Examples:\n  tollgate subscriptions renew sub_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3c")]
    Renew {
        /// Subscription id (sub_…).
        #[arg(value_parser = subscription_id)]
        id: SubscriptionId,
    },
}

/// Length of a billing period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cadence {
    /// One calendar month.
    Monthly,
    /// One calendar year.
    Yearly,
}

/// Runs `tollgate plans`.
pub fn plans(place: Place, command: Plans, printer: &Printer) -> Result<Exit, Failure> {
    let Plans::List = command;
    let plans = send(&start(place)?, ListPlans, "")?;
    printer.answer(&plans, || tables::plans(&plans))?;
    Ok(Exit::Fine)
}

/// Runs `tollgate subscriptions`.
pub fn subscriptions(place: Place, command: Subscriptions, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    let show = |found: SubscriptionView| printer.answer(&found, || tables::subscription(&found));
    let change = |id: SubscriptionId, action| {
        show(send(
            config,
            ChangeSubscription { id, action },
            KNOWN_SUBSCRIPTIONS,
        )?)
    };
    match command {
        Subscriptions::Create {
            account,
            plan,
            cadence,
        } => {
            let command = Subscribe {
                account: resolve_account(config, &account)?,
                plan,
                cadence: cadence.map(named),
            };
            show(send(config, command, KNOWN_ACCOUNTS)?)?;
        }
        Subscriptions::Open {
            account,
            plan,
            cadence,
        } => {
            let command = OpenSubscription {
                account: resolve_account(config, &account)?,
                plan,
                cadence: cadence.map(named),
            };
            // Prints only the URL, for shell substitution.
            let page = send(config, command, KNOWN_ACCOUNTS)?;
            printer.answer(&page, || format!("{}\n", page.url))?;
        }
        Subscriptions::ChangePlan { id, plan, cadence } => {
            let cadence = cadence.map(named);
            show(send(
                config,
                ChangePlan { id, plan, cadence },
                KNOWN_SUBSCRIPTIONS,
            )?)?;
        }
        Subscriptions::List { account } => {
            let account = resolve_account(config, &account)?;
            let found = send(config, ListSubscriptions { account }, KNOWN_ACCOUNTS)?;
            printer.answer(&found, || tables::subscriptions(&found))?;
            if found.is_empty() {
                printer.hint("No subscriptions. Create one with `tollgate subscriptions create --account ID --plan NAME`.");
            }
        }
        Subscriptions::Show { id } => show(send(config, ShowSubscription { id }, KNOWN_SUBSCRIPTIONS)?)?,
        Subscriptions::Cancel { id } => change(id, SubscriptionAction::Cancel)?,
        Subscriptions::Resume { id } => change(id, SubscriptionAction::Resume)?,
        Subscriptions::Renew { id } => change(id, SubscriptionAction::Renew)?,
    }
    Ok(Exit::Fine)
}

fn named(cadence: Cadence) -> String {
    match cadence {
        Cadence::Monthly => "monthly".to_owned(),
        Cadence::Yearly => "yearly".to_owned(),
    }
}

fn subscription_id(text: &str) -> Result<SubscriptionId, &'static str> {
    let advice =
        "expected a subscription id: sub_ and 32 hex digits; see `tollgate subscriptions list --account ID`";
    text.parse().map_err(|_| advice)
}
