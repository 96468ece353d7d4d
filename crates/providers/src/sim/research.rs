//! Research of the simulator: extractive, with a script in the question. `delay` and `error` act on
//! each call.

use async_trait::async_trait;
use tollgate_types::{Error, ErrorCode};
use tollgate_upstream::{
    CallContext, NoteDraft, NoteText, PageExcerpt, Reflection, ResearchBrief, ResearchPlan, ResearchProvider,
    ResearchReply, SectionPlan, SectionSentence, UpstreamError,
};

use super::embeddings::play;
use super::{Simulator, failure, grammar};
use crate::extractive::Extractive;

impl Simulator {
    /// Plays the script of a question and returns the calls without a model.
    async fn researcher(
        &self,
        ctx: &CallContext,
        brief: &ResearchBrief<'_>,
    ) -> Result<Extractive, UpstreamError> {
        let (script, _) = grammar::read(brief.question)
            .map_err(|wrong| failure::simulated(ErrorCode::InvalidParameter, wrong))?;
        play(&script, ctx).await?;
        Ok(Extractive::new(self.id.clone()))
    }
}

#[async_trait]
impl ResearchProvider for Simulator {
    fn check(&self, question: &str) -> Result<(), Error> {
        let read = grammar::read(question);
        read.map(drop)
            .map_err(|wrong| Error::new(ErrorCode::InvalidParameter, wrong))
    }

    async fn plan(
        &self,
        ctx: &CallContext,
        brief: &ResearchBrief<'_>,
        max_queries: u32,
    ) -> Result<ResearchReply<ResearchPlan>, UpstreamError> {
        self.researcher(ctx, brief)
            .await?
            .plan(ctx, brief, max_queries)
            .await
    }

    async fn read(
        &self,
        ctx: &CallContext,
        brief: &ResearchBrief<'_>,
        page: &PageExcerpt<'_>,
        max_notes: u32,
    ) -> Result<ResearchReply<Vec<NoteDraft>>, UpstreamError> {
        let researcher = self.researcher(ctx, brief).await?;
        researcher.read(ctx, brief, page, max_notes).await
    }

    async fn reflect(
        &self,
        ctx: &CallContext,
        brief: &ResearchBrief<'_>,
        notes: &[NoteText<'_>],
        max_queries: u32,
    ) -> Result<ResearchReply<Reflection>, UpstreamError> {
        let researcher = self.researcher(ctx, brief).await?;
        researcher.reflect(ctx, brief, notes, max_queries).await
    }

    async fn outline(
        &self,
        ctx: &CallContext,
        brief: &ResearchBrief<'_>,
        notes: &[NoteText<'_>],
        max_sections: u32,
    ) -> Result<ResearchReply<Vec<SectionPlan>>, UpstreamError> {
        let researcher = self.researcher(ctx, brief).await?;
        researcher.outline(ctx, brief, notes, max_sections).await
    }

    async fn write(
        &self,
        ctx: &CallContext,
        brief: &ResearchBrief<'_>,
        title: &str,
        notes: &[NoteText<'_>],
        max_output_tokens: u64,
    ) -> Result<ResearchReply<Vec<SectionSentence>>, UpstreamError> {
        let researcher = self.researcher(ctx, brief).await?;
        researcher
            .write(ctx, brief, title, notes, max_output_tokens)
            .await
    }
}
