//! Responses: their start with a hold, their progress, and their end with the charge.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use tollgate_accounts::Caller;
use tollgate_billing::Demand;
use tollgate_catalog::ModelKind;
use tollgate_edge::context::RequestContext;
use tollgate_edge::websocket::{Closing, POLICY_VIOLATION};
use tollgate_formats::openai_realtime::{
    CancelReason, Conversation as Target, IncompleteReason, InputItem, ItemKind, MAX_OUTPUT_TOKENS,
    OutputModality, RateLimit, RealtimeCode, ResponseParams, ResponseStatus, ServerEvent, TranscriptionUsage,
};
use tollgate_pipeline::{CallRequest, MICROS_PER_INPUT_TOKEN, SessionCall, TurnResult, realtime_error};
use tollgate_storage::Budget;
use tollgate_types::usage::Outcome;
use tollgate_types::{Error, ErrorCode, Unit, Usage};
use tollgate_upstream::UpstreamError;

use super::conversation::context_item;
use super::events::{Refusal, event_error};
use super::response::{Execution, ResponseOptions, RunningResponse};
use super::{VoiceSession, Way};
use crate::cascade::{DEFAULT_OUTPUT_TOKENS, ENDPOINT, EarlyWords, Order, respond, set_transcript, text_of};
use crate::execution::{
    Consumption, ContextItem, Finish, Progress, Reporter, ResponseSettings, recorded_micros,
};
use crate::meters;
use crate::payment::Payment;
use crate::relay::RelayOrder;

/// Maximum number of running responses outside the conversation.
const MAX_OUTSIDE: usize = 4;
/// Output tokens of a spoken answer for each token of its text: one of text, and ten of audio.
const TOKENS_PER_SPOKEN_TOKEN: u64 = 11;

/// Caller of a response, and its payment.
struct Payer {
    caller: Caller,
    ctx: Arc<RequestContext>,
    payment: Payment,
}

/// Whether the end of a turn requested a response, and the words of that turn, if their
/// transcription has started.
enum Automatic {
    Yes(Option<EarlyWords>),
    No,
}

/// End of a response.
enum End {
    Finished(Finish),
    Cancelled(CancelReason, bool),
    Failed(Error),
}

impl VoiceSession {
    /// Starts a response that the client requests.
    pub(super) async fn create_response(&mut self, params: ResponseParams, event_id: Option<&str>) {
        if let Err(refusal) = self.start(params, false, event_id).await {
            self.events.error(&refusal, event_id, None);
        }
    }

    /// Starts the response to a turn that the gateway detected.
    pub(super) async fn respond_to_turn(&mut self) {
        if let Err(refusal) = self.start(ResponseParams::default(), true, None).await {
            self.events.error(&refusal, None, None);
        }
    }

    /// Starts the response to a turn that ended while another response was running.
    pub(super) async fn continue_waiting(&mut self) {
        if self.has_waiting_turn && !self.responses.iter().any(RunningResponse::is_in_conversation) {
            self.has_waiting_turn = false;
            self.respond_to_turn().await;
        }
    }

    async fn start(
        &mut self,
        params: ResponseParams,
        is_automatic: bool,
        event_id: Option<&str>,
    ) -> Result<(), Refusal> {
        let is_in_conversation = params.conversation == Target::Auto;
        self.check_concurrency(is_in_conversation)?;
        params
            .check(&self.limits(), self.session.voice.as_ref())
            .map_err(Error::from)?;
        self.check_outside(&params)?;
        let context = self.context_of(&params)?;
        let options = self.options_of(&params, is_in_conversation);
        let settings = self.settings_of(&params, &options);
        if let Some(early) = self.early.take().filter(|_| is_automatic) {
            let words = early.hearing.as_ref().map(|hearing| hearing.words.clone());
            let payer = Payer {
                caller: early.caller,
                ctx: early.ctx,
                payment: early.payment,
            };
            // The transcription continues until the response has its words.
            self.hearing = early.hearing;
            self.run_response(payer, context, settings, options, Automatic::Yes(words));
            return Ok(());
        }
        let turn = self.events.turns.turn().await;
        let (caller, ctx) = turn.started.map_err(|error| self.note_key(error))?;
        let payment = self.pay(&caller, &ctx, &context, &settings, options.max_output_tokens);
        match payment.await {
            Ok(payment) => {
                let automatic = match is_automatic {
                    true => Automatic::Yes(None),
                    false => Automatic::No,
                };
                let payer = Payer { caller, ctx, payment };
                self.run_response(payer, context, settings, options, automatic);
            }
            Err(error) => {
                let request = Some(ctx.id);
                tracing::info!(request.id = %ctx.id, code = error.code.as_str(), "response refused: {}", ctx.id);
                self.events.error(&Refusal::Common(error), event_id, request);
            }
        }
        Ok(())
    }

    fn check_concurrency(&self, is_in_conversation: bool) -> Result<(), Refusal> {
        let running = self
            .responses
            .iter()
            .filter(|response| response.is_in_conversation() == is_in_conversation)
            .count();
        let max = match is_in_conversation {
            true => 1,
            false => MAX_OUTSIDE,
        };
        if running < max {
            return Ok(());
        }
        let message = match is_in_conversation {
            true => "A response is running. Cancel it, or wait for its end.".to_owned(),
            false => {
                format!("{MAX_OUTSIDE} responses outside the conversation are running. Wait for an end.")
            }
        };
        Err(Refusal::Realtime(RealtimeCode::ActiveResponse, message, None))
    }

    /// Refuses a response outside the conversation if the model cannot create it.
    fn check_outside(&self, params: &ResponseParams) -> Result<(), Error> {
        let has_outside_responses = match &self.opening.way {
            Way::Cascade(_) => true,
            Way::Relay(relay) => relay.has_outside_responses(),
        };
        let param = match (params.conversation, &params.input) {
            (Target::None, _) => "response.conversation",
            (Target::Auto, Some(_)) => "response.input",
            (Target::Auto, None) => return Ok(()),
        };
        if has_outside_responses {
            return Ok(());
        }
        let message = "The model responds only in the conversation, with all its items.";
        Err(Error::new(ErrorCode::UnsupportedParameter, message).with_param(param))
    }

    /// Ends the session if its key is no longer valid.
    fn note_key(&mut self, error: Error) -> Error {
        if error.code == ErrorCode::InvalidApiKey {
            self.closing = Some(Closing {
                code: POLICY_VIOLATION,
                reason: "The API key is no longer valid.",
            });
        }
        error
    }

    fn context_of(&self, params: &ResponseParams) -> Result<Vec<ContextItem>, Refusal> {
        let Some(input) = &params.input else {
            return Ok(self.conversation.context());
        };
        let items = input.iter().enumerate().map(|(place, item)| match item {
            InputItem::Item(item) => {
                let entry = self.entry_of(item.clone(), &format!("response.input[{place}]"))?;
                Ok(context_item(&entry))
            }
            InputItem::Reference(id) => match self.conversation.get(id) {
                Some(entry) => Ok(context_item(entry)),
                None => {
                    let message = "The conversation has no item with this id.";
                    let error = Error::new(ErrorCode::InvalidParameter, message);
                    Err(error.with_param(format!("response.input[{place}].id")).into())
                }
            },
        });
        items.collect()
    }

    pub(super) fn options_of(&self, params: &ResponseParams, is_in_conversation: bool) -> ResponseOptions {
        let session = &self.session;
        ResponseOptions {
            id: self.events.new_id("resp_"),
            conversation_id: is_in_conversation.then(|| self.conversation_id.clone()),
            modality: params.modality.unwrap_or(session.modality),
            output_format: params.output_format.unwrap_or(session.output_format),
            voice: params.voice().or(session.voice.as_ref()).cloned(),
            max_output_tokens: params.max_output_tokens().unwrap_or(session.max_output_tokens),
            metadata: params.metadata.clone(),
            has_own_input: params.input.is_some(),
        }
    }

    pub(super) fn settings_of(&self, params: &ResponseParams, options: &ResponseOptions) -> ResponseSettings {
        let session = &self.session;
        let instructions = params.instructions.as_ref().unwrap_or(&session.instructions);
        ResponseSettings {
            instructions: instructions.clone(),
            modality: options.modality,
            voice: options.voice.clone(),
            speed: session.speed,
            tools: params.tools.clone().unwrap_or_else(|| session.tools.clone()),
            tool_choice: params
                .tool_choice
                .clone()
                .unwrap_or_else(|| session.tool_choice.clone()),
            parallel_tool_calls: params.parallel_tool_calls.or(session.parallel_tool_calls),
            temperature: params.temperature.or(session.temperature),
            max_tokens: 0,
        }
    }

    /// Checks the content policy and takes the hold of the turn.
    pub(super) async fn pay(
        &self,
        caller: &Caller,
        ctx: &RequestContext,
        context: &[ContextItem],
        settings: &ResponseSettings,
        max_output_tokens: Option<u32>,
    ) -> Result<Payment, Error> {
        let pipeline = &self.opening.shared.pipeline;
        let texts = texts_of(context, settings);
        pipeline.check_texts(ctx.id, &texts).await?;
        let mut routed = pipeline.route(caller, &self.opening.model)?;
        let voice = self.opening.settings.chat_voice.as_deref();
        if let Some(voice) = voice.filter(|_| routed.model.kind == ModelKind::Chat) {
            routed.add_price(Unit::InputAudio, voice.input_audio);
            routed.add_price(Unit::OutputAudio, voice.output_audio);
        }
        let factor = self.output_factor(settings.modality);
        let max_tokens = max_output_tokens.map_or(self.default_output_tokens(), u64::from);
        routed.limit_output(max_tokens.saturating_mul(factor));
        let demand = Demand {
            text_bytes: texts.iter().map(String::len).sum::<usize>() as u64,
            // In a cascade, the words of the recordings become a part of the prompt. A provider may
            // count more tokens than the duration suggests.
            tokens: self.read_audio_tokens(context).saturating_mul(2),
            messages: context.len() as u64 + 1,
            inputs: 1,
            media_bytes: 0,
            images: 0,
            max_tokens: max_output_tokens.map(|cap| u64::from(cap).saturating_mul(factor)),
            reasoning_budget: 0,
            n: 1,
            caches_for_an_hour: false,
            made: Usage::ZERO,
        };
        let request = CallRequest {
            caller: caller.clone(),
            request: ctx.id,
            accepted_at: ctx.accepted_at,
            endpoint: ENDPOINT,
            demand,
            max_cost: ctx.max_cost.amount(),
            call: SessionCall,
        };
        Payment::take(pipeline, &self.events.turns, None, routed, request).await
    }

    /// Returns the number of output tokens that a token of the response's limit can become: the
    /// limit of a cascade counts the tokens of its text.
    const fn output_factor(&self, modality: OutputModality) -> u64 {
        match (&self.opening.way, modality) {
            (Way::Cascade(_), OutputModality::Audio) => TOKENS_PER_SPOKEN_TOKEN,
            (Way::Cascade(_), OutputModality::Text) | (Way::Relay(_), _) => 1,
        }
    }

    /// Returns the maximum output of a response without a limit.
    fn default_output_tokens(&self) -> u64 {
        match &self.opening.way {
            Way::Cascade(_) => DEFAULT_OUTPUT_TOKENS,
            Way::Relay(_) => self
                .opening
                .max_output_tokens
                .map_or(MAX_OUTPUT_TOKENS.into(), u64::from),
        }
    }

    /// Returns the number of audio tokens that the models of a response read: a cascade reads each
    /// recording once, a provider's model the whole conversation.
    fn read_audio_tokens(&self, context: &[ContextItem]) -> u64 {
        match &self.opening.way {
            Way::Cascade(_) => recorded_micros(context).div_ceil(MICROS_PER_INPUT_TOKEN),
            Way::Relay(_) => context.iter().map(|item| item.audio_tokens).sum(),
        }
    }

    fn run_response(
        &mut self,
        payer: Payer,
        context: Vec<ContextItem>,
        mut settings: ResponseSettings,
        options: ResponseOptions,
        automatic: Automatic,
    ) {
        let Payer { caller, ctx, payment } = payer;
        let (is_automatic, early_words) = match automatic {
            Automatic::Yes(words) => (true, words),
            Automatic::No => (false, None),
        };
        settings.max_tokens = (payment.output_cap() / self.output_factor(settings.modality)).max(1);
        let number = self.next_number;
        self.next_number += 1;
        let read_audio_tokens = self.read_audio_tokens(&context);
        let pipeline = &self.opening.shared.pipeline;
        let consumption = Consumption::default();
        let reporter = Reporter::new(number, self.reports.clone());
        let (outbox, lead_ms) = (self.events.outbox.clone(), self.opening.settings.lead_ms);
        let execution = match &self.opening.way {
            Way::Cascade(stages) => {
                let order = Order {
                    pipeline: pipeline.clone(),
                    caller,
                    stages: stages.clone(),
                    request: ctx.id,
                    accepted_at: ctx.accepted_at,
                    context,
                    is_automatic,
                    early_words,
                    settings,
                    outbox,
                    lead_ms,
                };
                let task = executed(order, reporter, consumption.clone());
                Execution::Cascade(AbortOnDropHandle::new(pipeline.calls.spawn(task)))
            }
            Way::Relay(relay) => Execution::Relay(relay.respond(RelayOrder {
                request: ctx.id,
                ctx: payment.context(pipeline),
                context,
                is_in_conversation: options.conversation_id.is_some() && !options.has_own_input,
                settings,
                reporter,
                consumption: consumption.clone(),
                turns: self.events.turns.clone(),
                outbox,
                lead_ms,
            })),
        };
        if options.conversation_id.is_some() {
            self.arms_idle = false;
            self.input.disarm_idle();
            self.last_spoken = None;
        }
        self.responses.push(RunningResponse {
            number,
            request: ctx.id,
            payment: Some(payment),
            options,
            consumption,
            read_audio_tokens,
            is_created: false,
            first_at: None,
            started: Instant::now(),
            output: Vec::new(),
            next_item_id: None,
            execution,
        });
    }

    /// Handles the progress of a response. Progress of an ended response is dropped.
    pub(super) async fn advance(&mut self, number: u64, progress: Progress) {
        self.last_activity = Instant::now();
        let progress = match progress {
            Progress::Interim(words) => return self.note_interim(&words),
            Progress::Transcribed(transcribed) => return self.note_transcribed(transcribed),
            Progress::Uploaded { item_id } => {
                if let Some(entry) = self.conversation.get_mut(&item_id) {
                    entry.recording = None;
                }
                return;
            }
            progress => progress,
        };
        let now_us = self.now_us();
        let Self {
            responses,
            conversation,
            events,
            ..
        } = self;
        let Some(response) = responses.iter_mut().find(|response| response.number == number) else {
            return;
        };
        match progress {
            Progress::Heard { item_id, words } => return self.heard(&item_id, &words),
            Progress::Unheard { item_id, error } => {
                self.unheard(&item_id, &error);
                self.end_response(number, End::Failed(error)).await;
                return self.continue_waiting().await;
            }
            Progress::Silent => {
                self.void(number).await;
                return self.continue_waiting().await;
            }
            Progress::Interim(_) | Progress::Transcribed(_) | Progress::Uploaded { .. } => {}
            Progress::Item(id) => response.next_item_id = Some(id),
            Progress::Started => {
                self.hearing = None;
                return self.started_response(number).await;
            }
            Progress::Text(delta) => response.write(&delta, events, conversation),
            Progress::Chunk(chunk) => response.speak(&chunk, true, events, conversation),
            Progress::Transcript(words) => response.speak(&words, false, events, conversation),
            Progress::Audio(samples) => {
                response.play(&samples, events, conversation, now_us);
                self.has_delivered_audio = true;
            }
            Progress::CallStarted { index, call_id, name } => {
                response.start_call(index, &call_id, &name, events, conversation)
            }
            Progress::CallArguments { index, delta } => response.extend_call(index, &delta, events),
            Progress::Ended(finish) => {
                self.end_response(number, End::Finished(finish)).await;
                return self.continue_waiting().await;
            }
            Progress::Failed(error) => {
                self.end_response(number, End::Failed(error)).await;
                return self.continue_waiting().await;
            }
        }
        self.note_first(number);
    }

    fn note_first(&mut self, number: u64) {
        let now = self.opening.shared.pipeline.clock.now();
        let mut responses = self.responses.iter_mut();
        let response = responses.find(|response| response.number == number);
        if let Some(response) = response.filter(|response| response.first_at.is_none()) {
            response.first_at = Some(now);
            if response.options.modality == OutputModality::Audio {
                meters::first_audio(response.started.elapsed());
            }
        }
    }

    /// Sends the words of a recording, whose audio is dropped.
    fn heard(&mut self, item_id: &str, words: &str) {
        let recording = self.conversation.get_mut(item_id).and_then(|entry| {
            set_transcript(&mut entry.item, words);
            entry.recording.take()
        });
        if let Some(recording) = recording {
            self.events.send(&ServerEvent::TranscriptionCompleted {
                item_id,
                content_index: 0,
                transcript: words,
                usage: TranscriptionUsage::Duration {
                    micros: recording.micros(),
                    cost: None,
                },
                logprobs: None,
            });
        }
    }

    /// Reports a recording that cannot be transcribed. The next response tries it again.
    fn unheard(&self, item_id: &str, error: &Error) {
        if self.conversation.get(item_id).is_some() {
            self.events.send(&ServerEvent::TranscriptionFailed {
                item_id,
                content_index: 0,
                error: &event_error(error),
            });
        }
    }

    /// Ends a response that has not started, without a charge and without events.
    async fn void(&mut self, number: u64) {
        let Some(response) = self.take(number) else { return };
        if let Some(payment) = response.payment {
            let pipeline = &self.opening.shared.pipeline;
            payment.settle(pipeline, TurnResult::free(Outcome::Ok)).await;
        }
    }

    async fn started_response(&mut self, number: u64) {
        let pipeline = &self.opening.shared.pipeline;
        let limits = pipeline.limit_headers(&self.opening.caller, Budget::Work).await;
        let mut responses = self.responses.iter_mut();
        let Some(response) = responses.find(|response| response.number == number) else {
            return;
        };
        response.create(&self.events);
        let Some(limits) = limits else { return };
        let windows = [("requests", Some(limits.requests)), ("tokens", limits.tokens)];
        let windows: Vec<RateLimit> = windows
            .into_iter()
            .filter_map(|(name, window)| {
                let window = window?;
                Some(RateLimit {
                    name,
                    limit: window.limit,
                    remaining: window.remaining,
                    reset_ms: u64::try_from(window.reset.as_millis()).unwrap_or(u64::MAX),
                })
            })
            .collect();
        self.events.send(&ServerEvent::RateLimitsUpdated(&windows));
    }

    /// Cancels a response. `is_gone` means that the client has disconnected.
    pub(super) async fn cancel_response(&mut self, number: u64, reason: CancelReason, is_gone: bool) {
        self.end_response(number, End::Cancelled(reason, is_gone)).await;
    }

    /// Cancels all responses, for the end of the session.
    pub(super) async fn cancel_all(&mut self, reason: CancelReason, is_gone: bool) {
        while let Some(number) = self.responses.last().map(|response| response.number) {
            self.cancel_response(number, reason, is_gone).await;
        }
    }

    /// Fails all responses.
    pub(super) async fn fail_all(&mut self, error: &UpstreamError) {
        while let Some(number) = self.responses.last().map(|response| response.number) {
            let failed = End::Failed(realtime_error(error));
            self.end_response(number, failed).await;
        }
    }

    /// Cuts the last answer after the words that the listener has heard.
    pub(super) fn cut_last_spoken(&mut self) {
        let now = self.now_us();
        let Some(last) = self.last_spoken.take() else {
            return;
        };
        if last.playback.is_playing(now)
            && let Some(entry) = self.conversation.get_mut(&last.item_id)
        {
            entry.truncate(last.playback.played_us(now));
        }
    }

    fn take(&mut self, number: u64) -> Option<RunningResponse> {
        let place = self
            .responses
            .iter()
            .position(|response| response.number == number)?;
        Some(self.responses.remove(place))
    }

    /// Sends the last events of a response and settles its hold before `response.done`.
    async fn end_response(&mut self, number: u64, end: End) {
        let Some(mut response) = self.take(number) else {
            return;
        };
        response.create(&self.events);
        let delivered = response.delivered_micros();
        let is_charged = matches!(end, End::Finished(_)) || response.has_output();
        let is_complete = matches!(end, End::Finished(Finish::Completed));
        let last_spoken = response.close_items(is_complete, &self.events, &mut self.conversation);
        if response.is_in_conversation() {
            self.last_spoken = last_spoken;
            self.arms_idle = true;
            if matches!(end, End::Cancelled(..)) {
                self.cut_last_spoken();
            }
        }
        if !matches!(end, End::Finished(_)) {
            response.execution.stop().await;
        }
        let result = result_of(&response, delivered, is_charged, &end);
        let outcome = result.outcome;
        let charge = match response.payment.take() {
            Some(payment) => payment.settle(&self.opening.shared.pipeline, result).await,
            None => return,
        };
        let cost = charge.amount.to_string();
        let failure;
        let status = match &end {
            End::Finished(Finish::Completed) => ResponseStatus::Completed,
            End::Finished(Finish::MaxTokens) => ResponseStatus::Incomplete(IncompleteReason::MaxOutputTokens),
            End::Finished(Finish::ContentFilter) => {
                ResponseStatus::Incomplete(IncompleteReason::ContentFilter)
            }
            End::Cancelled(reason, _) => ResponseStatus::Cancelled(*reason),
            End::Failed(error) => {
                failure = event_error(error);
                ResponseStatus::Failed(&failure)
            }
        };
        response.done(status, &charge.usage, &cost, &self.events);
        self.log(&response, outcome, &end, &cost);
    }

    fn log(&self, response: &RunningResponse, outcome: Outcome, end: &End, cost: &str) {
        let cause = match end {
            End::Failed(error) => Some(error.operator_message()),
            _ => None,
        };
        meters::ended(outcome);
        tracing::info!(
            request.id = %response.request, session.request.id = %self.opening.request,
            outcome = outcome.as_str(), cost, cause, "response ended: {}", response.request
        );
    }
}

/// Executes a response; a panic fails the response, not the session.
async fn executed(order: Order, reporter: Reporter, consumption: Consumption) {
    let last = reporter.clone();
    let executed = AssertUnwindSafe(respond(order, reporter, consumption)).catch_unwind();
    if executed.await.is_err() {
        last.fail(Error::internal("the task of a response panicked"))
            .await;
    }
}

fn result_of(response: &RunningResponse, delivered: u64, is_charged: bool, end: &End) -> TurnResult {
    let outcome = match end {
        End::Finished(_) => Outcome::Ok,
        End::Cancelled(_, true) => Outcome::ClientGone,
        End::Cancelled(_, false) => Outcome::Cancelled,
        End::Failed(error) => match error.code {
            ErrorCode::UpstreamTimeout => Outcome::Timeout,
            ErrorCode::ContentPolicyViolation => Outcome::BlockedInput,
            _ => Outcome::UpstreamError,
        },
    };
    if !is_charged {
        return TurnResult::free(outcome);
    }
    let (usage, estimated) = response.usage(delivered);
    TurnResult {
        usage,
        estimated,
        outcome,
        target: response.consumption.get().target.unwrap_or_else(|| "".into()),
        first_at: response.first_at,
    }
}

/// Returns the texts that the models of a response read.
fn texts_of(context: &[ContextItem], settings: &ResponseSettings) -> Vec<String> {
    let mut texts = vec![settings.instructions.to_string()];
    for tool in settings.tools.iter() {
        texts.push(tool.name.to_string());
        texts.extend(tool.description.as_deref().map(str::to_owned));
        texts.extend(tool.parameters.as_deref().map(str::to_owned));
    }
    for ContextItem { item, .. } in context {
        texts.push(match &item.kind {
            ItemKind::Message { content, .. } => text_of(content),
            ItemKind::FunctionCall { name, arguments, .. } => format!("{name}\n{arguments}"),
            ItemKind::FunctionCallOutput { output, .. } => output.to_string(),
        });
    }
    texts.retain(|text| !text.is_empty());
    texts
}
