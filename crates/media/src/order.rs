//! What is kept of a request until its job has ended, and what has come of it. All of it is sealed.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tollgate_accounts::Vault;
use tollgate_storage::{Job, KeyMode};
use tollgate_types::{AccountId, Error, JobId, MediaId, Prices, Timestamp, Usage};

/// A request of one kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order<T> {
    /// What requests of every kind have.
    pub(crate) head: Head,
    /// How many pieces each submission asks for.
    pub(crate) parts: Vec<u32>,
    /// What is to be made.
    pub(crate) wish: T,
}

/// What requests of every kind have.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Head {
    /// Where the caller has reached the service.
    pub(crate) origin: String,
    /// When it was accepted.
    pub(crate) accepted_at: Timestamp,
    /// `live` or `test`.
    pub(crate) mode: String,
    /// How far the account's test clock was ahead.
    pub(crate) ahead: Duration,
    /// Prices, by their written names, in nano-credits.
    pub(crate) prices: BTreeMap<String, i64>,
    /// What the caller wants to find again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<BTreeMap<String, String>>,
}

/// What a finished job has made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// When.
    pub(crate) created_at: Timestamp,
    /// Each piece.
    pub(crate) pieces: Vec<Kept>,
    /// Whether callers get the bytes themselves instead of an address.
    #[serde(default)]
    pub(crate) inline: bool,
}

/// A piece that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) media: MediaId,
    pub(crate) mime_type: String,
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// Microseconds of a film.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) duration: Option<u64>,
    /// How many of them were made by this job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) made: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) revised_prompt: Option<String>,
}

/// What a submission has become.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) provider: String,
    pub(crate) pieces: Vec<Kept>,
    /// Tokens that the provider has reported.
    pub(crate) reported: Option<Usage>,
    /// Whether it was made and is withheld.
    pub(crate) is_blocked: bool,
    pub(crate) first_at: Timestamp,
}

/// How a submission is asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Handle {
    pub(crate) provider: String,
    /// The provider's own; empty while it is not known.
    pub(crate) handle: Vec<u8>,
    pub(crate) submitted_at: Timestamp,
}

impl Head {
    /// Prices as they were when the order was accepted.
    pub(crate) fn agreed(&self) -> Prices {
        let entries = self.prices.iter();
        entries.fold(Prices::default(), |prices, (name, nanos)| {
            let price = tollgate_types::Credits::from_nanos(*nanos);
            prices.with_named(name, price).unwrap_or(prices)
        })
    }

    /// Whether a test key has asked for it.
    pub(crate) fn key_mode(&self) -> KeyMode {
        KeyMode::parse(&self.mode).unwrap_or(KeyMode::Live)
    }
}

/// Seals something of a job.
pub(crate) fn seal(
    vault: &Vault,
    account: AccountId,
    job: JobId,
    what: &impl Serialize,
) -> Result<Vec<u8>, Error> {
    let text = serde_json::to_vec(what).map_err(|error| Error::internal(error.to_string()))?;
    let sealed = vault.seal(account, job.as_u128(), &text);
    sealed.map_err(|error| Error::internal(error.to_string()))
}

/// Opens what was sealed of a job.
pub(crate) fn open<T: DeserializeOwned>(vault: &Vault, job: &Job, sealed: &[u8]) -> Result<T, Error> {
    let id = job.terms.id;
    let text = vault.open(job.account, id.as_u128(), sealed);
    let text = text.ok_or_else(|| Error::internal(format!("{id} cannot be opened")))?;
    serde_json::from_slice(&text).map_err(|error| Error::internal(format!("{id} cannot be read: {error}")))
}
