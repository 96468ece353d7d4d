//! Requests in the completions format, for providers with a completions endpoint.

use tollgate_formats::ResponseFormatKind;
use tollgate_formats::openai_completions::{CompletionHead, RequestEdits, splice_request, validate};
use tollgate_types::Format;
use tollgate_upstream::{TextCall, UpstreamError};

use super::adapter::{OpenAiCompatible, Prepared};
use crate::conversion::not_in_format;
use crate::http::RequestBody;

impl OpenAiCompatible {
    /// Encodes the request if the provider's completions endpoint supports the call; otherwise
    /// returns `None`. Calls for structured output use chat, because hardly any server enforces a
    /// schema for completions.
    pub(super) fn prepare_completion(
        &self,
        call: &TextCall,
        removed: &[&str],
    ) -> Result<Option<Prepared<'_>>, UpstreamError> {
        let (true, Some(endpoint), Some(row)) = (
            call.is_in(Format::Completions),
            &self.completions,
            &self.preset.completions,
        ) else {
            return Ok(None);
        };
        let known = call
            .outline
            .as_ref()
            .and_then(|outline| outline.get::<CompletionHead<'static>>());
        let validated;
        let head = match known {
            Some(head) => head,
            None => {
                validated = validate(&call.body).map_err(|error| not_in_format(&error))?;
                &validated
            }
        };
        if head.response_format != ResponseFormatKind::Text {
            return Ok(None);
        }
        let edits = RequestEdits {
            model: &call.upstream_model,
            clamp_output: call.clamp_output,
            remove: &[removed, row.lacks].concat(),
            vendor_fields: self.preset.vendor_fields,
        };
        Ok(Some(Prepared {
            endpoint,
            path: row.path,
            format: Format::Completions,
            body: RequestBody::from(splice_request(&call.body, head, &edits)),
            choices: head.choices(),
        }))
    }
}
