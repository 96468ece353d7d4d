//! Encrypts and stores responses, so that later requests can continue from them.

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

/// Retention time of a response.
const RETENTION: Duration = Duration::from_hours(30 * 24);
/// Maximum size of a conversation. The number of bytes equals the limit of a request body.
const CHAIN_LIMITS: ChainLimits = ChainLimits {
    links: 1_000,
    bytes: MEDIA_BODY as u64,
};

/// Encryption context of compacted conversations, which callers store themselves and which belong
/// to no response.
const COMPACTION_SEAL_ID: u128 = 0;

/// Encrypts, stores and loads responses.
pub struct Responses {
    store: Arc<dyn ResponseStore>,
    vault: Vault,
    clock: Arc<dyn Clock>,
}

/// A request and its response, as stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Turn {
    /// Input items of the request itself.
    pub(super) input: Vec<Value>,
    /// The response object in OpenAI's format.
    pub(super) response: Value,
}

impl Turn {
    /// Returns the input and output items, in order.
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

impl Responses {
    /// Creates a service on this store.
    pub fn new(store: Arc<dyn ResponseStore>, vault: Vault, clock: Arc<dyn Clock>) -> Self {
        Self { store, vault, clock }
    }

    /// Stores a turn. Succeeds if it is already stored.
    pub(super) async fn save(
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
                expires_at: created_at.plus(RETENTION),
                content,
            },
            items: turn.item_ids(),
        };
        match self.store.save(new).await {
            // Ids are unique, so an earlier attempt has stored the turn.
            Err(error) if error.kind == StorageErrorKind::Conflict => Ok(()),
            saved => saved.map_err(|error| unavailable(&error)),
        }
    }

    /// Returns the turn of a response. Fails with 404 if it does not exist or belongs to another
    /// account.
    pub(super) async fn get(&self, account: AccountId, id: &str) -> Result<Turn, Error> {
        let stored = match id.parse() {
            Ok(id) => self.store.get(account, id, self.clock.now()).await,
            Err(_) => Ok(None),
        };
        let stored = stored.map_err(|error| unavailable(&error))?;
        self.open(&stored.ok_or_else(not_found)?)
    }

    /// Deletes a response; fails with 404 if it does not exist.
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

    /// Returns all items up to and including this response, oldest first, and its id.
    pub(super) async fn conversation(
        &self,
        account: AccountId,
        previous: &str,
    ) -> Result<(ResponseId, Vec<Value>), Error> {
        let Ok(id) = previous.parse() else {
            return Err(no_previous());
        };
        let now = self.clock.now();
        let chain = self.store.chain(account, id, now, CHAIN_LIMITS).await;
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

    /// Returns the input or output item with this id from the stored responses of the account.
    pub(super) async fn item(&self, account: AccountId, id: &str) -> Result<Option<Value>, Error> {
        let stored = self.store.with_item(account, id, self.clock.now()).await;
        let Some(stored) = stored.map_err(|error| unavailable(&error))? else {
            return Ok(None);
        };
        let mut items = self.open(&stored)?.into_items();
        Ok(items.find(|item| item["id"] == id))
    }

    /// Encrypts a text so that only requests of this account can decrypt it.
    pub(super) fn seal_text(&self, account: AccountId, text: &str) -> Result<String, Error> {
        let sealed = self.vault.seal(account, COMPACTION_SEAL_ID, text.as_bytes());
        let sealed = sealed.map_err(|error| Error::internal(error.to_string()))?;
        Ok(BASE64.encode(sealed))
    }

    /// Decrypts a text; `None` if [`Self::seal_text`] did not encrypt it for this account.
    pub(super) fn open_text(&self, account: AccountId, sealed: &str) -> Option<String> {
        let sealed = BASE64.decode(sealed).ok()?;
        let text = self.vault.open(account, COMPACTION_SEAL_ID, &sealed)?;
        String::from_utf8(text).ok()
    }

    fn open(&self, stored: &StoredResponse) -> Result<Turn, Error> {
        let text = self
            .vault
            .open(stored.account, stored.id.as_u128(), &stored.content);
        let text = text.ok_or_else(|| Error::internal(format!("{} cannot be decrypted", stored.id)))?;
        serde_json::from_slice(&text)
            .map_err(|error| Error::internal(format!("the content of {} is invalid: {error}", stored.id)))
    }
}

/// Returns the error for deleting an unfinished response.
pub(crate) fn not_finished() -> Error {
    let message = "The response cannot be deleted: it is unfinished or has ended without a result. Cancel an \
                   unfinished response with POST /v1/responses/{id}/cancel. A response without a result is deleted \
                   after 30 days.";
    Error::new(ErrorCode::Conflict, message).with_param("id")
}

/// Returns the error for cancelling a finished response.
pub(super) fn already_ended(turn: &Turn) -> Error {
    has_ended(turn.response["status"].as_str().unwrap_or("completed"))
}

/// Returns the error for cancelling a response that has ended with this status.
pub(crate) fn has_ended(status: &str) -> Error {
    let message = format!(
        "The response has ended with status '{status}'. Only an unfinished background response can be cancelled."
    );
    Error::new(ErrorCode::InvalidParameter, message).with_param("id")
}

/// Query parameters of `GET /v1/responses/{id}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadQuery {
    /// Whether to return the events instead of the response.
    pub(super) stream: bool,
    /// Return only events after this sequence number.
    pub(super) starting_after: Option<u64>,
}

impl ReadQuery {
    pub(super) fn read(pairs: &[(String, String)]) -> Result<Self, Error> {
        let mut query = Self::default();
        for (name, value) in pairs {
            match (name.as_str(), value.as_str()) {
                // The response contains all stored data, so these parameters have no effect.
                ("include" | "include[]" | "include_obfuscation", _) => {}
                ("stream", "true") => query.stream = true,
                ("stream", "false") => query.stream = false,
                ("stream", _) => return Err(invalid_query(name, "must be 'true' or 'false'")),
                ("starting_after", number) => {
                    let number = number.parse();
                    let number = number
                        .map_err(|_| invalid_query(name, "must be the 'sequence_number' of an event"))?;
                    query.starting_after = Some(number);
                }
                _ => return Err(Error::unknown_parameter(name)),
            }
        }
        match query.starting_after {
            Some(_) if !query.stream => Err(invalid_query(
                "starting_after",
                "is only allowed with 'stream=true'",
            )),
            _ => Ok(query),
        }
    }
}

fn invalid_query(name: &str, what: &str) -> Error {
    Error::new(ErrorCode::InvalidParameter, format!("'{name}' {what}.")).with_param(name)
}

fn not_found() -> Error {
    let message = "The response does not exist. Responses are stored for 30 days, unless 'store' is false.";
    Error::new(ErrorCode::NotFound, message)
}

fn no_previous() -> Error {
    let message = "'previous_response_id' is not a stored response, or its conversation contains a response that is not stored. \
                   Responses are stored for 30 days, unless 'store' is false or they are deleted. Send the \
                   items of the conversation as 'input'.";
    Error::new(ErrorCode::NotFound, message).with_param("previous_response_id")
}

fn too_long() -> Error {
    let message = format!(
        "The conversation of 'previous_response_id' has more than {} responses or 32 MiB. Start a new conversation, or \
         compact the conversation up to an earlier response with POST /v1/responses/compact.",
        CHAIN_LIMITS.links
    );
    Error::new(ErrorCode::ContextLengthExceeded, message).with_param("previous_response_id")
}

pub(crate) fn unavailable(error: &StorageError) -> Error {
    let message = "The gateway cannot reach its storage at the moment. Retry with backoff.";
    Error::new(ErrorCode::Overloaded, message)
        .with_retry(Retry::After(Duration::from_secs(2)))
        .with_source(error.to_string())
}

/// Latest response of a WebSocket session. The next request may continue from it even if it is not
/// stored.
#[derive(Debug, Default)]
pub(crate) struct LatestResponse(Mutex<Option<(String, Vec<Value>)>>);

impl LatestResponse {
    /// Returns the items up to and including this response, if it is the latest.
    pub(super) fn conversation(&self, id: &str) -> Option<Vec<Value>> {
        let latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, items) = latest.as_ref().filter(|(latest, _)| latest == id)?;
        Some(items.clone())
    }

    /// Removes this response if it is the latest. Later requests can continue from it only if it is
    /// stored.
    pub(super) fn evict(&self, id: &str) {
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        latest.take_if(|(latest, _)| latest == id);
    }

    fn set(&self, id: String, items: Vec<Value>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((id, items));
    }
}

/// Stores a response when it is complete.
pub(super) struct ResponseWriter {
    pub(super) responses: Arc<Responses>,
    pub(super) account: AccountId,
    pub(super) id: ResponseId,
    pub(super) previous: Option<ResponseId>,
    /// Items of the conversation before this request.
    pub(super) before: Vec<Value>,
    /// Input items of the request itself.
    pub(super) input: Vec<Value>,
    /// Whether the response is stored beyond its session.
    pub(super) store: bool,
    /// Latest response of the session that the request belongs to.
    pub(super) latest: Option<Arc<LatestResponse>>,
}

impl ResponseWriter {
    /// Stores the turn that ends with this response. Returns false if the caller requested storage
    /// and it failed. The caller has paid for the response and receives it in any case.
    pub(super) async fn finish(self, response: &[u8]) -> bool {
        let Ok(response) = serde_json::from_slice(response) else {
            tracing::error!(response.id = %self.id, "a generated response is not valid JSON");
            return !self.store;
        };
        let turn = Turn {
            input: self.input,
            response,
        };
        let saved = match self.store {
            true => {
                self.responses
                    .save(self.account, self.id, self.previous, &turn)
                    .await
            }
            false => Ok(()),
        };
        if let Err(error) = &saved {
            let cause = std::error::Error::source(error).map(ToString::to_string);
            tracing::error!(response.id = %self.id, cause, "cannot store a response");
        }
        if let Some(latest) = self.latest {
            let items = self.before.into_iter().chain(turn.into_items());
            latest.set(self.id.to_string(), items.collect());
        }
        saved.is_ok()
    }
}
