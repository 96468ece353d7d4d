//! What every call of this room is admitted by.

use tollgate_edge::RequestContext;
use tollgate_pipeline::{Admission, CallRequest, NamesMedia, Pipeline, Routed};
use tollgate_types::Error;

/// Admits the call, and notes the window of tokens for the limit headers, whether it is admitted or refused.
pub(crate) async fn admit<C: NamesMedia>(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    routed: Routed,
    request: CallRequest<C>,
) -> Result<Admission<C>, Error> {
    let (admission, tokens) = pipeline.admit(routed, request).await.map_err(|refused| {
        if let Some(tokens) = refused.tokens {
            ctx.note_tokens(tokens);
        }
        refused.error
    })?;
    ctx.note_tokens(tokens);
    Ok(admission)
}
