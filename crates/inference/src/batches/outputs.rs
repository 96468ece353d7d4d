//! Writes the lines of the two result files: successful responses, and requests that failed or were
//! not started.

use std::collections::{HashSet, VecDeque};

use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_edge::error::status_and_type;
use tollgate_edge::{ClientDialect, ErrorBody};
use tollgate_pipeline::job::Settled;
use tollgate_storage::{BatchLine, BatchStore, FileRecord, Job, LineState, Settlement};
use tollgate_types::{Credits, Error, RequestId, Usage};

use super::job::Batches;
use super::lines::Lines;
use super::request::{Endpoint, NamedRequest};
use crate::files::ChunkSource;
use crate::responses::store::unavailable;

/// Maximum number of lines per query.
const PAGE_SIZE: u32 = 200;

/// Reason why a request was not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotStarted {
    Expired,
    Cancelled,
}

/// Writes the line of a successful request.
pub(super) fn answered(place: &Place<'_>, request: RequestId, body: &[u8]) -> Vec<u8> {
    // In valid JSON, line breaks occur only between tokens, so spaces can replace them.
    let body: Vec<u8> = body
        .iter()
        .map(|byte| {
            if matches!(byte, b'\n' | b'\r') {
                b' '
            } else {
                *byte
            }
        })
        .collect();
    let name = Value::from(place.custom_id);
    let (head, tail) = match place.endpoint {
        Endpoint::Messages => (
            format!("{{\"custom_id\":{name},\"result\":{{\"type\":\"succeeded\",\"message\":"),
            &b"}}\n"[..],
        ),
        _ => (
            format!(
                "{{\"id\":\"{}\",\"custom_id\":{name},\"response\":{{\"status_code\":200,\"request_id\":\"{request}\",\
                 \"body\":",
                place.line_id()
            ),
            &b"},\"error\":null}\n"[..],
        ),
    };
    [head.as_bytes(), &body, tail].concat()
}

/// Writes the line of a failed request.
pub(super) fn failed(place: &Place<'_>, request: RequestId, error: &Error) -> Vec<u8> {
    if place.endpoint == Endpoint::Messages {
        let body = ClientDialect::Messages.error_body(error, &request.to_string());
        let error: Value = serde_json::from_slice(&body).unwrap_or_default();
        return place.result(&json!({"type": "errored", "error": error}));
    }
    let status = status_and_type(error.code).0.as_u16();
    let response = json!({"status_code": status, "request_id": request, "body": ErrorBody::from(error)});
    place.line(&response, &Value::Null)
}

/// Writes the line of a request that was not started.
pub(super) fn not_started(place: &Place<'_>, why: NotStarted) -> Vec<u8> {
    let (code, message, name) = match why {
        NotStarted::Expired => (
            "batch_expired",
            "This request could not be executed before the completion window expired.",
            "expired",
        ),
        NotStarted::Cancelled => (
            "batch_cancelled",
            "This request was not executed because the batch was cancelled.",
            "canceled",
        ),
    };
    match place.endpoint {
        Endpoint::Messages => place.result(&json!({"type": name})),
        _ => place.line(&Value::Null, &json!({"code": code, "message": message})),
    }
}

/// Position of a request in its batch.
pub(super) struct Place<'p> {
    pub(super) batch: &'p Job,
    pub(super) endpoint: Endpoint,
    pub(super) number: u32,
    pub(super) custom_id: &'p str,
}

impl Place<'_> {
    fn line(&self, response: &Value, error: &Value) -> Vec<u8> {
        let line = json!({
            "id": self.line_id(), "custom_id": self.custom_id, "response": response, "error": error
        });
        format!("{line}\n").into_bytes()
    }

    fn result(&self, result: &Value) -> Vec<u8> {
        format!("{}\n", json!({"custom_id": self.custom_id, "result": result})).into_bytes()
    }

    fn line_id(&self) -> String {
        format!("batch_req_{:032x}_{}", self.batch.terms.id.as_u128(), self.number)
    }
}

/// Decrypted lines of a batch in one state, followed by additional lines.
pub(super) struct OutputLines<'b> {
    batches: &'b Batches,
    batch: &'b Job,
    state: LineState,
    from: Option<u32>,
    ready: VecDeque<Bytes>,
    appended: Vec<Bytes>,
}

impl<'b> OutputLines<'b> {
    pub(super) fn new(batches: &'b Batches, batch: &'b Job, state: LineState, appended: Vec<Bytes>) -> Self {
        Self {
            batches,
            batch,
            state,
            from: Some(0),
            ready: VecDeque::new(),
            appended,
        }
    }
}

impl ChunkSource for OutputLines<'_> {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Ok(Some(line));
            }
            let Some(from) = self.from else {
                self.ready.extend(std::mem::take(&mut self.appended));
                return Ok(self.ready.pop_front());
            };
            let (account, id) = (self.batch.account, self.batch.terms.id);
            let page = self.batches.store.lines(account, id, from, PAGE_SIZE).await;
            let page = page.map_err(|error| unavailable(&error))?;
            self.from = next_page(&page);
            for line in page.iter().filter(|line| line.state == self.state) {
                let opened = self.batches.vault.open(account, id.as_u128(), &line.content);
                let opened =
                    opened.ok_or_else(|| Error::internal(format!("a line of {id} cannot be decrypted")))?;
                self.ready.push_back(opened.into());
            }
        }
    }
}

fn next_page(page: &[BatchLine]) -> Option<u32> {
    let is_full = page.len() >= usize::try_from(PAGE_SIZE).unwrap_or(usize::MAX);
    page.last().filter(|_| is_full).map(|last| last.number + 1)
}

/// Sums over all lines of a batch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LineTotals {
    pub(super) done: u64,
    pub(super) failed: u64,
    pub(super) charge: Credits,
    pub(super) overrun: Credits,
    pub(super) usage: Usage,
}

/// Computes the sums over all lines of a batch.
pub(super) async fn sum(store: &dyn BatchStore, batch: &Job) -> tollgate_storage::Result<LineTotals> {
    let (mut sum, mut from) = (LineTotals::default(), Some(0));
    while let Some(start) = from {
        let page = store
            .lines(batch.account, batch.terms.id, start, PAGE_SIZE)
            .await?;
        from = next_page(&page);
        for line in page {
            match line.state {
                LineState::Done => sum.done += 1,
                LineState::Failed => sum.failed += 1,
                LineState::Started => {}
            }
            sum.charge = sum.charge.checked_add(line.charge).unwrap_or(Credits::MAX);
            sum.overrun = sum.overrun.checked_add(line.overrun).unwrap_or(Credits::MAX);
            sum.usage = sum.usage.plus(&line.usage);
        }
    }
    Ok(sum)
}

/// Writes the lines of all requests that were not started.
pub(super) async fn not_started_lines(
    batches: &Batches,
    batch: &Job,
    file: &FileRecord,
    started: &HashSet<u32>,
    endpoint: Endpoint,
    why: NotStarted,
) -> Result<Vec<Bytes>, Error> {
    let content = batches.files.open(file, None).await?;
    let (mut lines, mut number, mut found) = (Lines::new(content), 0, Vec::new());
    while let Some(line) = lines.next().await.map_err(|error| unavailable(&error))? {
        if !started.contains(&number) {
            let named = line
                .text
                .and_then(|text| NamedRequest::read(&text, endpoint).ok());
            let custom_id = named.map(|named| named.custom_id).unwrap_or_default();
            let place = Place {
                batch,
                endpoint,
                number,
                custom_id: &custom_id,
            };
            found.push(not_started(&place, why).into());
        }
        number += 1;
    }
    Ok(found)
}

/// Settlement of a line, and its share of the batch's hold. Both are empty if the line was not
/// executed.
#[derive(Default)]
pub(super) struct LineCost {
    pub(super) held: Credits,
    pub(super) settlement: Option<Settlement>,
}

impl From<&Settled> for LineCost {
    fn from(settled: &Settled) -> Self {
        Self {
            held: settled.bound(),
            settlement: settled.get(),
        }
    }
}

/// Builds the stored record of a line that has ended.
pub(super) fn line_of(
    batch: &Job,
    number: u32,
    state: LineState,
    content: Vec<u8>,
    cost: &LineCost,
) -> BatchLine {
    let settlement = cost.settlement.as_ref();
    BatchLine {
        number,
        state,
        content,
        price_version: batch.price_version,
        usage: settlement.map_or(Usage::ZERO, |settlement| settlement.usage),
        charge: settlement.map_or(Credits::ZERO, |settlement| settlement.charge),
        overrun: settlement.map_or(Credits::ZERO, |settlement| settlement.overrun),
        held: cost.held,
    }
}
