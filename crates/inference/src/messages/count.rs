//! Counting the tokens of a request, without a call.

use bytes::Bytes;
use tollgate_accounts::Caller;
use tollgate_edge::RequestContext;
use tollgate_formats::anthropic_messages::{self, Purpose, Version};
use tollgate_pipeline::Pipeline;
use tollgate_types::Error;

use super::service::{asked, demand};
use super::wire::MessageTokens;
use crate::counting::Counting;
use crate::{capabilities, lenient};

pub(super) async fn count(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    caller: &Caller,
    version: Version,
    body: Bytes,
) -> Result<MessageTokens, Error> {
    let (counting, _) = lenient::checked(caller, ctx, body, |body| check(pipeline, caller, version, body))?;
    Ok(MessageTokens::new(
        counting.count(pipeline, caller.account_id()).await?,
    ))
}

fn check(pipeline: &Pipeline, caller: &Caller, version: Version, body: &[u8]) -> Result<Counting, Error> {
    let head = anthropic_messages::validate(body, version, Purpose::Count)?;
    let routed = pipeline.route(caller, &head.model)?;
    capabilities::check(&routed.model, &asked(&head))?;
    Ok(Counting {
        routed,
        demand: demand(&head, body.len()),
        request: Some(anthropic_messages::decode_count(body)?),
    })
}
