//! Counts the input tokens of a request without executing it.

use std::sync::Arc;

use bytes::Bytes;
use tollgate_accounts::Caller;
use tollgate_edge::RequestContext;
use tollgate_formats::anthropic_messages::{self, Betas, Purpose, Version};
use tollgate_pipeline::Pipeline;
use tollgate_types::Error;

use super::service::{call, check};
use super::wire::MessageTokens;
use crate::counting::Counting;
use crate::lenient;

pub(super) async fn count(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    caller: Caller,
    version: Version,
    betas: Betas,
    body: Bytes,
) -> Result<MessageTokens, Error> {
    let (checked, body) = lenient::checked(&caller, ctx, body, |body| {
        check(pipeline, ctx, &caller, version, Purpose::Count, body)
    })?;
    let (routed, mut request) = call(ctx, caller, checked, betas, body);
    let call = &mut request.call;
    if call.common.is_none() {
        // A request that the common form cannot represent is counted by a provider of this format,
        // or bounded.
        call.common = anthropic_messages::decode_count(&call.body).ok().map(Arc::new);
    }
    let counting = Counting { routed, request };
    Ok(MessageTokens::new(counting.count(pipeline).await?))
}
