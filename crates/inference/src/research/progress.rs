//! Describes the steps of research in short texts, for formats that show progress as reasoning.

use serde_json::{Value, json};

/// Returns a step as one line; `None` for events without a step.
pub(super) fn line(kind: &str, body: &Value) -> Option<String> {
    let text = |name: &str| body[name].as_str().unwrap_or_default();
    let texts = |name: &str| -> Vec<&str> {
        let items = body[name].as_array().into_iter().flatten();
        items.filter_map(Value::as_str).collect()
    };
    let line = match kind {
        "research.plan" => format!("Questions: {}", texts("questions").join("; ")),
        "research.search" => match body["results"].as_u64() {
            Some(results) => format!("Searched for \"{}\": {results} results", text("query")),
            None => format!("Searched for \"{}\"", text("query")),
        },
        "research.source" => format!("Opened \"{}\" ({})", text("title"), text("final_url")),
        "research.read" => match body["skipped"].as_str() {
            Some(reason) => format!("Skipped {}: {reason}", text("url")),
            None => format!("Read {}: {} notes", text("source_id"), texts("notes").len()),
        },
        "research.reflect" => match texts("gaps") {
            gaps if gaps.is_empty() => "No gaps are left".to_owned(),
            gaps => format!("Gaps: {}", gaps.join("; ")),
        },
        "research.outline" => format!("Outline: {}", texts("sections").join("; ")),
        _ => return None,
    };
    Some(line + "\n")
}

/// Returns a source, as an event or a result contains it, as a search result. `snippet` is a quote
/// of the source.
pub(super) fn search_result(source: &Value, snippet: Option<&str>) -> Value {
    let url = source["final_url"].as_str().unwrap_or_default();
    json!({
        "title": source["title"],
        "url": url,
        "date": source["date"],
        "snippet": snippet,
        "source": if url.starts_with("http") { "web" } else { "attachment" },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_single_lines() {
        for (kind, body, expected) in [
            (
                "research.plan",
                json!({"questions": ["a", "b"], "queries": ["c"]}),
                Some("Questions: a; b\n"),
            ),
            (
                "research.search",
                json!({"query": "ferry", "results": 3}),
                Some("Searched for \"ferry\": 3 results\n"),
            ),
            (
                "research.search",
                json!({"query": "ferry"}),
                Some("Searched for \"ferry\"\n"),
            ),
            (
                "research.read",
                json!({"url": "https://x.example", "skipped": "empty"}),
                Some("Skipped https://x.example: empty\n"),
            ),
            (
                "research.read",
                json!({"source_id": "s1", "notes": ["x"]}),
                Some("Read s1: 1 notes\n"),
            ),
            (
                "research.reflect",
                json!({"gaps": []}),
                Some("No gaps are left\n"),
            ),
            ("research.delta", json!({"text": "x"}), None),
            ("job.in_progress", Value::Null, None),
        ] {
            assert_eq!(line(kind, &body).as_deref(), expected, "{kind}");
        }
    }

    #[test]
    fn sources_outside_the_web_are_attachments() {
        for (url, expected) in [("https://a.example/x", "web"), ("corpus://demo/x", "attachment")] {
            assert_eq!(
                search_result(&json!({"final_url": url}), None)["source"],
                expected
            );
        }
    }
}
