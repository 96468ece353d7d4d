//! Commands that a running server carries out when there is one: accounts, keys, credits, models, the ledger, statements.

use tollgate_server::control::view::{BalanceView, CheckView, Reply};
use tollgate_server::control::{self, AccountWish, Command, GrantWish, RunError, SubscriptionWish};
use tollgate_types::{Error, ErrorCode};

use super::start;
use crate::cli::{
    Accounts, Cadence, Compat, Credit, Keys, Kind, Models, Place, Plans, Statements, Subscriptions, Switch,
};
use crate::failure::{Exit, Failure};
use crate::print::{Printer, tables};

/// Where to look for an account.
pub(super) const KNOWN_ACCOUNTS: &str = "`tollgate accounts list` shows those that exist.";
const KNOWN_KEYS: &str = "`tollgate keys list --account ID` shows an account's keys with their ids.";
const KNOWN_GRANTS: &str = "`tollgate credits list ID` shows an account's grants with their ids.";
const KNOWN_SUBSCRIPTIONS: &str =
    "`tollgate subscriptions list --account ID` shows an account's subscriptions with their ids.";

/// `accounts …`.
pub fn accounts(place: Place, command: Accounts, printer: &Printer) -> Result<Exit, Failure> {
    let created = matches!(command, Accounts::Create { .. });
    let command = match command {
        Accounts::Create { name, test_clock } => Command::CreateAccount { name, test_clock },
        Accounts::Advance { id, to } => Command::AdvanceClock { account: id, to },
        Accounts::List => Command::ListAccounts {
            after: None,
            limit: None,
        },
        Accounts::Show { id } => Command::ShowAccount { id },
        Accounts::Rename { id, name } => Command::ChangeAccount {
            id,
            change: AccountWish {
                name: Some(name),
                ..AccountWish::default()
            },
        },
        Accounts::SetLimits { id, limits } => Command::ChangeAccount {
            id,
            change: AccountWish {
                rpm: limits.rpm,
                tpm: limits.tpm,
                keys: limits.keys,
                gpus: limits.gpus,
                agents: limits.agents,
                chats: limits.chats,
                files: limits.files,
                files_gib: limits.files_gib,
                batch_tokens: limits.batch_tokens,
                ..AccountWish::default()
            },
        },
        Accounts::Suspend { id, resume } => Command::ChangeAccount {
            id,
            change: AccountWish {
                suspended: Some(!resume),
                ..AccountWish::default()
            },
        },
    };
    match send(place, command, KNOWN_ACCOUNTS)? {
        // Nothing but the id, so that a shell can take it: id=$(tollgate accounts create acme).
        Reply::Account(account) if created => {
            printer.answer(&account, || format!("{}\n", account.id))?;
            printer.hint(
                "It has no credits and no key yet: `tollgate credits grant ID AMOUNT` and `tollgate keys create --account ID`.",
            );
        }
        Reply::Account(account) => printer.answer(&account, || tables::account(&account))?,
        Reply::Accounts(accounts) => {
            printer.answer(&accounts, || tables::accounts(&accounts))?;
            if accounts.is_empty() {
                printer.hint("There are no accounts yet; `tollgate accounts create NAME` makes one.");
            }
        }
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}

/// `keys …`.
pub fn keys(place: Place, command: Keys, printer: &Printer) -> Result<Exit, Failure> {
    let (command, known) = match command {
        Keys::Create {
            account,
            name,
            expires_in_days,
            compat,
            test,
            sync,
        } => (
            Command::CreateKey {
                account,
                name,
                expires_in_days,
                lenient: compat == Compat::Lenient,
                test,
                sync,
            },
            KNOWN_ACCOUNTS,
        ),
        Keys::List { account } => (Command::ListKeys { account }, KNOWN_ACCOUNTS),
        Keys::SetCompat { id, compat } => (
            Command::ChangeKey {
                id,
                lenient: Some(compat == Compat::Lenient),
                sync: None,
            },
            KNOWN_KEYS,
        ),
        Keys::SetSync { id, sync } => (
            Command::ChangeKey {
                id,
                lenient: None,
                sync: Some(sync == Switch::On),
            },
            KNOWN_KEYS,
        ),
        Keys::Revoke { id } => (Command::RevokeKey { id }, KNOWN_KEYS),
    };
    match send(place, command, known)? {
        Reply::CreatedKey(created) => {
            printer.answer(&created, || format!("{}\n", created.key))?;
            printer.hint(&format!(
                "This is {}. It is shown this once: store it where the application reads its secrets.",
                created.id
            ));
        }
        Reply::Key(key) => printer.answer(&key, || tables::keys(std::slice::from_ref(&key)))?,
        Reply::Keys(keys) => {
            printer.answer(&keys, || tables::keys(&keys))?;
            if keys.is_empty() {
                printer.hint("The account has no keys; `tollgate keys create --account ID` makes one.");
            }
        }
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}

/// `credits …`.
pub fn credits(place: Place, command: Credit, printer: &Printer) -> Result<Exit, Failure> {
    let command = match command {
        Credit::Grant { id, amount, terms } => Command::Grant {
            account: id,
            grant: GrantWish {
                key: terms.id,
                amount,
                promotion: terms.kind == Kind::Promotion,
                expires_in_days: terms.expires_in_days,
                expires_at: terms.expires_at,
                priority: Some(terms.priority),
                note: terms.note,
            },
        },
        Credit::List { id, all } => Command::ListLots { account: id, all },
        Credit::Refund {
            request,
            amount,
            reason,
            key,
        } => Command::Refund {
            request,
            account: None,
            amount,
            reason,
            key,
        },
        Credit::RefundGrant { id } => Command::RefundGrant { id },
        Credit::Balance { id } => Command::ShowBalance { account: id },
    };
    let known = match command {
        Command::Refund { .. } => "",
        Command::RefundGrant { .. } => KNOWN_GRANTS,
        _ => KNOWN_ACCOUNTS,
    };
    match send(place, command, known)? {
        Reply::Balance(balance) => printer.answer(&balance, || tables::balance(&balance))?,
        Reply::Granted(granted) => {
            let balance = BalanceView {
                credits: granted.credits,
                held: granted.held,
            };
            printer.answer(&granted, || tables::balance(&balance))?;
            if granted.repeated {
                printer.hint("It was granted before; nothing was granted now.");
            }
        }
        Reply::Lots(lots) => {
            printer.answer(&lots, || tables::lots(&lots))?;
            if lots.is_empty() {
                printer.hint("Nothing is left; `--all` lists what is used up, `tollgate credits grant ID AMOUNT` grants more.");
            }
        }
        Reply::Refund(refund) => {
            printer.answer(&refund, || tables::refund(&refund))?;
            if refund.repeated {
                printer.hint("It was given back before; nothing was given back now. Another refund of the same amount needs a --key.");
            }
        }
        Reply::Withdrawal(taken) => printer.answer(&taken, || tables::withdrawal(&taken))?,
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}

/// `plans …`.
pub fn plans(place: Place, command: Plans, printer: &Printer) -> Result<Exit, Failure> {
    let Plans::List = command;
    match send(place, Command::ListPlans, "")? {
        Reply::Plans(plans) => printer.answer(&plans, || tables::plans(&plans))?,
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}

/// `subscriptions …`.
pub fn subscriptions(place: Place, command: Subscriptions, printer: &Printer) -> Result<Exit, Failure> {
    let change = |id, wish| (Command::ChangeSubscription { id, wish }, KNOWN_SUBSCRIPTIONS);
    let (command, known) = match command {
        Subscriptions::Create {
            account,
            plan,
            cadence,
        } => {
            let cadence = cadence.map(named);
            let command = Command::Subscribe {
                account,
                plan,
                cadence,
            };
            (command, KNOWN_ACCOUNTS)
        }
        Subscriptions::Open {
            account,
            plan,
            cadence,
        } => {
            let cadence = cadence.map(named);
            let command = Command::OpenSubscription {
                account,
                plan,
                cadence,
            };
            (command, KNOWN_ACCOUNTS)
        }
        Subscriptions::ChangePlan { id, plan, cadence } => {
            let cadence = cadence.map(named);
            (Command::ChangePlan { id, plan, cadence }, KNOWN_SUBSCRIPTIONS)
        }
        Subscriptions::List { account } => (Command::ListSubscriptions { account }, KNOWN_ACCOUNTS),
        Subscriptions::Show { id } => (Command::ShowSubscription { id }, KNOWN_SUBSCRIPTIONS),
        Subscriptions::Cancel { id } => change(id, SubscriptionWish::Cancel),
        Subscriptions::Resume { id } => change(id, SubscriptionWish::Resume),
        Subscriptions::Renew { id } => change(id, SubscriptionWish::Renew),
    };
    match send(place, command, known)? {
        Reply::Subscription(found) => printer.answer(&found, || tables::subscription(&found))?,
        // Nothing but the address, so that a shell can take it.
        Reply::Page(page) => printer.answer(&page, || format!("{}\n", page.url))?,
        Reply::Subscriptions(found) => {
            printer.answer(&found, || tables::subscriptions(&found))?;
            if found.is_empty() {
                printer.hint("The account has none; `tollgate subscriptions create --account ID --plan NAME` makes one.");
            }
        }
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}

fn named(cadence: Cadence) -> String {
    match cadence {
        Cadence::Monthly => "monthly".to_owned(),
        Cadence::Yearly => "yearly".to_owned(),
    }
}

/// `models …`.
pub fn models(place: Place, command: Models, printer: &Printer) -> Result<Exit, Failure> {
    let Models::List = command;
    match send(place, Command::ListModels, "")? {
        Reply::Models(models) => printer.answer(&models, || tables::models(&models))?,
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}

/// `statements …`. One that does not add up has the exit code of a check that found faults.
pub fn statements(place: Place, command: Statements, printer: &Printer) -> Result<Exit, Failure> {
    let Statements::Show { account, month } = command;
    match send(place, Command::ShowStatement { account, month }, KNOWN_ACCOUNTS)? {
        Reply::Statement(statement) => {
            printer.answer(&statement, || tables::statement(&statement))?;
            let adds_up = statement.faults.is_empty();
            Ok(if adds_up { Exit::Fine } else { Exit::Faults })
        }
        other => Err(unexpected(&other)),
    }
}

/// `ledger check`.
pub fn check_ledger(place: Place, reprice: bool, printer: &Printer) -> Result<Exit, Failure> {
    match send(place, Command::CheckLedger { reprice }, "")? {
        Reply::Check(check) => {
            printer.answer(&check, || tables::check(&check))?;
            Ok(verdict(&check))
        }
        other => Err(unexpected(&other)),
    }
}

fn verdict(check: &CheckView) -> Exit {
    if check.clean { Exit::Fine } else { Exit::Faults }
}

/// Carries out a command, here or in the server that has the data; `known` says where to look when what it names does
/// not exist.
pub(super) fn send(place: Place, command: Command, known: &str) -> Result<Reply, Failure> {
    let config = start(place)?;
    control::run(&config, command).map_err(|error| refused(error, known))
}

/// Why a command was not carried out, with where to look when what it names does not exist.
pub(super) fn refused(error: RunError, known: &str) -> Failure {
    match error {
        RunError::Settings(error) => error.into(),
        RunError::Command(error) => advised(error, known),
    }
}

fn advised(error: Error, known: &str) -> Failure {
    let missing = error.code == ErrorCode::NotFound && !known.is_empty();
    let failure = Failure::from(error);
    if missing {
        failure.with_advice(known)
    } else {
        failure
    }
}

/// An answer that was not asked for.
pub(super) fn unexpected(reply: &Reply) -> Failure {
    // Only another version of the server can answer like this; what it said may be a secret.
    let kind = match reply {
        Reply::CreatedKey(_) | Reply::Key(_) | Reply::Keys(_) => "about keys",
        Reply::Account(_) | Reply::Accounts(_) | Reply::Balance(_) => "about accounts",
        Reply::Granted(_)
        | Reply::Lots(_)
        | Reply::Refund(_)
        | Reply::Withdrawal(_)
        | Reply::Page(_)
        | Reply::TopUps(_)
        | Reply::Alert(_)
        | Reply::Notices(_)
        | Reply::Done
        | Reply::AutoTopUp(_) => "about credits",
        Reply::Batches(_) | Reply::Batch(_) => "about batches",
        Reply::Plans(_) | Reply::Subscription(_) | Reply::Subscriptions(_) => "about plans",
        Reply::Transfers(_) | Reply::UsageRows(_) | Reply::Statement(_) => "about the books",
        Reply::Models(_) => "about models",
        Reply::Check(_) => "about the ledger",
        Reply::LedgerAudit(_) => "about charges",
        Reply::Receipt(_) => "about a charge",
        Reply::CreatedAdmin(_) | Reply::Admin(_) | Reply::Admins(_) => "about administrators",
        Reply::Audit(_) => "about the audit log",
        Reply::Member(_) | Reply::Members(_) => "about members",
        Reply::Providers(_) => "about providers",
        Reply::Prices(_) | Reply::PriceHistory(_) | Reply::PriceCheck(_) => "about prices",
    };
    Failure::failed(format!(
        "The server answered {kind}, which was not asked. Use the command line of the server's own version."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_exist_is_told_with_where_to_look() {
        let failure = advised(
            Error::new(ErrorCode::NotFound, "There is no such account."),
            KNOWN_ACCOUNTS,
        );
        assert!(
            failure.message.ends_with("shows those that exist."),
            "{}",
            failure.message
        );
        let failure = advised(Error::new(ErrorCode::Overloaded, "Busy."), KNOWN_ACCOUNTS);
        assert_eq!(failure.message, "Busy.");
    }

    #[test]
    fn a_broken_promise_has_an_exit_code_of_its_own() {
        let report = tollgate_server::control::view::CheckView {
            clean: false,
            accounts: 1,
            transfers: 0,
            usage_rows: 0,
            open_holds: 0,
            revenue: Default::default(),
            overrun: Default::default(),
            crashed: 0,
            chain_heads: 1,
            unchained: 0,
            fault_count: 1,
            faults: vec!["I1: the balances do not sum to zero".to_owned()],
        };
        assert_eq!(verdict(&report), Exit::Faults);
        assert_eq!(
            verdict(&CheckView {
                clean: true,
                ..report
            }),
            Exit::Fine
        );
    }
}
