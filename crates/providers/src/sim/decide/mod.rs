//! Decisions of the simulator. Each decision model supports one method, so that every method can be
//! tested. The prompt may contain the true probabilities (`[[decide …]]`); otherwise, the
//! probabilities are derived from the text of the prompt.

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
    CallContext, DecideProvider, DecisionWay, Draw, LabelCall, LabelDraws, LabelReading, RelayAnswer,
    RelayCall, UpstreamError, letters,
};

use super::{Simulator, embeddings, failure, grammar, tokens};
use script::{Script, Scripts};

/// Maximum numbers of questions and options of the models that answer questions natively.
const NATIVE: DecisionWay = DecisionWay::Native {
    questions: 128,
    options: 255,
    tools: true,
    abstain: true,
};
/// Maximum number of labels of one request.
const MAX_LABELS: usize = 128;
/// Maximum number of top tokens of one request.
const TOP_LOGPROBS: usize = 20;
/// Maximum number of answers of one request.
const MAX_ANSWERS: u32 = 16;
/// Minimum probability of a function for which the arguments are decided.
const MIN_ARGUMENT_PROBABILITY: f64 = 0.05;

/// Returns the decision method of a model, and whether the model accepts audio.
fn way(model: &str) -> Option<(DecisionWay, bool)> {
    Some(match model {
        "decide" => (NATIVE, false),
        "decide-audio" => (NATIVE, true),
        "decide-logits" => (DecisionWay::Logits { labels: MAX_LABELS }, false),
        "decide-logprobs" => (DecisionWay::TopLogprobs { max: TOP_LOGPROBS }, false),
        "decide-sampled" => (
            DecisionWay::Sampled {
                max_answers: MAX_ANSWERS,
            },
            false,
        ),
        _ => return None,
    })
}

#[async_trait]
impl DecideProvider for Simulator {
    fn decision_ways(&self, upstream_model: &str, state: &State) -> Vec<DecisionWay> {
        let has_audio = state.media.iter().any(|one| one.kind == StateMediaKind::Audio);
        let found = way(upstream_model).filter(|(_, hears)| *hears || !has_audio);
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
        // Labels are all letters or all pairs, so that no label is a prefix of another.
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
        let read = match way {
            DecisionWay::Logits { .. } => Some(shares.all()),
            DecisionWay::TopLogprobs { max } => Some(shares.argmax(max)),
            DecisionWay::Native { .. } | DecisionWay::Sampled { .. } => None,
        };
        let usage = Some(Usage::tokens(tokens_read(call), 1));
        Ok(read.map(|read| LabelReading { usage, ..read }))
    }

    async fn draw_labels(
        &self,
        ctx: &CallContext,
        call: &LabelCall,
        draw: Draw,
    ) -> Result<Option<LabelDraws>, UpstreamError> {
        let Some((DecisionWay::Sampled { .. }, _)) = way(&call.upstream_model) else {
            return Ok(None);
        };
        play(ctx, &call.state.text).await?;
        let drawn = labels::shares(call)?.draw(call, draw.answers);
        let usage = Some(Usage::tokens(tokens_read(call), u64::from(draw.answers)));
        Ok(Some(LabelDraws { usage, ..drawn }))
    }
}

/// Applies the delay, the error and the cut of a `[[sim …]]` script in the state.
async fn play(ctx: &CallContext, state: &str) -> Result<(), UpstreamError> {
    let (script, _) = grammar::read(state).map_err(|wrong| invalid_script("state", wrong))?;
    embeddings::play(&script, ctx).await
}

fn invalid_script(param: &str, wrong: impl Into<String>) -> UpstreamError {
    UpstreamError {
        param: Some(param.to_owned()),
        ..failure::simulated(ErrorCode::InvalidParameter, wrong)
    }
}

fn answer(state: &State, question: &Question, script: &Script) -> Decision {
    let (verdict, is_answered) = match (script.fail, script.refuse) {
        (Some(code), _) => {
            let wrong = Error::new(code, failure::requested(code).detail);
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
    let probabilities_of = |names: &[Vec<String>]| truth::of(script, state, &question.instructions, names);
    let one = |name: String| vec![name];
    match &question.kind {
        QuestionKind::Noul { .. } => {
            let names = [one("yes".to_owned()), one("no".to_owned())];
            Verdict::Noul(probabilities_of(&names)[0])
        }
        QuestionKind::Choice { options } => {
            let names: Vec<_> = options.iter().map(|option| one(option.name())).collect();
            Verdict::Choice(probabilities_of(&names))
        }
        QuestionKind::Score { levels } => {
            let indexed_levels = levels.iter().enumerate();
            let names: Vec<_> = indexed_levels
                .map(|(index, level)| vec![level.label.clone(), index.to_string()])
                .collect();
            Verdict::Score(probabilities_of(&names))
        }
        QuestionKind::Tool { tools, required } => {
            let no_tool = (!required).then(|| "none".to_owned());
            let names = tools.iter().map(|tool| tool.name.clone()).chain(no_tool);
            let names: Vec<_> = names.map(one).collect();
            let probabilities = probabilities_of(&names);
            let arguments = tools.iter().zip(&probabilities);
            let arguments =
                arguments.map(
                    |(tool, probability)| match *probability < MIN_ARGUMENT_PROBABILITY {
                        true => Vec::new(),
                        false => arguments_of(tool, &probabilities_of),
                    },
                );
            Verdict::Tool {
                arguments: arguments.collect(),
                probabilities,
            }
        }
    }
}

fn arguments_of(
    tool: &FunctionTool,
    probabilities_of: &dyn Fn(&[Vec<String>]) -> Vec<f64>,
) -> Vec<ArgumentDecision> {
    let decided = tool.arguments().into_iter().map(|argument| {
        let names = argument.values.iter().map(|value| match value.as_str() {
            Some(text) => vec![text.to_owned()],
            None => vec![value.to_string()],
        });
        ArgumentDecision {
            probabilities: probabilities_of(&names.collect::<Vec<_>>()),
            argument,
        }
    });
    decided.collect()
}

/// Returns the number of prompt tokens of a label call.
fn tokens_read(call: &LabelCall) -> u64 {
    tokens_of(&call.state) + tokens::count(&call.question)
}

/// Returns the number of tokens of a state: those of its text, and one for each medium.
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
