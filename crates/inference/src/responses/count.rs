//! Counting the tokens of a request that is not carried out.

use std::sync::Arc;

use bytes::Bytes;
use tollgate_accounts::Caller;
use tollgate_edge::RequestContext;
use tollgate_formats::openai_responses;
use tollgate_types::Error;

use super::recall::recall;
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
    let recalled = recall(&inference.kept, None, caller.account_id(), body).await?;
    let checked = lenient::checked(&caller, ctx, recalled.body.clone(), |body| {
        check(pipeline, ctx, &caller, body)
    });
    let (checked, body) = checked.map_err(|error| recalled.in_callers_places(error))?;
    let (routed, mut request) = call(ctx, caller, checked, body);
    let call = &mut request.call;
    if call.common.is_none() {
        // What has no place in the common form is counted by a provider of this format, or bounded.
        call.common = openai_responses::decode_request(&call.body).ok().map(Arc::new);
    }
    let counting = Counting { routed, request };
    Ok(ResponseInputTokens::new(counting.count(pipeline).await?))
}
