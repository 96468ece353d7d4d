//! Counting the tokens of a request, without a call.

use tollgate_accounts::Caller;
use tollgate_formats::gemini::{self, Purpose};
use tollgate_pipeline::Pipeline;
use tollgate_types::Error;

use super::service::{asked, demand, in_our_words};
use super::wire::ContentTokens;
use crate::capabilities;
use crate::counting::Counting;

pub(super) async fn count(
    pipeline: &Pipeline,
    caller: &Caller,
    model: &str,
    body: &[u8],
) -> Result<ContentTokens, Error> {
    let head = gemini::validate(body, Purpose::Count)?;
    let routed = pipeline.route(caller, model)?;
    capabilities::check(&routed.model, &asked(&head)).map_err(in_our_words)?;
    let counting = Counting {
        routed,
        demand: demand(&head, body.len()),
        // What has no place in the common form is bounded like everything else.
        request: gemini::decode_count(body).ok(),
    };
    Ok(ContentTokens::new(
        counting.count(pipeline, caller.account_id()).await?,
    ))
}
