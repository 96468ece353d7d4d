//! Execution of an operation for a command, in the running server or in this process, and the
//! account that an argument names.

use tollgate_operations::view::AccountView;
use tollgate_operations::{ListAccounts, Operation};
use tollgate_server::Config;
use tollgate_server::control::{self, RunError};
use tollgate_types::{AccountId, Error, ErrorCode};

use super::arguments::AccountArg;
use crate::failure::Failure;

/// Advice for an unknown account.
pub(super) const KNOWN_ACCOUNTS: &str = "`tollgate accounts list` shows the existing accounts.";

/// Maximum number of ids that an error message lists.
const MAX_LISTED: usize = 10;

/// Executes a command in this process, or in the running server that owns the data. `known` is the
/// advice for a NotFound error.
pub(super) fn send<C: Operation>(config: &Config, command: C, known: &str) -> Result<C::Reply, Failure> {
    control::run(config, command).map_err(|error| refused(error, known))
}

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
}
