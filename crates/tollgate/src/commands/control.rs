//! Commands for accounts, keys, credits, models, the ledger and statements. If a server is running,
//! it executes them.

use tollgate_operations::view::{AccountView, BalanceView, CheckView, Reply};
use tollgate_operations::{AccountUpdate, Command, GrantParams, SubscriptionAction};
use tollgate_server::Config;
use tollgate_server::control::{self, RunError};
use tollgate_types::{AccountId, Error, ErrorCode};

use super::start;
use crate::cli::{
    AccountArg, Accounts, Cadence, Credit, Keys, Kind, Models, Place, Plans, Statements, Subscriptions,
    Switch,
};
use crate::failure::{Exit, Failure};
use crate::print::{Printer, tables};

/// Advice for an unknown account.
pub(super) const KNOWN_ACCOUNTS: &str = "`tollgate accounts list` shows the existing accounts.";
const KNOWN_KEYS: &str = "`tollgate keys list --account ID` shows an account's keys with their ids.";
const KNOWN_GRANTS: &str = "`tollgate credits list ID` shows an account's grants with their ids.";
const KNOWN_SUBSCRIPTIONS: &str =
    "`tollgate subscriptions list --account ID` shows an account's subscriptions with their ids.";

/// Runs `tollgate accounts`.
pub fn accounts(place: Place, command: Accounts, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    let created = matches!(command, Accounts::Create { .. });
    let command = match command {
        Accounts::Create { name, test_clock } => Command::CreateAccount { name, test_clock },
        Accounts::Advance { id, to } => Command::AdvanceClock {
            account: resolve_account(config, &id)?,
            to,
        },
        Accounts::List => Command::ListAccounts {
            after: None,
            limit: None,
            name: None,
        },
        Accounts::Show { id } => Command::ShowAccount {
            id: resolve_account(config, &id)?,
        },
        Accounts::Rename { id, name } => Command::ChangeAccount {
            id: resolve_account(config, &id)?,
            change: AccountUpdate {
                name: Some(name),
                ..AccountUpdate::default()
            },
        },
        Accounts::SetLimits { id, limits } => Command::ChangeAccount {
            id: resolve_account(config, &id)?,
            change: AccountUpdate {
                rpm: limits.rpm,
                tpm: limits.tpm,
                keys: limits.keys,
                gpus: limits.gpus,
                agents: limits.agents,
                chats: limits.chats,
                files: limits.files,
                files_gib: limits.files_gib,
                batch_tokens: limits.batch_tokens,
                ..AccountUpdate::default()
            },
        },
        Accounts::Close { id } => Command::CloseAccount {
            id: resolve_account(config, &id)?,
        },
        Accounts::Suspend { id, resume } => Command::ChangeAccount {
            id: resolve_account(config, &id)?,
            change: AccountUpdate {
                suspended: Some(!resume),
                ..AccountUpdate::default()
            },
        },
    };
    match send(config, command, KNOWN_ACCOUNTS)? {
        // Prints only the id, for shell substitution: id=$(tollgate accounts create acme).
        Reply::Account(account) if created => {
            printer.answer(&account, || format!("{}\n", account.id))?;
            printer.hint(
                "The account has no credits and no key yet. Run `tollgate credits grant ID AMOUNT` and `tollgate keys create --account ID`.",
            );
        }
        Reply::Account(account) => printer.answer(&account, || tables::account(&account))?,
        Reply::Accounts(accounts) => {
            printer.answer(&accounts, || tables::accounts(&accounts))?;
            if accounts.is_empty() {
                printer.hint("No accounts. Create one with `tollgate accounts create NAME`.");
            }
        }
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}

/// Runs `tollgate keys`.
pub fn keys(place: Place, command: Keys, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
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
                account: resolve_account(config, &account)?,
                name,
                expires_in_days,
                compat: Some(compat.as_str().to_owned()),
                test,
                sync,
            },
            KNOWN_ACCOUNTS,
        ),
        Keys::List { account } => {
            let account = resolve_account(config, &account)?;
            (Command::ListKeys { account }, KNOWN_ACCOUNTS)
        }
        Keys::SetCompat { id, compat } => (
            Command::ChangeKey {
                id,
                compat: Some(compat.as_str().to_owned()),
                sync: None,
            },
            KNOWN_KEYS,
        ),
        Keys::SetSync { id, sync } => (
            Command::ChangeKey {
                id,
                compat: None,
                sync: Some(sync == Switch::On),
            },
            KNOWN_KEYS,
        ),
        Keys::Revoke { id } => (Command::RevokeKey { id }, KNOWN_KEYS),
    };
    match send(config, command, known)? {
        Reply::CreatedKey(created) => {
            printer.answer(&created, || format!("{}\n", created.key))?;
            printer.hint(&format!(
                "This is {}. It is shown once; store it now.",
                created.id
            ));
        }
        Reply::Key(key) => printer.answer(&key, || tables::keys(std::slice::from_ref(&key)))?,
        Reply::Keys(keys) => {
            printer.answer(&keys, || tables::keys(&keys))?;
            if keys.is_empty() {
                printer.hint("No keys. Create one with `tollgate keys create --account ID`.");
            }
        }
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}

/// Runs `tollgate credits`.
pub fn credits(place: Place, command: Credit, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    let command = match command {
        Credit::Grant { id, amount, terms } => Command::Grant {
            account: resolve_account(config, &id)?,
            grant: GrantParams {
                key: terms.id,
                amount,
                promotion: terms.kind == Kind::Promotion,
                expires_in_days: terms.expires_in_days,
                expires_at: terms.expires_at,
                priority: Some(terms.priority),
                note: terms.note,
            },
        },
        Credit::List { id, all } => Command::ListLots {
            account: resolve_account(config, &id)?,
            all,
        },
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
        Credit::Balance { id } => Command::ShowBalance {
            account: resolve_account(config, &id)?,
        },
    };
    let known = match command {
        Command::Refund { .. } => "",
        Command::RefundGrant { .. } => KNOWN_GRANTS,
        _ => KNOWN_ACCOUNTS,
    };
    match send(config, command, known)? {
        Reply::Balance(balance) => printer.answer(&balance, || tables::balance(&balance))?,
        Reply::Granted(granted) => {
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
        }
        Reply::Lots(lots) => {
            printer.answer(&lots, || tables::lots(&lots))?;
            if lots.is_empty() {
                printer.hint("No credits left. `--all` lists used-up grants; `tollgate credits grant ID AMOUNT` grants more.");
            }
        }
        Reply::Refund(refund) => {
            printer.answer(&refund, || tables::refund(&refund))?;
            if refund.repeated {
                printer.hint(
                    "This refund already exists; nothing changed. A second refund of the same amount needs a --key.",
                );
            }
        }
        Reply::Withdrawal(taken) => printer.answer(&taken, || tables::withdrawal(&taken))?,
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}

/// Runs `tollgate plans`.
pub fn plans(place: Place, command: Plans, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    let Plans::List = command;
    match send(config, Command::ListPlans, "")? {
        Reply::Plans(plans) => printer.answer(&plans, || tables::plans(&plans))?,
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}

/// Runs `tollgate subscriptions`.
pub fn subscriptions(place: Place, command: Subscriptions, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    let change = |id, action| (Command::ChangeSubscription { id, action }, KNOWN_SUBSCRIPTIONS);
    let (command, known) = match command {
        Subscriptions::Create {
            account,
            plan,
            cadence,
        } => {
            let cadence = cadence.map(named);
            let command = Command::Subscribe {
                account: resolve_account(config, &account)?,
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
                account: resolve_account(config, &account)?,
                plan,
                cadence,
            };
            (command, KNOWN_ACCOUNTS)
        }
        Subscriptions::ChangePlan { id, plan, cadence } => {
            let cadence = cadence.map(named);
            (Command::ChangePlan { id, plan, cadence }, KNOWN_SUBSCRIPTIONS)
        }
        Subscriptions::List { account } => {
            let account = resolve_account(config, &account)?;
            (Command::ListSubscriptions { account }, KNOWN_ACCOUNTS)
        }
        Subscriptions::Show { id } => (Command::ShowSubscription { id }, KNOWN_SUBSCRIPTIONS),
        Subscriptions::Cancel { id } => change(id, SubscriptionAction::Cancel),
        Subscriptions::Resume { id } => change(id, SubscriptionAction::Resume),
        Subscriptions::Renew { id } => change(id, SubscriptionAction::Renew),
    };
    match send(config, command, known)? {
        Reply::Subscription(found) => printer.answer(&found, || tables::subscription(&found))?,
        // Prints only the URL, for shell substitution.
        Reply::Page(page) => printer.answer(&page, || format!("{}\n", page.url))?,
        Reply::Subscriptions(found) => {
            printer.answer(&found, || tables::subscriptions(&found))?;
            if found.is_empty() {
                printer.hint("No subscriptions. Create one with `tollgate subscriptions create --account ID --plan NAME`.");
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

/// Runs `tollgate models`.
pub fn models(place: Place, command: Models, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    let Models::List = command;
    match send(config, Command::ListModels, "")? {
        Reply::Models(models) => printer.answer(&models, || tables::models(&models))?,
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}

/// Runs `tollgate statements`. Returns [`Exit::Faults`] if the figures do not add up.
pub fn statements(place: Place, command: Statements, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    let Statements::Show { account, month } = command;
    let account = resolve_account(config, &account)?;
    match send(config, Command::ShowStatement { account, month }, KNOWN_ACCOUNTS)? {
        Reply::Statement(statement) => {
            printer.answer(&statement, || tables::statement(&statement))?;
            let adds_up = statement.faults.is_empty();
            Ok(if adds_up { Exit::Fine } else { Exit::Faults })
        }
        other => Err(unexpected(&other)),
    }
}

/// Runs `tollgate ledger check`.
pub fn check_ledger(place: Place, reprice: bool, printer: &Printer) -> Result<Exit, Failure> {
    match send(&start(place)?, Command::CheckLedger { reprice }, "")? {
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

/// Executes a command in this process, or in the running server that owns the data. `known` is the
/// advice for a NotFound error.
pub(super) fn send(config: &Config, command: Command, known: &str) -> Result<Reply, Failure> {
    control::run(config, command).map_err(|error| refused(error, known))
}

/// Maximum number of ids that an error message lists.
const MAX_LISTED: usize = 10;

/// Returns the id of the account with the given id or name. The name must match exactly and must be
/// unique.
pub(super) fn resolve_account(config: &Config, account: &AccountArg) -> Result<AccountId, Failure> {
    let name = match account {
        AccountArg::Id(id) => return Ok(*id),
        AccountArg::Name(name) => name,
    };
    let command = Command::ListAccounts {
        after: None,
        limit: None,
        name: Some(name.clone()),
    };
    match send(config, command, "")? {
        Reply::Accounts(found) => match_name(name, &found),
        other => Err(unexpected(&other)),
    }
}

/// Resolves an optional account filter.
pub(super) fn resolve_filter(
    config: &Config,
    account: Option<&AccountArg>,
) -> Result<Option<AccountId>, Failure> {
    account
        .map(|account| resolve_account(config, account))
        .transpose()
}

fn match_name(name: &str, found: &[AccountView]) -> Result<AccountId, Failure> {
    let named = found.iter().filter(|account| account.name == name);
    let ids: Vec<AccountId> = named.map(|account| account.id).collect();
    match &*ids {
        [id] => Ok(*id),
        [] => {
            let message = format!("No account has the name '{name}'.");
            Err(advised(Error::new(ErrorCode::NotFound, message), KNOWN_ACCOUNTS))
        }
        several => {
            let listed = several.iter().take(MAX_LISTED).map(ToString::to_string);
            let more = match several.len().saturating_sub(MAX_LISTED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            Err(Failure::usage(format!(
                "{} accounts have the name '{name}'. Pass the id: {}{more}.",
                several.len(),
                listed.collect::<Vec<_>>().join(", ")
            )))
        }
    }
}

/// Converts a command error into a [`Failure`]; adds `known` to NotFound errors.
pub(super) fn refused(error: RunError, known: &str) -> Failure {
    match error {
        RunError::Settings(error) => error.into(),
        RunError::NoData(directory) => Failure::usage(format!(
            "No data in {}. Pass --data DIR, or run the command in the gateway's working directory. \
             `tollgate serve` creates a new installation.",
            directory.display()
        )),
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

/// Returns the failure for a reply of the wrong kind.
pub(super) fn unexpected(reply: &Reply) -> Failure {
    // The server has another version. The message omits the reply, which may contain a secret.
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
        Reply::Transfers(_) | Reply::UsageRows(_) | Reply::Statement(_) => "about the ledger",
        Reply::Models(_) => "about models",
        Reply::Check(_) => "about the ledger",
        Reply::LedgerAudit(_) => "about charges",
        Reply::Receipt(_) => "about a charge",
        Reply::CreatedAdmin(_) | Reply::Admin(_) | Reply::Admins(_) => "about administrators",
        Reply::Audit(_) => "about the audit log",
        Reply::Member(_) | Reply::Members(_) => "about members",
        Reply::Providers(_) => "about providers",
        Reply::Server(_) => "about a server",
        Reply::Prices(_) | Reply::PriceHistory(_) | Reply::PriceCheck(_) => "about prices",
    };
    Failure::failed(format!(
        "The server sent an unexpected reply {kind}. Use the `tollgate` program of the server's version."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_object_is_reported_with_a_hint() {
        let failure = advised(
            Error::new(ErrorCode::NotFound, "There is no such account."),
            KNOWN_ACCOUNTS,
        );
        assert!(
            failure.message.ends_with("shows the existing accounts."),
            "{}",
            failure.message
        );
        let failure = advised(Error::new(ErrorCode::Overloaded, "Busy."), KNOWN_ACCOUNTS);
        assert_eq!(failure.message, "Busy.");
    }

    #[test]
    fn a_broken_promise_has_an_exit_code_of_its_own() {
        let report = tollgate_operations::view::CheckView {
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
