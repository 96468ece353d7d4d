//! Decisions of the simulator. Each of its models is brought to numbers in one way, so that every way can be tried. The true
//! probabilities are written in the prompt (`[[decide …]]`), else they are made of its words.

mod labels;
mod script;
mod truth;

use async_trait::async_trait;
use tollgate_types::decide::{
    ArgumentDecision, Decision, DecisionSource, FunctionTool, Method, Question, QuestionKind, State,
    StateMediaKind, Verdict,
};
use tollgate_types::{Error, ErrorCode, Usage};
use tollgate_upstream::{
    CallContext, DecideProvider, DecisionWay, LabelCall, LabelDraws, LabelReading, RelayAnswer, RelayCall,
    UpstreamError, letters,
};

use super::{Simulator, embeddings, failure, grammar, tokens};
use script::{Script, Scripts};

/// The most questions and options of its native models.
const NATIVE: DecisionWay = DecisionWay::Native {
    questions: 128,
    options: 255,
    tools: true,
    abstain: true,
};
/// How many labels, of its likeliest tokens, and answers it tells at once.
const LABELS: usize = 128;
const LIKELIEST: usize = 20;
const AT_ONCE: u32 = 16;
/// Below this a function's arguments are not decided.
const IMPROBABLE: f64 = 0.05;

/// The way of a model, and whether it hears.
fn way(model: &str) -> Option<(DecisionWay, bool)> {
    Some(match model {
        "decide" => (NATIVE, false),
        "decide-audio" => (NATIVE, true),
        "decide-logits" => (DecisionWay::Logits { labels: LABELS }, false),
        "decide-logprobs" => (DecisionWay::TopLogprobs { most: LIKELIEST }, false),
        "decide-sampled" => (DecisionWay::Sampled { at_once: AT_ONCE }, false),
        _ => return None,
    })
}

#[async_trait]
impl DecideProvider for Simulator {
    fn decision_ways(&self, upstream_model: &str, state: &State) -> Vec<DecisionWay> {
        let has_sound = state.media.iter().any(|one| one.kind == StateMediaKind::Audio);
        let found = way(upstream_model).filter(|(_, hears)| *hears || !has_sound);
        found.map(|(way, _)| way).into_iter().collect()
    }

    async fn relay(&self, ctx: &CallContext, call: &RelayCall) -> Result<Option<RelayAnswer>, UpstreamError> {
        let Some((DecisionWay::Native { .. }, _)) = way(&call.upstream_model) else {
            return Ok(None);
        };
        play(ctx, &call.state.text).await?;
        let scripts = Scripts::of_state(&call.state)?;
        let mut input = tokens_of(&call.state);
        let mut decisions = Vec::with_capacity(call.questions.len());
        for question in &call.questions {
            let script = scripts.for_question(question)?;
            input += tokens_of_question(question);
            decisions.push(answer(&call.state, question, &script));
        }
        Ok(Some(RelayAnswer {
            decisions,
            usage: Some(Usage::tokens(input, 0)),
        }))
    }

    async fn labels(
        &self,
        _ctx: &CallContext,
        _upstream_model: &str,
        number: usize,
    ) -> Result<Vec<String>, UpstreamError> {
        // No label begins as another does: there are letters, or pairs of them.
        let pairs = || letters().flat_map(|one| letters().map(move |two| format!("{one}{two}")));
        Ok(match number <= letters().count() {
            true => letters().take(number).collect(),
            false => pairs().take(number).collect(),
        })
    }

    async fn read_labels(
        &self,
        ctx: &CallContext,
        way: DecisionWay,
        call: &LabelCall,
    ) -> Result<Option<LabelReading>, UpstreamError> {
        if self.decision_ways(&call.upstream_model, &call.state) != [way] {
            return Ok(None);
        }
        play(ctx, &call.state.text).await?;
        let shares = labels::shares(call)?;
        Ok(match way {
            DecisionWay::Logits { .. } => Some(shares.all()),
            DecisionWay::TopLogprobs { most } => Some(shares.likeliest(most)),
            DecisionWay::Native { .. } | DecisionWay::Sampled { .. } => None,
        })
    }

    async fn draw_labels(
        &self,
        ctx: &CallContext,
        call: &LabelCall,
        number: u32,
    ) -> Result<Option<LabelDraws>, UpstreamError> {
        let Some((DecisionWay::Sampled { .. }, _)) = way(&call.upstream_model) else {
            return Ok(None);
        };
        play(ctx, &call.state.text).await?;
        Ok(Some(labels::shares(call)?.draw(call, number)))
    }
}

/// Waits and fails as a `[[sim …]]` in the state says.
async fn play(ctx: &CallContext, state: &str) -> Result<(), UpstreamError> {
    let (script, _) = grammar::read(state).map_err(|wrong| misunderstood("state", wrong))?;
    embeddings::play(&script, ctx).await
}

fn misunderstood(param: &str, wrong: impl Into<String>) -> UpstreamError {
    UpstreamError {
        param: Some(param.to_owned()),
        ..failure::simulated(ErrorCode::InvalidParameter, wrong)
    }
}

fn answer(state: &State, question: &Question, script: &Script) -> Decision {
    let (verdict, is_answered) = match (script.fail, script.refuse) {
        (Some(code), _) => {
            let wrong = Error::new(code, failure::asked_for(code).detail);
            (Verdict::Failed(wrong.with_param(&question.param)), false)
        }
        (None, true) => (Verdict::Refused, false),
        (None, false) => (verdict(state, question, script), true),
    };
    let native = Method {
        source: DecisionSource::Native,
        permutations: 0,
        mass: None,
        calls: 1,
        calibrated: None,
    };
    Decision {
        verdict,
        abstain: (question.abstain && is_answered).then(|| {
            script
                .abstain
                .unwrap_or_else(|| truth::abstention(state, question))
        }),
        method: is_answered.then_some(native),
    }
}

fn verdict(state: &State, question: &Question, script: &Script) -> Verdict {
    let told = |names: &[Vec<String>]| truth::of(script, state, &question.instructions, names);
    let one = |name: String| vec![name];
    match &question.kind {
        QuestionKind::Noul { .. } => {
            let names = [one("yes".to_owned()), one("no".to_owned())];
            Verdict::Noul(told(&names)[0])
        }
        QuestionKind::Choice { options } => {
            let names: Vec<_> = options.iter().map(|option| one(option.name())).collect();
            Verdict::Choice(told(&names))
        }
        QuestionKind::Score { levels } => {
            let places = levels.iter().enumerate();
            let names: Vec<_> = places
                .map(|(place, level)| vec![level.label.clone(), place.to_string()])
                .collect();
            Verdict::Score(told(&names))
        }
        QuestionKind::Tool { tools, required } => {
            let nobody = (!required).then(|| "none".to_owned());
            let names = tools.iter().map(|tool| tool.name.clone()).chain(nobody);
            let names: Vec<_> = names.map(one).collect();
            let probabilities = told(&names);
            let arguments = tools.iter().zip(&probabilities);
            let arguments = arguments.map(|(tool, probability)| match *probability < IMPROBABLE {
                true => Vec::new(),
                false => arguments_of(tool, &told),
            });
            Verdict::Tool {
                arguments: arguments.collect(),
                probabilities,
            }
        }
    }
}

fn arguments_of(tool: &FunctionTool, told: &dyn Fn(&[Vec<String>]) -> Vec<f64>) -> Vec<ArgumentDecision> {
    let decided = tool.arguments().into_iter().map(|argument| {
        let names = argument.values.iter().map(|value| match value.as_str() {
            Some(text) => vec![text.to_owned()],
            None => vec![value.to_string()],
        });
        ArgumentDecision {
            probabilities: told(&names.collect::<Vec<_>>()),
            argument,
        }
    });
    decided.collect()
}

/// The tokens of a state: its words, and one for each medium.
fn tokens_of(state: &State) -> u64 {
    tokens::count(&state.text) + state.media.len() as u64
}

fn tokens_of_question(question: &Question) -> u64 {
    let described = |text: &Option<String>| text.as_deref().map_or(0, tokens::count);
    let options = match &question.kind {
        QuestionKind::Noul { yes, no } => described(yes) + described(no),
        QuestionKind::Choice { options } => options
            .iter()
            .map(|option| tokens::count(&option.name()) + described(&option.description))
            .sum(),
        QuestionKind::Score { levels } => levels
            .iter()
            .map(|level| tokens::count(&level.label) + described(&level.description))
            .sum(),
        QuestionKind::Tool { tools, .. } => tools
            .iter()
            .map(|tool| tokens::count(&tool.name) + described(&tool.description))
            .sum(),
    };
    tokens::count(&question.instructions) + options
}

#[cfg(test)]
mod tests;
