//! Numbers of a server that takes questions. What it does not know is asked in what it knows: functions as choices, whether
//! a question can be answered as a question of its own, and more options than it takes in heats. It is asked no more at once
//! than it takes.

use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use tollgate_estimate::{EstimateOptions, Estimator, Heat, HeatReading};
use tollgate_types::decide::{
    ChoiceOption, Decision, DecisionSource, Level, Method, Question, QuestionKind, Verdict,
};
use tollgate_upstream::{RelayCall, UpstreamError};

use super::items::{self, Item, ItemKind, ItemOption};
use super::reading::{
    AT_ONCE, Answer, Answered, Run, Tried, decisions, found, gives_up, known, may_be_of_question,
};

/// What the upstream takes.
#[derive(Clone, Copy)]
pub(super) struct Native {
    pub(super) questions: usize,
    pub(super) options: usize,
    pub(super) tools: bool,
    pub(super) abstain: bool,
}

impl Native {
    /// Whether it takes a question as it is.
    fn takes(&self, question: &Question) -> bool {
        let is_fine = match &question.kind {
            QuestionKind::Noul { .. } => true,
            QuestionKind::Choice { options } => options.len() <= self.options,
            QuestionKind::Score { levels } => levels.len() <= self.options,
            QuestionKind::Tool { tools, .. } => self.tools && tools.len() < self.options,
        };
        is_fine && (self.abstain || !question.abstain)
    }
}

/// How often questions are asked apart that have failed together, for one call of a caller's.
struct Splits(AtomicU32);

impl Default for Splits {
    /// Enough to find several of 128.
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
    /// The answers to all questions, by an upstream that takes questions.
    pub(super) async fn by_relay(&self, native: Native) -> Tried<Vec<Answer>> {
        let questions = &self.call.questions;
        let all = 0..questions.len();
        let (whole, apart): (Vec<usize>, Vec<usize>) =
            all.partition(|place| native.takes(&questions[*place]));
        let asked = whole.iter().map(|place| questions[*place].clone()).collect();
        let Some(told) = self.relayed(native, asked, true).await? else {
            return Ok(None);
        };
        let is_first = told.iter().all(Result::is_err);
        let mut answered: Vec<(usize, Answer)> = whole.iter().copied().zip(told).collect();
        if !apart.is_empty() {
            let first = items::first(questions, &apart);
            let Some(answers) = self.in_heats(native, first, is_first).await? else {
                return Ok(None);
            };
            let second = items::second(questions, known(&answers));
            let more = self.in_heats(native, second, false).await?;
            let answers = answers.into_iter().chain(more.into_iter().flatten());
            let decided = decisions(questions, &apart, answers.collect());
            answered.extend(apart.iter().copied().zip(decided));
        }
        answered.sort_by_key(|(place, _)| *place);
        Ok(Some(answered.into_iter().map(|(_, answer)| answer).collect()))
    }

    /// Asks these questions as they are. While nothing was answered before, requests go alone, as they do for labels.
    async fn relayed(&self, native: Native, questions: Vec<Question>, is_first: bool) -> Tried<Vec<Answer>> {
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
                    if gives_up(&error, failed) {
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
        let mut rest = stream::iter(rest).buffered(AT_ONCE);
        while let Some((number, told)) = rest.next().await {
            let error = match told {
                Ok(Some(answers)) => {
                    decided.extend(answers);
                    continue;
                }
                Ok(None) => UpstreamError::protocol("it takes no questions any more"),
                Err(error) => error,
            };
            decided.extend(unanswered(error, number));
        }
        Ok(Some(decided))
    }

    /// Asks several questions together. What fails may be the failure of one of them: then each half is asked by itself.
    fn relay_some<'a>(
        &'a self,
        questions: &'a [Question],
        splits: &'a Splits,
    ) -> BoxFuture<'a, Tried<Vec<Answer>>> {
        async move {
            let error = match self.relay_chunk(questions).await {
                Err(error) => error,
                told => return told,
            };
            if questions.len() < 2 || !may_be_of_question(&error) || !splits.take() {
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
                    for (told, half) in [(first, one), (second, other)] {
                        match told {
                            Ok(told) => decided.extend(told.into_iter().flatten()),
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
        let call = RelayCall {
            upstream_model: self.model.clone(),
            state: self.call.state.clone(),
            questions: questions.to_vec(),
        };
        let Some(answer) = self.provider.relay(&self.ctx, &call).await? else {
            return Ok(None);
        };
        if answer.decisions.len() != questions.len() {
            return Err(UpstreamError::protocol("it did not answer each question once"));
        }
        Ok(Some(answer.decisions.into_iter().map(Ok).collect()))
    }

    /// The probabilities of items, each a question of its own, or several where it has more options than are taken.
    async fn in_heats(&self, native: Native, items: Vec<Item>, is_first: bool) -> Tried<Vec<Answered>> {
        let how = EstimateOptions {
            labels_at_once: native.options,
            permutations: Some(1),
            fast: false,
            seed: self.call.options.seed,
            prior: None,
        };
        let mut askings: Vec<Asking> = items
            .into_iter()
            .map(|item| Asking {
                estimator: Estimator::new(item.options.len(), item.kind == ItemKind::Score, &how),
                item,
                failed: None,
            })
            .collect();
        let mut is_first = is_first;
        loop {
            let heats: Vec<Vec<Heat>> = askings.iter().map(Asking::asks).collect();
            let asked: Vec<Question> = askings
                .iter()
                .zip(&heats)
                .flat_map(|(asking, heats)| heats.iter().map(|heat| of_heat(&asking.item, heat)))
                .enumerate()
                .map(|(number, question)| Question {
                    id: format!("q{number}"),
                    ..question
                })
                .collect();
            if asked.is_empty() {
                break;
            }
            let Some(told) = self.relayed(native, asked, is_first).await? else {
                return Ok(None);
            };
            is_first &= told.iter().all(Result::is_err);
            let mut told = told.into_iter();
            for (asking, heats) in askings.iter_mut().zip(heats) {
                asking.tell(told.by_ref().take(heats.len()));
            }
        }
        Ok(Some(askings.into_iter().map(Asking::finish).collect()))
    }
}

/// An item that is asked in heats.
struct Asking {
    item: Item,
    estimator: Estimator,
    failed: Option<UpstreamError>,
}

impl Asking {
    fn asks(&self) -> Vec<Heat> {
        match self.failed {
            Some(_) => Vec::new(),
            None => self.estimator.asks(),
        }
    }

    fn tell(&mut self, told: impl Iterator<Item = Answer>) {
        let mut readings = Vec::new();
        for answer in told {
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
            self.estimator.tell(readings);
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

/// So many questions that were not answered.
fn unanswered(error: UpstreamError, number: usize) -> impl Iterator<Item = Answer> {
    std::iter::repeat_with(move || Err(error.clone())).take(number)
}

/// Some of an item's options as a question.
fn of_heat(item: &Item, heat: &Heat) -> Question {
    let shown = || heat.order.iter().map(|place| &item.options[*place]);
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

/// What a server's answer says of the options that it was shown; nothing when it has not answered.
fn reading(decision: Decision) -> Option<HeatReading> {
    let probabilities = match decision.verdict {
        Verdict::Noul(yes) => vec![yes, 1.0 - yes],
        Verdict::Choice(probabilities) | Verdict::Score(probabilities) => probabilities,
        Verdict::Tool { .. } | Verdict::Refused | Verdict::Failed(_) => return None,
    };
    // What is certainly not is told all the same.
    const LEAST: f64 = 1e-12;
    Some(HeatReading {
        logprobs: probabilities
            .iter()
            .map(|share| Some(share.max(LEAST).ln()))
            .collect(),
        rest: None,
    })
}
