//! The use case: a moderation model of the catalog, or the service's own policy.

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
/// The model that the format's clients ask for when nobody says another one.
const USUAL_MODEL: &str = "omni-moderation-latest";
/// What answers are said to be from when the request names no model and the policy answers.
const POLICY: &str = "policy";

pub(super) async fn create(
    pipeline: &Arc<Pipeline>,
    ctx: &RequestContext,
    caller: Caller,
    body: &[u8],
) -> Result<ModerationResults, Error> {
    let Request { model, input } = read::request(body)?;
    let named = model.as_deref().filter(|name| *name != POLICY);
    let policy = pipeline.policy();
    let routed = match (named, &policy) {
        (None, Some(_)) => None,
        (name, _) => match pipeline.route(&caller, name.unwrap_or(USUAL_MODEL)) {
            Ok(routed) => Some(routed),
            // Clients name it without being told to.
            Err(_) if policy.is_some() && named == Some(USUAL_MODEL) => None,
            Err(error) if named.is_some_and(|name| name != USUAL_MODEL) => return Err(error),
            Err(_) => return Err(nobody()),
        },
    };
    match (routed, policy) {
        (Some(routed), _) => by_model(pipeline, ctx, caller, routed, input).await,
        (None, Some(policy)) => {
            let found = policy.moderate(ctx.id, &input).await?;
            let model = model.unwrap_or_else(|| POLICY.to_owned());
            Ok(results(String::new(), ctx, model, found))
        }
        (None, None) => Err(nobody()),
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
            "This model does not moderate. Its record in GET /v1/models names the endpoints it serves.";
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
            let said = parts.iter().filter_map(|part| match part {
                ModerationPart::Text(text) => Some(text),
                ModerationPart::Image(_) => None,
            });
            let images = parts.iter().filter(|part| !texts(part)).count();
            (bytes(&mut said.into_iter()), images as u64)
        }
    };
    Demand {
        text_bytes,
        tokens: 0,
        messages: input.results() as u64,
        media_bytes: 0,
        images,
        max_tokens: Some(0),
        reasoning_budget: 0,
        n: 1,
        caches_for_an_hour: false,
        made: Usage::ZERO,
    }
}

fn nobody() -> Error {
    let message = "This service has no moderation. Its operator can configure a content policy ([policy]), or a provider \
                   with a moderation model.";
    Error::new(ErrorCode::UnsupportedEndpoint, message)
}
