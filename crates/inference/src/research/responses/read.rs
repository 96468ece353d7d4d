//! Parses a request of the Responses API for a research model.

use serde_json::{Map, Value};
use tollgate_edge::members::{Members, beyond, invalid, nested};
use tollgate_types::{Error, ErrorCode};

use super::super::chat::read::unsupported;
use super::super::payload::ResponseSettings;
use super::super::read::{self, Conversation, Message, Request};
use crate::conversion::with_param_name;

/// Parameters that research models do not support.
const UNSUPPORTED: &[&str] = &[
    "context_management",
    "conversation",
    "frequency_penalty",
    "moderation",
    "presence_penalty",
    "previous_response_id",
    "prompt",
    "temperature",
    "top_logprobs",
    "top_p",
];

/// Parameters that do not change the report.
const HINTS: &[&str] = &[
    "client_metadata",
    "include",
    "parallel_tool_calls",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "truncation",
    "user",
];

/// Types of tools that search the web.
const WEB_SEARCH: &[&str] = &[
    "web_search",
    "web_search_2025_08_26",
    "web_search_preview",
    "web_search_preview_2025_03_11",
];

/// Minimum of `max_tool_calls`: a search and a page.
const MIN_TOOL_CALLS: u64 = 2;
/// Maximum of `max_tool_calls`. Larger numbers have no effect.
const MAX_TOOL_CALLS: u64 = 1_000;

/// A parsed request.
pub(super) struct ResponseRequest {
    pub(super) request: Request,
    pub(super) settings: ResponseSettings,
    pub(super) is_streamed: bool,
    /// Path of the sites to search, if a tool limits them.
    pub(super) sites: Option<String>,
}

/// Parses a request body.
pub(super) fn body(body: &[u8]) -> Result<ResponseRequest, Error> {
    let mut members = Members::read(body)?;
    let sites = tools(&mut members)?;
    let parsed = request(&mut members);
    let (request, is_background, is_streamed) = parsed.map_err(|error| named(error, sites.as_deref()))?;
    members.end()?;
    let mut settings: Map<String, Value> = serde_json::from_slice(body).map_err(Error::internal)?;
    settings.remove("input");
    Ok(ResponseRequest {
        request,
        settings: ResponseSettings {
            body: settings,
            is_background,
        },
        is_streamed,
        sites,
    })
}

/// Renames the parameter of an error to its path in a request of this API.
pub(super) fn named(error: Error, sites: Option<&str>) -> Error {
    let Some(param) = error.param.as_deref() else {
        return error;
    };
    if param == "reasoning_effort" {
        return with_param_name(error, |_| "reasoning.effort".to_owned());
    }
    match (param.strip_prefix("search_domain_filter"), sites) {
        (Some(rest), Some(sites)) => {
            let path = format!("{sites}{rest}");
            with_param_name(error, |_| path)
        }
        _ => error,
    }
}

/// Parses the members other than `tools`. Returns whether the response is in the background, and
/// whether it is streamed.
fn request(members: &mut Members) -> Result<(Request, bool, bool), Error> {
    let model = members.text("model")?.ok_or_else(|| read::missing("model"))?;
    let conversation = input(members)?;
    if let Some(name) = UNSUPPORTED.iter().find(|name| members.has(name)) {
        return Err(unsupported(name));
    }
    for name in HINTS.iter().chain(UNSUPPORTED) {
        members.take(name);
    }
    accept(members, "store", &[Value::Bool(true)])?;
    accept(members, "service_tier", &["auto".into(), "default".into()])?;
    accept(members, "tool_choice", &["auto".into(), "required".into()])?;
    text(members)?;
    reasoning(members)?;
    let is_background = members.flag("background")?.unwrap_or(false);
    let is_streamed = stream(members)?;
    let calls = members.number("max_tool_calls", 1, u64::MAX)?;
    let mut request = read::settings(members, model, conversation)?;
    if let Some(calls) = calls {
        limit_calls(&mut request, calls)?;
    }
    Ok((request, is_background, is_streamed))
}

/// Removes a member that may only have these values.
fn accept(members: &mut Members, name: &'static str, values: &[Value]) -> Result<(), Error> {
    match members.take(name) {
        Some(value) if !values.contains(&value) => {
            let values: Vec<String> = values.iter().map(Value::to_string).collect();
            let message = format!(
                "Research models support only {} as '{name}'.",
                values.join(" and ")
            );
            Err(Error::new(ErrorCode::UnsupportedParameter, message).with_param(name))
        }
        _ => Ok(()),
    }
}

/// Divides the maximum number of tool calls into searches and pages, as the efforts do: two pages
/// for each search.
fn limit_calls(request: &mut Request, calls: u64) -> Result<(), Error> {
    if calls < MIN_TOOL_CALLS {
        let what = format!("must be at least {MIN_TOOL_CALLS}: a search and a page");
        return Err(beyond("max_tool_calls", &what));
    }
    let calls = u32::try_from(calls.min(MAX_TOOL_CALLS)).unwrap_or(u32::MAX);
    let searches = (calls / 3).max(1);
    let lower = |own: Option<u32>, other: u32| Some(own.map_or(other, |own| own.min(other)));
    request.max_searches = lower(request.max_searches, searches);
    request.max_pages = lower(request.max_pages, calls - searches);
    Ok(())
}

fn input(members: &mut Members) -> Result<Conversation, Error> {
    match members.take("input") {
        Some(Value::String(text)) => read::question("input", text),
        Some(items) => read::conversation("input", items, item),
        None => {
            let message = "'input' is missing. Send the question, or a conversation that ends with it.";
            Err(Error::new(ErrorCode::MissingRequiredParameter, message).with_param("input"))
        }
    }
}

/// Parses an input item. Reasoning and searches of earlier responses have no text.
fn item(members: &mut Members) -> Result<Option<Message>, Error> {
    match members.text("type")?.as_deref() {
        None | Some("message") => {
            members.take("id");
            members.take("status");
            read::message(members)
        }
        Some("reasoning" | "web_search_call") => {
            for name in [
                "id",
                "status",
                "summary",
                "content",
                "encrypted_content",
                "action",
            ] {
                members.take(name);
            }
            Ok(None)
        }
        Some(_) => Err(invalid("type", "must be 'message': research accepts text only")),
    }
}

fn text(members: &mut Members) -> Result<(), Error> {
    let Some(text) = members.take("text") else {
        return Ok(());
    };
    nested("text", text, |text| {
        let format = text.take("format");
        if format.is_some_and(|format| format["type"] != "text") {
            return Err(unsupported("format"));
        }
        match text.has("verbosity") {
            true => Err(unsupported("verbosity")),
            false => Ok(()),
        }
    })
}

fn reasoning(members: &mut Members) -> Result<(), Error> {
    let Some(reasoning) = members.take("reasoning") else {
        return Ok(());
    };
    let effort = nested("reasoning", reasoning, |reasoning| {
        reasoning.take("summary");
        reasoning.text("effort")
    })?;
    if let Some(effort) = effort {
        members.put("reasoning_effort", effort.into());
    }
    Ok(())
}

fn stream(members: &mut Members) -> Result<bool, Error> {
    let is_streamed = members.flag("stream")?.unwrap_or(false);
    let Some(options) = members.take("stream_options") else {
        return Ok(is_streamed);
    };
    if !is_streamed {
        return Err(invalid("stream_options", "is only allowed with 'stream': true"));
    }
    nested("stream_options", options, |options| {
        options.flag("include_obfuscation").map(drop)
    })?;
    Ok(true)
}

/// Parses the tools. Stores the sites that a tool may search as `search_domain_filter`, and returns
/// their path.
fn tools(members: &mut Members) -> Result<Option<String>, Error> {
    let tools = match members.take("tools") {
        None => return Ok(None),
        Some(Value::Array(tools)) => tools,
        Some(_) => return Err(invalid("tools", "must be an array")),
    };
    let mut found = None;
    for (at, tool) in tools.into_iter().enumerate() {
        let path = format!("tools[{at}]");
        let kind = tool["type"].as_str().unwrap_or_default();
        if !WEB_SEARCH.contains(&kind) {
            let message = format!("Research models support only web search tools. Remove '{path}'.");
            return Err(Error::new(ErrorCode::UnsupportedParameter, message).with_param(path));
        }
        let Some(sites) = nested(&path, tool, tool_sites)? else {
            continue;
        };
        let path = format!("{path}.filters.allowed_domains");
        if found.is_some() || members.has("search_domain_filter") {
            return Err(invalid(
                &path,
                "must be sent once, and not with 'search_domain_filter'",
            ));
        }
        found = Some(path);
        members.put("search_domain_filter", sites);
    }
    Ok(found)
}

/// Returns the sites that a web search tool may search.
fn tool_sites(tool: &mut Members) -> Result<Option<Value>, Error> {
    for name in ["type", "search_context_size"] {
        tool.take(name);
    }
    if tool.has("user_location") {
        return Err(unsupported("user_location"));
    }
    accept(tool, "external_web_access", &[Value::Bool(true)])?;
    let Some(filters) = tool.take("filters") else {
        return Ok(None);
    };
    nested("filters", filters, |filters| {
        let sites = filters.take("allowed_domains");
        let items = sites.as_ref().and_then(Value::as_array);
        let is_excluded = |site: &Value| site.as_str().is_some_and(|site| site.starts_with('-'));
        match (&sites, items) {
            (Some(_), None) => Err(invalid("allowed_domains", "must be an array of sites")),
            (_, Some(items)) if items.iter().any(is_excluded) => {
                Err(invalid("allowed_domains", "must not exclude sites"))
            }
            _ => Ok(sites),
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(more: Value) -> Result<ResponseRequest, Error> {
        let mut whole = json!({"model": "sim/research", "input": "Why?"});
        for (name, value) in more.as_object().unwrap() {
            whole[name] = value.clone();
        }
        body(whole.to_string().as_bytes())
    }

    #[test]
    fn tool_calls_are_searches_and_pages() {
        for (more, expected) in [
            (json!({}), (None, None)),
            (json!({"max_tool_calls": 2}), (Some(1), Some(1))),
            (json!({"max_tool_calls": 9}), (Some(3), Some(6))),
            (
                json!({"max_tool_calls": 9, "max_searches": 1, "max_pages": 100}),
                (Some(1), Some(6)),
            ),
            (json!({"max_tool_calls": 1_000_000}), (Some(333), Some(667))),
        ] {
            let request = parsed(more.clone()).unwrap().request;
            assert_eq!((request.max_searches, request.max_pages), expected, "{more}");
        }
        let error = parsed(json!({"max_tool_calls": 1})).err().unwrap();
        assert_eq!(error.code, ErrorCode::ParameterOutOfRange);
    }

    #[test]
    fn tools_limit_the_sites() {
        let tool = json!({
            "type": "web_search",
            "filters": {"allowed_domains": ["example.com", "example.org/docs"]},
            "search_context_size": "low",
        });
        let request = parsed(json!({"tools": [{"type": "web_search_preview"}, tool]})).unwrap();
        assert_eq!(
            request.request.filters.include,
            ["example.com", "example.org/docs"]
        );
        assert_eq!(request.sites.as_deref(), Some("tools[1].filters.allowed_domains"));
        for (tool, code, param) in [
            (
                json!({"type": "mcp"}),
                ErrorCode::UnsupportedParameter,
                "tools[0]",
            ),
            (
                json!({"type": "function"}),
                ErrorCode::UnsupportedParameter,
                "tools[0]",
            ),
            (json!({}), ErrorCode::UnsupportedParameter, "tools[0]"),
            (
                json!({"type": "web_search", "user_location": {"type": "approximate"}}),
                ErrorCode::UnsupportedParameter,
                "tools[0].user_location",
            ),
            (
                json!({"type": "web_search", "filters": {"allowed_domains": ["-example.com"]}}),
                ErrorCode::InvalidParameter,
                "tools[0].filters.allowed_domains",
            ),
            (
                json!({"type": "web_search", "filters": {"allowed_domains": ["a.example", "http://x"]}}),
                ErrorCode::InvalidParameter,
                "tools[0].filters.allowed_domains[1]",
            ),
            (
                json!({"type": "web_search", "filters": {"allowed_domains": vec!["a.example"; 21]}}),
                ErrorCode::InvalidParameter,
                "tools[0].filters.allowed_domains",
            ),
        ] {
            let error = parsed(json!({"tools": [tool]})).err().unwrap();
            assert_eq!(
                (error.code, error.param.as_deref()),
                (code, Some(param)),
                "{tool}"
            );
        }
    }

    #[test]
    fn earlier_output_may_be_input() {
        let input = json!([
            {"role": "user", "content": "Why?"},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}},
            {
                "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": "Because.", "annotations": []}],
            },
            {"role": "user", "content": [{"type": "input_text", "text": "And then?"}]},
        ]);
        let request = parsed(json!({"input": input})).unwrap().request;
        let texts: Vec<&str> = request.messages.iter().map(|message| &*message.text).collect();
        assert_eq!(texts, ["Why?", "Because.", "And then?"]);
    }
}
