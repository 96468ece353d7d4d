//! Counts the input tokens of a request without executing it.

use std::sync::Arc;

use bytes::Bytes;
use tollgate_accounts::Caller;
use tollgate_edge::RequestContext;
use tollgate_formats::gemini::{self, Purpose};
use tollgate_pipeline::Pipeline;
use tollgate_types::Error;

use super::service::{call, check, in_gemini_terms};
use super::wire::ContentTokens;
use crate::counting::Counting;
use crate::lenient;

pub(super) async fn count(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    caller: Caller,
    model: &str,
    body: Bytes,
) -> Result<ContentTokens, Error> {
    let (checked, body) = lenient::checked(&caller, ctx, body, |body| {
        check(pipeline, ctx, &caller, model, Purpose::Count, body)
    })?;
    let (routed, mut request) = call(ctx, caller, checked, false, body);
    let call = &mut request.call;
    if call.common.is_none() {
        // A request that the common form cannot represent is counted by a provider of this format,
        // or bounded.
        call.common = gemini::decode_count(&call.body).ok().map(Arc::new);
    }
    let counting = Counting { routed, request };
    let counted = counting.count(pipeline).await.map_err(in_gemini_terms)?;
    Ok(ContentTokens::new(counted))
}
