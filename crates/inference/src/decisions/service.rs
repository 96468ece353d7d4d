//! The use case: read, route, count, admit, decide, write.

use std::sync::Arc;

use bytes::Bytes;
use tollgate_accounts::Caller;
use tollgate_billing::{Demand, Hold};
use tollgate_catalog::{Modality, Model, ModelKind};
use tollgate_edge::RequestContext;
use tollgate_formats::decisions::{self, Asked, InputTokens, ResponseFrame};
use tollgate_pipeline::{CallRequest, DecideCall, DecisionInput, Pipeline, Routed};
use tollgate_types::decide::{MAX_TOKENS, Question, QuestionKind, State, StateMediaKind};
use tollgate_types::{DecisionId, Error, ErrorCode, Tokenizer, Usage};

use super::calibrations::Calibrations;
use super::uploads;
use crate::admission::{admit, call_request};

pub(super) const ENDPOINT: &str = "/v1/decisions";

/// By what texts are counted for a model whose tokenizer is not published.
const USUAL_TOKENIZER: Tokenizer = Tokenizer::O200kBase;

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

/// A request as a call.
pub(crate) struct Prepared {
    asked: Asked,
    pub(crate) routed: Routed,
    pub(crate) request: CallRequest<DecideCall>,
}

/// The call that a request asks for, its text counted.
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
    let mut input = count(pipeline, &routed.model, &asked).await?;
    if !asked.files.is_empty() {
        // An account that could not pay even without the files is told so before any is read.
        let (account, most) = (caller.account_id(), ctx.max_cost.amount());
        let at = caller.account.time(ctx.accepted_at);
        Hold::check(
            &*pipeline.ledger,
            account,
            &routed.model,
            &demand(&input),
            most,
            at,
        )
        .await?;
        if uploads::read(pipeline, account, &routed.model, &mut asked, body).await? {
            input = count(pipeline, &routed.model, &asked).await?;
        }
    }
    routed.retain_deciders(&asked.state)?;
    let demand = demand(&input);
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

/// Refuses what makes no decisions.
pub(super) fn check_kind(model: &Model) -> Result<(), Error> {
    if !matches!(model.kind, ModelKind::Decision | ModelKind::Chat) {
        let message =
            "This model makes no decisions. Its record in GET /v1/models names the endpoints it serves.";
        return Err(Error::new(ErrorCode::UnsupportedEndpoint, message).with_param("model"));
    }
    Ok(())
}

/// Refuses media that the model does not take. One without an address is a file that nobody has read yet.
pub(super) fn check_media(model: &Model, state: &State) -> Result<(), Error> {
    for medium in state.media.iter().filter(|medium| !medium.url.is_empty()) {
        let modality = match medium.kind {
            StateMediaKind::Image => Modality::Image,
            StateMediaKind::Audio => Modality::Audio,
            StateMediaKind::Video => Modality::Video,
        };
        if !model.takes(modality) {
            let message = format!(
                "This model takes no {}. 'modalities' of its record in GET /v1/models says what it takes.",
                medium.kind.as_str()
            );
            return Err(Error::new(ErrorCode::UnsupportedParameter, message).with_param(&*medium.param));
        }
    }
    Ok(())
}

/// The input in tokens, which are not too many: of the model's tokenizer, where that is published.
async fn count(pipeline: &Pipeline, model: &Model, asked: &Asked) -> Result<DecisionInput, Error> {
    let tokenizer = model.tokenizer.unwrap_or(USUAL_TOKENIZER);
    let least = asked.state.text.len() as u64 / Tokenizer::LONGEST_TOKEN;
    if least > MAX_TOKENS {
        let input = DecisionInput {
            state: least,
            ..DecisionInput::default()
        };
        input.check()?;
    }
    let mut texts: Vec<String> = asked.questions.iter().map(text_of).collect();
    let questions = texts.len();
    texts.extend(pieces(&asked.state.text));
    let counted = pipeline.count_each(tokenizer, texts).await?;
    let (questions, state) = counted.split_at(questions);
    let input = DecisionInput {
        state: state.iter().sum(),
        media: 0,
        questions: questions.into(),
    };
    input.check().map(|()| input)
}

/// The text in parts, so that no counting takes long at a time.
fn pieces(text: &str) -> Vec<String> {
    const PIECE: usize = 64 << 10;
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE));
        pieces.push(piece.to_owned());
        rest = after;
    }
    pieces
}

/// Everything of a question that is read.
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

/// The count is what is charged, so it is the bound as well.
fn demand(input: &DecisionInput) -> Demand {
    Demand {
        text_bytes: 0,
        tokens: input.total(),
        messages: 0,
        media_bytes: 0,
        images: 0,
        max_tokens: Some(0),
        reasoning_budget: 0,
        n: 1,
        caches_for_an_hour: false,
        made: Usage::ZERO,
    }
}
