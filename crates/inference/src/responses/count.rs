//! Counting the tokens of a request, without a call.

use bytes::Bytes;
use tollgate_accounts::Caller;
use tollgate_formats::openai_responses;
use tollgate_types::Error;

use super::recall::recall;
use super::service::{asked, demand, validate};
use super::wire::ResponseInputTokens;
use crate::{Inference, capabilities};

/// The tokens as the model's provider counts them, where that is known without asking it; otherwise a bound that they
/// cannot exceed.
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
    let mut request = openai_responses::decode_request(body)?;
    let mut demand = demand(&head, body.len());
    pipeline
        .put_files(caller.account_id(), &routed, &mut request, &mut demand)
        .await?;
    let text = routed.first_provider().and_then(|provider| provider.text());
    let exact = text.and_then(|text| text.count_input(&request));
    Ok(match exact {
        Some(tokens) => ResponseInputTokens::new(tokens, "exact"),
        None => ResponseInputTokens::new(demand.input_bound(), "upper_bound"),
    })
}
