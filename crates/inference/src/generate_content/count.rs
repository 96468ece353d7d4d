//! Counting the tokens of a request, without a call.

use tollgate_accounts::Caller;
use tollgate_formats::gemini::{self, Purpose};
use tollgate_pipeline::Pipeline;
use tollgate_types::Error;

use super::service::{asked, demand, in_our_words};
use super::wire::ContentTokens;
use crate::capabilities;

/// The tokens as the model's provider counts them, where that is known without asking it; otherwise a bound that they
/// cannot exceed.
pub(super) async fn count(
    pipeline: &Pipeline,
    caller: &Caller,
    model: &str,
    body: &[u8],
) -> Result<ContentTokens, Error> {
    let head = gemini::validate(body, Purpose::Count)?;
    let routed = pipeline.route(caller, model)?;
    capabilities::check(&routed.model, &asked(&head)).map_err(in_our_words)?;
    let mut demand = demand(&head, body.len());
    // What has no place in the common form is bounded like everything else.
    let mut request = gemini::decode_count(body).ok();
    if let Some(request) = &mut request {
        let put = pipeline.put_files(caller.account_id(), &routed, request, &mut demand);
        put.await?;
    }
    let provider = routed.first_provider().and_then(|provider| provider.text());
    let exact = provider
        .zip(request)
        .and_then(|(text, request)| text.count_input(&request));
    Ok(match exact {
        Some(tokens) => ContentTokens::new(tokens, "exact"),
        None => ContentTokens::new(demand.input_bound(), "upper_bound"),
    })
}
