//! What every call of this room is admitted by.

use tollgate_edge::RequestContext;
use tollgate_pipeline::{Admission, CallRequest, NamesMedia, Pipeline, Routed};
use tollgate_types::Error;

use crate::counting::Countable;
use crate::policy::Inspected;
use crate::structured_output::Shaped;

/// Admits the call unless the content policy refuses it, and notes the window of tokens for the limit headers, whether
/// it is admitted or refused.
pub(crate) async fn admit<C: Inspected + Shaped + NamesMedia + Countable>(
    pipeline: &Pipeline,
    ctx: &RequestContext,
    mut routed: Routed,
    mut request: CallRequest<C>,
) -> Result<Admission<C>, Error> {
    if let Some(policy) = pipeline.policy().filter(|policy| policy.inspects_input()) {
        policy.check_input(ctx.id, &request.call.texts()?).await?;
    }
    request.call.shape(&mut routed)?;
    let (admission, tokens) =
        pipeline
            .admit(routed, request, C::texts_to_count)
            .await
            .map_err(|refused| {
                if let Some(tokens) = refused.tokens {
                    ctx.note_tokens(tokens);
                }
                refused.error
            })?;
    ctx.note_tokens(tokens);
    Ok(admission)
}
