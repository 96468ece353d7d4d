//! Moderates with a moderation model of the catalog or with the gateway's content policy.

use std::sync::Arc;

use tollgate_accounts::Caller;
use tollgate_billing::Demand;
use tollgate_catalog::ModelKind;
use tollgate_edge::RequestContext;
use tollgate_pipeline::{Pipeline, Routed};
use tollgate_types::moderate::{Moderation, ModerationInput, ModerationPart};
use tollgate_types::{Error, ErrorCode, Usage};
use tollgate_upstream::ModerationCall;

use super::read::{self, Request};
use super::wire::ModerationResults;
use crate::admission::{admit, call_request};

const ENDPOINT: &str = "/v1/moderations";
/// Default model of OpenAI's clients, used if the request names no model and no policy exists.
const DEFAULT_MODEL: &str = "omni-moderation-latest";
/// Model name in the response if the request names no model and the policy is applied.
const POLICY_MODEL: &str = "policy";

pub(super) async fn create(
    pipeline: &Arc<Pipeline>,
    ctx: &RequestContext,
    caller: Caller,
    body: &[u8],
) -> Result<ModerationResults, Error> {
    let Request { model, input } = read::request(body)?;
    let named = model.as_deref().filter(|name| *name != POLICY_MODEL);
    let policy = pipeline.policy();
    let routed = match (named, &policy) {
        (None, Some(_)) => None,
        (name, _) => match pipeline.route(&caller, name.unwrap_or(DEFAULT_MODEL)) {
            Ok(routed) => Some(routed),
            // OpenAI's clients send the default model name even if the user selected no model.
            Err(_) if policy.is_some() && named == Some(DEFAULT_MODEL) => None,
            Err(error) if named.is_some_and(|name| name != DEFAULT_MODEL) => return Err(error),
            Err(_) => return Err(no_moderation_model()),
        },
    };
    match (routed, policy) {
        (Some(routed), _) => by_model(pipeline, ctx, caller, routed, input).await,
        (None, Some(policy)) => {
            let found = policy.moderate(ctx.id, &input).await?;
            let model = model.unwrap_or_else(|| POLICY_MODEL.to_owned());
            Ok(results(String::new(), ctx, model, found))
        }
        (None, None) => Err(no_moderation_model()),
    }
}

async fn by_model(
    pipeline: &Arc<Pipeline>,
    ctx: &RequestContext,
    caller: Caller,
    mut routed: Routed,
    input: ModerationInput,
) -> Result<ModerationResults, Error> {
    let is_able = routed.model.kind == ModelKind::Moderation
        && routed.retain(|provider| provider.moderations().is_some());
    if !is_able {
        let message =
            "This model does not support moderation. GET /v1/models lists the endpoints of each model.";
        return Err(Error::new(ErrorCode::UnsupportedEndpoint, message).with_param("model"));
    }
    let public_model = routed.public_model.clone();
    let demand = demand(&input);
    let call = ModerationCall {
        upstream_model: public_model.clone(),
        input,
    };
    let request = call_request(ctx, caller, ENDPOINT, demand, call);
    let admission = admit(pipeline, ctx, routed, request).await?;
    let served = pipeline.moderate(admission).await?;
    ctx.note_upstream_wait(served.upstream_wait);
    ctx.note_cost(served.answer.charge.amount);
    let answer = served.answer.answer;
    Ok(results(answer.id, ctx, public_model.to_string(), answer.results))
}

fn results(id: String, ctx: &RequestContext, model: String, found: Vec<Moderation>) -> ModerationResults {
    ModerationResults {
        id: if id.is_empty() {
            format!("modr-{}", ctx.id)
        } else {
            id
        },
        model,
        results: found.into_iter().map(Into::into).collect(),
    }
}

fn demand(input: &ModerationInput) -> Demand {
    let bytes =
        |texts: &mut dyn Iterator<Item = &String>| -> u64 { texts.map(|text| text.len() as u64).sum() };
    let (text_bytes, images) = match input {
        ModerationInput::Texts(texts) => (bytes(&mut texts.iter()), 0),
        ModerationInput::Parts(parts) => {
            let texts = |part: &'_ ModerationPart| matches!(part, ModerationPart::Text(_));
            let text_parts = parts.iter().filter_map(|part| match part {
                ModerationPart::Text(text) => Some(text),
                ModerationPart::Image(_) => None,
            });
            let images = parts.iter().filter(|part| !texts(part)).count();
            (bytes(&mut text_parts.into_iter()), images as u64)
        }
    };
    Demand {
        text_bytes,
        tokens: 0,
        messages: input.results() as u64,
        inputs: 0,
        media_bytes: 0,
        images,
        max_tokens: Some(0),
        reasoning_budget: 0,
        n: 1,
        caches_for_an_hour: false,
        made: Usage::ZERO,
    }
}

fn no_moderation_model() -> Error {
    let message = "Moderation is not configured. The operator can add a content policy ([policy]) or a provider \
                   with a moderation model.";
    Error::new(ErrorCode::UnsupportedEndpoint, message)
}
