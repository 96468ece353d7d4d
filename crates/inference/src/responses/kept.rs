//! Responses that are kept, sealed, for the requests that go on from them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_accounts::Vault;
use tollgate_edge::body::MEDIA_BODY;
use tollgate_storage::{
    ChainLimits, NewResponse, ResponseStore, StorageError, StorageErrorKind, StoredResponse,
};
use tollgate_types::{AccountId, Clock, Error, ErrorCode, ResponseId, Retry};

use super::listing::unknown;

/// How long a response is kept.
const KEPT_FOR: Duration = Duration::from_hours(30 * 24);
/// A conversation of more is more than a request could have sent.
const CHAIN: ChainLimits = ChainLimits {
    links: 1_000,
    bytes: MEDIA_BODY as u64,
};

/// Texts that callers keep themselves belong to no response.
const COMPACTED: u128 = 0;

/// Keeps responses.
pub struct Kept {
    store: Arc<dyn ResponseStore>,
    vault: Vault,
    clock: Arc<dyn Clock>,
}

/// A request and its response.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Turn {
    /// The items that the request brought itself.
    pub(super) input: Vec<Value>,
    /// The response object.
    pub(super) response: Value,
}

impl Turn {
    /// What was said in it, in order.
    fn into_items(self) -> impl Iterator<Item = Value> {
        let Turn { input, mut response } = self;
        let output = match response["output"].take() {
            Value::Array(output) => output,
            _ => Vec::new(),
        };
        input.into_iter().chain(output)
    }

    fn item_ids(&self) -> Vec<String> {
        let output = self.response["output"].as_array();
        let items = self.input.iter().chain(output.into_iter().flatten());
        items
            .filter_map(|item| item["id"].as_str().map(str::to_owned))
            .collect()
    }
}

impl Kept {
    /// Responses in this store.
    pub fn new(store: Arc<dyn ResponseStore>, vault: Vault, clock: Arc<dyn Clock>) -> Self {
        Self { store, vault, clock }
    }

    /// Keeps a turn.
    pub(super) async fn keep(
        &self,
        account: AccountId,
        id: ResponseId,
        previous: Option<ResponseId>,
        turn: &Turn,
    ) -> Result<(), Error> {
        let text = serde_json::to_vec(turn).map_err(|error| Error::internal(error.to_string()))?;
        let content = self
            .vault
            .seal(account, id.as_u128(), &text)
            .map_err(|error| Error::internal(error.to_string()))?;
        let created_at = self.clock.now();
        let new = NewResponse {
            response: StoredResponse {
                id,
                account,
                previous,
                created_at,
                expires_at: created_at.plus(KEPT_FOR),
                content,
            },
            items: turn.item_ids(),
        };
        match self.store.save(new).await {
            // An id is given once, so it was kept before.
            Err(error) if error.kind == StorageErrorKind::Conflict => Ok(()),
            saved => saved.map_err(|error| unavailable(&error)),
        }
    }

    /// The turn that ended in this response. 404 when there is none, or it is another account's.
    pub(super) async fn get(&self, account: AccountId, id: &str) -> Result<Turn, Error> {
        let stored = match id.parse() {
            Ok(id) => self.store.get(account, id, self.clock.now()).await,
            Err(_) => Ok(None),
        };
        let stored = stored.map_err(|error| unavailable(&error))?;
        self.open(&stored.ok_or_else(not_found)?)
    }

    /// Forgets the response.
    pub(super) async fn delete(&self, account: AccountId, id: &str) -> Result<(), Error> {
        let deleted = match id.parse() {
            Ok(id) => self.store.delete(account, id, self.clock.now()).await,
            Err(_) => Ok(false),
        };
        match deleted.map_err(|error| unavailable(&error))? {
            true => Ok(()),
            false => Err(not_found()),
        }
    }

    /// All that was said up to and with this response, oldest first, and its id.
    pub(super) async fn conversation(
        &self,
        account: AccountId,
        previous: &str,
    ) -> Result<(ResponseId, Vec<Value>), Error> {
        let Ok(id) = previous.parse() else {
            return Err(no_previous());
        };
        let now = self.clock.now();
        let chain = self.store.chain(account, id, now, CHAIN).await;
        let chain = chain.map_err(|error| unavailable(&error))?;
        let oldest = chain.last().ok_or_else(no_previous)?;
        if let Some(before) = oldest.previous {
            let before = self.store.get(account, before, now).await;
            return Err(match before.map_err(|error| unavailable(&error))? {
                Some(_) => too_long(),
                None => no_previous(),
            });
        }
        let mut items = Vec::new();
        for link in chain.iter().rev() {
            items.extend(self.open(link)?.into_items());
        }
        Ok((id, items))
    }

    /// The item of this id that the account sent or got in some response that is kept.
    pub(super) async fn item(&self, account: AccountId, id: &str) -> Result<Option<Value>, Error> {
        let stored = self.store.with_item(account, id, self.clock.now()).await;
        let Some(stored) = stored.map_err(|error| unavailable(&error))? else {
            return Ok(None);
        };
        let mut items = self.open(&stored)?.into_items();
        Ok(items.find(|item| item["id"] == id))
    }

    /// A text that only this account's requests can open.
    pub(super) fn seal_text(&self, account: AccountId, text: &str) -> Result<String, Error> {
        let sealed = self.vault.seal(account, COMPACTED, text.as_bytes());
        let sealed = sealed.map_err(|error| Error::internal(error.to_string()))?;
        Ok(BASE64.encode(sealed))
    }

    /// The text, if it was sealed here for this account.
    pub(super) fn open_text(&self, account: AccountId, sealed: &str) -> Option<String> {
        let sealed = BASE64.decode(sealed).ok()?;
        let text = self.vault.open(account, COMPACTED, &sealed)?;
        String::from_utf8(text).ok()
    }

    fn open(&self, stored: &StoredResponse) -> Result<Turn, Error> {
        let text = self
            .vault
            .open(stored.account, stored.id.as_u128(), &stored.content);
        let text = text.ok_or_else(|| Error::internal(format!("{} cannot be opened", stored.id)))?;
        serde_json::from_slice(&text)
            .map_err(|error| Error::internal(format!("{} cannot be read: {error}", stored.id)))
    }
}

/// Why a response that is not there yet cannot be forgotten.
pub(super) fn not_ended() -> Error {
    let message = "The response is not made yet, or will not be. Cancel it with POST /v1/responses/{id}/cancel; what has ended \
                   without a response is forgotten after 30 days.";
    Error::new(ErrorCode::Conflict, message).with_param("id")
}

/// Why a response that is kept cannot be cancelled.
pub(super) fn has_ended(turn: &Turn) -> Error {
    let status = turn.response["status"].as_str().unwrap_or("completed");
    let message = format!(
        "The response is {status} already: only one that is made in the background can be cancelled."
    );
    Error::new(ErrorCode::InvalidParameter, message).with_param("id")
}

/// What a read asks for beyond the response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadQuery {
    /// Its events instead.
    pub(super) stream: bool,
    /// Those behind the one of this number.
    pub(super) starting_after: Option<u64>,
}

impl ReadQuery {
    pub(super) fn read(pairs: &[(String, String)]) -> Result<Self, Error> {
        let mut query = Self::default();
        for (name, value) in pairs {
            match (name.as_str(), value.as_str()) {
                // Everything that is kept is answered.
                ("include" | "include[]" | "include_obfuscation", _) => {}
                ("stream", "true") => query.stream = true,
                ("stream", "false") => query.stream = false,
                ("stream", _) => return Err(wrong(name, "is 'true' or 'false'")),
                ("starting_after", number) => {
                    let number = number.parse();
                    let number = number.map_err(|_| wrong(name, "is the 'sequence_number' of an event"))?;
                    query.starting_after = Some(number);
                }
                _ => return Err(unknown(name)),
            }
        }
        match query.starting_after {
            Some(_) if !query.stream => Err(wrong("starting_after", "is only allowed with 'stream=true'")),
            _ => Ok(query),
        }
    }
}

fn wrong(name: &str, what: &str) -> Error {
    Error::new(ErrorCode::InvalidParameter, format!("'{name}' {what}.")).with_param(name)
}

fn not_found() -> Error {
    let message =
        "There is no response with this id. Responses are kept for 30 days, unless 'store' is false.";
    Error::new(ErrorCode::NotFound, message)
}

fn no_previous() -> Error {
    let message = "'previous_response_id' names a response that is not kept, or one that goes back to such a \
                   response: responses are kept for 30 days, unless 'store' is false or they are deleted. Send the \
                   items of the conversation as 'input'.";
    Error::new(ErrorCode::NotFound, message).with_param("previous_response_id")
}

fn too_long() -> Error {
    let message = format!(
        "The conversation that 'previous_response_id' names has more than {} responses or 32 MiB. Begin a new one, or \
         compact it with POST /v1/responses/compact.",
        CHAIN.links
    );
    Error::new(ErrorCode::ContextLengthExceeded, message).with_param("previous_response_id")
}

pub(crate) fn unavailable(error: &StorageError) -> Error {
    let message = "The gateway cannot reach its storage at the moment. Retry with backoff.";
    Error::new(ErrorCode::Overloaded, message)
        .with_retry(Retry::After(Duration::from_secs(2)))
        .with_source(error.to_string())
}

/// The latest response of a session, which the next request may go on from although it is not kept.
#[derive(Debug, Default)]
pub(crate) struct Latest(Mutex<Option<(String, Vec<Value>)>>);

impl Latest {
    /// What was said up to and with this response, when it is the latest.
    pub(super) fn conversation(&self, id: &str) -> Option<Vec<Value>> {
        let latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, items) = latest.as_ref().filter(|(latest, _)| latest == id)?;
        Some(items.clone())
    }

    fn set(&self, id: String, items: Vec<Value>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((id, items));
    }
}

/// What is done with a response once it is there.
pub(super) struct Keeper {
    pub(super) kept: Arc<Kept>,
    pub(super) account: AccountId,
    pub(super) id: ResponseId,
    pub(super) previous: Option<ResponseId>,
    /// What was said before.
    pub(super) before: Vec<Value>,
    /// What the request said itself.
    pub(super) input: Vec<Value>,
    /// Whether the response is kept beyond its session.
    pub(super) store: bool,
    /// The session that it belongs to.
    pub(super) latest: Option<Arc<Latest>>,
}

impl Keeper {
    /// Keeps the turn that ends with this response; whether it is as its caller wished. The caller has paid for the
    /// response and gets it in any case.
    pub(super) async fn finish(self, response: &[u8]) -> bool {
        let Ok(response) = serde_json::from_slice(response) else {
            tracing::error!(response.id = %self.id, "a response that was made here cannot be read");
            return !self.store;
        };
        let turn = Turn {
            input: self.input,
            response,
        };
        let kept = match self.store {
            true => self.kept.keep(self.account, self.id, self.previous, &turn).await,
            false => Ok(()),
        };
        if let Err(error) = &kept {
            let cause = std::error::Error::source(error).map(ToString::to_string);
            tracing::error!(response.id = %self.id, cause, "a response cannot be kept");
        }
        if let Some(latest) = self.latest {
            let said = self.before.into_iter().chain(turn.into_items());
            latest.set(self.id.to_string(), said.collect());
        }
        kept.is_ok()
    }
}
