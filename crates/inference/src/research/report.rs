//! Assembles the result of a report: its text with numbered citations, and the offsets of each
//! citation and claim. Offsets count code points.

use serde_json::{Value, json};

use super::engine::{Claim, ClaimStatus, Outcome};
use super::payload::{Note, Payload, Source};

/// Text of a report without findings.
const NOTHING_FOUND: &str = "No source with an answer to the question was found.";

/// Returns the id of a source in results and paths.
pub(super) fn source_id(number: u32) -> String {
    format!("s{number}")
}

/// Returns the number of a source with this id; `None` for another spelling of its number, such as
/// `s01`.
pub(super) fn source_number(id: &str) -> Option<u32> {
    let number = id.strip_prefix('s')?.parse().ok()?;
    (source_id(number) == id).then_some(number)
}

/// Returns the members of a source that are known before the report is written.
pub(super) fn source(source: &Source) -> Value {
    json!({
        "id": source_id(source.number),
        "kind": source.kind,
        "url": source.url,
        "final_url": source.final_url,
        "title": source.title,
        "author": source.author,
        "date": source.date,
        "retrieved_at": source.retrieved_at.to_rfc3339(),
        "sha256": source.sha256,
        "characters": source.characters,
        "flags": source.flags,
    })
}

/// Returns the result of a complete report.
pub(super) fn result(payload: &Payload, outcome: &Outcome) -> Value {
    let mut report = Report::default();
    let findings = &outcome.findings;
    for (section, number) in outcome.sections.iter().zip(0_u32..) {
        report.section(number, &section.title, &section.claims);
    }
    if report.citations.is_empty() && report.text.is_empty() {
        report.push(NOTHING_FOUND);
    }
    let (notes, all_sources) = (&findings.notes, &findings.sources);
    let citations = report.citations.iter().zip(1..);
    let citations: Vec<Value> = citations
        .map(|(cited, id)| cited.json(id, notes, all_sources))
        .collect();
    let sources: Vec<Value> = all_sources.iter().map(|one| report.source(one, notes)).collect();
    let stats = stats(outcome, &report);
    let mut result = json!({
        "report": report.text,
        "citations": citations,
        "sources": sources,
        "claims": report.claims,
        "stats": stats,
        "stopped_by": outcome.stopped_by.as_str(),
        "degraded": findings.is_degraded,
    });
    if payload.disable_formatting {
        result["raw"] = raw(outcome);
    }
    result
}

/// Returns the result of a cancelled job: its sources and findings so far.
pub(super) fn partial(sources: &[Source], notes: &[Note]) -> Value {
    let claims = notes.iter().zip(1..).map(|(note, id): (&Note, u32)| {
        json!({"id": format!("c{id}"), "text": note.claim, "source_id": source_id(note.source), "status": "verified"})
    });
    json!({
        "partial": true,
        "sources": sources.iter().map(source).collect::<Vec<_>>(),
        "claims": claims.collect::<Vec<_>>(),
    })
}

fn raw(outcome: &Outcome) -> Value {
    let findings = &outcome.findings;
    let notes = findings
        .notes
        .iter()
        .map(|note| json!({"source_id": source_id(note.source), "claim": note.claim, "quote": note.quote}));
    let sections = outcome.sections.iter().map(|section| {
        let sentences = section
            .claims
            .iter()
            .map(|claim| json!({"text": claim.text, "notes": claim.notes}));
        json!({"title": section.title, "sentences": sentences.collect::<Vec<_>>()})
    });
    json!({
        "plan": {"questions": findings.plan.parts, "queries": findings.plan.queries},
        "notes": notes.collect::<Vec<_>>(),
        "sections": sections.collect::<Vec<_>>(),
    })
}

fn stats(outcome: &Outcome, report: &Report) -> Value {
    let findings = &outcome.findings;
    let claims = || outcome.sections.iter().flat_map(|section| &section.claims);
    let with = |status: ClaimStatus| claims().filter(|claim| claim.status == status).count();
    let (verified, repaired) = (with(ClaimStatus::Verified), with(ClaimStatus::Repaired));
    let total = claims().count();
    let accuracy = |count: usize| (total > 0).then(|| count as f64 / total as f64);
    json!({
        "searches": findings.searches,
        "pages": findings.pages,
        "notes": findings.notes.len(),
        "claims": total,
        "verified": verified + repaired,
        "repaired": repaired,
        "removed": with(ClaimStatus::Removed),
        "lost_calls": outcome.lost_calls,
        "citation_accuracy": (!report.citations.is_empty()).then_some(1.0),
        "first_accuracy": accuracy(verified),
    })
}

/// A report while it is assembled.
#[derive(Default)]
pub(super) struct Report {
    text: String,
    /// Length of the text in code points.
    length: u64,
    citations: Vec<Cited>,
    claims: Vec<Value>,
}

/// A citation: the note that it quotes, and the place of its first mark in the report.
struct Cited {
    note: usize,
    start: u64,
    end: u64,
    /// Probability that the quotes support the first claim with the citation.
    support: Option<f64>,
}

impl Report {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.length += text.chars().count() as u64;
    }

    /// Appends a section and returns the appended text.
    pub(super) fn section(&mut self, number: u32, title: &str, claims: &[Claim]) -> String {
        let before = self.text.len();
        if claims.iter().any(|claim| claim.status != ClaimStatus::Removed) {
            if !self.text.is_empty() {
                self.push("\n\n");
            }
            self.push(&format!("## {title}\n\n"));
        }
        let mut is_first = true;
        for claim in claims {
            if claim.status == ClaimStatus::Removed {
                self.claim(number, claim, None, &[]);
                continue;
            }
            if !is_first {
                self.push(if claim.starts_paragraph { "\n\n" } else { " " });
            }
            is_first = false;
            let start = self.length;
            self.push(&claim.text);
            let end = self.length;
            let support = claim.support;
            let ids: Vec<usize> = claim.notes.iter().map(|note| self.cite(*note, support)).collect();
            if claim.status == ClaimStatus::Unverified {
                self.push(" (unverified)");
            }
            self.claim(number, claim, Some((start, end)), &ids);
        }
        self.text.get(before..).unwrap_or_default().to_owned()
    }

    /// Writes the mark of a citation and returns its id, from 1.
    fn cite(&mut self, note: usize, support: Option<f64>) -> usize {
        let known = self.citations.iter().position(|cited| cited.note == note);
        let id = known.unwrap_or(self.citations.len()) + 1;
        let start = self.length;
        self.push(&format!("[{id}]"));
        if known.is_none() {
            let end = self.length;
            self.citations.push(Cited {
                note,
                start,
                end,
                support,
            });
        }
        id
    }

    fn claim(&mut self, section: u32, claim: &Claim, place: Option<(u64, u64)>, citations: &[usize]) {
        let id = format!("c{}", self.claims.len() + 1);
        self.claims.push(json!({
            "id": id,
            "text": claim.text,
            "section": section,
            "report_start": place.map(|(start, _)| start),
            "report_end": place.map(|(_, end)| end),
            "citations": citations,
            "status": claim.status.as_str(),
            "reason": claim.reason,
        }));
    }

    fn source(&self, one: &Source, notes: &[Note]) -> Value {
        let cited = self
            .citations
            .iter()
            .filter_map(|cited| notes.get(cited.note))
            .any(|note| note.source == one.number);
        let mut shown = source(one);
        shown["cited"] = cited.into();
        shown
    }
}

impl Cited {
    fn json(&self, id: u32, notes: &[Note], sources: &[Source]) -> Value {
        let Some(note) = notes.get(self.note) else {
            return Value::Null;
        };
        let source = sources.iter().find(|source| source.number == note.source);
        json!({
            "id": id,
            "source_id": source_id(note.source),
            "url": source.map(|source| &source.final_url),
            "title": source.map(|source| &source.title),
            "date": source.and_then(|source| source.date),
            "quote": note.quote,
            "start": note.start,
            "end": note.end,
            "report_start": self.start,
            "report_end": self.end,
            "match": note.matched,
            "support": self.support,
            "verified": true,
        })
    }
}
