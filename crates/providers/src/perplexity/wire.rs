//! Requests and records of Perplexity's asynchronous chat completions.

use serde_json::{Map, Value, json};
use tollgate_types::Date;
use tollgate_types::usage::{Unit, Usage};
use tollgate_upstream::{
    GenerationState, ProviderReport, ReportCall, ReportMark, ReportRole, ReportSource, UpstreamError,
};

use crate::refusal;
use crate::reports::{Sources, count, estimated, instructions, no_report, role, text, with_searches};

/// Tags around the reasoning that precedes the report.
const REASONING: (&str, &str) = ("<think>", "</think>");

/// Returns the chat completion request of a call.
pub(super) fn request(call: &ReportCall) -> Value {
    let mut messages: Vec<Value> = Vec::new();
    if let Some(instructions) = instructions(call) {
        messages.push(json!({"role": role(ReportRole::System, "system"), "content": instructions}));
    }
    let conversation = call.messages.iter();
    messages.extend(
        conversation.map(|message| json!({"role": role(message.role, "system"), "content": message.text})),
    );
    let mut request = Map::new();
    let mut add = |name: &str, value: Value| {
        request.insert(name.to_owned(), value);
    };
    add("model", json!(&*call.upstream_model));
    add("messages", json!(messages));
    add("reasoning_effort", json!(call.effort));
    if let Some(tokens) = call.max_output_tokens {
        add("max_tokens", json!(tokens));
    }
    let filters = &call.filters;
    let excluded = filters.exclude.iter().map(|site| format!("-{site}"));
    let sites: Vec<String> = filters.include.iter().cloned().chain(excluded).collect();
    if !sites.is_empty() {
        add("search_domain_filter", json!(sites));
    }
    if let Some(recency) = filters.recency {
        add("search_recency_filter", json!(recency.as_str()));
    }
    for (name, date) in [
        ("search_after_date_filter", filters.after),
        ("search_before_date_filter", filters.before),
    ] {
        if let Some(date) = date {
            add(name, json!(american(date)));
        }
    }
    Value::Object(request)
}

/// Returns a date in the form `month/day/year`.
fn american(date: Date) -> String {
    format!("{}/{}/{}", date.month(), date.day(), date.year())
}

/// Reads the record of an asynchronous request.
pub(super) fn state(record: Value) -> Result<GenerationState<ProviderReport>, UpstreamError> {
    Ok(match text(&record, "status") {
        "CREATED" => GenerationState::Waiting { ahead: None },
        "IN_PROGRESS" => GenerationState::Running { percent: None },
        "COMPLETED" => GenerationState::Completed(report(record["response"].clone())?),
        "FAILED" => {
            let error = json!({"error": {"message": record["error_message"]}});
            GenerationState::Failed(refusal::from_failure(&error))
        }
        _ => {
            return Err(UpstreamError::protocol(
                "an asynchronous request has an unknown status",
            ));
        }
    })
}

/// Reads a complete chat completion.
fn report(response: Value) -> Result<ProviderReport, UpstreamError> {
    let choice = &response["choices"][0];
    let content = without_reasoning(text(&choice["message"], "content"));
    if content.trim().is_empty() {
        return Err(no_report());
    }
    let mut sources = Sources::default();
    // The mark `[1]` refers to the first URL of this list.
    let cited = response["citations"].as_array().into_iter().flatten();
    let cited: Vec<Option<usize>> = cited
        .map(|url| {
            sources.add(ReportSource {
                url: url.as_str().unwrap_or_default().to_owned(),
                ..ReportSource::default()
            })
        })
        .collect();
    for result in response["search_results"].as_array().into_iter().flatten() {
        sources.add(ReportSource {
            url: text(result, "url").to_owned(),
            title: text(result, "title").to_owned(),
            date: result["date"].as_str().and_then(Date::parse),
            excerpt: result["snippet"].as_str().map(str::to_owned),
        });
    }
    let usage = usage(&response["usage"]).unwrap_or_else(|| estimated(content));
    Ok(ProviderReport {
        text: content.to_owned(),
        sources: sources.into_list(),
        marks: marks(content, &cited),
        queries: Vec::new(),
        usage: with_searches(usage, count(&response["usage"], "num_search_queries")),
        is_incomplete: choice["finish_reason"] == "length",
        raw: response,
    })
}

/// Returns the report without the reasoning before it.
fn without_reasoning(content: &str) -> &str {
    let (open, close) = REASONING;
    let reasoning = content.trim_start().strip_prefix(open);
    match reasoning.and_then(|rest| rest.split_once(close)) {
        Some((_, report)) => report.trim_start(),
        None => content,
    }
}

/// Finds marks such as `[1]` that refer to a citation.
fn marks(text: &str, cited: &[Option<usize>]) -> Vec<ReportMark> {
    let mut marks = Vec::new();
    for (start, _) in text.match_indices('[') {
        let rest = text.get(start + 1..).unwrap_or_default();
        let Some((number, after)) = rest.split_once(']') else {
            break;
        };
        // A link such as `[1](https://…)` is not a mark.
        let is_number = (1..=4).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number || after.starts_with('(') {
            continue;
        }
        let place = number
            .parse::<usize>()
            .ok()
            .and_then(|number| number.checked_sub(1));
        let source = place.and_then(|place| cited.get(place).copied().flatten());
        if let Some(source) = source {
            marks.push(ReportMark {
                start,
                end: start + number.len() + 2,
                sources: vec![source],
            });
        }
    }
    marks
}

/// Returns the usage. Citation tokens are input. Reasoning tokens are not part of the completion.
fn usage(usage: &Value) -> Option<Usage> {
    usage["completion_tokens"].as_u64()?;
    let input = count(usage, "prompt_tokens").saturating_add(count(usage, "citation_tokens"));
    let usage_of_text = Usage::tokens(input, count(usage, "completion_tokens"));
    Some(usage_of_text.with(Unit::Reasoning, count(usage, "reasoning_tokens")))
}
