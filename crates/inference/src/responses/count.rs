//! Counts the input tokens of a request without executing it.

use std::sync::Arc;

use bytes::Bytes;
use tollgate_accounts::Caller;
use tollgate_edge::RequestContext;
use tollgate_formats::openai_responses;
use tollgate_types::Error;

use super::conversation::resolve;
use super::service::{call, check};
use super::wire::ResponseInputTokens;
use crate::counting::Counting;
use crate::{Inference, lenient};

pub(super) async fn count(
    inference: &Inference,
    ctx: &RequestContext,
    caller: Caller,
    body: Bytes,
) -> Result<ResponseInputTokens, Error> {
    let pipeline = &inference.pipeline;
    let resolved = resolve(&inference.responses, None, caller.account_id(), body).await?;
    let checked = lenient::checked(&caller, ctx, resolved.body.clone(), |body| {
        check(pipeline, ctx, &caller, body)
    });
    let (checked, body) = checked.map_err(|error| resolved.with_request_paths(error))?;
    let (routed, mut request) = call(ctx, caller, checked, body);
    let call = &mut request.call;
    if call.common.is_none() {
        // A request that the common form cannot represent is counted by a provider of this format,
        // or bounded.
        call.common = openai_responses::decode_request(&call.body).ok().map(Arc::new);
    }
    let counting = Counting { routed, request };
    Ok(ResponseInputTokens::new(counting.count(pipeline).await?))
}
