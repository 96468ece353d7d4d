//! Bodies of saved chats.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tollgate_edge::object_body::{Members, Read};
use tollgate_storage::{Chat, ChatTurn};
use tollgate_types::{ChatId, Error, ErrorCode, MemberId, RequestId, Timestamp};
use utoipa::ToSchema;

/// Maximum number of turns of a chat.
pub(super) const MAX_TURNS: u32 = 500;
/// Maximum size of the turns of a chat in bytes.
pub(super) const MAX_BYTES: u64 = 4 << 20;
/// Maximum number of answers of a turn.
const MAX_ANSWERS: usize = 4;
/// Maximum length of a title in characters.
const MAX_TITLE_CHARS: usize = 200;
/// Length of a title that is derived from the first message, in characters.
const DERIVED_TITLE_CHARS: usize = 60;
/// Maximum length of the name of a model in characters.
const MAX_MODEL_CHARS: usize = 200;
/// Maximum number of models that the record of a chat lists.
pub(super) const MAX_MODELS: usize = 16;
/// Maximum size of the settings in bytes.
const MAX_SETTINGS_BYTES: usize = 64 << 10;
const MAX_KIND_CHARS: usize = 32;

/// A saved chat, without its turns.
#[derive(Serialize, ToSchema)]
pub(super) struct ChatBody {
    /// Id of the chat: `chat_…`.
    #[schema(value_type = String)]
    pub(super) id: ChatId,
    pub(super) title: String,
    /// Kind of the playground, such as `chat` or `image`.
    pub(super) kind: String,
    /// Models that answered, at most 16.
    pub(super) models: Vec<String>,
    /// Number of the latest save, from 1.
    pub(super) revision: u32,
    /// Number of turns.
    pub(super) turns: u32,
    /// Size of the turns in bytes.
    pub(super) bytes: u64,
    /// Id of the member who saved the chat first; null if it is unknown. The member may no longer
    /// exist.
    #[schema(value_type = Option<String>)]
    pub(super) created_by: Option<MemberId>,
    /// Time of the first save, RFC 3339.
    pub(super) created_at: String,
    /// Time of the latest change, RFC 3339.
    pub(super) updated_at: String,
}

impl ChatBody {
    pub(super) fn of(chat: &Chat, title: String) -> Self {
        Self {
            id: chat.id,
            title,
            kind: chat.kind.clone(),
            models: chat.models.clone(),
            revision: chat.revision,
            turns: chat.turns,
            bytes: chat.bytes,
            created_by: chat.created_by,
            created_at: chat.created_at.to_rfc3339(),
            updated_at: chat.updated_at.to_rfc3339(),
        }
    }
}

/// A page of saved chats, most recently changed first.
#[derive(Serialize, ToSchema)]
pub(super) struct ChatList {
    pub(super) data: Vec<ChatBody>,
    /// Whether more chats follow.
    pub(super) has_more: bool,
    /// Number of saved chats of the account.
    pub(super) count: u32,
    /// Maximum number of saved chats of the account.
    pub(super) limit: u32,
}

/// A saved chat with its turns.
#[derive(Serialize, ToSchema)]
pub(super) struct WholeChat {
    #[serde(flatten)]
    pub(super) chat: ChatBody,
    /// Settings of the playground, as they were saved.
    #[schema(value_type = Object)]
    pub(super) settings: Value,
    /// The turns in order, as they were saved.
    #[schema(value_type = Vec<Object>)]
    pub(super) content: Vec<Value>,
}

/// A save of a chat.
#[derive(Serialize, ToSchema)]
pub(super) struct ChatPut {
    /// Revision that the save changes; 0 for a new chat.
    pub(super) base_revision: u32,
    /// Number of unchanged turns before `turns`. All later turns are replaced.
    pub(super) from: u32,
    /// The turns that follow. A turn has an `input` with `content`, and 1 to 4 `answers`, each with
    /// `model`, `content`, `status` (`completed`, `stopped` or `failed`), `request_id`, `usage` and
    /// `cost`. Other members are stored unchanged.
    #[schema(value_type = Vec<Object>)]
    pub(super) turns: Vec<Turn>,
    /// Kind of the playground, such as `chat`: 1 to 32 lower-case letters, digits and underscores.
    pub(super) kind: String,
    /// Title: 1 to 200 characters. The default for a new chat is the beginning of its first
    /// message; a saved chat retains its title.
    pub(super) title: Option<String>,
    /// Settings of the playground, at most 64 KiB.
    #[schema(value_type = Object)]
    pub(super) settings: Map<String, Value>,
}

/// A turn of a chat: a message with its answers.
#[derive(Clone, Serialize)]
#[serde(transparent)]
pub(super) struct Turn {
    value: Value,
    #[serde(skip)]
    pub(super) requests: Vec<RequestId>,
}

impl Read for ChatPut {
    fn read(members: &mut Members) -> Result<Self, Error> {
        let turns: Vec<Value> = members.required("turns", "an array of turns")?;
        let turns = turns.into_iter().enumerate();
        let put = Self {
            base_revision: members.required("base_revision", "a revision, or 0 for a new chat")?,
            from: members.required("from", "the number of unchanged turns")?,
            turns: turns
                .map(|(index, turn)| Turn::read(index, turn))
                .collect::<Result<_, _>>()?,
            kind: members.required("kind", "a string such as 'chat'")?,
            title: members.optional("title", "a string of 1 to 200 characters")?,
            settings: members.required("settings", "an object")?,
        };
        let is_kind = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if !(1..=MAX_KIND_CHARS).contains(&put.kind.len()) || !put.kind.bytes().all(is_kind) {
            let what = "must have 1 to 32 lower-case letters, digits and underscores";
            return Err(invalid("kind", what));
        }
        if let Some(title) = &put.title {
            check_title(title)?;
        }
        let settings = serde_json::to_vec(&put.settings).unwrap_or_default();
        if settings.len() > MAX_SETTINGS_BYTES {
            return Err(invalid("settings", "must have at most 64 KiB"));
        }
        if put.turns.is_empty() && put.base_revision == 0 {
            return Err(invalid("turns", "must have at least one turn in a new chat"));
        }
        Ok(put)
    }
}

impl ChatPut {
    /// Returns the digest that identifies repetitions of a save.
    pub(super) fn digest(&self) -> [u8; 32] {
        Sha256::digest(serde_json::to_vec(self).unwrap_or_default()).into()
    }

    /// Returns the title of a new chat: the given one, or the beginning of its first message.
    pub(super) fn new_title(&self) -> String {
        let derived = || self.turns.first().and_then(Turn::text).unwrap_or_default();
        let title = self.title.clone().unwrap_or_else(derived);
        match title.is_empty() {
            true => "Untitled".to_owned(),
            false => title,
        }
    }

    /// Returns the models of the answers, without duplicates.
    pub(super) fn models(&self) -> impl Iterator<Item = &str> {
        self.turns
            .iter()
            .flat_map(|turn| turn.answers().iter().filter_map(model_of))
    }
}

impl Turn {
    /// Reads a turn, the `index`-th of the body.
    fn read(index: usize, value: Value) -> Result<Self, Error> {
        let at = format!("turns[{index}]");
        let Some(input) = value["input"].as_object() else {
            return Err(invalid(&format!("{at}.input"), "must be an object"));
        };
        if !input
            .get("content")
            .is_some_and(|content| content.is_string() || content.is_array())
        {
            let what = "must be a string or an array of content parts";
            return Err(invalid(&format!("{at}.input.content"), what));
        }
        let answers = value["answers"].as_array().map(Vec::as_slice).unwrap_or_default();
        if !(1..=MAX_ANSWERS).contains(&answers.len()) {
            return Err(invalid(&format!("{at}.answers"), "must have 1 to 4 answers"));
        }
        let mut requests = Vec::new();
        for (number, answer) in answers.iter().enumerate() {
            let at = format!("{at}.answers[{number}]");
            requests.extend(read_answer(&at, answer)?);
        }
        Ok(Self { value, requests })
    }

    fn answers(&self) -> &[Value] {
        self.value["answers"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        self.value.to_string().into_bytes()
    }

    /// Returns the beginning of the first text of the input.
    fn text(&self) -> Option<String> {
        let content = &self.value["input"]["content"];
        let part = |part: &Value| part["text"].as_str().map(str::to_owned);
        let text = match content {
            Value::String(text) => Some(text.clone()),
            Value::Array(parts) => parts.iter().find_map(part),
            _ => None,
        };
        let text = text?;
        let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
        let shown = line.chars().filter(|char| !char.is_control());
        Some(shown.take(DERIVED_TITLE_CHARS).collect())
    }
}

fn model_of(answer: &Value) -> Option<&str> {
    answer["model"].as_str()
}

/// Checks an answer and returns the id of its request.
fn read_answer(at: &str, answer: &Value) -> Result<Option<RequestId>, Error> {
    let model = model_of(answer).unwrap_or_default();
    if !(1..=MAX_MODEL_CHARS).contains(&model.chars().count()) {
        return Err(invalid(
            &format!("{at}.model"),
            "must be a string of 1 to 200 characters",
        ));
    }
    if !(answer["content"].is_string() || answer["content"].is_array() || answer["content"].is_null()) {
        return Err(invalid(
            &format!("{at}.content"),
            "must be a string, an array or null",
        ));
    }
    if !matches!(
        answer["status"].as_str(),
        Some("completed" | "stopped" | "failed")
    ) {
        let what = "must be 'completed', 'stopped' or 'failed'";
        return Err(invalid(&format!("{at}.status"), what));
    }
    if !(answer["cost"].is_string() || answer["cost"].is_null()) {
        return Err(invalid(&format!("{at}.cost"), "must be a decimal string or null"));
    }
    if !(answer["usage"].is_object() || answer["usage"].is_null()) {
        return Err(invalid(&format!("{at}.usage"), "must be an object or null"));
    }
    let request = match &answer["request_id"] {
        Value::Null => None,
        Value::String(id) => id.parse().ok(),
        _ => return Err(invalid(&format!("{at}.request_id"), "must be a string or null")),
    };
    Ok(request)
}

/// A new title of a chat.
#[derive(Deserialize, ToSchema)]
pub(super) struct ChatPatch {
    /// Title: 1 to 200 characters.
    pub(super) title: String,
}

impl Read for ChatPatch {
    fn read(members: &mut Members) -> Result<Self, Error> {
        let title: String = members.required("title", "a string of 1 to 200 characters")?;
        check_title(&title)?;
        Ok(Self { title })
    }
}

fn check_title(title: &str) -> Result<(), Error> {
    if (1..=MAX_TITLE_CHARS).contains(&title.chars().count()) && !title.chars().any(char::is_control) {
        return Ok(());
    }
    let what = "must have 1 to 200 characters, none of them control characters";
    Err(invalid("title", what))
}

/// Number of deleted chats.
#[derive(Serialize, ToSchema)]
pub(super) struct Deleted {
    pub(super) deleted: u64,
}

pub(super) fn invalid(param: &str, what: &str) -> Error {
    Error::new(ErrorCode::InvalidParameter, format!("'{param}' {what}.")).with_param(param)
}

/// A saved chat for API keys.
#[derive(Serialize, ToSchema)]
pub(crate) struct Conversation {
    /// Id of the conversation: `chat_…`.
    #[schema(value_type = String)]
    id: ChatId,
    /// Always `playground.conversation`.
    object: &'static str,
    title: String,
    /// Models that answered, at most 16.
    models: Vec<String>,
    /// Kind of the playground, such as `chat` or `image`.
    kind: String,
    /// Number of turns.
    turns: u32,
    /// Time of the first save, RFC 3339.
    created_at: String,
    /// Time of the latest change, RFC 3339.
    updated_at: String,
}

impl Conversation {
    pub(super) fn of(chat: &Chat, title: String) -> Self {
        Self {
            id: chat.id,
            object: "playground.conversation",
            title,
            models: chat.models.clone(),
            kind: chat.kind.clone(),
            turns: chat.turns,
            created_at: chat.created_at.to_rfc3339(),
            updated_at: chat.updated_at.to_rfc3339(),
        }
    }
}

/// A page of saved chats, most recently changed first.
#[derive(Serialize, ToSchema)]
pub(crate) struct ConversationList {
    /// Always `list`.
    pub(super) object: &'static str,
    pub(super) data: Vec<Conversation>,
    /// Whether more conversations follow.
    pub(super) has_more: bool,
}

/// A saved chat with its messages.
#[derive(Serialize, ToSchema)]
pub(crate) struct WholeConversation {
    #[serde(flatten)]
    pub(super) conversation: Conversation,
    /// Settings of the playground, as they were saved.
    #[schema(value_type = Object)]
    pub(super) settings: Value,
    /// Messages in order: each message of the user is followed by its answers.
    pub(super) messages: Vec<Message>,
}

/// A message of a saved chat.
#[derive(Serialize, ToSchema)]
pub(crate) struct Message {
    /// `user` or `assistant`.
    role: &'static str,
    /// Text, or an array of content parts.
    #[schema(value_type = Object)]
    content: Value,
    /// Model that answered; null for messages of the user.
    model: Option<String>,
    /// `completed`, `stopped` or `failed`.
    status: String,
    /// Id of the request that made the answer; null for messages of the user.
    request_id: Option<String>,
    /// Usage of the answer, as the API returned it; null if it is unknown.
    #[schema(value_type = Option<Object>)]
    usage: Value,
    /// Cost of the answer in credits as a decimal string; null if it is unknown.
    cost: Option<String>,
    /// Time when the answer was requested, RFC 3339.
    created_at: String,
}

impl Message {
    /// Returns the messages of a turn: the input and its answers. Messages without a request have
    /// the time `saved_at`.
    pub(super) fn of_turn(turn: &Value, requests: &[RequestId], saved_at: Timestamp) -> Vec<Self> {
        let time = |id: Option<RequestId>| id.map_or(saved_at, accepted_at).to_rfc3339();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mut messages = vec![Self {
            role: "user",
            content: turn["input"]["content"].clone(),
            model: None,
            status: "completed".to_owned(),
            request_id: None,
            usage: Value::Null,
            cost: None,
            created_at: time(requests.first().copied()),
        }];
        let answers = turn["answers"].as_array().map(Vec::as_slice).unwrap_or_default();
        messages.extend(answers.iter().map(|answer| Self {
            role: "assistant",
            content: answer["content"].clone(),
            model: text(&answer["model"]),
            status: text(&answer["status"]).unwrap_or_default(),
            request_id: text(&answer["request_id"]),
            usage: answer["usage"].clone(),
            cost: text(&answer["cost"]),
            created_at: time(text(&answer["request_id"]).and_then(|id| id.parse().ok())),
        }));
        messages
    }
}

/// Returns the time in the id of a request, which is a UUIDv7 (RFC 9562).
fn accepted_at(request: RequestId) -> Timestamp {
    let millis = i64::try_from(request.as_u128() >> 80).unwrap_or_default();
    Timestamp::from_micros(millis.saturating_mul(1_000))
}

/// Returns a turn for storage: its encrypted body with the plain size.
pub(super) fn stored(turn: &Turn, body: Vec<u8>, bytes: usize) -> ChatTurn {
    ChatTurn {
        body,
        bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        requests: turn.requests.clone(),
    }
}
