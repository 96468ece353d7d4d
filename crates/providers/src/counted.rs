//! Parses answers of token-count endpoints.

use tollgate_formats::counting;
use tollgate_upstream::UpstreamError;

use crate::http::{HttpClient, Response};
use crate::refusal;

/// Max bytes of an answer, which is a number and a few words.
const LIMIT: usize = 64 << 10;

/// Reads the number under `name` in the answer.
pub(crate) async fn tokens(response: Response, http: &HttpClient, name: &str) -> Result<u64, UpstreamError> {
    if !(200..300).contains(&response.status) {
        return Err(refusal::from_response(response, http.settings()).await);
    }
    let body = response.whole(LIMIT).await?;
    counting::read(&body, name).ok_or_else(|| {
        UpstreamError::protocol(format!("the response has no token count ({} bytes)", body.len()))
    })
}
