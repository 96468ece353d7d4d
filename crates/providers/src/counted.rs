//! Answers to counts of tokens.

use tollgate_formats::counting;
use tollgate_upstream::UpstreamError;

use crate::http::{HttpClient, Response};
use crate::refusal;

/// The most bytes of such an answer: it is a number and few words.
const LIMIT: usize = 64 << 10;

/// The number under this name in the answer.
pub(crate) async fn tokens(response: Response, http: &HttpClient, name: &str) -> Result<u64, UpstreamError> {
    if !(200..300).contains(&response.status) {
        return Err(refusal::from_response(response, http.settings()).await);
    }
    let body = response.whole(LIMIT).await?;
    counting::read(&body, name).ok_or_else(|| {
        UpstreamError::protocol(format!(
            "the answer has no number of tokens ({} bytes)",
            body.len()
        ))
    })
}
