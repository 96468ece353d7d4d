//! Parses, routes, counts, admits and executes a decision request, then encodes the response.

use std::sync::Arc;

use bytes::Bytes;
use tollgate_accounts::Caller;
use tollgate_billing::{Demand, Hold};
use tollgate_catalog::{Modality, Model, ModelKind};
use tollgate_edge::RequestContext;
use tollgate_formats::decisions::{self, DecisionRequest, InputTokens, ResponseFrame};
use tollgate_pipeline::{CallRequest, DecideCall, DecisionInput, Pipeline, Routed};
use tollgate_types::decide::{MAX_TOKENS, Question, QuestionKind, State, StateMediaKind};
use tollgate_types::{DecisionId, Error, ErrorCode, Tokenizer, Usage};

use super::calibrations::Calibrations;
use super::uploads;
use crate::admission::{admit, call_request};

pub(super) const ENDPOINT: &str = "/v1/decisions";

/// Tokenizer for models whose own tokenizer is not published.
const DEFAULT_TOKENIZER: Tokenizer = Tokenizer::O200kBase;

pub(super) async fn create(
    pipeline: &Arc<Pipeline>,
    calibrations: &Calibrations,
    ctx: &RequestContext,
    caller: Caller,
    body: &[u8],
) -> Result<Bytes, Error> {
    let Prepared {
        asked,
        routed,
        request,
    } = prepare(pipeline, calibrations, ctx, caller, body).await?;
    let public_model = routed.public_model.clone();
    let admission = admit(pipeline, ctx, routed, request).await?;
    let served = pipeline.decide(admission).await?;
    let decided = served.answer;
    ctx.note_upstream_wait(served.upstream_wait);
    ctx.note_cost(decided.charge.amount);
    let id = DecisionId::from_u128(ctx.id.as_u128()).to_string();
    let frame = ResponseFrame {
        id: &id,
        created: ctx.accepted_at.as_seconds(),
        model: &public_model,
        usage: InputTokens {
            state: decided.input.state,
            questions: decided.input.questions.iter().sum(),
            media: decided.input.media,
        },
        cost: decided.charge.amount,
    };
    Ok(Bytes::from(decisions::write(&asked, &decided.decisions, &frame)))
}

/// A validated and routed request with its counted input.
pub(crate) struct Prepared {
    asked: DecisionRequest,
    pub(crate) routed: Routed,
    pub(crate) request: CallRequest<DecideCall>,
}

/// Validates and routes a request, counts its text, and returns the call to make.
pub(crate) async fn prepare(
    pipeline: &Pipeline,
    calibrations: &Calibrations,
    ctx: &RequestContext,
    caller: Caller,
    body: &[u8],
) -> Result<Prepared, Error> {
    let mut asked = decisions::read(body)?;
    let mut routed = pipeline.route(&caller, &asked.model)?;
    check_kind(&routed.model)?;
    check_media(&routed.model, &asked.state)?;
    let choice = &asked.options.calibration;
    let profile = calibrations
        .profile(caller.account_id(), &routed.model.id, choice)
        .await?;
    let mut input = count_input(pipeline, &routed.model, &asked.state, &asked.questions).await?;
    if !asked.files.is_empty() {
        // Check the balance before reading the files. A request that the balance does not cover
        // even without its files fails now.
        let (account, max) = (caller.account_id(), ctx.max_cost.amount());
        let at = caller.account.time(ctx.accepted_at);
        Hold::check(
            &*pipeline.ledger,
            account,
            &routed.model,
            &input_demand(&input),
            max,
            at,
        )
        .await?;
        if uploads::read(pipeline, account, &routed.model, &mut asked, body).await? {
            input = count_input(pipeline, &routed.model, &asked.state, &asked.questions).await?;
        }
    }
    routed.retain_deciders(&asked.state)?;
    let demand = input_demand(&input);
    let call = DecideCall {
        state: Arc::new(asked.state.clone()),
        questions: asked.questions.clone().into(),
        options: asked.options.clone(),
        profile,
        input,
    };
    let request = call_request(ctx, caller, ENDPOINT, demand, call);
    Ok(Prepared {
        asked,
        routed,
        request,
    })
}

/// Rejects models that do not support decisions.
pub(super) fn check_kind(model: &Model) -> Result<(), Error> {
    if !matches!(model.kind, ModelKind::Decision | ModelKind::Chat) {
        let message =
            "This model does not support decisions. GET /v1/models lists the endpoints of each model.";
        return Err(Error::new(ErrorCode::UnsupportedEndpoint, message).with_param("model"));
    }
    Ok(())
}

/// Rejects media that the model does not accept. A medium with an empty URL is a file that is not
/// loaded yet.
pub(super) fn check_media(model: &Model, state: &State) -> Result<(), Error> {
    for medium in state.media.iter().filter(|medium| !medium.url.is_empty()) {
        let modality = match medium.kind {
            StateMediaKind::Image => Modality::Image,
            StateMediaKind::Audio => Modality::Audio,
            StateMediaKind::Video => Modality::Video,
        };
        if !model.takes(modality) {
            let message = format!(
                "This model does not accept {} input. See 'modalities' of the model in GET /v1/models.",
                medium.kind.as_str()
            );
            return Err(Error::new(ErrorCode::UnsupportedParameter, message).with_param(&*medium.param));
        }
    }
    Ok(())
}

/// Counts the input with the tokenizer of the model if it is published, otherwise with
/// `DEFAULT_TOKENIZER`. Fails if the input is too long.
pub(crate) async fn count_input(
    pipeline: &Pipeline,
    model: &Model,
    state: &State,
    questions: &[Question],
) -> Result<DecisionInput, Error> {
    let tokenizer = model.tokenizer.unwrap_or(DEFAULT_TOKENIZER);
    let min_tokens = state.text.len() as u64 / Tokenizer::MAX_TOKEN_BYTES;
    if min_tokens > MAX_TOKENS {
        let input = DecisionInput {
            state: min_tokens,
            ..DecisionInput::default()
        };
        input.check()?;
    }
    let mut texts: Vec<String> = questions.iter().map(text_of).collect();
    let questions = texts.len();
    texts.extend(chunks(&state.text));
    let counted = pipeline.count_each(tokenizer, texts).await?;
    let (questions, state) = counted.split_at(questions);
    let input = DecisionInput {
        state: state.iter().sum(),
        media: 0,
        questions: questions.into(),
    };
    input.check().map(|()| input)
}

/// Splits the text into chunks, so that no single counting task takes long.
fn chunks(text: &str) -> Vec<String> {
    const CHUNK_BYTES: usize = 64 << 10;
    let mut chunks = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(rest.floor_char_boundary(CHUNK_BYTES));
        chunks.push(chunk.to_owned());
        rest = after;
    }
    chunks
}

/// Returns all text of a question that the model reads.
pub(crate) fn text_of(question: &Question) -> String {
    let mut lines = vec![question.instructions.clone()];
    let mut add = |name: &str, description: Option<&str>| {
        lines.push(match description {
            Some(description) => format!("{name}: {description}"),
            None => name.to_owned(),
        });
    };
    match &question.kind {
        QuestionKind::Noul { yes, no } => {
            add("yes", yes.as_deref());
            add("no", no.as_deref());
        }
        QuestionKind::Choice { options } => {
            for option in options {
                add(&option.name(), option.description.as_deref());
            }
        }
        QuestionKind::Score { levels } => {
            for level in levels {
                add(&level.label, level.description.as_deref());
            }
        }
        QuestionKind::Tool { tools, .. } => {
            for tool in tools {
                add(&tool.name, tool.description.as_deref());
                add("", Some(&tool.parameters.to_string()));
            }
        }
    }
    lines.join("\n")
}

/// Returns the demand of the input. Its bound is the exact count, because the exact count is
/// charged.
pub(crate) fn input_demand(input: &DecisionInput) -> Demand {
    Demand {
        text_bytes: 0,
        tokens: input.total(),
        messages: 0,
        inputs: 0,
        media_bytes: 0,
        images: 0,
        max_tokens: Some(0),
        reasoning_budget: 0,
        n: 1,
        caches_for_an_hour: false,
        made: Usage::ZERO,
    }
}
