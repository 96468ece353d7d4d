//! Outline and sections. A section is verified before its text is sent, and sections are sent in
//! order.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use tollgate_evidence::report::sanitize_section;
use tollgate_jobs::Progress;
use tollgate_upstream::{NoteText, SectionPlan, SectionSentence};

use super::super::bounds::{PLANNER_INPUT, Stage, WRITER_INPUT};
use super::super::payload::Note;
use super::rounds::{Silent, texts_within};
use super::steps::{Call, DELTA_STEP, OUTLINE_STEP, SECTION_STEP};
use super::verify::{Claim, ClaimStatus, claims};
use super::{Engine, Findings, MAX_CONCURRENT_SECTIONS, Stop};

/// A verified section.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) claims: Vec<Claim>,
}

impl Engine<'_> {
    /// Writes and verifies all sections. Without notes, there are none.
    pub(super) async fn write(&self, findings: &mut Findings) -> Result<Vec<Section>, Stop> {
        if findings.notes.is_empty() {
            return Ok(Vec::new());
        }
        self.enter("writing", 75).await?;
        let outline = self.outline(findings).await?;
        let shared = &*findings;
        let tasks = outline
            .iter()
            .zip(0..)
            .map(|(planned, position): (&SectionPlan, u32)| {
                Box::pin(self.section(position, planned, shared))
            });
        let tasks: Vec<_> = tasks.collect();
        let mut written = stream::iter(tasks).buffered(MAX_CONCURRENT_SECTIONS);
        let (mut sections, mut is_degraded) = (Vec::new(), false);
        while let Some((section, is_fallback)) = written.try_next().await? {
            is_degraded |= is_fallback;
            self.send(u32::try_from(sections.len()).unwrap_or(u32::MAX), &section)
                .await?;
            sections.push(section);
        }
        drop(written);
        findings.is_degraded |= is_degraded;
        Ok(sections)
    }

    async fn outline(&self, findings: &mut Findings) -> Result<Vec<SectionPlan>, Stop> {
        let progress = |outline: &Vec<SectionPlan>| {
            let titles: Vec<&str> = outline.iter().map(|planned| &*planned.title).collect();
            self.event("research.outline", &json!({"sections": titles}))
        };
        let call = Call {
            number: OUTLINE_STEP,
            stage: Stage::Plan,
            is_last: true,
            progress: &progress,
        };
        let (texts, max_sections) = (
            texts_within(&findings.notes, PLANNER_INPUT),
            self.payload.caps.sections,
        );
        let brief = self.brief(findings);
        let called = self
            .call(self.work, call, || async {
                let provider = self.provider();
                let reply = provider.outline(&self.ctx, &brief, &texts, max_sections).await?;
                Ok(reply.map(|sections| planned(sections, texts.len(), max_sections)))
            })
            .await?;
        let outline = called.done().filter(|outline| !outline.is_empty());
        if let Some(outline) = outline {
            return Ok(outline);
        }
        let fallback = self
            .research
            .extractive
            .outline(&self.ctx, &brief, &texts, max_sections);
        let sections = fallback.await.map(|reply| reply.value).unwrap_or_default();
        let outline = planned(sections, texts.len(), max_sections);
        findings.is_degraded = true;
        Ok(outline)
    }

    /// Writes and verifies a section. Returns whether it was written without the model.
    async fn section(
        &self,
        position: u32,
        planned: &SectionPlan,
        findings: &Findings,
    ) -> Result<(Section, bool), Stop> {
        let positions: Vec<usize> = planned.notes.iter().map(|note| *note as usize).collect();
        let notes: Vec<Note> = positions
            .iter()
            .filter_map(|position| findings.notes.get(*position).cloned())
            .collect();
        let texts = texts_within(&notes, WRITER_INPUT);
        let silent = |_: &Vec<SectionSentence>| Progress::default();
        let call = Call {
            number: SECTION_STEP + position,
            stage: Stage::Write,
            is_last: true,
            progress: &silent,
        };
        let brief = self.brief(findings);
        let max_tokens = self.bounds.section_tokens();
        let work = self.work.part(Arc::new(Silent));
        let called = self
            .call(&work, call, || {
                let provider = self.provider();
                provider.write(&self.ctx, &brief, &planned.title, &texts, max_tokens)
            })
            .await?;
        let (sentences, is_fallback) = match called.done() {
            Some(sentences) => (sentences, false),
            None => (self.extracted(planned, &texts, findings).await, true),
        };
        let claims = self.verified(sentences, &positions, findings);
        let section = Section {
            title: title(&planned.title),
            claims,
        };
        let text: Vec<&str> = section.claims.iter().map(|claim| &*claim.text).collect();
        let text = format!("{}\n{}", section.title, text.join(" "));
        match self
            .research
            .pipeline
            .forbids_report(self.work.job(), &text)
            .await
        {
            true => Err(Stop::Blocked),
            false => Ok((section, is_fallback)),
        }
    }

    async fn extracted(
        &self,
        planned: &SectionPlan,
        texts: &[NoteText<'_>],
        findings: &Findings,
    ) -> Vec<SectionSentence> {
        let brief = self.brief(findings);
        let max_tokens = self.bounds.section_tokens();
        let written = self
            .research
            .extractive
            .write(&self.ctx, &brief, &planned.title, texts, max_tokens);
        written.await.map(|reply| reply.value).unwrap_or_default()
    }

    fn verified(
        &self,
        sentences: Vec<SectionSentence>,
        positions: &[usize],
        findings: &Findings,
    ) -> Vec<Claim> {
        let sentences = sentences.into_iter().map(|sentence| SectionSentence {
            text: plain(&sanitize_section(&sentence.text, &|_| false)),
            notes: sentence.notes,
        });
        let is_marking = self.payload.marks_unverified;
        claims(sentences.collect(), positions, &findings.notes, is_marking)
    }

    /// Sends a section to the owner of the job, once.
    async fn send(&self, position: u32, section: &Section) -> Result<(), Stop> {
        let shown = section
            .claims
            .iter()
            .filter(|claim| claim.status != ClaimStatus::Removed);
        let text: Vec<&str> = shown.map(|claim| &*claim.text).collect();
        let body = json!({"section": section.title, "text": text.join(" ")});
        let progress = |_: &()| self.event("research.delta", &body);
        self.local(self.work, DELTA_STEP + position, &progress, async { Ok(()) })
            .await
    }
}

/// Returns a text in one line.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a title in one line, with a capital at its beginning.
fn title(text: &str) -> String {
    let text = plain(text);
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => first.to_uppercase().chain(characters).collect(),
        None => text,
    }
}

/// Returns the sections of an outline with existing notes, at most `max_sections`.
fn planned(sections: Vec<SectionPlan>, notes: usize, max_sections: u32) -> Vec<SectionPlan> {
    let sections = sections.into_iter().map(|mut section| {
        section.notes.retain(|note| (*note as usize) < notes);
        section
    });
    sections
        .filter(|planned| !planned.notes.is_empty())
        .take(max_sections as usize)
        .collect()
}
