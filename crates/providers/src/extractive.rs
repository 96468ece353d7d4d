//! Research without a model: the plan is derived from the question, and notes and sentences are
//! verbatim sentences of the sources. Usage is a quarter of the characters, rounded up.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tollgate_evidence::extractive::{self, OutlineNote};
use tollgate_evidence::words::terms;
use tollgate_types::Usage;
use tollgate_upstream::{
    CallContext, ListedModel, NoteDraft, NoteText, PageExcerpt, Provider, Reflection, ResearchBrief,
    ResearchPlan, ResearchProvider, ResearchReply, SectionPlan, SectionSentence, UpstreamError,
};

/// Characters of one token.
const CHARS_PER_TOKEN: u64 = 4;

/// Provider of research without a model. It needs no network and no key.
#[derive(Debug)]
pub struct Extractive {
    id: Arc<str>,
}

impl Extractive {
    /// Builds the provider of the configuration block `id`.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self { id: id.into() }
    }
}

#[async_trait]
impl Provider for Extractive {
    fn id(&self) -> &str {
        &self.id
    }

    fn research(&self) -> Option<&dyn ResearchProvider> {
        Some(self)
    }

    async fn list_models(&self, _timeout: Duration) -> Result<Vec<ListedModel>, UpstreamError> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl ResearchProvider for Extractive {
    async fn plan(
        &self,
        _: &CallContext,
        brief: &ResearchBrief<'_>,
        max_queries: u32,
    ) -> Result<ResearchReply<ResearchPlan>, UpstreamError> {
        let mut plan = extractive::plan(brief.question);
        plan.queries.truncate(max_queries as usize);
        let output = plan.questions.iter().chain(&plan.queries);
        let usage = usage([brief.question], output.map(String::as_str));
        let plan = ResearchPlan {
            parts: plan.questions,
            queries: plan.queries,
        };
        Ok(self.reply(plan, usage))
    }

    async fn read(
        &self,
        _: &CallContext,
        brief: &ResearchBrief<'_>,
        page: &PageExcerpt<'_>,
        max_notes: u32,
    ) -> Result<ResearchReply<Vec<NoteDraft>>, UpstreamError> {
        let found = extractive::notes(brief.parts, page.passages, max_notes as usize);
        let usage = usage(
            page.passages.iter().copied(),
            found.iter().map(|note| note.claim.as_str()),
        );
        let drafts = found.into_iter().map(|note| NoteDraft {
            claim: note.claim,
            quote: note.quote,
        });
        Ok(self.reply(drafts.collect(), usage))
    }

    async fn reflect(
        &self,
        _: &CallContext,
        brief: &ResearchBrief<'_>,
        notes: &[NoteText<'_>],
        max_queries: u32,
    ) -> Result<ResearchReply<Reflection>, UpstreamError> {
        let claims: Vec<&str> = notes.iter().map(|note| note.claim).collect();
        let gaps = gaps(brief.parts, &claims);
        let contradictions = extractive::contradictions(&claims);
        let contradictions: Vec<String> = contradictions
            .into_iter()
            .filter_map(|(one, other)| Some(format!("{} / {}", claims.get(one)?, claims.get(other)?)))
            .collect();
        let mut queries: Vec<String> = gaps
            .iter()
            .flat_map(|gap| extractive::plan(gap).queries)
            .collect();
        queries.truncate(max_queries as usize);
        let usage = usage(claims, queries.iter().map(String::as_str));
        let reflection = Reflection {
            gaps,
            contradictions,
            queries,
        };
        Ok(self.reply(reflection, usage))
    }

    async fn outline(
        &self,
        _: &CallContext,
        brief: &ResearchBrief<'_>,
        notes: &[NoteText<'_>],
        max_sections: u32,
    ) -> Result<ResearchReply<Vec<SectionPlan>>, UpstreamError> {
        let claims: Vec<&str> = notes.iter().map(|note| note.claim).collect();
        let arranged: Vec<OutlineNote<'_>> = notes
            .iter()
            .map(|note| OutlineNote {
                text: note.claim,
                source: note.source as usize,
                question: None,
                relevance: 1.0,
            })
            .collect();
        let sections = extractive::outline(brief.parts, &arranged, max_sections as usize);
        let sections: Vec<SectionPlan> = sections
            .into_iter()
            .map(|section| SectionPlan {
                title: section.title,
                notes: section
                    .notes
                    .into_iter()
                    .filter_map(|note| u32::try_from(note).ok())
                    .collect(),
            })
            .collect();
        let usage = usage(claims, sections.iter().map(|section| section.title.as_str()));
        Ok(self.reply(sections, usage))
    }

    async fn write(
        &self,
        _: &CallContext,
        _: &ResearchBrief<'_>,
        title: &str,
        notes: &[NoteText<'_>],
        max_output_tokens: u64,
    ) -> Result<ResearchReply<Vec<SectionSentence>>, UpstreamError> {
        let numbered: Vec<(usize, &str)> = notes.iter().map(|note| note.claim).enumerate().collect();
        let mut left = max_output_tokens;
        let sentences = extractive::section(title, &numbered).into_iter();
        let sentences: Vec<SectionSentence> = sentences
            .map_while(|sentence| {
                left = left.checked_sub(tokens(&sentence.text))?;
                Some(SectionSentence {
                    text: sentence.text,
                    notes: sentence
                        .notes
                        .into_iter()
                        .filter_map(|note| u32::try_from(note).ok())
                        .collect(),
                    starts_paragraph: false,
                })
            })
            .collect();
        let usage = usage(
            notes.iter().map(|note| note.claim),
            sentences.iter().map(|sentence| sentence.text.as_str()),
        );
        Ok(self.reply(sentences, usage))
    }
}

impl Extractive {
    fn reply<T>(&self, value: T, usage: Usage) -> ResearchReply<T> {
        ResearchReply {
            value,
            usage,
            target: format!("{}/extractive", self.id).into(),
        }
    }
}

/// Returns the parts of a question that have no claim with half of their terms.
fn gaps(parts: &[String], claims: &[&str]) -> Vec<String> {
    let claims: Vec<HashSet<String>> = claims
        .iter()
        .map(|claim| terms(claim).into_iter().collect())
        .collect();
    let is_gap = |part: &&String| {
        let wanted: HashSet<String> = terms(part).into_iter().collect();
        !claims
            .iter()
            .any(|claim| claim.intersection(&wanted).count() * 2 >= wanted.len())
    };
    parts.iter().filter(is_gap).cloned().collect()
}

fn usage<'t>(input: impl IntoIterator<Item = &'t str>, output: impl IntoIterator<Item = &'t str>) -> Usage {
    let total = |texts: &mut dyn Iterator<Item = &'t str>| texts.map(tokens).sum();
    Usage::tokens(total(&mut input.into_iter()), total(&mut output.into_iter()))
}

fn tokens(text: &str) -> u64 {
    (text.chars().count() as u64).div_ceil(CHARS_PER_TOKEN)
}
