//! Calls of a research engine: planning, reading, reflection and writing. The engine searches,
//! fetches, verifies and assembles itself.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tollgate_types::{Date, Error, Usage};

use crate::context::CallContext;
use crate::error::UpstreamError;

/// Result of one call with its usage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResearchReply<T> {
    /// Result of the call.
    pub value: T,
    /// Usage to charge.
    pub usage: Usage,
    /// Target that served the call, as `provider/model`; empty if none did.
    pub target: Arc<str>,
}

impl<T> ResearchReply<T> {
    /// Converts the result of the call.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> ResearchReply<U> {
        ResearchReply {
            value: convert(self.value),
            usage: self.usage,
            target: self.target,
        }
    }
}

/// Question of a report, the parts that it was split into, and the settings of its caller.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResearchBrief<'a> {
    /// Question of the caller, with simulator directives.
    pub question: &'a str,
    /// Parts of the question; empty before the plan.
    pub parts: &'a [String],
    /// Earlier messages of the conversation, one `role: text` after the other; empty if none.
    pub conversation: &'a str,
    /// Instructions of the caller for the report.
    pub instructions: Option<&'a str>,
    /// Language of the report, as a BCP 47 tag; that of the question if `None`.
    pub language: Option<&'a str>,
    /// Date of the request.
    pub today: Option<Date>,
}

/// Best passages of a page.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageExcerpt<'a> {
    /// Title of the page.
    pub title: &'a str,
    /// Publication date, if it is known.
    pub date: Option<Date>,
    /// Passages, best first.
    pub passages: &'a [&'a str],
}

/// Plan of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResearchPlan {
    /// Parts of the question, at least one.
    pub parts: Vec<String>,
    /// First search queries.
    pub queries: Vec<String>,
}

/// A finding on a page. The quote is not verified.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteDraft {
    /// The finding in one sentence.
    pub claim: String,
    /// Passage of the page that supports the claim, verbatim.
    pub quote: String,
}

/// A verified note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoteText<'a> {
    /// The finding in one sentence.
    pub claim: &'a str,
    /// Passage of the source that supports the claim, verbatim.
    pub quote: &'a str,
    /// Number of the source. Notes of one source have the same number.
    pub source: u32,
    /// Publication date of the source, if it is known.
    pub date: Option<Date>,
}

/// Assessment of the notes after a round.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reflection {
    /// Parts of the question without an answer.
    pub gaps: Vec<String>,
    /// Findings that contradict each other, as text.
    pub contradictions: Vec<String>,
    /// Next search queries; empty if the notes suffice.
    pub queries: Vec<String>,
}

/// A section of the outline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionPlan {
    /// Title of the section.
    pub title: String,
    /// Positions of its notes in the list of notes.
    pub notes: Vec<u32>,
}

/// A sentence of a section with the notes that support it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionSentence {
    /// Text of the sentence, without citations.
    pub text: String,
    /// Positions of the supporting notes in the list of the section's notes.
    pub notes: Vec<u32>,
    /// Whether a new paragraph begins with the sentence.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub starts_paragraph: bool,
}

/// A sentence that its quotes do not support, and notes that may support a corrected one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedSentence<'a> {
    /// Text of the sentence, without citations.
    pub text: &'a str,
    /// Reason why the sentence failed.
    pub reason: &'a str,
    /// Notes that may support a corrected sentence.
    pub notes: Vec<NoteText<'a>>,
}

/// Port of the calls of a research engine.
#[async_trait]
pub trait ResearchProvider: Send + Sync {
    /// Checks a question before its report is accepted. Sends nothing. Returns the error for the
    /// caller, without a parameter.
    fn check(&self, _question: &str) -> Result<(), Error> {
        Ok(())
    }

    /// Splits the question into parts and returns the first queries, at most `max_queries`.
    async fn plan(
        &self,
        ctx: &CallContext,
        brief: &ResearchBrief<'_>,
        max_queries: u32,
    ) -> Result<ResearchReply<ResearchPlan>, UpstreamError>;

    /// Returns the findings on a page, at most `max_notes`.
    async fn read(
        &self,
        ctx: &CallContext,
        brief: &ResearchBrief<'_>,
        page: &PageExcerpt<'_>,
        max_notes: u32,
    ) -> Result<ResearchReply<Vec<NoteDraft>>, UpstreamError>;

    /// Assesses the notes and returns the next queries, at most `max_queries`.
    async fn reflect(
        &self,
        ctx: &CallContext,
        brief: &ResearchBrief<'_>,
        notes: &[NoteText<'_>],
        max_queries: u32,
    ) -> Result<ResearchReply<Reflection>, UpstreamError>;

    /// Assigns the notes to sections, at most `max_sections`.
    async fn outline(
        &self,
        ctx: &CallContext,
        brief: &ResearchBrief<'_>,
        notes: &[NoteText<'_>],
        max_sections: u32,
    ) -> Result<ResearchReply<Vec<SectionPlan>>, UpstreamError>;

    /// Writes a section from its notes.
    async fn write(
        &self,
        ctx: &CallContext,
        brief: &ResearchBrief<'_>,
        title: &str,
        notes: &[NoteText<'_>],
        max_output_tokens: u64,
    ) -> Result<ResearchReply<Vec<SectionSentence>>, UpstreamError>;

    /// Corrects sentences of a section. The result has one entry for each of them, in order; the
    /// positions of its notes refer to the notes of that sentence. `None` leaves a sentence out.
    /// Providers that write verbatim sentences correct none.
    async fn correct(
        &self,
        _: &CallContext,
        _: &ResearchBrief<'_>,
        _: &[FailedSentence<'_>],
        _: u64,
    ) -> Result<Option<ResearchReply<Vec<Option<SectionSentence>>>>, UpstreamError> {
        Ok(None)
    }
}
