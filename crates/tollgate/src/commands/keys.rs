//! The `tollgate keys` commands.

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum, value_parser};
use tollgate_operations::view::{CreatedKeyView, KeyView};
use tollgate_operations::{ChangeKey, CreateKey, ListKeys, RevokeKey, RotateKey, Selection};
use tollgate_types::{KeyId, Scope};

use super::arguments::AccountArg;
use super::send::{KNOWN_ACCOUNTS, resolve_account, send};
use super::start;
use crate::cli::Place;
use crate::failure::{Exit, Failure};
use crate::print::{Printer, tables};

const KNOWN_KEYS: &str = "`tollgate keys list --account ID` shows an account's keys with their ids.";

/// Subcommands of `tollgate keys`.
#[derive(Debug, Subcommand)]
pub enum Keys {
    /// Create an API key and print it. The key is shown only once.
    #[command(
        after_help = "Examples:\n  tollgate keys create --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --name staging\n  tollgate keys create --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --name ci --test\n  tollgate keys create --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --expires-in-days 90\n  tollgate keys create --account acme --name chat-only --model 'acme/*' --scope text"
    )]
    Create {
        /// Account id, or account name if unique.
        #[arg(long, value_name = "ID|NAME")]
        account: AccountArg,
        /// Display name (1–100 characters).
        #[arg(long, value_name = "TEXT", default_value = "default")]
        name: String,
        /// Days until the key expires, 1–36500 (default: never).
        #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=36_500))]
        expires_in_days: Option<u32>,
        /// Adaptation of requests to models that lack a requested feature.
        #[arg(long, value_enum, default_value_t)]
        compat: Compat,
        /// Create a test key. It reaches only simulated models and spends no credits.
        #[arg(long)]
        test: bool,
        /// Make image requests with this key wait for the image by default, instead of returning a
        /// job.
        #[arg(long)]
        sync: bool,
        /// Model that the key may use: an id, or a pattern such as `acme/*`. Repeat the option for
        /// several models (default: all models).
        #[arg(long = "model", value_name = "ID|PATTERN")]
        models: Vec<String>,
        /// Group of endpoints that the key may use, such as `text`. Repeat the option for several
        /// scopes (default: all scopes).
        #[arg(long = "scope", value_name = "SCOPE", value_parser = scope_values())]
        scopes: Vec<String>,
    },
    /// List an account's keys with their last four characters and last use.
    #[command(
        after_help = "Examples:\n  tollgate keys list --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a\n  tollgate keys list --account acme"
    )]
    List {
        /// Account id, or account name if unique.
        #[arg(long, value_name = "ID|NAME")]
        account: AccountArg,
    },
    /// Set how a key's requests are adapted to models that lack a requested feature.
    #[command(
        after_help = "Examples:\n  tollgate keys set-compat key_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3b lenient"
    )]
    SetCompat {
        /// Key id (key_…), not the key itself.
        #[arg(value_parser = key_id)]
        id: KeyId,
        /// Adaptation level for requests with this key.
        compat: Compat,
    },
    /// Set whether image requests wait for the image by default, instead of returning a job.
    ///
    /// Clients without job support, such as `client.images.generate()` of OpenAI's SDKs, need `on`.
    /// The request field `sync` overrides this setting.
    #[command(after_help = "Examples:\n  tollgate keys set-sync key_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3b on")]
    SetSync {
        /// Key id (key_…), not the key itself.
        #[arg(value_parser = key_id)]
        id: KeyId,
        /// Default for image requests with this key.
        sync: Switch,
    },
    /// Set the models and endpoints that a key may use.
    ///
    /// A request for another model fails with 404 `model_not_found`, and a request to an endpoint
    /// of another scope with 403 `permission_denied`. Options that are omitted stay unchanged.
    #[command(
        after_help = "Examples:\n  tollgate keys set-rights key_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3b --model acme/large --model 'sim/*'\n  tollgate keys set-rights key_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3b --scope text --scope embeddings\n  tollgate keys set-rights key_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3b --all-models --all-scopes"
    )]
    SetRights {
        /// Key id (key_…), not the key itself.
        #[arg(value_parser = key_id)]
        id: KeyId,
        #[command(flatten)]
        rights: Rights,
    },
    /// Replace a key by a new one with the same settings, and print the new key. It is shown only
    /// once. The account needs no free place among its keys.
    #[command(
        after_help = "Examples:\n  tollgate keys rotate key_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3b --account acme\n  tollgate keys rotate key_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3b --account acme --overlap-hours 24"
    )]
    Rotate {
        /// Key id (key_…), not the key itself.
        #[arg(value_parser = key_id)]
        id: KeyId,
        /// Account id, or account name if unique.
        #[arg(long, value_name = "ID|NAME")]
        account: AccountArg,
        /// Hours for which the old key still works (0–720).
        #[arg(long, value_name = "N", default_value_t = 0, value_parser = value_parser!(u32).range(0..=720))]
        overlap_hours: u32,
    },
    /// Revoke a key permanently.
    #[command(after_help = "Examples:\n  tollgate keys revoke key_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3b")]
    Revoke {
        /// Key id (key_…), not the key itself.
        #[arg(value_parser = key_id)]
        id: KeyId,
    },
}

/// Adaptation of requests to models that lack a requested feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Compat {
    /// Refuse the request with an error.
    Strict,
    /// Move mid-conversation instructions into the user's turn, and drop an unsupported
    /// `parallel_tool_calls: false` or reasoning effort.
    #[default]
    Standard,
    /// Also drop hosted tools, unknown fields, and unsupported optional fields such as
    /// `service_tier` or `verbosity`. The header `x-tollgate-ignored` lists the dropped fields.
    Lenient,
}

impl Compat {
    /// Returns the name that the control commands use.
    pub fn as_str(self) -> &'static str {
        match self {
            Compat::Strict => "strict",
            Compat::Standard => "standard",
            Compat::Lenient => "lenient",
        }
    }
}

/// New rights of a key.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub struct Rights {
    /// Model that the key may use: an id, or a pattern such as `acme/*`. Repeat the option for
    /// several models.
    #[arg(long = "model", value_name = "ID|PATTERN")]
    models: Vec<String>,
    /// Allow all models.
    #[arg(long, conflicts_with = "models")]
    all_models: bool,
    /// Group of endpoints that the key may use, such as `text`. Repeat the option for several
    /// scopes.
    #[arg(long = "scope", value_name = "SCOPE", value_parser = scope_values())]
    scopes: Vec<String>,
    /// Allow all scopes.
    #[arg(long, conflicts_with = "scopes")]
    all_scopes: bool,
}

fn scope_values() -> PossibleValuesParser {
    PossibleValuesParser::new(Scope::ALL.map(Scope::as_str))
}

/// Returns a selection of models or scopes; `None` if no option selects any.
fn selection(only: Vec<String>, all: bool) -> Option<Selection> {
    match (only.is_empty(), all) {
        (false, _) => Some(Selection::Only(only)),
        (true, true) => Some(Selection::All),
        (true, false) => None,
    }
}

/// Default for image requests: wait for the image (`on`), or return a job (`off`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// Wait for the image.
    On,
    /// Return a job immediately.
    Off,
}

/// Settings of a key to change.
#[derive(Default)]
struct KeySettings {
    compat: Option<String>,
    sync: Option<bool>,
    models: Option<Selection>,
    scopes: Option<Selection>,
}

/// Runs `tollgate keys`.
pub fn keys(place: Place, command: Keys, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    let show = |key: KeyView| printer.answer(&key, || tables::keys(std::slice::from_ref(&key)));
    let change = |id, change: KeySettings| {
        let command = ChangeKey {
            id,
            account: None,
            name: None,
            compat: change.compat,
            sync: change.sync,
            models: change.models,
            scopes: change.scopes,
        };
        send(config, command, KNOWN_KEYS)
    };
    match command {
        Keys::Create {
            account,
            name,
            expires_in_days,
            compat,
            test,
            sync,
            models,
            scopes,
        } => {
            let command = CreateKey {
                account: resolve_account(config, &account)?,
                name,
                expires_in_days,
                compat: Some(compat.as_str().to_owned()),
                test,
                sync,
                models: selection(models, false).unwrap_or(Selection::All),
                scopes: selection(scopes, false).unwrap_or(Selection::All),
            };
            show_once(&send(config, command, KNOWN_ACCOUNTS)?, printer)?;
        }
        Keys::Rotate {
            id,
            account,
            overlap_hours,
        } => {
            let command = RotateKey {
                id,
                account: resolve_account(config, &account)?,
                overlap_hours,
            };
            show_once(&send(config, command, KNOWN_KEYS)?, printer)?;
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
            let compat = Some(compat.as_str().to_owned());
            let settings = KeySettings {
                compat,
                ..KeySettings::default()
            };
            show(change(id, settings)?)?;
        }
        Keys::SetSync { id, sync } => {
            let settings = KeySettings {
                sync: Some(sync == Switch::On),
                ..KeySettings::default()
            };
            show(change(id, settings)?)?;
        }
        Keys::SetRights { id, rights } => {
            let settings = KeySettings {
                models: selection(rights.models, rights.all_models),
                scopes: selection(rights.scopes, rights.all_scopes),
                ..KeySettings::default()
            };
            show(change(id, settings)?)?;
        }
        Keys::Revoke { id } => {
            let command = RevokeKey { id, account: None };
            show(send(config, command, KNOWN_KEYS)?)?;
        }
    }
    Ok(Exit::Fine)
}

/// Prints a new key, and on stderr its id.
fn show_once(created: &CreatedKeyView, printer: &Printer) -> Result<(), Failure> {
    printer.answer(created, || format!("{}\n", created.key))?;
    printer.hint(&format!(
        "This is the key with id {}. It is shown once; store it now.",
        created.id
    ));
    Ok(())
}

fn key_id(text: &str) -> Result<KeyId, &'static str> {
    let advice = "expected a key id: key_ and 32 hex digits; `tollgate keys list --account ID` shows the ids";
    text.parse().map_err(|_| advice)
}
