//! Parses responses of token-count endpoints.

use tollgate_formats::counting;
use tollgate_upstream::UpstreamError;

use crate::http::{HttpClient, Response};
use crate::refusal;

/// Maximum size of a response, in bytes.
const LIMIT: usize = 64 << 10;

/// Returns the token count in the member `name` of the response, or the error of a response with an
/// error status.
pub(crate) async fn tokens(response: Response, http: &HttpClient, name: &str) -> Result<u64, UpstreamError> {
    if !(200..300).contains(&response.status) {
        return Err(refusal::from_response(response, http.settings()).await);
    }
    let body = response.whole(LIMIT).await?;
    counting::read(&body, name).ok_or_else(|| {
        UpstreamError::protocol(format!("the response has no token count ({} bytes)", body.len()))
    })
}
