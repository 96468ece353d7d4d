//! What is kept of a request until its job has ended, and what has come of it. All of it is sealed.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tollgate_accounts::Vault;
use tollgate_storage::{Job, KeyMode};
use tollgate_types::usage::Outcome as Ending;
use tollgate_types::{AccountId, Error, ErrorCode, JobId, MediaId, Prices, Timestamp, Usage};

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
    /// `live` or `test`.
    pub(crate) mode: String,
    /// How far the account's test clock was ahead.
    pub(crate) ahead: Duration,
    /// Prices, by their written names, in nano-credits.
    pub(crate) prices: BTreeMap<String, i64>,
    /// The model that is asked, where it is not the job's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
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

/// Why a submission has brought nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) ending: Ending,
    /// What the caller is told; none when it was cancelled.
    told: Option<Told>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Told {
    code: String,
    message: String,
    param: Option<String>,
}

/// How a submission is asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Handle {
    pub(crate) provider: String,
    /// The provider's own; empty while it is not known.
    pub(crate) handle: Vec<u8>,
    pub(crate) submitted_at: Timestamp,
}

impl Failure {
    /// With what the caller is told.
    pub(crate) fn new(error: &Error, ending: Ending) -> Self {
        Self {
            ending,
            told: Some(Told {
                code: error.code.as_str().to_owned(),
                message: error.message.clone(),
                param: error.param.clone(),
            }),
        }
    }

    /// It was cancelled.
    pub(crate) fn cancelled() -> Self {
        Self {
            ending: Ending::Cancelled,
            told: None,
        }
    }

    /// What the caller is told; none when it was cancelled.
    pub(crate) fn error(&self) -> Option<Error> {
        let told = self.told.as_ref()?;
        let code = ErrorCode::ALL.iter().find(|code| code.as_str() == told.code);
        let mut error = Error::new(code.copied().unwrap_or(ErrorCode::InternalError), &*told.message);
        error.param.clone_from(&told.param);
        Some(error)
    }
}

impl Head {
    /// Prices as they were when the order was accepted.
    pub(crate) fn agreed(&self) -> Prices {
        agreed(&self.prices)
    }

    /// Whether a test key has asked for it.
    pub(crate) fn key_mode(&self) -> KeyMode {
        KeyMode::parse(&self.mode).unwrap_or(KeyMode::Live)
    }
}

/// Prices by their written names, in nano-credits.
pub(crate) fn listed(prices: &Prices) -> BTreeMap<String, i64> {
    let listed = prices.entries().map(|(name, price)| (name, price.nanos()));
    listed.collect()
}

/// Prices that were written down.
pub(crate) fn agreed(listed: &BTreeMap<String, i64>) -> Prices {
    let price = |nanos: &i64| tollgate_types::Credits::from_nanos(*nanos);
    listed.iter().fold(Prices::default(), |prices, (name, nanos)| {
        prices.with_named(name, price(nanos)).unwrap_or(prices)
    })
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
