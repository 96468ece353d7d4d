//! Counting the tokens of a request, without a call.

use bytes::Bytes;
use tollgate_accounts::Caller;
use tollgate_billing::Demand;
use tollgate_edge::RequestContext;
use tollgate_formats::anthropic_messages::{self, Purpose, Version};
use tollgate_pipeline::{Pipeline, Routed};
use tollgate_types::Error;
use tollgate_types::generate::GenerateRequest;

use super::service::{asked, demand};
use super::wire::MessageTokens;
use crate::{capabilities, lenient};

/// The tokens as the model's provider counts them, where that is known without asking it; otherwise a bound that they
/// cannot exceed.
pub(super) async fn count(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    caller: &Caller,
    version: Version,
    body: Bytes,
) -> Result<MessageTokens, Error> {
    let checked = lenient::checked(caller, ctx, body, |body| check(pipeline, caller, version, body))?;
    let ((routed, mut request, mut demand), _) = checked;
    pipeline
        .put_files(caller.account_id(), &routed, &mut request, &mut demand)
        .await?;
    let text = routed.first_provider().and_then(|provider| provider.text());
    let exact = text.and_then(|text| text.count_input(&request));
    Ok(match exact {
        Some(tokens) => MessageTokens::new(tokens, "exact"),
        None => MessageTokens::new(demand.input_bound(), "upper_bound"),
    })
}

fn check(
    pipeline: &Pipeline,
    caller: &Caller,
    version: Version,
    body: &[u8],
) -> Result<(Routed, GenerateRequest, Demand), Error> {
    let head = anthropic_messages::validate(body, version, Purpose::Count)?;
    let routed = pipeline.route(caller, &head.model)?;
    capabilities::check(&routed.model, &asked(&head))?;
    let request = anthropic_messages::decode_count(body)?;
    Ok((routed, request, demand(&head, body.len())))
}
