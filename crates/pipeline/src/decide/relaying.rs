//! Probabilities from an upstream that answers questions natively. Unsupported features are
//! emulated: functions as choices, abstention as a separate question, and too many options as
//! several rounds. Each request contains at most as many questions as the upstream accepts.

use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use tollgate_probability::{EstimateOptions, Estimator, Round, RoundReading};
use tollgate_types::decide::{
    ChoiceOption, Decision, DecisionSource, Level, Method, Question, QuestionKind, Verdict,
};
use tollgate_upstream::{RelayCall, UpstreamError};

use super::items::{self, Item, ItemKind, ItemOption};
use super::reading::{
    Answer, Answered, MAX_CONCURRENT, Run, Tried, answered_items, decisions, found, is_question_specific,
    should_give_up,
};

/// Native abilities of the upstream, as in [`DecisionWay::Native`](tollgate_upstream::DecisionWay).
#[derive(Clone, Copy)]
pub(super) struct Native {
    pub(super) questions: usize,
    pub(super) options: usize,
    pub(super) tools: bool,
    pub(super) abstain: bool,
}

impl Native {
    /// Whether the upstream accepts a question unchanged.
    fn accepts(&self, question: &Question) -> bool {
        let is_supported = match &question.kind {
            QuestionKind::Noul { .. } => true,
            QuestionKind::Choice { options } => options.len() <= self.options,
            QuestionKind::Score { levels } => levels.len() <= self.options,
            QuestionKind::Tool { tools, .. } => self.tools && tools.len() < self.options,
        };
        is_supported && (self.abstain || !question.abstain)
    }
}

/// Number of remaining splits of failed batches of questions.
struct Splits(AtomicU32);

impl Default for Splits {
    /// Returns 24 splits: enough to isolate several failing questions among 128.
    fn default() -> Self {
        Self(AtomicU32::new(24))
    }
}

impl Splits {
    fn take(&self) -> bool {
        let left = |left: u32| left.checked_sub(1);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left)
            .is_ok()
    }
}

impl Run<'_> {
    /// Answers all questions through an upstream that answers questions natively.
    pub(super) async fn by_relay(&self, native: Native) -> Tried<Vec<Answer>> {
        let questions = &self.call.questions;
        let all = 0..questions.len();
        let (whole, apart): (Vec<usize>, Vec<usize>) =
            all.partition(|place| native.accepts(&questions[*place]));
        let asked = whole.iter().map(|place| questions[*place].clone()).collect();
        let Some(replies) = self.relay_all(native, asked, true).await? else {
            return Ok(None);
        };
        let is_first = replies.iter().all(Result::is_err);
        let mut answered: Vec<(usize, Answer)> = whole.iter().copied().zip(replies).collect();
        if !apart.is_empty() {
            let first = items::first(questions, &apart);
            let Some(answers) = self.in_rounds(native, first, is_first).await? else {
                return Ok(None);
            };
            let second = items::second(questions, answered_items(&answers));
            let more = self.in_rounds(native, second, false).await?;
            let answers = answers.into_iter().chain(more.into_iter().flatten());
            let decided = decisions(questions, &apart, answers.collect());
            answered.extend(apart.iter().copied().zip(decided));
        }
        answered.sort_by_key(|(place, _)| *place);
        Ok(Some(answered.into_iter().map(|(_, answer)| answer).collect()))
    }

    /// Relays these questions unchanged. If `is_first`, requests are sent one at a time until one
    /// succeeds, as for labels.
    async fn relay_all(
        &self,
        native: Native,
        questions: Vec<Question>,
        is_first: bool,
    ) -> Tried<Vec<Answer>> {
        let mut chunks = questions.chunks(native.questions.max(1));
        let mut decided = Vec::with_capacity(questions.len());
        let splits = Splits::default();
        let (mut alone, mut failed) = (is_first, 0);
        while alone && let Some(chunk) = chunks.next() {
            match self.relay_some(chunk, &splits).await {
                Ok(Some(answers)) => {
                    decided.extend(answers);
                    alone = false;
                }
                Ok(None) => return Ok(None),
                Err(error) => {
                    failed += 1;
                    if should_give_up(&error, failed) {
                        return Err(error);
                    }
                    decided.extend(unanswered(error, chunk.len()));
                }
            }
        }
        let rest: Vec<BoxFuture<'_, _>> = chunks
            .map(|chunk| {
                let splits = &splits;
                async move { (chunk.len(), self.relay_some(chunk, splits).await) }.boxed()
            })
            .collect();
        let mut rest = stream::iter(rest).buffered(MAX_CONCURRENT);
        while let Some((number, replies)) = rest.next().await {
            let error = match replies {
                Ok(Some(answers)) => {
                    decided.extend(answers);
                    continue;
                }
                Ok(None) => UpstreamError::protocol("the provider no longer accepts questions"),
                Err(error) => error,
            };
            decided.extend(unanswered(error, number));
        }
        Ok(Some(decided))
    }

    /// Relays several questions in one request. After a failure that may be specific to one
    /// question, the batch is split, and each half is sent separately.
    fn relay_some<'a>(
        &'a self,
        questions: &'a [Question],
        splits: &'a Splits,
    ) -> BoxFuture<'a, Tried<Vec<Answer>>> {
        async move {
            let error = match self.relay_chunk(questions).await {
                Err(error) => error,
                replies => return replies,
            };
            if questions.len() < 2 || !is_question_specific(&error) || !splits.take() {
                return Err(error);
            }
            let (one, other) = questions.split_at(questions.len() / 2);
            let halves = (
                self.relay_some(one, splits).await,
                self.relay_some(other, splits).await,
            );
            match halves {
                (Ok(None), _) | (_, Ok(None)) => Ok(None),
                (Err(error), Err(_)) => Err(error),
                (first, second) => {
                    let mut decided = Vec::with_capacity(questions.len());
                    for (replies, half) in [(first, one), (second, other)] {
                        match replies {
                            Ok(replies) => decided.extend(replies.into_iter().flatten()),
                            Err(error) => decided.extend(unanswered(error, half.len())),
                        }
                    }
                    Ok(Some(decided))
                }
            }
        }
        .boxed()
    }

    async fn relay_chunk(&self, questions: &[Question]) -> Tried<Vec<Answer>> {
        if self.caller.has_left() {
            return Err(UpstreamError::timeout("the caller disconnected"));
        }
        let call = RelayCall {
            upstream_model: self.model.clone(),
            state: self.call.state.clone(),
            questions: questions.to_vec(),
        };
        let Some(answer) = self.provider.relay(&self.ctx, &call).await? else {
            return Ok(None);
        };
        self.consume(answer.usage);
        if answer.decisions.len() != questions.len() {
            return Err(UpstreamError::protocol(
                "the provider returned a wrong number of answers",
            ));
        }
        Ok(Some(answer.decisions.into_iter().map(Ok).collect()))
    }

    /// Determines the probabilities of items. Each item is sent as one question, or as several if
    /// it has more options than the upstream accepts.
    async fn in_rounds(&self, native: Native, items: Vec<Item>, is_first: bool) -> Tried<Vec<Answered>> {
        let options = EstimateOptions {
            max_labels: native.options,
            permutations: Some(1),
            fast: false,
            seed: self.call.options.seed,
            prior: None,
        };
        let mut pending_items: Vec<PendingItem> = items
            .into_iter()
            .map(|item| PendingItem {
                estimator: Estimator::new(item.options.len(), item.kind == ItemKind::Score, &options),
                item,
                failed: None,
            })
            .collect();
        let mut is_first = is_first;
        loop {
            let rounds: Vec<Vec<Round>> = pending_items.iter().map(PendingItem::pending).collect();
            let asked: Vec<Question> = pending_items
                .iter()
                .zip(&rounds)
                .flat_map(|(pending_item, rounds)| {
                    rounds
                        .iter()
                        .map(|round| round_question(&pending_item.item, round))
                })
                .enumerate()
                .map(|(number, question)| Question {
                    id: format!("q{number}"),
                    ..question
                })
                .collect();
            if asked.is_empty() {
                break;
            }
            let Some(replies) = self.relay_all(native, asked, is_first).await? else {
                return Ok(None);
            };
            is_first &= replies.iter().all(Result::is_err);
            let mut replies = replies.into_iter();
            for (pending_item, rounds) in pending_items.iter_mut().zip(rounds) {
                pending_item.record(replies.by_ref().take(rounds.len()));
            }
        }
        Ok(Some(pending_items.into_iter().map(PendingItem::finish).collect()))
    }
}

/// An item whose options are compared in rounds.
struct PendingItem {
    item: Item,
    estimator: Estimator,
    failed: Option<UpstreamError>,
}

impl PendingItem {
    fn pending(&self) -> Vec<Round> {
        match self.failed {
            Some(_) => Vec::new(),
            None => self.estimator.pending(),
        }
    }

    fn record(&mut self, replies: impl Iterator<Item = Answer>) {
        let mut readings = Vec::new();
        for answer in replies {
            let error = match answer {
                Ok(Decision {
                    verdict: Verdict::Failed(error),
                    ..
                }) => UpstreamError::protocol(error.message),
                Ok(decision) => {
                    readings.push(reading(decision));
                    continue;
                }
                Err(error) => error,
            };
            self.failed.get_or_insert(error);
        }
        if self.failed.is_none() {
            self.estimator.record(readings);
        }
    }

    fn finish(self) -> Answered {
        let found = match self.failed {
            Some(error) => Err(error),
            None => found(self.estimator.finish(), |estimate| Method {
                source: DecisionSource::Native,
                permutations: 0,
                mass: None,
                calls: estimate.calls,
                calibrated: None,
            }),
        };
        (self.item, found)
    }
}

/// Returns the error once for each of `number` questions.
fn unanswered(error: UpstreamError, number: usize) -> impl Iterator<Item = Answer> {
    std::iter::repeat_with(move || Err(error.clone())).take(number)
}

/// Returns a question about the options of one round.
fn round_question(item: &Item, round: &Round) -> Question {
    let shown = || round.order.iter().map(|place| &item.options[*place]);
    let kind = match item.kind {
        ItemKind::Noul => {
            let mut meanings = shown().map(meaning);
            QuestionKind::Noul {
                yes: meanings.next(),
                no: meanings.next(),
            }
        }
        ItemKind::Choice => {
            let option = |option: &ItemOption| ChoiceOption {
                value: option.name.clone().into(),
                description: option.description.clone(),
            };
            QuestionKind::Choice {
                options: shown().map(option).collect(),
            }
        }
        ItemKind::Score => {
            let level = |option: &ItemOption| Level {
                label: option.name.clone(),
                description: option.description.clone(),
            };
            QuestionKind::Score {
                levels: shown().map(level).collect(),
            }
        }
    };
    Question {
        id: String::new(),
        param: String::new(),
        instructions: item.asked.clone(),
        kind,
        abstain: false,
    }
}

fn meaning(option: &ItemOption) -> String {
    option.description.clone().unwrap_or_else(|| option.name.clone())
}

/// Returns an upstream's probabilities of the options in a round; `None` if the decision has none.
fn reading(decision: Decision) -> Option<RoundReading> {
    let probabilities = match decision.verdict {
        Verdict::Noul(yes) => vec![yes, 1.0 - yes],
        Verdict::Choice(probabilities) | Verdict::Score(probabilities) => probabilities,
        Verdict::Tool { .. } | Verdict::Refused | Verdict::Failed(_) => return None,
    };
    // The minimum ensures that an option of probability 0 has a finite logarithm.
    const MIN_PROBABILITY: f64 = 1e-12;
    Some(RoundReading {
        logprobs: probabilities
            .iter()
            .map(|share| Some(share.max(MIN_PROBABILITY).ln()))
            .collect(),
        rest: None,
    })
}
