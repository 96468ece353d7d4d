//! Completions for callers of that format, where the provider has the endpoint.

use tollgate_formats::ResponseFormatKind;
use tollgate_formats::openai_completions::{CompletionHead, RequestEdits, splice_request, validate};
use tollgate_types::Format;
use tollgate_upstream::{TextCall, UpstreamError};

use super::adapter::{OpenAiCompatible, Prepared};
use crate::crossing::not_in_format;
use crate::http::RequestBody;

impl OpenAiCompatible {
    /// What is sent, if the provider's own completions are what answers the call. A structured answer is asked of chat:
    /// hardly any server forces one here.
    pub(super) fn prepare_completion(&self, call: &TextCall) -> Result<Option<Prepared<'_>>, UpstreamError> {
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
        let looked_again;
        let head = match known {
            Some(head) => head,
            None => {
                looked_again = validate(&call.body).map_err(|error| not_in_format(&error))?;
                &looked_again
            }
        };
        if head.response_format != ResponseFormatKind::Text {
            return Ok(None);
        }
        let edits = RequestEdits {
            model: &call.upstream_model,
            clamp_output: call.clamp_output,
            remove: &[self.preset.drops, row.lacks].concat(),
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
