//! Parses and validates a research request.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_edge::members::{Members, invalid, nested, number, text};
use tollgate_types::{Credits, Date, Error, ErrorCode};
use tollgate_upstream::{Recency, SearchFilters};

use super::effort::Effort;

/// Maximum length of the question, or of all messages together, in characters.
const MAX_INPUT_CHARS: usize = 32_000;
/// Maximum length of `instructions`, in characters.
const MAX_INSTRUCTIONS_CHARS: usize = 8_000;
/// Maximum number of messages.
const MAX_MESSAGES: usize = 100;
/// Maximum number of sites in `search_domain_filter` (contract, Limits).
const MAX_SITES: usize = 20;
/// Maximum length of a site, in bytes.
const MAX_SITE_BYTES: usize = 255;
/// Maximum number of sources.
const MAX_SOURCES: usize = 8;
/// Minimum of `max_output_tokens`.
pub(super) const MIN_OUTPUT_TOKENS: u64 = 256;
/// Maximum of `max_output_tokens` that any model accepts.
pub(super) const MAX_OUTPUT_TOKENS: u64 = 1_000_000;
/// Maximum of `max_searches` and `max_pages`. Larger values have no effect.
const MAX_COUNT: u64 = 1_000;

/// A validated research request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) model: String,
    /// Conversation whose last message is the question.
    pub(super) messages: Vec<Message>,
    /// Path of the question's text in the request body.
    pub(super) question_param: String,
    pub(super) effort: Option<Effort>,
    pub(super) max_output_tokens: Option<u64>,
    pub(super) filters: SearchFilters,
    pub(super) disable_formatting: bool,
    pub(super) marks_unverified: bool,
    pub(super) max_cost: Option<Credits>,
    pub(super) max_searches: Option<u32>,
    pub(super) max_pages: Option<u32>,
    pub(super) instructions: Option<String>,
    pub(super) sources: Vec<SourceSpec>,
    pub(super) metadata: Option<BTreeMap<String, String>>,
    pub(super) webhook_url: Option<String>,
    /// Whether the response waits for the report.
    pub(super) is_sync: bool,
}

/// Messages whose last one is the question.
pub(super) struct Conversation {
    messages: Vec<Message>,
    /// Path of the question's text in the request body.
    question_param: String,
}

/// A message of the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Message {
    pub(super) role: Role,
    pub(super) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    System,
    User,
    Assistant,
}

impl Role {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }
}

/// A source of documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum SourceSpec {
    Web,
    Corpus {
        name: String,
    },
    File {
        file_id: String,
    },
    Mcp {
        server_url: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        authorization: Option<String>,
    },
}

/// Parses a request body. Errors contain the path of the invalid parameter.
pub(super) fn request(body: &[u8]) -> Result<Request, Error> {
    let mut members = Members::read(body)?;
    let model = members.text("model")?.ok_or_else(|| missing("model"))?;
    let query = members.any_text("query")?;
    let conversation = match (query, members.take("messages")) {
        (Some(_), Some(_)) => {
            let what = "cannot be combined with 'query'. Send only one of them";
            return Err(invalid("messages", what));
        }
        (Some(query), None) => question("query", query)?,
        (None, Some(messages)) => conversation("messages", messages, message)?,
        (None, None) => return Err(missing("query")),
    };
    let request = Request {
        is_sync: sync(&mut members)?,
        ..settings(&mut members, model, conversation)?
    };
    if members
        .take("stream")
        .is_some_and(|stream| stream != Value::Bool(false))
    {
        let message = "'stream' is not supported here. Follow GET /v1/jobs/{job_id}/events for the progress.";
        return Err(Error::new(ErrorCode::UnsupportedParameter, message).with_param("stream"));
    }
    members.end()?;
    Ok(request)
}

/// Parses the members that all endpoints of research have in common.
pub(super) fn settings(
    members: &mut Members,
    model: String,
    conversation: Conversation,
) -> Result<Request, Error> {
    Ok(Request {
        model,
        messages: conversation.messages,
        question_param: conversation.question_param,
        effort: members.text("reasoning_effort")?.map(effort).transpose()?,
        max_output_tokens: members.number("max_output_tokens", MIN_OUTPUT_TOKENS, MAX_OUTPUT_TOKENS)?,
        filters: filters(members)?,
        disable_formatting: members.flag("disable_formatting")?.unwrap_or(false),
        marks_unverified: unverified(members)?,
        max_cost: members.take("max_cost").map(max_cost).transpose()?,
        max_searches: count(members, "max_searches")?,
        max_pages: count(members, "max_pages")?,
        instructions: instructions(members)?,
        sources: members
            .take("sources")
            .map(sources)
            .transpose()?
            .unwrap_or_default(),
        metadata: members.metadata()?,
        webhook_url: members.text("webhook_url")?,
        is_sync: false,
    })
}

pub(super) fn missing(name: &'static str) -> Error {
    let message = match name {
        "query" => {
            "'query' is missing. Send the question in 'query', or a conversation in 'messages'.".to_owned()
        }
        _ => format!("'{name}' is missing. GET /v1/models lists the models."),
    };
    Error::new(ErrorCode::MissingRequiredParameter, message).with_param(name)
}

/// Returns a conversation of only a question.
pub(super) fn question(path: &str, text: String) -> Result<Conversation, Error> {
    check_length(path, text.chars().count())?;
    if text.trim().is_empty() {
        return Err(invalid(path, "must not be empty"));
    }
    let message = Message {
        role: Role::User,
        text,
    };
    Ok(Conversation {
        messages: vec![message],
        question_param: path.to_owned(),
    })
}

fn check_length(path: &str, characters: usize) -> Result<(), Error> {
    match characters > MAX_INPUT_CHARS {
        true => Err(invalid(
            path,
            &format!("must have at most {MAX_INPUT_CHARS} characters in total, not {characters}"),
        )),
        false => Ok(()),
    }
}

/// Parses a conversation whose last message is the question. `read` parses one message; it returns
/// `None` for an item without text of the conversation.
pub(super) fn conversation(
    name: &str,
    messages: Value,
    read: impl Fn(&mut Members) -> Result<Option<Message>, Error>,
) -> Result<Conversation, Error> {
    let Value::Array(items) = messages else {
        return Err(invalid(name, "must be an array of messages"));
    };
    if items.is_empty() || items.len() > MAX_MESSAGES {
        return Err(invalid(name, &format!("must have 1 to {MAX_MESSAGES} messages")));
    }
    let last = items.len() - 1;
    let mut messages = Vec::with_capacity(items.len());
    for (at, item) in items.into_iter().enumerate() {
        let path = format!("{name}[{at}]");
        let message = nested(&path, item, &read)?;
        if at == last && message.as_ref().is_none_or(|message| message.role != Role::User) {
            return Err(invalid(
                &format!("{path}.role"),
                "of the last message must be 'user'",
            ));
        }
        messages.extend(message);
    }
    let characters = messages.iter().map(|message| message.text.chars().count()).sum();
    check_length(name, characters)?;
    Ok(Conversation {
        messages,
        question_param: format!("{name}[{last}].content"),
    })
}

/// Parses a message of a chat.
pub(super) fn message(members: &mut Members) -> Result<Option<Message>, Error> {
    let role = match members.text("role")?.as_deref() {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        _ => return Err(invalid("role", "must be 'system', 'user' or 'assistant'")),
    };
    let text = match members.take("content") {
        Some(Value::String(text)) => text,
        Some(Value::Array(parts)) => content_text(parts)?,
        _ => return Err(invalid("content", "must be a string or an array of text parts")),
    };
    match text.trim().is_empty() {
        true => Err(invalid("content", "must not be empty")),
        false => Ok(Some(Message { role, text })),
    }
}

fn content_text(parts: Vec<Value>) -> Result<String, Error> {
    let mut whole = String::new();
    for (at, part) in parts.into_iter().enumerate() {
        let path = format!("content[{at}]");
        let kind = part.get("type").and_then(Value::as_str);
        match (kind, part.get("text").and_then(Value::as_str)) {
            (Some("text" | "input_text" | "output_text"), Some(text)) => whole.push_str(text),
            _ => return Err(invalid(&path, "must be a text part: research accepts text only")),
        }
    }
    Ok(whole)
}

fn effort(name: String) -> Result<Effort, Error> {
    Effort::parse(&name).ok_or_else(|| {
        let known = Effort::ALL.map(Effort::as_str).join(", ");
        invalid("reasoning_effort", &format!("must be one of {known}"))
    })
}

fn filters(members: &mut Members) -> Result<SearchFilters, Error> {
    let mut filters = SearchFilters {
        recency: members.text("search_recency_filter")?.map(recency).transpose()?,
        after: date(members, "search_after_date_filter")?,
        before: date(members, "search_before_date_filter")?,
        language: members.text("language")?.map(language).transpose()?,
        ..SearchFilters::default()
    };
    if let (Some(after), Some(before)) = (filters.after, filters.before)
        && after > before
    {
        return Err(invalid(
            "search_before_date_filter",
            "must not be before search_after_date_filter",
        ));
    }
    if let Some(value) = members.take("search_domain_filter") {
        (filters.include, filters.exclude) = sites(value)?;
    }
    Ok(filters)
}

fn recency(name: String) -> Result<Recency, Error> {
    Recency::parse(&name).ok_or_else(|| {
        let known = Recency::ALL.map(Recency::as_str).join(", ");
        invalid("search_recency_filter", &format!("must be one of {known}"))
    })
}

/// Parses a date as `YYYY-MM-DD` or `M/D/YYYY`.
fn date(members: &mut Members, name: &'static str) -> Result<Option<Date>, Error> {
    let Some(text) = members.text(name)? else {
        return Ok(None);
    };
    let american = || {
        let mut parts = text.split('/');
        let (month, day, year) = (parts.next()?, parts.next()?, parts.next()?);
        match parts.next() {
            None => Date::new(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?),
            Some(_) => None,
        }
    };
    let date = Date::parse(&text).filter(|_| text.len() == 10).or_else(american);
    date.map(Some)
        .ok_or_else(|| invalid(name, "must be a date such as 2026-03-31 or 3/31/2026"))
}

fn language(tag: String) -> Result<String, Error> {
    let is_valid = tag.len() <= 35
        && tag.split('-').all(|part| {
            (1..=8).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
        && tag.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    match is_valid {
        true => Ok(tag),
        false => Err(invalid(
            "language",
            "must be a BCP 47 language tag, such as en or pt-BR",
        )),
    }
}

/// Parses the sites of a filter: those to search, and those to exclude.
fn sites(value: Value) -> Result<(Vec<String>, Vec<String>), Error> {
    const NAME: &str = "search_domain_filter";
    let items: Vec<(String, String)> = match value {
        Value::String(list) => {
            let items = list.split(',').map(str::trim).filter(|item| !item.is_empty());
            items.map(|item| (NAME.to_owned(), item.to_owned())).collect()
        }
        Value::Array(items) => {
            let item = |(at, item): (usize, Value)| {
                let path = format!("{NAME}[{at}]");
                let text = text(&path, item)?;
                Ok((path, text.trim().to_owned()))
            };
            items
                .into_iter()
                .enumerate()
                .map(item)
                .collect::<Result<_, Error>>()?
        }
        _ => {
            return Err(invalid(
                NAME,
                "must be a comma-separated string or an array of sites",
            ));
        }
    };
    if items.len() > MAX_SITES {
        let what = format!("must have at most {MAX_SITES} sites, not {}", items.len());
        return Err(invalid(NAME, &what));
    }
    let (mut include, mut exclude) = (Vec::new(), Vec::new());
    for (path, item) in items {
        let (list, site) = match item.strip_prefix('-') {
            Some(site) => (&mut exclude, site),
            None => (&mut include, item.as_str()),
        };
        list.push(site_of(&path, site)?);
    }
    Ok((include, exclude))
}

fn site_of(path: &str, site: &str) -> Result<String, Error> {
    let (host, _) = site.split_once('/').unwrap_or((site, ""));
    let is_label = |label: &str| {
        !label.is_empty()
            && label
                .chars()
                .all(|char| char.is_alphanumeric() || char == '-' || char == '_')
    };
    let is_valid = site.len() <= MAX_SITE_BYTES
        && host.split('.').all(is_label)
        && !site
            .chars()
            .any(|char| char.is_whitespace() || char.is_control() || "?#@:".contains(char));
    match is_valid {
        true => Ok(site.to_lowercase()),
        false => Err(invalid(
            path,
            "must be a host or host/path without a scheme, such as example.com or example.com/docs",
        )),
    }
}

fn unverified(members: &mut Members) -> Result<bool, Error> {
    match members.text("unverified")?.as_deref() {
        None | Some("remove") => Ok(false),
        Some("mark") => Ok(true),
        Some(_) => Err(invalid("unverified", "must be 'remove' or 'mark'")),
    }
}

fn max_cost(value: Value) -> Result<Credits, Error> {
    let written = match &value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    };
    written
        .filter(|cost: &Credits| *cost > Credits::ZERO)
        .ok_or_else(|| {
            invalid(
                "max_cost",
                "must be an amount of credits above 0, such as \"0.25\"",
            )
        })
}

fn count(members: &mut Members, name: &'static str) -> Result<Option<u32>, Error> {
    let Some(value) = members.take(name) else {
        return Ok(None);
    };
    let count = number(name, &value, 1, MAX_COUNT)?;
    Ok(u32::try_from(count).ok())
}

fn instructions(members: &mut Members) -> Result<Option<String>, Error> {
    match members.text("instructions")? {
        Some(text) if text.chars().count() > MAX_INSTRUCTIONS_CHARS => Err(invalid(
            "instructions",
            &format!("must have at most {MAX_INSTRUCTIONS_CHARS} characters"),
        )),
        text => Ok(text),
    }
}

fn sources(value: Value) -> Result<Vec<SourceSpec>, Error> {
    let Value::Array(items) = value else {
        return Err(invalid("sources", "must be an array"));
    };
    if items.is_empty() || items.len() > MAX_SOURCES {
        return Err(invalid(
            "sources",
            &format!("must have 1 to {MAX_SOURCES} sources"),
        ));
    }
    let source = |(at, item): (usize, Value)| nested(&format!("sources[{at}]"), item, source);
    items.into_iter().enumerate().map(source).collect()
}

fn source(members: &mut Members) -> Result<SourceSpec, Error> {
    match members.text("type")?.as_deref() {
        Some("corpus") => {
            let name = members.text("name")?;
            let name = name.ok_or_else(|| invalid("name", "must be the name of a corpus"))?;
            Ok(SourceSpec::Corpus { name })
        }
        Some("web") => Ok(SourceSpec::Web),
        Some("file") => {
            let file_id = members.text("file_id")?;
            let file_id = file_id.ok_or_else(|| invalid("file_id", "must be the id of a file"))?;
            Ok(SourceSpec::File { file_id })
        }
        Some("mcp") => {
            let server_url = members.text("server_url")?;
            let server_url =
                server_url.ok_or_else(|| invalid("server_url", "must be the URL of an MCP server"))?;
            let authorization = members.text("authorization")?;
            Ok(SourceSpec::Mcp {
                server_url,
                authorization,
            })
        }
        _ => Err(invalid("type", "must be 'web', 'corpus', 'file' or 'mcp'")),
    }
}

fn sync(members: &mut Members) -> Result<bool, Error> {
    match members.either("sync", "wait")? {
        None => Ok(false),
        Some((_, Value::Bool(flag))) => Ok(flag),
        Some((name, _)) => Err(invalid(name, "must be true or false")),
    }
}
