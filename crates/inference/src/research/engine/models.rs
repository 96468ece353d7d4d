//! Calls of the chat models in the roles of a report. Each call is a call of the pipeline against a
//! part of the job's hold.

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use tollgate_accounts::Caller;
use tollgate_formats::openai_chat;
use tollgate_pipeline::job::Settled;
use tollgate_pipeline::{CallRequest, Delivered, JsonPrompt, Routed, answer_text};
use tollgate_storage::{Job, Settlement};
use tollgate_types::{Error, ErrorCode, Format, Usage};
use tollgate_upstream::{
    CallContext, FailedSentence, NoteDraft, NoteText, PageExcerpt, Payload as Answer, Reflection,
    ResearchBrief, ResearchPlan, ResearchProvider, ResearchReply, SectionPlan, SectionSentence,
    UpstreamCause, UpstreamError, UpstreamErrorKind,
};

use super::super::Research;
use super::super::bounds::{PLANNER_OUTPUT, READER_OUTPUT, Stage};
use super::super::payload::Payload;
use super::super::service::ENDPOINT;
use super::super::tariff::max_tokens;
use super::prompts;

/// Words of a section for each 100 output tokens. The rest is for ids and JSON.
const WORDS_PER_100_TOKENS: u64 = 55;

/// Calls of the models of one job.
pub(in super::super) struct ModelCalls<'a> {
    pub(in super::super) research: &'a Research,
    pub(in super::super) job: &'a Job,
    pub(in super::super) payload: &'a Payload,
    pub(in super::super) caller: Caller,
}

impl ModelCalls<'_> {
    /// Returns the maximum size of the prompts of a stage, in bytes.
    fn max_bytes(&self, stage: Stage) -> usize {
        usize::try_from(self.payload.bounds.call(stage).prompt_bytes).unwrap_or(usize::MAX)
    }

    /// Returns the model of a stage with its agreed prices.
    pub(super) fn routed(&self, stage: Stage) -> Result<Routed, Error> {
        let model = self.payload.cast.stage(stage);
        let mut routed = self.research.pipeline.route(&self.caller, &model.model)?;
        if let Some((version, prices)) = model.prices.get()
            && routed.model.price_version != version
        {
            routed.use_agreed_prices(version, prices);
        }
        Ok(routed)
    }

    /// Returns a request of the job.
    pub(super) fn request<C>(&self, demand: tollgate_billing::Demand, call: C) -> CallRequest<C> {
        CallRequest {
            caller: self.caller.clone(),
            request: self.job.request,
            accepted_at: self.payload.accepted_at,
            endpoint: ENDPOINT,
            demand,
            max_cost: None,
            call,
        }
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        stage: Stage,
        output: u64,
        prompt: JsonPrompt,
    ) -> Result<ResearchReply<T>, UpstreamError> {
        let asked = self.answer(stage, output, prompt).await;
        let (text, usage, target) = asked.map_err(|error| failed(&error))?;
        let value = serde_json::from_str(text.trim());
        Ok(ResearchReply {
            value: value.map_err(|error| UpstreamError::protocol(format!("unreadable answer: {error}")))?,
            usage,
            target,
        })
    }

    async fn answer(
        &self,
        stage: Stage,
        output: u64,
        prompt: JsonPrompt,
    ) -> Result<(String, Usage, std::sync::Arc<str>), Error> {
        let mut routed = self.routed(stage)?;
        let prompt = JsonPrompt {
            max_tokens: max_tokens(&routed.model, output),
            ..prompt
        };
        let call = prompt.call(&mut routed)?;
        let demand = prompt.demand(&call);
        let bound = self.payload.bounds.call(stage);
        let (pipeline, settled) = self.research.pipeline.executing_research_call(bound.cost);
        let request = self.request(demand, call);
        let admitted = pipeline.admit(routed, request, |_| Vec::new()).await?;
        let text = text(pipeline.run(admitted.0).await?.answer)?;
        let settlement = settlement(&settled)?;
        Ok((text, settlement.usage, settlement.target))
    }

    fn section_words(max_output_tokens: u64) -> u64 {
        (max_output_tokens * WORDS_PER_100_TOKENS / 100).max(20)
    }
}

#[async_trait]
impl ResearchProvider for ModelCalls<'_> {
    async fn plan(
        &self,
        _: &CallContext,
        brief: &ResearchBrief<'_>,
        max_queries: u32,
    ) -> Result<ResearchReply<ResearchPlan>, UpstreamError> {
        let prompt = prompts::plan(brief, max_queries, self.max_bytes(Stage::Plan));
        let reply: ResearchReply<prompts::PlanAnswer> = self.ask(Stage::Plan, PLANNER_OUTPUT, prompt).await?;
        Ok(reply.map(|answer| answer.into_plan(max_queries)))
    }

    async fn read(
        &self,
        _: &CallContext,
        brief: &ResearchBrief<'_>,
        page: &PageExcerpt<'_>,
        max_notes: u32,
    ) -> Result<ResearchReply<Vec<NoteDraft>>, UpstreamError> {
        let prompt = prompts::read(brief, page, max_notes, self.max_bytes(Stage::Read));
        let reply: ResearchReply<prompts::NotesAnswer> = self.ask(Stage::Read, READER_OUTPUT, prompt).await?;
        Ok(reply.map(prompts::NotesAnswer::into_notes))
    }

    async fn reflect(
        &self,
        _: &CallContext,
        brief: &ResearchBrief<'_>,
        notes: &[NoteText<'_>],
        max_queries: u32,
    ) -> Result<ResearchReply<Reflection>, UpstreamError> {
        let prompt = prompts::reflect(brief, notes, max_queries, self.max_bytes(Stage::Plan));
        let reply: ResearchReply<prompts::ReflectionAnswer> =
            self.ask(Stage::Plan, PLANNER_OUTPUT, prompt).await?;
        Ok(reply.map(|answer| answer.into_reflection(max_queries)))
    }

    async fn outline(
        &self,
        _: &CallContext,
        brief: &ResearchBrief<'_>,
        notes: &[NoteText<'_>],
        max_sections: u32,
    ) -> Result<ResearchReply<Vec<SectionPlan>>, UpstreamError> {
        let prompt = prompts::outline(brief, notes, max_sections, self.max_bytes(Stage::Plan));
        let reply: ResearchReply<prompts::OutlineAnswer> =
            self.ask(Stage::Plan, PLANNER_OUTPUT, prompt).await?;
        Ok(reply.map(prompts::OutlineAnswer::into_sections))
    }

    async fn write(
        &self,
        _: &CallContext,
        brief: &ResearchBrief<'_>,
        title: &str,
        notes: &[NoteText<'_>],
        max_output_tokens: u64,
    ) -> Result<ResearchReply<Vec<SectionSentence>>, UpstreamError> {
        let words = Self::section_words(max_output_tokens);
        let prompt = prompts::write(brief, title, notes, words, self.max_bytes(Stage::Write));
        let reply: ResearchReply<prompts::ParagraphsAnswer> =
            self.ask(Stage::Write, max_output_tokens, prompt).await?;
        Ok(reply.map(prompts::ParagraphsAnswer::into_sentences))
    }

    async fn correct(
        &self,
        _: &CallContext,
        brief: &ResearchBrief<'_>,
        sentences: &[FailedSentence<'_>],
        max_output_tokens: u64,
    ) -> Result<Option<ResearchReply<Vec<Option<SectionSentence>>>>, UpstreamError> {
        let words = Self::section_words(max_output_tokens);
        let prompt = prompts::correct(brief, sentences, words, self.max_bytes(Stage::Write));
        let reply: ResearchReply<prompts::CorrectionsAnswer> =
            self.ask(Stage::Write, max_output_tokens, prompt).await?;
        Ok(Some(reply.map(|answer| answer.into_sentences(sentences.len()))))
    }
}

/// Returns the settlement of a call that has ended.
pub(super) fn settlement(settled: &Settled) -> Result<Settlement, Error> {
    let settlement = settled.get();
    settlement.ok_or_else(|| Error::internal("a call was not settled"))
}

/// Returns the text of a complete answer.
fn text(answer: Delivered) -> Result<String, Error> {
    let unreadable = || Error::new(ErrorCode::UpstreamError, "The model's answer is not readable.");
    let response = match answer {
        Delivered::Whole {
            payload: Answer::Common(response),
            ..
        } => *response,
        Delivered::Whole {
            payload: Answer::Raw(Format::ChatCompletions, bytes),
            ..
        } => openai_chat::decode_response(&bytes)
            .map_err(|error| unreadable().with_source(Error::from(error).message))?,
        Delivered::Whole { .. } | Delivered::Stream(_) => {
            return Err(Error::internal(
                "the answer of a research call has an unexpected form",
            ));
        }
    };
    let refused = || Error::new(ErrorCode::UpstreamError, "The model refused to answer.");
    answer_text(&response).ok_or_else(refused)
}

/// Returns the failure of a call as the engine handles it. The pipeline has already tried all
/// candidates.
pub(super) fn failed(error: &Error) -> UpstreamError {
    UpstreamError::new(
        UpstreamErrorKind::Unavailable,
        UpstreamCause::Status,
        error.operator_message(),
    )
}
