//! Outline and sections. A section is verified before its text is sent, and sections are sent in
//! order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use tollgate_evidence::report::sanitize_section;
use tollgate_jobs::Progress;
use tollgate_upstream::{FailedSentence, NoteText, SectionPlan, SectionSentence, UpstreamError};

use super::super::bounds::{JUDGE_INPUT, PLANNER_INPUT, Stage, WRITER_INPUT};
use super::super::payload::Note;
use super::super::report::Report;
use super::judge::{JudgeRequest, Statement};
use super::rounds::{Silent, note_text, texts_within};
use super::steps::{
    CORRECTION_STEP, Call, DELTA_STEP, JUDGE_STEP, OUTLINE_STEP, SECOND_JUDGE_STEP, SECTION_STEP,
};
use super::verify::{Claim, ClaimStatus, Evidence, cited};
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
        let (shared, left) = (&*findings, &AtomicUsize::new(outline.len()));
        let tasks = outline
            .iter()
            .zip(0..)
            .map(|(planned, position): (&SectionPlan, u32)| {
                Box::pin(self.section(position, planned, shared, left))
            });
        let tasks: Vec<_> = tasks.collect();
        let mut written = stream::iter(tasks).buffered(MAX_CONCURRENT_SECTIONS);
        let (mut sections, mut is_degraded) = (Vec::new(), false);
        let mut report = Report::default();
        while let Some((section, is_fallback)) = written.try_next().await? {
            is_degraded |= is_fallback;
            let position = u32::try_from(sections.len()).unwrap_or(u32::MAX);
            let text = report.section(position, &section.title, &section.claims);
            self.send(position, &section, &text).await?;
            sections.push(section);
        }
        drop(written);
        findings.is_degraded |= is_degraded;
        Ok(sections)
    }

    async fn outline(&self, findings: &mut Findings) -> Result<Vec<SectionPlan>, Stop> {
        let progress = |outline: &Vec<SectionPlan>| {
            let titles: Vec<&str> = outline.iter().map(|planned| &*planned.title).collect();
            self.with_budget(self.event("research.outline", &json!({"sections": titles})))
        };
        let call = Call::last(OUTLINE_STEP, Stage::Plan, &progress);
        let (texts, max_sections) = (
            texts_within(&findings.notes, PLANNER_INPUT),
            self.payload.bounds.caps.sections,
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

    /// Writes and verifies a section. Returns whether it was written without the model. `unwritten`
    /// is the number of sections that are not written: after the last one, the job only verifies.
    async fn section(
        &self,
        position: u32,
        planned: &SectionPlan,
        findings: &Findings,
        unwritten: &AtomicUsize,
    ) -> Result<(Section, bool), Stop> {
        let positions: Vec<usize> = planned.notes.iter().map(|note| *note as usize).collect();
        let notes: Vec<Note> = positions
            .iter()
            .filter_map(|position| findings.notes.get(*position).cloned())
            .collect();
        let texts = texts_within(&notes, WRITER_INPUT);
        let silent = |_: &Vec<SectionSentence>| Progress::default();
        let call = Call::last(SECTION_STEP + position, Stage::Write, &silent);
        let brief = self.brief(findings);
        let max_tokens = self.payload.bounds.section_tokens();
        let work = self.work.part(Arc::new(Silent));
        let called = self
            .call(&work, call, || {
                let provider = self.provider();
                provider.write(&self.ctx, &brief, &planned.title, &texts, max_tokens)
            })
            .await?;
        let (sentences, mut is_degraded) = match called.done() {
            Some(sentences) => (sentences, false),
            None => (self.extracted(planned, &texts, findings).await, true),
        };
        if unwritten.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.enter("verifying", 90).await?;
        }
        let (claims, is_unjudged) = self.verified(position, sentences, &positions, findings).await?;
        is_degraded |= is_unjudged;
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
            false => Ok((section, is_degraded)),
        }
    }

    async fn extracted(
        &self,
        planned: &SectionPlan,
        texts: &[NoteText<'_>],
        findings: &Findings,
    ) -> Vec<SectionSentence> {
        let brief = self.brief(findings);
        let max_tokens = self.payload.bounds.section_tokens();
        let written = self
            .research
            .extractive
            .write(&self.ctx, &brief, &planned.title, texts, max_tokens);
        written.await.map(|reply| reply.value).unwrap_or_default()
    }

    /// Verifies the sentences of a section, and has failed ones corrected once. Returns whether the
    /// judge did not decide.
    async fn verified(
        &self,
        position: u32,
        sentences: Vec<SectionSentence>,
        positions: &[usize],
        findings: &Findings,
    ) -> Result<(Vec<Claim>, bool), Stop> {
        let evidence = Evidence::new(&findings.notes);
        let sentences = sentences.into_iter().filter_map(cleaned);
        let mut claims: Vec<Claim> = sentences
            .map(|sentence| {
                let cited = cited(&sentence.notes, positions);
                evidence.claim(sentence, cited)
            })
            .collect();
        let mut all: Vec<&mut Claim> = claims.iter_mut().collect();
        let mut is_unjudged = self.judge(JUDGE_STEP + position, &mut all, findings).await?;
        let corrected = self.corrected(position, &claims, &evidence, findings).await?;
        let mut corrected: Vec<(usize, Claim)> = corrected;
        let mut again: Vec<&mut Claim> = corrected.iter_mut().map(|(_, claim)| claim).collect();
        is_unjudged |= self
            .judge(SECOND_JUDGE_STEP + position, &mut again, findings)
            .await?;
        for (place, mut claim) in corrected {
            let is_verified = matches!(claim.status, ClaimStatus::Verified | ClaimStatus::Repaired);
            if let Some(failed) = claims.get_mut(place).filter(|_| is_verified) {
                claim.status = ClaimStatus::Repaired;
                *failed = claim;
            }
        }
        let claims = claims.into_iter();
        let shown = claims.map(|claim| claim.shown(self.payload.marks_unverified));
        Ok((shown.collect(), is_unjudged))
    }

    /// Has the judge decide about the verified claims. Returns whether there is a judge that did
    /// not decide.
    async fn judge(&self, step: u32, claims: &mut [&mut Claim], findings: &Findings) -> Result<bool, Stop> {
        let (Some(models), true) = (&self.models, self.payload.cast.stages.contains_key(&Stage::Judge))
        else {
            return Ok(false);
        };
        let is_verified =
            |claim: &Claim| matches!(claim.status, ClaimStatus::Verified | ClaimStatus::Repaired);
        let mut verified: Vec<&mut Claim> = Vec::new();
        for claim in claims.iter_mut() {
            if is_verified(claim) {
                verified.push(claim);
            }
        }
        let statements: Vec<Statement<'_>> = verified
            .iter()
            .map(|claim| Statement {
                text: &claim.text,
                notes: &claim.notes,
            })
            .collect();
        let max_bytes = usize::try_from(JUDGE_INPUT).unwrap_or(usize::MAX);
        let request = JudgeRequest::new(&statements, &findings.notes, max_bytes);
        if request.is_empty() {
            return Ok(false);
        }
        let silent = |_: &Vec<Option<f64>>| Progress::default();
        let call = Call::last(step, Stage::Judge, &silent);
        let work = self.work.part(Arc::new(Silent));
        let called = self.call(&work, call, || models.judge(&request)).await?;
        let Some(supports) = called.done() else {
            return Ok(true);
        };
        for (claim, support) in verified.into_iter().zip(supports) {
            claim.judge(support);
        }
        Ok(false)
    }

    /// Has the unverified claims corrected by the writer, and verifies them again. Returns the
    /// corrected ones with their positions.
    async fn corrected(
        &self,
        position: u32,
        claims: &[Claim],
        evidence: &Evidence<'_>,
        findings: &Findings,
    ) -> Result<Vec<(usize, Claim)>, Stop> {
        let claims = claims.iter().enumerate();
        let failed: Vec<(usize, &Claim)> = claims
            .filter(|(_, claim)| claim.status == ClaimStatus::Unverified)
            .collect();
        if failed.is_empty() || self.models.is_none() {
            return Ok(Vec::new());
        }
        let candidates: Vec<Vec<usize>> = failed
            .iter()
            .map(|(_, claim)| evidence.candidates(claim))
            .collect();
        let sentences: Vec<FailedSentence<'_>> = failed
            .iter()
            .zip(&candidates)
            .map(|((_, claim), candidates)| FailedSentence {
                text: &claim.text,
                reason: claim.reason.as_deref().unwrap_or_default(),
                notes: candidates
                    .iter()
                    .filter_map(|position| findings.notes.get(*position))
                    .map(note_text)
                    .collect(),
            })
            .collect();
        let silent = |_: &Vec<Option<SectionSentence>>| Progress::default();
        let call = Call::last(CORRECTION_STEP + position, Stage::Write, &silent);
        let (brief, max_tokens) = (self.brief(findings), self.payload.bounds.section_tokens());
        let work = self.work.part(Arc::new(Silent));
        let called = self
            .call(&work, call, || async {
                let provider = self.provider();
                let reply = provider
                    .correct(&self.ctx, &brief, &sentences, max_tokens)
                    .await?;
                reply.ok_or_else(|| UpstreamError::protocol("the provider corrects no sentences"))
            })
            .await?;
        let corrected = called.done().unwrap_or_default();
        let corrected = failed.iter().zip(&candidates).zip(corrected);
        let claims = corrected.filter_map(|(((place, claim), candidates), sentence)| {
            let mut sentence = cleaned(sentence?)?;
            sentence.starts_paragraph = claim.starts_paragraph;
            let cited = cited(&sentence.notes, candidates);
            Some((*place, evidence.claim(sentence, cited)))
        });
        Ok(claims.collect())
    }

    /// Sends the text of a section, as in the report, to the owner of the job, once. The result of
    /// its verification precedes it.
    async fn send(&self, position: u32, section: &Section, text: &str) -> Result<(), Stop> {
        let with = |status: ClaimStatus| {
            section
                .claims
                .iter()
                .filter(|claim| claim.status == status)
                .count()
        };
        let verified = json!({
            "section": section.title,
            "verified": with(ClaimStatus::Verified) + with(ClaimStatus::Repaired),
            "repaired": with(ClaimStatus::Repaired),
            "unverified": with(ClaimStatus::Unverified),
            "removed": with(ClaimStatus::Removed),
        });
        let body = json!({"section": section.title, "text": text});
        let progress = |_: &()| {
            let mut progress = self.event("research.verify", &verified);
            progress.events.extend(self.event("research.delta", &body).events);
            progress
        };
        self.local(self.work, DELTA_STEP + position, &progress, async { Ok(()) })
            .await
    }
}

/// Returns a sentence without markup; `None` if nothing is left.
fn cleaned(sentence: SectionSentence) -> Option<SectionSentence> {
    let text = plain(&sanitize_section(&sentence.text, &|_| false));
    (!text.is_empty()).then_some(SectionSentence { text, ..sentence })
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
