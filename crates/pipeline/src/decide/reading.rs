//! Numbers of a model that takes no questions: labels are read or drawn until every item has its probabilities. Items go on
//! in rounds; one that fails does not hold up the others.

use std::slice;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use tokio::time::sleep;
use tollgate_estimate::{
    Estimate, EstimateOptions, Estimator, Heat, HeatDraws, HeatReading, NoEstimate, SampleOptions, Sampler,
};
use tollgate_types::Retry;
use tollgate_types::decide::{Decision, Method, Question};
use tollgate_upstream::{
    CallContext, DecideProvider, DecisionWay, LabelCall, UpstreamCause, UpstreamError, UpstreamErrorKind,
};

use super::items::{self, Found, Item, ItemKind};
use super::priors::PriorKey;
use super::{DecideCall, prompt};
use crate::Pipeline;

/// Calls to an upstream at once, for one call of a caller's.
pub(super) const AT_ONCE: usize = 8;
/// Questions that are asked one by one while nothing was answered: so many that fail say that it is not the question.
const ALONE: usize = 3;
/// Answers that are drawn for an item.
const DRAWS: u32 = 20;

/// A call at one candidate.
pub(super) struct Run<'a> {
    pub(super) pipeline: &'a Pipeline,
    pub(super) ctx: CallContext,
    pub(super) provider: &'a dyn DecideProvider,
    pub(super) provider_name: Arc<str>,
    pub(super) model: Arc<str>,
    pub(super) call: &'a DecideCall,
}

/// An answer, `None` where there is none, such as where the deployment lacks the way, or a failure of the upstream.
pub(super) type Tried<T> = Result<Option<T>, UpstreamError>;

/// What was made of a question.
pub(super) type Answer = Result<Decision, UpstreamError>;

/// An item, and what was found of it: nothing where the model says something else than its options.
pub(super) type Answered = (Item, Tried<Found>);

/// An item on its way to probabilities.
struct Asking {
    item: Item,
    by: By,
    labels: Arc<[String]>,
    /// Requests to the model.
    calls: u32,
    failed: Option<UpstreamError>,
}

/// How it gets there.
enum By {
    Reading(Estimator),
    Drawing(Sampler),
}

/// What is to be asked of one item now.
struct Ask {
    asking: usize,
    /// How many answers are drawn; none where probabilities are read.
    draws: u32,
    call: LabelCall,
}

/// What came back.
struct Told {
    requests: u32,
    what: What,
}

enum What {
    Reading(HeatReading),
    Draws(HeatDraws),
}

impl Run<'_> {
    /// The answers to all questions, by labels.
    pub(super) async fn by_labels(&self, way: DecisionWay) -> Tried<Vec<Answer>> {
        let questions = &self.call.questions;
        let places: Vec<usize> = (0..questions.len()).collect();
        let first = items::first(questions, &places);
        let Some(answers) = self.probabilities(way, first, true).await? else {
            return Ok(None);
        };
        let second = items::second(questions, known(&answers));
        let more = self.probabilities(way, second, false).await?;
        let answers = answers.into_iter().chain(more.into_iter().flatten());
        Ok(Some(decisions(questions, &places, answers.collect())))
    }

    /// The probabilities of items. The very first call goes alone: it tells whether there is this way, and it fills the
    /// provider's cache with the state. When it fails, that may be its question: the next one is asked alone, too. What is no
    /// question's failure fails the call, so that it can be tried elsewhere, and so do [`ALONE`] in a row.
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
        let mut askings: Vec<Asking> = items
            .into_iter()
            .map(|item| self.asking(way, item, &labels))
            .collect();
        let mut is_first = is_first;
        loop {
            let asks = self.asks(&askings);
            if asks.is_empty() {
                break;
            }
            let mut told = Vec::with_capacity(asks.len());
            let mut rest = asks.iter();
            if is_first {
                match self.alone(way, &mut rest).await? {
                    Some(first) => told.extend(first),
                    None => return Ok(None),
                }
                is_first = false;
            }
            let others: Vec<BoxFuture<'_, _>> = rest.map(|ask| self.patiently(way, ask).boxed()).collect();
            let others = stream::iter(others).buffered(AT_ONCE);
            told.extend(others.collect::<Vec<_>>().await);
            tell(&mut askings, asks, told);
        }
        let found = askings.into_iter().map(|asking| self.finish(way, asking));
        Ok(Some(found.collect()))
    }

    /// Asks of one item after another until something is answered: what was told up to there, in the order of the asks.
    async fn alone(&self, way: DecisionWay, asks: &mut slice::Iter<'_, Ask>) -> Tried<Vec<Tried<Told>>> {
        let (mut told, mut failed): (Vec<Tried<Told>>, Vec<usize>) = (Vec::new(), Vec::new());
        for ask in asks {
            if failed.contains(&ask.asking) {
                told.push(Ok(None));
                continue;
            }
            match self.once(way, ask).await {
                Ok(None) => return Ok(None),
                Ok(answer) => {
                    told.push(Ok(answer));
                    break;
                }
                Err(error) => {
                    failed.push(ask.asking);
                    if gives_up(&error, failed.len()) {
                        return Err(error);
                    }
                    told.push(Err(error));
                }
            }
        }
        Ok(Some(told))
    }

    fn asking(&self, way: DecisionWay, item: Item, labels: &Arc<[String]>) -> Asking {
        let (number, is_ordered) = (item.options.len(), item.kind == ItemKind::Score);
        let at_once = match way {
            DecisionWay::Native { options, .. } => options,
            DecisionWay::Logits { labels: most } => most.min(labels.len()),
            DecisionWay::TopLogprobs { most } => most.min(labels.len()),
            DecisionWay::Sampled { .. } => labels.len(),
        };
        let options = &self.call.options;
        let by = match way {
            DecisionWay::Sampled { .. } => By::Drawing(Sampler::new(
                number,
                is_ordered,
                &SampleOptions {
                    labels_at_once: at_once,
                    draws: DRAWS,
                    permutations: options.permutations,
                    seed: options.seed,
                },
            )),
            _ => {
                let prior = self.pipeline.priors.of(&self.prior_key());
                By::Reading(Estimator::new(
                    number,
                    is_ordered,
                    &EstimateOptions {
                        labels_at_once: at_once,
                        permutations: options.permutations,
                        fast: options.fast && labels.len() >= number,
                        seed: options.seed,
                        prior: prior.as_deref(),
                    },
                ))
            }
        };
        Asking {
            item,
            by,
            labels: labels.clone(),
            calls: 0,
            failed: None,
        }
    }

    /// What is to be asked now, of all items.
    fn asks(&self, askings: &[Asking]) -> Vec<Ask> {
        let mut asks = Vec::new();
        for (place, asking) in askings.iter().enumerate() {
            if asking.failed.is_some() {
                continue;
            }
            let heats: Vec<(Heat, u32)> = match &asking.by {
                By::Reading(estimator) => estimator.asks().into_iter().map(|heat| (heat, 0)).collect(),
                By::Drawing(sampler) => {
                    let asks = sampler.asks().into_iter();
                    asks.map(|ask| (ask.heat, ask.draws)).collect()
                }
            };
            for (heat, draws) in heats {
                let call = self.label_call(asking, &heat, asks.len());
                asks.push(Ask {
                    asking: place,
                    draws,
                    call,
                });
            }
        }
        asks
    }

    fn label_call(&self, asking: &Asking, heat: &Heat, number: usize) -> LabelCall {
        let labels = asking.labels.get(..heat.order.len()).unwrap_or(&asking.labels);
        LabelCall {
            upstream_model: self.model.clone(),
            state: self.call.state.clone(),
            question: prompt::question(&asking.item, &heat.order, labels).into(),
            labels: labels.into(),
            seed: self.call.options.seed.wrapping_add(number as u64),
        }
    }

    async fn once(&self, way: DecisionWay, ask: &Ask) -> Tried<Told> {
        if ask.draws > 0 {
            let drawn = self.provider.draw_labels(&self.ctx, &ask.call, ask.draws).await?;
            return Ok(drawn.map(|drawn| Told {
                requests: drawn.requests,
                what: What::Draws(HeatDraws {
                    counts: drawn.counts,
                    others: drawn.others,
                }),
            }));
        }
        let read = self.provider.read_labels(&self.ctx, way, &ask.call).await?;
        Ok(read.map(|read| Told {
            requests: read.requests,
            what: What::Reading(HeatReading {
                logprobs: read.logprobs,
                rest: read.rest,
            }),
        }))
    }

    /// The same, tried again where the upstream was busy: many calls at once may be more than it takes.
    async fn patiently(&self, way: DecisionWay, ask: &Ask) -> Tried<Told> {
        let mut attempt = 0;
        loop {
            let error = match self.once(way, ask).await {
                Err(error) => error,
                told => return told,
            };
            attempt += 1;
            match self.pipeline.wait_of_part(&error, attempt) {
                Some(wait) => sleep(wait).await,
                None => return Err(error),
            }
        }
    }

    fn prior_key(&self) -> PriorKey {
        (self.provider_name.clone(), self.model.clone())
    }

    fn finish(&self, way: DecisionWay, asking: Asking) -> Answered {
        let Asking {
            item,
            by,
            calls,
            failed,
            ..
        } = asking;
        if let Some(error) = failed {
            return (item, Err(error));
        }
        let estimate = match by {
            By::Reading(estimator) => estimator.finish(),
            By::Drawing(sampler) => sampler.finish(),
        };
        let found = found(estimate, |estimate| {
            if let Some(lesson) = &estimate.lesson {
                self.pipeline.priors.learn(self.prior_key(), lesson);
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

impl Pipeline {
    /// How long to wait before a part of a call is asked again; `None` when it is not worth it.
    fn wait_of_part(&self, error: &UpstreamError, attempt: u32) -> Option<std::time::Duration> {
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

/// What an estimate has found, in this way; nothing where the model has not answered with any of the options.
pub(super) fn found(
    estimate: Result<Estimate, NoEstimate>,
    method: impl FnOnce(&Estimate) -> Method,
) -> Tried<Found> {
    match estimate {
        Ok(estimate) => {
            let method = method(&estimate);
            Ok(Some(Found {
                probabilities: estimate.probabilities,
                method,
            }))
        }
        Err(NoEstimate::NoLabels) => Ok(None),
        Err(error @ NoEstimate::Unfinished) => Err(UpstreamError::protocol(error.to_string())),
    }
}

/// Whether nothing more is asked after so many have failed alone, this last.
pub(super) fn gives_up(error: &UpstreamError, failed: usize) -> bool {
    failed >= ALONE || !may_be_of_question(error)
}

/// Whether another question may be answered where this has failed: not where the upstream is away, busy or locked.
pub(super) fn may_be_of_question(error: &UpstreamError) -> bool {
    match error.kind {
        UpstreamErrorKind::Rejected
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

/// Tells each item what was answered of it.
fn tell(askings: &mut [Asking], asks: Vec<Ask>, told: Vec<Tried<Told>>) {
    let mut by_item: Vec<Vec<Told>> = Vec::new();
    by_item.resize_with(askings.len(), Vec::new);
    for (ask, told) in asks.iter().zip(told) {
        let error = match told {
            Ok(Some(told)) => {
                by_item[ask.asking].push(told);
                continue;
            }
            Ok(None) => UpstreamError::protocol("it cannot be asked in this way any more"),
            Err(error) => error,
        };
        askings[ask.asking].failed.get_or_insert(error);
    }
    for (asking, told) in askings.iter_mut().zip(by_item) {
        if asking.failed.is_some() || told.is_empty() {
            continue;
        }
        asking.calls += told.iter().map(|told| told.requests).sum::<u32>();
        let told = told.into_iter().map(|told| told.what);
        match &mut asking.by {
            By::Reading(estimator) => {
                let readings = told.map(|what| match what {
                    What::Reading(reading) => Some(reading),
                    What::Draws(_) => None,
                });
                estimator.tell(readings.collect());
            }
            By::Drawing(sampler) => {
                let draws = told.map(|what| match what {
                    What::Draws(draws) => Some(draws),
                    What::Reading(_) => None,
                });
                sampler.tell(draws.collect());
            }
        }
    }
}

/// What was found of items.
pub(super) fn known(answers: &[Answered]) -> Vec<(&Item, &Found)> {
    let found = answers.iter();
    found
        .filter_map(|(item, found)| Some((item, found.as_ref().ok()?.as_ref()?)))
        .collect()
}

/// The answers to these questions.
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
