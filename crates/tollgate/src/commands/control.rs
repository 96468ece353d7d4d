//! Commands for accounts, keys, credits, models, the ledger and statements. If a server is running,
//! it executes them.

use tollgate_operations::view::{
    AccountView, BalanceView, CheckView, GrantedView, KeyView, SubscriptionView,
};
use tollgate_operations::{
    AccountUpdate, AdvanceClock, ChangeAccount, ChangeKey, ChangePlan, ChangeSubscription, CheckLedger,
    CloseAccount, CreateAccount, CreateKey, GrantCredits, GrantParams, ListAccounts, ListKeys, ListLots,
    ListPlans, ListSubscriptions, OpenSubscription, Operation, RefundCall, RefundGrant, RevokeKey,
    ShowAccount, ShowBalance, ShowStatement, ShowSubscription, Subscribe, SubscriptionAction,
};
use tollgate_server::Config;
use tollgate_server::control::{self, RunError};
use tollgate_types::{AccountId, Error, ErrorCode, SubscriptionId};

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
    let show = |account: AccountView| printer.answer(&account, || tables::account(&account));
    match command {
        Accounts::Create { name, test_clock } => {
            let account = send(config, CreateAccount { name, test_clock }, KNOWN_ACCOUNTS)?;
            // Prints only the id, for shell substitution: id=$(tollgate accounts create acme).
            printer.answer(&account, || format!("{}\n", account.id))?;
            printer.hint(
                "The account has no credits and no key yet. Run `tollgate credits grant ID AMOUNT` and `tollgate keys create --account ID`.",
            );
        }
        Accounts::Advance { id, to } => {
            let account = resolve_account(config, &id)?;
            show(send(config, AdvanceClock { account, to }, KNOWN_ACCOUNTS)?)?;
        }
        Accounts::List => {
            let accounts = send(config, ListAccounts::default(), KNOWN_ACCOUNTS)?;
            printer.answer(&accounts, || tables::accounts(&accounts))?;
            if accounts.is_empty() {
                printer.hint("No accounts. Create one with `tollgate accounts create NAME`.");
            }
        }
        Accounts::Show { id } => {
            let id = resolve_account(config, &id)?;
            show(send(config, ShowAccount { id }, KNOWN_ACCOUNTS)?)?;
        }
        Accounts::Rename { id, name } => {
            let change = AccountUpdate {
                name: Some(name),
                ..AccountUpdate::default()
            };
            show(change_account(config, &id, change)?)?;
        }
        Accounts::SetLimits { id, limits } => {
            let change = AccountUpdate {
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
            };
            show(change_account(config, &id, change)?)?;
        }
        Accounts::Close { id } => {
            let id = resolve_account(config, &id)?;
            show(send(config, CloseAccount { id }, KNOWN_ACCOUNTS)?)?;
        }
        Accounts::Suspend { id, resume } => {
            let change = AccountUpdate {
                suspended: Some(!resume),
                ..AccountUpdate::default()
            };
            show(change_account(config, &id, change)?)?;
        }
    }
    Ok(Exit::Fine)
}

fn change_account(config: &Config, id: &AccountArg, change: AccountUpdate) -> Result<AccountView, Failure> {
    let id = resolve_account(config, id)?;
    send(config, ChangeAccount { id, change }, KNOWN_ACCOUNTS)
}

/// Runs `tollgate keys`.
pub fn keys(place: Place, command: Keys, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    let show = |key: KeyView| printer.answer(&key, || tables::keys(std::slice::from_ref(&key)));
    match command {
        Keys::Create {
            account,
            name,
            expires_in_days,
            compat,
            test,
            sync,
        } => {
            let command = CreateKey {
                account: resolve_account(config, &account)?,
                name,
                expires_in_days,
                compat: Some(compat.as_str().to_owned()),
                test,
                sync,
            };
            let created = send(config, command, KNOWN_ACCOUNTS)?;
            printer.answer(&created, || format!("{}\n", created.key))?;
            printer.hint(&format!(
                "This is the key with id {}. It is shown once; store it now.",
                created.id
            ));
        }
        Keys::List { account } => {
            let account = resolve_account(config, &account)?;
            let keys = send(config, ListKeys { account }, KNOWN_ACCOUNTS)?;
            printer.answer(&keys, || tables::keys(&keys))?;
            if keys.is_empty() {
                printer.hint("No keys. Create one with `tollgate keys create --account ID`.");
            }
        }
        Keys::SetCompat { id, compat } => {
            let command = ChangeKey {
                id,
                compat: Some(compat.as_str().to_owned()),
                sync: None,
            };
            show(send(config, command, KNOWN_KEYS)?)?;
        }
        Keys::SetSync { id, sync } => {
            let command = ChangeKey {
                id,
                compat: None,
                sync: Some(sync == Switch::On),
            };
            show(send(config, command, KNOWN_KEYS)?)?;
        }
        Keys::Revoke { id } => show(send(config, RevokeKey { id }, KNOWN_KEYS)?)?,
    }
    Ok(Exit::Fine)
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

/// Runs `tollgate models`.
pub fn models(place: Place, command: Models, printer: &Printer) -> Result<Exit, Failure> {
    let Models::List = command;
    let models = control::list_models(&start(place)?).map_err(|error| refused(error, ""))?;
    printer.answer(&models, || tables::models(&models))?;
    Ok(Exit::Fine)
}

/// Runs `tollgate statements`. Returns [`Exit::Faults`] if the figures do not add up.
pub fn statements(place: Place, command: Statements, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    let Statements::Show { account, month } = command;
    let account = resolve_account(config, &account)?;
    let statement = send(config, ShowStatement { account, month }, KNOWN_ACCOUNTS)?;
    printer.answer(&statement, || tables::statement(&statement))?;
    let adds_up = statement.faults.is_empty();
    Ok(if adds_up { Exit::Fine } else { Exit::Faults })
}

/// Runs `tollgate ledger check`.
pub fn check_ledger(place: Place, reprice: bool, printer: &Printer) -> Result<Exit, Failure> {
    let check = send(&start(place)?, CheckLedger { reprice }, "")?;
    printer.answer(&check, || tables::check(&check))?;
    Ok(verdict(&check))
}

fn verdict(check: &CheckView) -> Exit {
    if check.clean { Exit::Fine } else { Exit::Faults }
}

/// Executes a command in this process, or in the running server that owns the data. `known` is the
/// advice for a NotFound error.
pub(super) fn send<C: Operation>(config: &Config, command: C, known: &str) -> Result<C::Reply, Failure> {
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
    let command = ListAccounts {
        name: Some(name.clone()),
        ..ListAccounts::default()
    };
    match_name(name, &send(config, command, "")?)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_object_is_reported_with_a_hint() {
        let failure = advised(
            Error::new(ErrorCode::NotFound, "The account does not exist."),
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
        let report = CheckView {
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
