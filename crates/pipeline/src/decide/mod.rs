//! Typed decisions: questions about a state, answered with probabilities by the best method that
//! the model supports. All upstream calls of a request share one hold and one usage row. The charge
//! depends only on the input.

mod budget;
mod correcting;
mod items;
mod media;
mod priors;
mod prompt;
mod reading;
mod relaying;

use std::sync::{Arc, Mutex, PoisonError};

use tollgate_billing::{Charge, Hold};
use tollgate_storage::usage::split_target;
use tollgate_types::decide::{DecideOptions, Decision, MAX_TOKENS, Question, State, Verdict};
use tollgate_types::{Error, ErrorCode, Unit, Usage};
use tollgate_upstream::{DecisionWay, UpstreamError, UpstreamErrorKind};

use crate::Pipeline;
use crate::admit::{Admission, CallRequest};
use crate::dispatch::Dispatched;
use crate::media::ReferencesMedia;
use crate::operation::Operation;
use crate::route::{Route, Routed};

use budget::DrawBudget;
use reading::{Answer, Run};
use relaying::Native;

pub use correcting::NamedProfile;
pub(crate) use priors::Priors;

/// Number of output bytes to record for each answered question.
const BYTES_PER_DECISION: u64 = 8;

/// A decide call: questions about one state.
#[derive(Clone, Debug)]
pub struct DecideCall {
    /// Text and media that the questions are about.
    pub state: Arc<State>,
    /// The questions, in the order of the request.
    pub questions: Arc<[Question]>,
    /// Options of the request.
    pub options: DecideOptions,
    /// Calibration profile that corrects the probabilities, if one is set.
    pub profile: Option<Arc<NamedProfile>>,
    /// Input tokens of the call, from which the charge is computed.
    pub input: DecisionInput,
}

/// Numbers of input tokens, as counted by the gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecisionInput {
    /// Number of tokens of the state's text, counted once per call.
    pub state: u64,
    /// Number of tokens of all media.
    pub media: u64,
    /// Number of tokens of each question, in order.
    pub questions: Arc<[u64]>,
}

impl DecisionInput {
    /// Returns the sum of state, media and questions, saturating.
    pub fn total(&self) -> u64 {
        let asked = self.questions.iter();
        asked.fold(self.state.saturating_add(self.media), |sum, tokens| {
            sum.saturating_add(*tokens)
        })
    }

    /// Returns `context_length_exceeded` if the state and its longest question exceed
    /// [`MAX_TOKENS`].
    pub fn check(&self) -> Result<(), Error> {
        let longest = self.questions.iter().max().copied().unwrap_or_default();
        let read = self.state.saturating_add(self.media).saturating_add(longest);
        if read <= MAX_TOKENS {
            return Ok(());
        }
        let message = format!(
            "The state and the longest question together have at least {read} tokens; the maximum is \
             {MAX_TOKENS}. Shorten the state or the question."
        );
        Err(Error::new(ErrorCode::ContextLengthExceeded, message).with_param("state"))
    }
}

/// Decisions of a settled call.
pub struct Decided {
    /// One decision for each question, in order.
    pub decisions: Vec<Decision>,
    /// Charged tokens; a failed question counts as zero.
    pub input: DecisionInput,
    /// Settled cost of the call.
    pub charge: Charge,
}

impl ReferencesMedia for DecideCall {
    async fn fetch_media(
        pipeline: &Pipeline,
        routed: &mut Routed,
        request: &mut CallRequest<Self>,
    ) -> Result<(), Error> {
        if request.call.state.media.is_empty() {
            return Ok(());
        }
        let at = request.caller.account.time(request.accepted_at);
        let (account, max_cost) = (request.caller.account_id(), request.max_cost);
        Hold::check(
            &*pipeline.ledger,
            account,
            &routed.model,
            &request.demand,
            max_cost,
            at,
        )
        .await?;
        let account = request.caller.account_id();
        let (state, tokens) = pipeline.with_media(account, &request.call.state).await?;
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
            return Err(UpstreamError::connect("the provider does not support decisions"));
        };
        let run = Run {
            pipeline,
            ctx: pipeline.context(admission),
            provider,
            provider_name: route.candidate.provider.clone(),
            model: route.candidate.upstream_model.clone(),
            call: &admission.request.call,
            reasons: admission.model.reasoning,
            caller: &admission.caller,
            budget: DrawBudget::new(admission.request.call.questions.len()),
            consumed: Mutex::default(),
        };
        let decided = run.decide().await;
        let consumed = *run.consumed.lock().unwrap_or_else(PoisonError::into_inner);
        tracing::info!(
            request.id = %admission.request.request,
            provider = %run.provider_name,
            charged_input = run.call.input.total(),
            upstream_input = consumed.total_input(),
            upstream_output = consumed.total_output(),
            "decisions were requested from an upstream"
        );
        decided
    }

    async fn deliver(
        pipeline: Arc<Pipeline>,
        admission: Admission<Self>,
        dispatched: Dispatched<Vec<Decision>>,
        left: bool,
    ) -> Decided {
        let Dispatched { reply, target } = dispatched;
        let mut input = admission.request.call.input.clone();
        // Failed questions are not charged. A refusal counts as an answer.
        let is_answered = |place: usize| !matches!(reply[place].verdict, Verdict::Failed(_));
        let questions = input.questions.iter().enumerate();
        input.questions = questions
            .map(|(place, tokens)| if is_answered(place) { *tokens } else { 0 })
            .collect();
        let usage = Usage::ZERO.with(Unit::Input, input.total());
        let (provider, _) = split_target(&target);
        pipeline.meters.decision_charged(provider, input.total());
        let answered = (0..reply.len()).filter(|place| is_answered(*place)).count() as u64;
        let charge = pipeline
            .settle_whole(
                admission,
                Some(usage),
                0,
                answered.saturating_mul(BYTES_PER_DECISION),
                target,
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

impl Run<'_> {
    /// Tries the deployment's decision methods, best first, until one returns answers.
    async fn decide(&self) -> Result<Vec<Decision>, UpstreamError> {
        for way in self.provider.decision_ways(&self.model, &self.call.state) {
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
                    self.by_relay(native).await?
                }
                _ => self.by_labels(way).await?,
            };
            if let Some(answers) = tried {
                let mut decisions = decided(answers)?;
                if let Some(profile) = &self.call.profile {
                    decisions
                        .iter_mut()
                        .for_each(|decision| profile.correct(decision));
                }
                return Ok(decisions);
            }
        }
        Err(UpstreamError::connect("no usable probabilities from the model"))
    }
}

/// Returns the decisions of all questions. If all questions failed, returns the first error, so
/// that the next candidate is tried.
fn decided(answers: Vec<Answer>) -> Result<Vec<Decision>, UpstreamError> {
    let has_failed = |answer: &Answer| match answer {
        Ok(decision) => matches!(decision.verdict, Verdict::Failed(_)),
        Err(_) => true,
    };
    if answers.iter().all(has_failed) {
        let first = answers.into_iter().find_map(Result::err);
        return Err(first.unwrap_or_else(|| UpstreamError::protocol("no question was answered")));
    }
    let failed_decision = |error: UpstreamError| Decision {
        verdict: failed(&error),
        abstain: None,
        method: None,
    };
    let decided = answers
        .into_iter()
        .map(|answer| answer.unwrap_or_else(failed_decision));
    Ok(decided.collect())
}

/// Returns the verdict of a question that failed while others succeeded.
fn failed(error: &UpstreamError) -> Verdict {
    match error.kind {
        UpstreamErrorKind::ContentBlocked => Verdict::Refused,
        _ => Verdict::Failed(crate::dispatch::public_error(error, "questions")),
    }
}

impl Routed {
    /// Retains the candidates that support decisions about this state; `unsupported_endpoint` if
    /// there are none.
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
                "This model does not support decisions. GET /v1/models lists the endpoints of each model.";
            return Err(Error::new(ErrorCode::UnsupportedEndpoint, message).with_param("model"));
        }
        Ok(())
    }
}
