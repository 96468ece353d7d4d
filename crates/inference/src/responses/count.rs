//! Counting the tokens of a request, without a call.

use tollgate_formats::openai_responses;
use tollgate_pipeline::Pipeline;
use tollgate_types::Error;

use super::service::{asked, check_served, demand};
use super::wire::ResponseInputTokens;
use crate::capabilities;

/// The tokens as the model's provider counts them, where that is known without asking it; otherwise a bound that they
/// cannot exceed.
pub(super) fn count(pipeline: &Pipeline, body: &[u8]) -> Result<ResponseInputTokens, Error> {
    let head = openai_responses::validate(body)?;
    check_served(&head)?;
    let routed = pipeline.route(&head.model)?;
    capabilities::check(&routed.model, &asked(&head))?;
    let request = openai_responses::decode_request(body)?;
    let text = routed.first_provider().and_then(|provider| provider.text());
    let exact = text.and_then(|text| text.count_input(&request));
    Ok(match exact {
        Some(tokens) => ResponseInputTokens::new(tokens, "exact"),
        None => ResponseInputTokens::new(demand(&head, body.len()).input_bound(), "upper_bound"),
    })
}
