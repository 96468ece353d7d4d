//! Research reports in the formats of OpenAI's background responses, Perplexity's asynchronous chat
//! completions and Gemini's interactions. Field names are those of the providers' SDKs (openai
//! 3.54, perplexityai 0.46, google-genai 3.4).

use serde_json::{Value, json};

use super::super::received::ReceivedRequest;
use super::super::reply::Reply;
use super::{Making, MediaServer, Order, Stage, as_json, not_found, text};

/// A sentence of the report that the upstream writes, and the document that it cites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CitedSentence {
    /// Text of the sentence, without a mark.
    pub text: String,
    /// URL of the cited document; empty for a sentence without a citation.
    pub url: String,
    /// Title of the document.
    pub title: String,
}

impl CitedSentence {
    /// Creates a sentence that cites the document at a URL, with this title.
    pub fn new(text: &str, url: &str, title: &str) -> Self {
        Self {
            text: text.to_owned(),
            url: url.to_owned(),
            title: title.to_owned(),
        }
    }
}

/// Returns the report of an upstream whose test sets none.
pub(super) fn usual() -> Vec<CitedSentence> {
    vec![
        CitedSentence::new("Ferries sail daily.", "https://a.example/ferries", "Ferries"),
        CitedSentence::new(
            "Éole blows hard — 12 days a year.",
            "https://b.example/wind",
            "Wind",
        ),
        CitedSentence::new("Nothing else is known.", "", ""),
    ]
}

pub(super) fn reply(media_server: &mut MediaServer, request: &ReceivedRequest) -> Option<Reply> {
    let path = request.bare_path();
    let (_, after) = ["/responses", "/async/chat/completions", "/interactions"]
        .iter()
        .find_map(|root| path.split_once(root))?;
    let wire = match path {
        _ if path.contains("/interactions") => Wire::Gemini,
        _ if path.contains("/async/") => Wire::Perplexity,
        _ => Wire::OpenAi,
    };
    let id = after.trim_start_matches('/');
    match (request.method.as_str(), id) {
        ("POST", "") => submit(media_server, request, wire),
        ("GET", "") if wire == Wire::Perplexity => Some(as_json(200, &json!({"requests": []}))),
        ("GET", id) => {
            let cited = media_server.cited.clone();
            let found = media_server.poll(id);
            Some(found.map_or_else(not_found, |(making, stage)| status(wire, &making, stage, &cited)))
        }
        ("POST", id) if wire != Wire::Perplexity => {
            let making = media_server.find(id.strip_suffix("/cancel")?)?;
            making.is_cancelled = true;
            Some(as_json(200, &json!({"id": id})))
        }
        _ => None,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wire {
    OpenAi,
    Perplexity,
    Gemini,
}

fn submit(media_server: &mut MediaServer, request: &ReceivedRequest, wire: Wire) -> Option<Reply> {
    let body = request.json()?;
    let order = match wire {
        Wire::OpenAi => {
            // Other responses are not background responses.
            if body["background"] != true {
                return None;
            }
            let last = body["input"].as_array()?.last()?;
            Order {
                model: text(&body["model"]),
                prompt: text(&last["content"]),
                ..Order::default()
            }
        }
        Wire::Perplexity => Order {
            model: text(&body["request"]["model"]),
            prompt: text(&body["request"]["messages"].as_array()?.last()?["content"]),
            key: Some(text(&body["idempotency_key"])),
            ..Order::default()
        },
        Wire::Gemini => Order {
            model: text(&body["agent"]),
            prompt: text(&body["input"]),
            ..Order::default()
        },
    };
    let name = match wire {
        Wire::OpenAi => "openai",
        Wire::Perplexity => "perplexity",
        Wire::Gemini => "google",
    };
    if wire == Wire::Perplexity
        && let Some(known) = media_server.with_key(&text(&body["idempotency_key"]))
    {
        media_server.submissions += 1;
        return Some(as_json(200, &record(wire, &known, "CREATED")));
    }
    Some(media_server.submit(name, request, order, |making| {
        let word = match wire {
            Wire::Perplexity => "CREATED",
            _ => "queued",
        };
        as_json(200, &record(wire, making, word))
    }))
}

fn record(wire: Wire, making: &Making, status: &str) -> Value {
    match wire {
        Wire::OpenAi => json!({
            "id": making.id, "object": "response", "status": status, "model": making.model,
            "created_at": 1_790_000_000, "background": true, "error": null, "incomplete_details": null,
            "output": [], "usage": null,
        }),
        Wire::Perplexity => json!({
            "id": making.id, "model": making.model, "created_at": 1_790_000_000, "started_at": null,
            "completed_at": null, "failed_at": null, "error_message": null, "status": status,
            "response": null,
        }),
        Wire::Gemini => json!({
            "id": making.id, "object": "interaction", "agent": making.model, "status": status, "steps": [],
        }),
    }
}

fn status(wire: Wire, making: &Making, stage: Stage, cited: &[CitedSentence]) -> Reply {
    let words: [&str; 6] = match wire {
        Wire::OpenAi => [
            "queued",
            "in_progress",
            "completed",
            "failed",
            "incomplete",
            "cancelled",
        ],
        Wire::Perplexity => [
            "CREATED",
            "IN_PROGRESS",
            "COMPLETED",
            "FAILED",
            "FAILED",
            "FAILED",
        ],
        Wire::Gemini => [
            "queued",
            "in_progress",
            "completed",
            "failed",
            "budget_exceeded",
            "cancelled",
        ],
    };
    let [waiting, running, done, failed, blocked, cancelled] = words;
    let record = |word: &str| record(wire, making, word);
    let record = match stage {
        Stage::Waiting => record(waiting),
        Stage::Running => record(running),
        Stage::Cancelled => record(cancelled),
        Stage::Done => {
            let mut record = record(done);
            write(wire, making, cited, &mut record);
            record
        }
        Stage::Failed(message) => {
            let mut record = record(failed);
            record["error_message"] = json!(message);
            record["error"] = json!({"code": "server_error", "message": message});
            record
        }
        Stage::Blocked => {
            let mut record = record(blocked);
            record["incomplete_details"] = json!({"reason": "content_filter"});
            record
        }
    };
    as_json(200, &record)
}

/// Adds the complete report to a record.
fn write(wire: Wire, making: &Making, cited: &[CitedSentence], record: &mut Value) {
    match wire {
        Wire::OpenAi => {
            record["output"] = openai_output(cited);
            record["usage"] = json!({
                "input_tokens": 5_000, "input_tokens_details": {"cached_tokens": 2_000},
                "output_tokens": 1_200, "output_tokens_details": {"reasoning_tokens": 1_000},
                "total_tokens": 6_200,
            });
        }
        Wire::Perplexity => record["response"] = perplexity_response(making, cited),
        Wire::Gemini => {
            record["steps"] = gemini_steps(making, cited);
            record["usage"] = json!({
                "total_input_tokens": 4_000, "total_tool_use_tokens": 1_000, "total_cached_tokens": 2_000,
                "total_output_tokens": 200, "total_thought_tokens": 1_000, "total_tokens": 6_200,
                "grounding_tool_count": [{"type": "google_search", "count": 3}],
            });
        }
    }
}

/// Writes links in parentheses; the annotations cover them, in code points.
fn openai_output(cited: &[CitedSentence]) -> Value {
    let (mut report, mut annotations) = (String::from("## Findings\n\n"), Vec::new());
    for sentence in cited {
        report.push_str(&sentence.text);
        if !sentence.url.is_empty() {
            report.push(' ');
            let start = report.chars().count();
            report.push_str(&format!("([{}]({}))", sentence.title, sentence.url));
            annotations.push(json!({
                "type": "url_citation", "start_index": start, "end_index": report.chars().count(),
                "url": sentence.url, "title": sentence.title,
            }));
        }
        report.push('\n');
    }
    let search = |query: &str| json!({"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search", "query": query}});
    let open = json!({"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "open_page", "url": "https://a.example"}});
    json!([
        {"type": "reasoning", "id": "rs", "summary": []},
        search("one"), open, search("two"),
        {"type": "message", "id": "msg", "role": "assistant", "status": "completed", "content": [
            {"type": "output_text", "text": report, "annotations": annotations},
        ]},
    ])
}

/// Writes marks such as `[1]` after the reasoning in its tags.
fn perplexity_response(making: &Making, cited: &[CitedSentence]) -> Value {
    let mut urls: Vec<&str> = Vec::new();
    let mut report = String::from("<think>\nLet me search [1].\n</think>\n\n## Findings\n\n");
    for sentence in cited {
        report.push_str(&sentence.text);
        if !sentence.url.is_empty() {
            let place = urls
                .iter()
                .position(|url| *url == sentence.url)
                .unwrap_or(urls.len());
            if place == urls.len() {
                urls.push(&sentence.url);
            }
            report.push_str(&format!("[{}]", place + 1));
        }
        report.push('\n');
    }
    let results = cited.iter().filter(|sentence| !sentence.url.is_empty());
    let results = results.map(|sentence| {
        json!({"title": sentence.title, "url": sentence.url, "date": "2026-03-31", "snippet": sentence.text})
    });
    json!({
        "id": making.id, "object": "chat.completion", "created": 1_790_000_000, "model": making.model,
        "citations": urls, "search_results": results.collect::<Vec<_>>(),
        "choices": [{"index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": report}}],
        "usage": {"prompt_tokens": 1_000, "citation_tokens": 4_000, "completion_tokens": 200,
            "reasoning_tokens": 1_000, "num_search_queries": 3, "total_tokens": 6_200,
            "cost": {"input_tokens_cost": 0.01, "output_tokens_cost": 0.01, "total_cost": 0.02}},
    })
}

/// Writes marks such as `[cite: 1]`; the annotations cover the sentences, in bytes.
fn gemini_steps(making: &Making, cited: &[CitedSentence]) -> Value {
    let (mut report, mut annotations) = (String::from("## Findings\n\n"), Vec::new());
    for sentence in cited {
        let start = report.len();
        report.push_str(&sentence.text);
        if !sentence.url.is_empty() {
            annotations.push(json!({
                "type": "url_citation", "start_index": start, "end_index": report.len(),
                "url": sentence.url, "title": sentence.title,
            }));
            report.push_str(&format!(" [cite: {}]", annotations.len()));
        }
        report.push('\n');
    }
    json!([
        {"type": "user_input", "content": [{"type": "text", "text": making.prompt}]},
        {"type": "google_search_call", "id": "c", "arguments": {"queries": ["one", "two"]}},
        {"type": "thought", "signature": "AAAA"},
        {"type": "model_output", "content": [{"type": "text", "text": report, "annotations": annotations}]},
    ])
}
