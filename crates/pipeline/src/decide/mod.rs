//! Typed decisions: questions about a state, answered with probabilities by whatever the model offers. Many calls to an
//! upstream are one call of the caller's: one hold, one usage row, and a charge that follows from the input alone.

mod correcting;
mod items;
mod media;
mod priors;
mod prompt;
mod reading;
mod relaying;

use std::sync::Arc;

use tollgate_billing::{Charge, Hold};
use tollgate_types::decide::{DecideOptions, Decision, MAX_TOKENS, Question, State, Verdict};
use tollgate_types::{Error, ErrorCode, Unit, Usage};
use tollgate_upstream::{DecisionWay, UpstreamError, UpstreamErrorKind};

use crate::Pipeline;
use crate::admit::{Admission, CallRequest};
use crate::dispatch::Dispatched;
use crate::media::NamesMedia;
use crate::operation::Operation;
use crate::route::{Route, Routed};

use reading::{Answer, Run};
use relaying::Native;

pub use correcting::NamedProfile;
pub(crate) use priors::Priors;

/// Bytes that a decision stands for where the evidence of an answer is bytes.
const BYTES_PER_DECISION: u64 = 8;

/// Questions about a state.
#[derive(Clone, Debug)]
pub struct DecideCall {
    /// What is decided about.
    pub state: Arc<State>,
    /// What is asked.
    pub questions: Arc<[Question]>,
    /// How.
    pub options: DecideOptions,
    /// By what probabilities are corrected.
    pub profile: Option<Arc<NamedProfile>>,
    /// What is charged.
    pub input: DecisionInput,
}

/// The input in tokens, as the gateway counts it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecisionInput {
    /// The text of the state, once.
    pub state: u64,
    /// All media.
    pub media: u64,
    /// Each question, in their order.
    pub questions: Arc<[u64]>,
}

impl DecisionInput {
    /// All of it.
    pub fn total(&self) -> u64 {
        let asked = self.questions.iter();
        asked.fold(self.state.saturating_add(self.media), |sum, tokens| {
            sum.saturating_add(*tokens)
        })
    }

    /// Refuses what no model reads: more than a million tokens of state and longest question.
    pub fn check(&self) -> Result<(), Error> {
        let longest = self.questions.iter().max().copied().unwrap_or_default();
        let read = self.state.saturating_add(self.media).saturating_add(longest);
        if read <= MAX_TOKENS {
            return Ok(());
        }
        let message = format!(
            "The state and the longest question have {read} tokens together; the most is {MAX_TOKENS}. Shorten the state."
        );
        Err(Error::new(ErrorCode::ContextLengthExceeded, message).with_param("state"))
    }
}

/// The answers, settled.
pub struct Decided {
    /// One for each question, in their order.
    pub decisions: Vec<Decision>,
    /// What is charged: questions that failed count nothing.
    pub input: DecisionInput,
    /// What they cost.
    pub charge: Charge,
}

impl NamesMedia for DecideCall {
    async fn fetch_media(
        pipeline: &Pipeline,
        routed: &mut Routed,
        request: &mut CallRequest<Self>,
    ) -> Result<(), Error> {
        if request.call.state.media.is_empty() {
            return Ok(());
        }
        let at = request.caller.account.time(request.accepted_at);
        let (account, most) = (request.caller.account_id(), request.max_cost);
        Hold::check(
            &*pipeline.ledger,
            account,
            &routed.model,
            &request.demand,
            most,
            at,
        )
        .await?;
        let (state, tokens) = pipeline.with_media(&request.call.state).await?;
        request.call.state = Arc::new(state);
        request.call.input.media = tokens;
        request.demand.tokens = request.call.input.total();
        request.call.input.check()
    }
}

impl Operation for DecideCall {
    type Reply = Vec<Decision>;
    type Answer = Decided;

    fn input(&self) -> &'static str {
        "state"
    }

    async fn attempt(
        pipeline: &Pipeline,
        admission: &Admission<Self>,
        route: &Route,
    ) -> Result<Vec<Decision>, UpstreamError> {
        let Some(provider) = route.provider.decisions() else {
            return Err(UpstreamError::connect("the provider has no decisions"));
        };
        let run = Run {
            pipeline,
            ctx: pipeline.context(admission),
            provider,
            provider_name: route.candidate.provider.clone(),
            model: route.candidate.upstream_model.clone(),
            call: &admission.request.call,
        };
        // What a deployment turns out not to have is left for the next way.
        for way in provider.decision_ways(&run.model, &run.call.state) {
            let tried = match way {
                DecisionWay::Native {
                    questions,
                    options,
                    tools,
                    abstain,
                } => {
                    let native = Native {
                        questions,
                        options,
                        tools,
                        abstain,
                    };
                    run.by_relay(native).await?
                }
                _ => run.by_labels(way).await?,
            };
            if let Some(answers) = tried {
                let mut decisions = decided(answers)?;
                if let Some(profile) = &run.call.profile {
                    decisions
                        .iter_mut()
                        .for_each(|decision| profile.correct(decision));
                }
                return Ok(decisions);
            }
        }
        Err(UpstreamError::connect("the model cannot be brought to numbers"))
    }

    async fn deliver(
        pipeline: Arc<Pipeline>,
        admission: Admission<Self>,
        dispatched: Dispatched<Vec<Decision>>,
        left: bool,
    ) -> Decided {
        let Dispatched { reply, provider } = dispatched;
        let mut input = admission.request.call.input.clone();
        // A question that failed is not paid for; a refusal is an answer.
        let is_answered = |place: usize| !matches!(reply[place].verdict, Verdict::Failed(_));
        let questions = input.questions.iter().enumerate();
        input.questions = questions
            .map(|(place, tokens)| if is_answered(place) { *tokens } else { 0 })
            .collect();
        let usage = Usage::ZERO.with(Unit::Input, input.total());
        let answered = (0..reply.len()).filter(|place| is_answered(*place)).count() as u64;
        let charge = pipeline
            .settle_whole(
                admission,
                Some(usage),
                answered.saturating_mul(BYTES_PER_DECISION),
                provider,
                left,
            )
            .await;
        Decided {
            decisions: reply,
            input,
            charge,
        }
    }
}

/// The decisions of all questions. When all have failed, the call has, for the reason of the first: another candidate may do better.
fn decided(answers: Vec<Answer>) -> Result<Vec<Decision>, UpstreamError> {
    let has_failed = |answer: &Answer| match answer {
        Ok(decision) => matches!(decision.verdict, Verdict::Failed(_)),
        Err(_) => true,
    };
    if answers.iter().all(has_failed) {
        let first = answers.into_iter().find_map(Result::err);
        return Err(first.unwrap_or_else(|| UpstreamError::protocol("no question was answered")));
    }
    let nothing = |error: UpstreamError| Decision {
        verdict: failed(&error),
        abstain: None,
        method: None,
    };
    let decided = answers.into_iter().map(|answer| answer.unwrap_or_else(nothing));
    Ok(decided.collect())
}

/// What becomes of a question that failed alone.
fn failed(error: &UpstreamError) -> Verdict {
    match error.kind {
        UpstreamErrorKind::ContentBlocked => Verdict::Refused,
        _ => Verdict::Failed(crate::dispatch::public_error(error, "questions")),
    }
}

impl Routed {
    /// Keeps the candidates that can be brought to numbers about this state.
    pub fn retain_deciders(&mut self, state: &State) -> Result<(), Error> {
        let can = |route: &Route| {
            let ways = route.provider.decisions();
            ways.is_some_and(|ways| {
                !ways
                    .decision_ways(&route.candidate.upstream_model, state)
                    .is_empty()
            })
        };
        self.routes.retain(can);
        if self.routes.is_empty() {
            let message =
                "This model makes no decisions. Its record in GET /v1/models names the endpoints it serves.";
            return Err(Error::new(ErrorCode::UnsupportedEndpoint, message).with_param("model"));
        }
        Ok(())
    }
}
