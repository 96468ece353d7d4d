//! Counting the tokens of a request, without a call.

use bytes::Bytes;
use tollgate_accounts::Caller;
use tollgate_formats::openai_responses;
use tollgate_types::Error;

use super::recall::recall;
use super::service::{asked, demand, validate};
use super::wire::ResponseInputTokens;
use crate::counting::Counting;
use crate::{Inference, capabilities};

pub(super) async fn count(
    inference: &Inference,
    caller: &Caller,
    body: Bytes,
) -> Result<ResponseInputTokens, Error> {
    let (pipeline, recalled) = (
        &inference.pipeline,
        recall(&inference.kept, None, caller.account_id(), body).await?,
    );
    let body = &recalled.body;
    let head = validate(body).map_err(|error| recalled.in_callers_places(error))?;
    let routed = pipeline.route(caller, &head.model)?;
    capabilities::check(&routed.model, &asked(&head))?;
    let counting = Counting {
        routed,
        demand: demand(&head, body.len()),
        request: Some(openai_responses::decode_request(body)?),
    };
    Ok(ResponseInputTokens::new(
        counting.count(pipeline, caller.account_id()).await?,
    ))
}
