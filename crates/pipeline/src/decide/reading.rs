//! Probabilities from models without native decisions: label probabilities are read, or answers are
//! sampled, until each item has a distribution. Items proceed in rounds; a failing item does not
//! delay the others. Draws are bounded ([`DrawBudget`]). No request is sent after the caller has
//! disconnected.

use std::slice;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use tokio::time::{Instant, sleep, timeout_at};
use tollgate_probability::{
    Estimate, EstimateError, EstimateOptions, Estimator, Round, RoundDraws, RoundReading, SampleOptions,
    Sampler,
};
use tollgate_types::decide::{Decision, Method, Question};
use tollgate_types::{Retry, Usage};
use tollgate_upstream::{
    CallContext, DecideProvider, DecisionWay, Draw, LabelCall, UpstreamCause, UpstreamError,
    UpstreamErrorKind,
};

use super::budget::{DrawBudget, LABEL_TOKENS, REASONED_TOKENS};
use super::items::{self, Item, ItemKind, ItemResult};
use super::priors::PriorKey;
use super::{DecideCall, prompt};
use crate::Pipeline;
use crate::run_to_completion::Caller;

/// Maximum number of concurrent upstream calls of one request.
pub(super) const MAX_CONCURRENT: usize = 8;
/// Number of consecutive failures before the first success that are attributed to the upstream.
const MAX_SOLO_FAILURES: usize = 3;
/// Number of sampled answers per item.
const DRAWS_PER_ITEM: u32 = 20;

/// Execution of a decide request at one candidate.
pub(super) struct Run<'a> {
    pub(super) pipeline: &'a Pipeline,
    pub(super) ctx: CallContext,
    pub(super) provider: &'a dyn DecideProvider,
    pub(super) provider_name: Arc<str>,
    pub(super) model: Arc<str>,
    pub(super) call: &'a DecideCall,
    /// Whether the model is known to reason before it answers.
    pub(super) reasons: bool,
    pub(super) caller: &'a Caller,
    pub(super) budget: DrawBudget,
    /// Total usage that the upstream has reported.
    pub(super) consumed: Mutex<Usage>,
}

/// A result; `None` if the deployment does not support the method or the model gave no valid
/// answer.
pub(super) type Tried<T> = Result<Option<T>, UpstreamError>;

/// Outcome of one question.
pub(super) type Answer = Result<Decision, UpstreamError>;

/// An item with its result; `Ok(None)` if the model's answers matched none of the options.
pub(super) type Answered = (Item, Tried<ItemResult>);

/// An item whose probabilities are incomplete.
struct PendingItem {
    item: Item,
    strategy: Strategy,
    labels: Arc<[String]>,
    /// Number of requests sent to the model.
    calls: u32,
    /// Maximum number of sampled answers per request.
    max_answers: u32,
    /// Maximum number of output tokens of a sampled answer.
    max_tokens: u64,
    /// Error of a request that timed out in this round.
    late: Option<UpstreamError>,
    failed: Option<UpstreamError>,
}

/// Method that determines an item's probabilities: reading logprobs or sampling answers.
enum Strategy {
    Reading(Estimator),
    Drawing(Sampler),
}

/// One upstream request for an item.
struct LabelRequest {
    pending_item: usize,
    question: usize,
    /// Index of the request's round among the pending rounds of the item.
    round: usize,
    /// Number and maximum size of the answers to sample; `None` if label probabilities are read.
    draw: Option<Draw>,
    call: LabelCall,
}

/// Reply of the upstream to one request.
struct LabelReply {
    requests: u32,
    usage: Option<Usage>,
    content: ReplyContent,
}

enum ReplyContent {
    Reading(RoundReading),
    Draws {
        drawn: RoundDraws,
        /// Number of answers that were still reasoning at the token limit.
        unfinished: u32,
    },
}

impl Run<'_> {
    /// Answers all questions with label prompts.
    pub(super) async fn by_labels(&self, way: DecisionWay) -> Tried<Vec<Answer>> {
        let questions = &self.call.questions;
        let places: Vec<usize> = (0..questions.len()).collect();
        let first = items::first(questions, &places);
        let Some(answers) = self.probabilities(way, first, true).await? else {
            return Ok(None);
        };
        let second = items::second(questions, answered_items(&answers));
        let more = self.probabilities(way, second, false).await?;
        let answers = answers.into_iter().chain(more.into_iter().flatten());
        Ok(Some(decisions(questions, &places, answers.collect())))
    }

    /// Determines the probabilities of items. The first request is sent alone: its result shows
    /// whether the method is supported, and it fills the provider's prompt cache with the state. If
    /// it fails, its question may be the reason, so the request of the next item is also sent
    /// alone. An error that is not specific to the question fails the call, so that the next
    /// candidate is tried; so do [`MAX_SOLO_FAILURES`] consecutive failures.
    async fn probabilities(
        &self,
        way: DecisionWay,
        items: Vec<Item>,
        is_first: bool,
    ) -> Tried<Vec<Answered>> {
        let widest = items
            .iter()
            .map(|item| item.options.len())
            .max()
            .unwrap_or_default();
        let labels: Arc<[String]> = self.provider.labels(&self.ctx, &self.model, widest).await?.into();
        let mut pending_items: Vec<PendingItem> = items
            .into_iter()
            .map(|item| self.pending_item(way, item, &labels))
            .collect();
        let mut is_first = is_first;
        let mut number = 0;
        loop {
            let pending = self.pending(&mut pending_items, &mut number);
            if pending.is_empty() {
                break;
            }
            let mut reply = Vec::with_capacity(pending.len());
            let mut rest = pending.iter();
            if is_first {
                match self.one_by_one(way, &mut rest).await? {
                    Some(first) => reply.extend(first),
                    None => return Ok(None),
                }
                is_first = false;
            }
            let others: Vec<BoxFuture<'_, _>> = rest
                .map(|label_request| {
                    self.bounded(label_request, self.with_retry(way, label_request))
                        .boxed()
                })
                .collect();
            let others = stream::iter(others).buffered(MAX_CONCURRENT);
            reply.extend(others.collect::<Vec<_>>().await);
            self.record(&mut pending_items, pending, reply);
        }
        let found = pending_items
            .into_iter()
            .map(|pending_item| self.finish(way, pending_item));
        Ok(Some(found.collect()))
    }

    /// Sends requests one at a time until one succeeds. Returns the replies to these requests, in
    /// order.
    async fn one_by_one(
        &self,
        way: DecisionWay,
        pending: &mut slice::Iter<'_, LabelRequest>,
    ) -> Tried<Vec<Tried<LabelReply>>> {
        let (mut reply, mut failed): (Vec<Tried<LabelReply>>, Vec<usize>) = (Vec::new(), Vec::new());
        for label_request in pending {
            if failed.contains(&label_request.pending_item) {
                reply.push(Ok(None));
                continue;
            }
            match self
                .bounded(label_request, self.send_request(way, label_request))
                .await
            {
                Ok(None) => return Ok(None),
                Ok(answer) => {
                    reply.push(Ok(answer));
                    break;
                }
                Err(error) => {
                    failed.push(label_request.pending_item);
                    if should_give_up(&error, failed.len()) {
                        return Err(error);
                    }
                    reply.push(Err(error));
                }
            }
        }
        Ok(Some(reply))
    }

    fn pending_item(&self, way: DecisionWay, item: Item, labels: &Arc<[String]>) -> PendingItem {
        let (number, is_ordered) = (item.options.len(), item.kind == ItemKind::Score);
        let max_labels = match way {
            DecisionWay::Native { options, .. } => options,
            DecisionWay::Logits { labels: max } => max.min(labels.len()),
            DecisionWay::TopLogprobs { max } => max.min(labels.len()),
            DecisionWay::Sampled { .. } => labels.len(),
        };
        let options = &self.call.options;
        let traits = self.pipeline.priors.traits(&self.prior_key());
        let strategy = match way {
            DecisionWay::Sampled { .. } => Strategy::Drawing(Sampler::new(
                number,
                is_ordered,
                &SampleOptions {
                    max_labels,
                    draws: DRAWS_PER_ITEM,
                    permutations: options.permutations,
                    seed: options.seed,
                    varies: traits.varies,
                },
            )),
            _ => {
                let prior = self.pipeline.priors.of(&self.prior_key());
                Strategy::Reading(Estimator::new(
                    number,
                    is_ordered,
                    &EstimateOptions {
                        max_labels,
                        permutations: options.permutations,
                        fast: options.fast && labels.len() >= number,
                        seed: options.seed,
                        prior: prior.as_deref(),
                    },
                ))
            }
        };
        PendingItem {
            item,
            strategy,
            labels: labels.clone(),
            calls: 0,
            max_answers: match way {
                DecisionWay::Sampled { max_answers } => max_answers.max(1),
                _ => 1,
            },
            max_tokens: match self.reasons || traits.reasons {
                true => REASONED_TOKENS,
                false => LABEL_TOKENS,
            },
            late: None,
            failed: None,
        }
    }

    /// Returns the next requests of all items. `number` counts the requests of the call, so that
    /// each request has a different seed. An item with an exhausted draw budget is ended.
    fn pending(&self, pending_items: &mut [PendingItem], number: &mut u64) -> Vec<LabelRequest> {
        let mut pending = Vec::new();
        for (place, pending_item) in pending_items.iter_mut().enumerate() {
            if pending_item.failed.is_some() {
                continue;
            }
            let question = pending_item.item.question;
            let rounds: Vec<(usize, Round, Option<Draw>)> = match &pending_item.strategy {
                Strategy::Reading(estimator) => {
                    let rounds = estimator.pending().into_iter().enumerate();
                    rounds.map(|(place, round)| (place, round, None)).collect()
                }
                Strategy::Drawing(sampler) => self.draws(pending_item, sampler),
            };
            if rounds.is_empty() {
                pending_item.end(UpstreamError::timeout(
                    "the draws of the question reached their token or time limit",
                ));
            }
            for (round, shown, draw) in rounds {
                let call = self.label_call(pending_item, &shown, *number);
                *number += 1;
                pending.push(LabelRequest {
                    pending_item: place,
                    question,
                    round,
                    draw,
                    call,
                });
            }
        }
        pending
    }

    /// Reserves requests for the missing draws of an item, within its budget, distributed evenly
    /// over its rounds.
    fn draws(&self, pending_item: &PendingItem, sampler: &Sampler) -> Vec<(usize, Round, Option<Draw>)> {
        let mut missing = sampler.pending();
        let mut draws = Vec::new();
        loop {
            let before = draws.len();
            for (place, round) in missing.iter_mut().enumerate() {
                let wanted = round.draws.min(pending_item.max_answers);
                let reserved =
                    self.budget
                        .reserve(pending_item.item.question, wanted, pending_item.max_tokens);
                if let Some(draw) = reserved {
                    round.draws -= draw.answers;
                    draws.push((place, round.round.clone(), Some(draw)));
                }
            }
            if draws.len() == before {
                return draws;
            }
        }
    }

    fn label_call(&self, pending_item: &PendingItem, round: &Round, number: u64) -> LabelCall {
        let labels = pending_item
            .labels
            .get(..round.order.len())
            .unwrap_or(&pending_item.labels);
        LabelCall {
            upstream_model: self.model.clone(),
            state: self.call.state.clone(),
            question: prompt::question(&pending_item.item, &round.order, labels).into(),
            labels: labels.into(),
            seed: self.call.options.seed.wrapping_add(number),
        }
    }

    async fn send_request(&self, way: DecisionWay, label_request: &LabelRequest) -> Tried<LabelReply> {
        let reply = match label_request.draw {
            Some(draw) => {
                let drawn = self
                    .provider
                    .draw_labels(&self.ctx, &label_request.call, draw)
                    .await?;
                drawn.map(|drawn| LabelReply {
                    requests: 1,
                    usage: drawn.usage,
                    content: ReplyContent::Draws {
                        unfinished: drawn.unfinished,
                        drawn: RoundDraws {
                            counts: drawn.counts,
                            others: drawn.others,
                        },
                    },
                })
            }
            None => {
                let read = self
                    .provider
                    .read_labels(&self.ctx, way, &label_request.call)
                    .await?;
                read.map(|read| LabelReply {
                    requests: read.requests,
                    usage: read.usage,
                    content: ReplyContent::Reading(RoundReading {
                        logprobs: read.logprobs,
                        rest: read.rest,
                    }),
                })
            }
        };
        self.consume(reply.as_ref().and_then(|reply| reply.usage));
        Ok(reply)
    }

    /// Records the usage that the upstream reports, if any.
    pub(super) fn consume(&self, usage: Option<Usage>) {
        let Some(usage) = usage else { return };
        self.pipeline
            .meters
            .decision_upstream(&self.provider_name, &usage);
        let mut consumed = self.consumed.lock().unwrap_or_else(PoisonError::into_inner);
        *consumed = consumed.plus(&usage);
    }

    /// Runs one request, unless the caller has disconnected. A draw ends at the deadline of the
    /// call's draws, and its tokens and duration are deducted from its question's budget.
    async fn bounded(
        &self,
        label_request: &LabelRequest,
        request: impl Future<Output = Tried<LabelReply>>,
    ) -> Tried<LabelReply> {
        let started = Instant::now();
        let reply = if self.caller.has_left() {
            Err(UpstreamError::timeout("the caller disconnected"))
        } else if label_request.draw.is_some() {
            let late = |_| Err(UpstreamError::timeout("the draws of a call took too long"));
            timeout_at(self.budget.until(), request)
                .await
                .unwrap_or_else(late)
        } else {
            request.await
        };
        if let Some(draw) = label_request.draw {
            let usage = reply.as_ref().ok().and_then(|reply| reply.as_ref()?.usage);
            let used = usage.map(|usage| usage.total_output());
            self.budget
                .settle(label_request.question, draw, used, started.elapsed());
        }
        reply
    }

    /// Sends a request, and retries if the upstream is busy, since concurrent calls may exceed its
    /// rate limit.
    async fn with_retry(&self, way: DecisionWay, label_request: &LabelRequest) -> Tried<LabelReply> {
        let mut attempt = 0;
        loop {
            let error = match self.send_request(way, label_request).await {
                Err(error) => error,
                reply => return reply,
            };
            attempt += 1;
            match self.pipeline.retry_delay(&error, attempt) {
                Some(wait) => sleep(wait).await,
                None => return Err(error),
            }
        }
    }

    /// Assigns the replies to their items.
    fn record(
        &self,
        pending_items: &mut [PendingItem],
        pending: Vec<LabelRequest>,
        reply: Vec<Tried<LabelReply>>,
    ) {
        let mut by_item: Vec<Vec<(LabelRequest, LabelReply)>> = Vec::new();
        by_item.resize_with(pending_items.len(), Vec::new);
        for (label_request, reply) in pending.into_iter().zip(reply) {
            let error = match reply {
                Ok(Some(reply)) => {
                    by_item[label_request.pending_item].push((label_request, reply));
                    continue;
                }
                Ok(None) => UpstreamError::protocol("the provider no longer supports this method"),
                Err(error) => error,
            };
            let pending_item = &mut pending_items[label_request.pending_item];
            match error.cause {
                UpstreamCause::Timeout => pending_item.late.get_or_insert(error),
                _ => pending_item.failed.get_or_insert(error),
            };
        }
        for (pending_item, reply) in pending_items.iter_mut().zip(by_item) {
            let late = pending_item.late.take();
            if pending_item.failed.is_some() {
                continue;
            }
            if !reply.is_empty() && pending_item.record(reply) {
                self.pipeline.priors.note_reasoning(self.prior_key());
            }
            if let Some(error) = late {
                pending_item.end(error);
            }
        }
    }

    fn prior_key(&self) -> PriorKey {
        (self.provider_name.clone(), self.model.clone())
    }

    fn finish(&self, way: DecisionWay, pending_item: PendingItem) -> Answered {
        let PendingItem {
            item,
            strategy,
            calls,
            failed,
            ..
        } = pending_item;
        if let Some(error) = failed {
            return (item, Err(error));
        }
        let estimate = match strategy {
            Strategy::Reading(estimator) => estimator.finish(),
            Strategy::Drawing(sampler) => {
                if sampler.has_varied() {
                    self.pipeline.priors.note_variety(self.prior_key());
                }
                sampler.finish()
            }
        };
        let found = found(estimate, |estimate| {
            if let Some(observation) = &estimate.observation {
                self.pipeline.priors.learn(self.prior_key(), observation);
            }
            Method {
                source: way.source(),
                permutations: estimate.permutations,
                mass: estimate.mass,
                calls,
                calibrated: None,
            }
        });
        (item, found)
    }
}

impl PendingItem {
    /// Records replies. Returns whether the model was found to reason before it answers; the first
    /// draw is then repeated with more tokens.
    fn record(&mut self, reply: Vec<(LabelRequest, LabelReply)>) -> bool {
        self.calls += reply.iter().map(|(_, reply)| reply.requests).sum::<u32>();
        match &mut self.strategy {
            Strategy::Reading(estimator) => {
                let readings = reply.into_iter().map(|(_, reply)| match reply.content {
                    ReplyContent::Reading(reading) => Some(reading),
                    ReplyContent::Draws { .. } => None,
                });
                estimator.record(readings.collect());
                false
            }
            Strategy::Drawing(sampler) => {
                let is_first = !sampler.has_labels();
                let mut by_round: Vec<Option<RoundDraws>> = vec![None; sampler.pending().len()];
                for (label_request, reply) in reply {
                    let ReplyContent::Draws { drawn, unfinished } = reply.content else {
                        continue;
                    };
                    if is_first && unfinished > 0 && self.max_tokens < REASONED_TOKENS {
                        self.max_tokens = REASONED_TOKENS;
                        return true;
                    }
                    let answered = drawn.counts.iter().sum::<u32>() + drawn.others;
                    if label_request.draw.is_some_and(|draw| answered < draw.answers) {
                        // The upstream returned fewer answers than requested: later requests are
                        // limited to this number.
                        self.max_answers = answered.max(1);
                    }
                    if let Some(round) = by_round.get_mut(label_request.round) {
                        add(round.get_or_insert_default(), drawn);
                    }
                }
                sampler.record(by_round);
                false
            }
        }
    }

    /// Stops drawing: the answers drawn so far determine the probabilities. An item without any
    /// label fails.
    fn end(&mut self, error: UpstreamError) {
        match &mut self.strategy {
            Strategy::Drawing(sampler) if sampler.pending().is_empty() => {}
            Strategy::Drawing(sampler) if sampler.has_labels() => sampler.stop(),
            Strategy::Reading(estimator) if estimator.pending().is_empty() => {}
            Strategy::Drawing(_) | Strategy::Reading(_) => self.failed = Some(error),
        }
    }
}

fn add(sum: &mut RoundDraws, drawn: RoundDraws) {
    sum.others += drawn.others;
    if sum.counts.len() < drawn.counts.len() {
        sum.counts.resize(drawn.counts.len(), 0);
    }
    for (sum, count) in sum.counts.iter_mut().zip(drawn.counts) {
        *sum += count;
    }
}

impl Pipeline {
    /// Returns the delay before retry `attempt`; `None` if no attempts remain, if the error is not
    /// retryable, or if its `retry_after` exceeds the limit.
    fn retry_delay(&self, error: &UpstreamError, attempt: u32) -> Option<std::time::Duration> {
        let retries = &self.settings.retries;
        let is_busy = match error.kind {
            UpstreamErrorKind::RateLimited => true,
            UpstreamErrorKind::Unavailable => error.retry == Retry::Safe,
            _ => false,
        };
        if !is_busy || attempt > retries.extra_attempts {
            return None;
        }
        match error.retry_after {
            Some(wait) => (wait <= retries.retry_after_cap).then_some(wait),
            None => Some(self.jittered(retries.backoff, attempt)),
        }
    }
}

/// Converts an estimate to a result; `None` if the model's answers matched none of the options.
pub(super) fn found(
    estimate: Result<Estimate, EstimateError>,
    method: impl FnOnce(&Estimate) -> Method,
) -> Tried<ItemResult> {
    match estimate {
        Ok(estimate) => {
            let method = method(&estimate);
            Ok(Some(ItemResult {
                probabilities: estimate.probabilities,
                method,
            }))
        }
        Err(EstimateError::NoLabels) => Ok(None),
        Err(error @ EstimateError::Unfinished) => Err(UpstreamError::protocol(error.to_string())),
    }
}

/// Whether to stop after `failed` single requests; `error` is the error of the last one.
pub(super) fn should_give_up(error: &UpstreamError, failed: usize) -> bool {
    failed >= MAX_SOLO_FAILURES || !is_question_specific(error)
}

/// Whether another question may succeed although this one failed: not if the upstream is down or
/// busy, or rejects the credentials.
pub(super) fn is_question_specific(error: &UpstreamError) -> bool {
    match error.kind {
        UpstreamErrorKind::Rejected
        | UpstreamErrorKind::Unsupported
        | UpstreamErrorKind::ContentBlocked
        | UpstreamErrorKind::ContextLength
        | UpstreamErrorKind::Simulated(_) => true,
        UpstreamErrorKind::Unavailable => match error.cause {
            UpstreamCause::Status => error.status == Some(500),
            UpstreamCause::Protocol => true,
            _ => false,
        },
        UpstreamErrorKind::Credentials | UpstreamErrorKind::RateLimited => false,
    }
}

/// Returns the items that have a result, with their results.
pub(super) fn answered_items(answers: &[Answered]) -> Vec<(&Item, &ItemResult)> {
    let found = answers.iter();
    found
        .filter_map(|(item, found)| Some((item, found.as_ref().ok()?.as_ref()?)))
        .collect()
}

/// Returns the decisions for the questions at `places`, assembled from their items.
pub(super) fn decisions(questions: &[Question], places: &[usize], answers: Vec<Answered>) -> Vec<Answer> {
    let mut by_question: Vec<Vec<Answered>> = Vec::new();
    by_question.resize_with(questions.len(), Vec::new);
    for (item, found) in answers {
        by_question[item.question].push((item, found));
    }
    let decided = places.iter().map(|place| {
        let found = std::mem::take(&mut by_question[*place]);
        items::decision(&questions[*place], found)
    });
    decided.collect()
}
