//! What every call of this room is admitted by.

use tollgate_edge::RequestContext;
use tollgate_pipeline::{Admission, CallRequest, Pipeline, Routed};
use tollgate_types::Error;

use crate::policy::Inspected;

/// Admits the call unless the content policy refuses it, and notes the window of tokens for the limit headers, whether
/// it is admitted or refused.
pub(crate) async fn admit<C: Inspected>(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    routed: Routed,
    request: CallRequest<C>,
) -> Result<Admission<C>, Error> {
    if let Some(policy) = pipeline.policy().filter(|policy| policy.inspects_input()) {
        policy.check_input(ctx.id, &request.call.texts()?).await?;
    }
    let (admission, tokens) = pipeline.admit(routed, request).await.map_err(|refused| {
        if let Some(tokens) = refused.tokens {
            ctx.note_tokens(tokens);
        }
        refused.error
    })?;
    ctx.note_tokens(tokens);
    Ok(admission)
}
