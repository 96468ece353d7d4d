//! Calls whose upstream speaks another format than their caller, or the same and takes media as bytes only: what would be lost is refused before anything is held
//! or sent, and hints that are left out are named.

use std::sync::Arc;

use tollgate_edge::RequestContext;
use tollgate_formats::{DecodeError, Media, hub};
use tollgate_pipeline::Routed;
use tollgate_types::generate::GenerateRequest;
use tollgate_types::{Error, Format};
use tollgate_upstream::TextCall;

/// The request in the common form, when a candidate does not take the caller's format as it is, or when media that the
/// caller names must be fetched or read, which happens when the call is admitted. Candidates that
/// something would be lost on the way to are left out; when all would be, the caller is told why.
pub(crate) fn common_form(
    routed: &mut Routed,
    format: Format,
    media: Media,
    ctx: &RequestContext,
    decode: impl FnOnce() -> Result<GenerateRequest, DecodeError>,
) -> Result<Option<Arc<GenerateRequest>>, Error> {
    let crosses = !routed.all_take(format);
    if !crosses && media.stored == 0 && (media.addresses == 0 || !routed.needs_bytes()) {
        return Ok(None);
    }
    let request = decode()?;
    let is_replaced = media.stored > 0 || (media.addresses > 0 && routed.must_fetch(&request));
    if !crosses && !is_replaced {
        return Ok(None);
    }
    let ignored = routed
        .retain_carriers(format, &request, is_replaced)
        .map_err(|error| in_words_of(format, error))?;
    let ignored: Vec<String> = ignored.iter().map(|param| hub::param_in(format, param)).collect();
    let names: Vec<&str> = ignored.iter().map(String::as_str).collect();
    ctx.note_ignored(&names);
    Ok(Some(Arc::new(request)))
}

/// What a request has that only its own format knows, and no answer depends on.
pub(crate) struct Own {
    /// What no upstream is told.
    pub(crate) ignored: Vec<&'static str>,
    /// What upstreams of other formats are not told.
    pub(crate) hints: Vec<&'static str>,
    /// The parameter that says how to reason, when it was sent.
    pub(crate) reasoning: Option<&'static str>,
}

/// The same for a format with hints of its own: what is left out is named. A model that does not reason need not be told
/// how.
pub(crate) fn common_form_without(
    own: &Own,
    routed: &mut Routed,
    format: Format,
    media: Media,
    ctx: &RequestContext,
    decode: impl FnOnce() -> Result<GenerateRequest, DecodeError>,
) -> Result<Option<Arc<GenerateRequest>>, Error> {
    ctx.note_ignored(&own.ignored);
    let reasons = routed.model.reasoning || routed.model.simulated;
    let decode = || -> Result<GenerateRequest, DecodeError> {
        let mut request = decode()?;
        if !reasons {
            (request.thinking, request.reasoning_effort) = (None, None);
        }
        Ok(request)
    };
    let common = common_form(routed, format, media, ctx, decode)?;
    if common.is_some() {
        ctx.note_ignored(&own.hints);
        let untold = own.reasoning.filter(|_| !reasons);
        ctx.note_ignored(untold.as_slice());
    }
    Ok(common)
}

/// Names reasoning that the first candidate leaves out although it speaks the caller's format.
pub(crate) fn note_foreign_reasoning(ctx: &RequestContext, routed: &Routed, call: &TextCall) {
    let text = routed.first_provider().and_then(|provider| provider.text());
    if call.common.is_none() && text.is_some_and(|text| text.leaves_out_reasoning(call)) {
        ctx.note_ignored(&[&hub::param_in(call.format, "reasoning")]);
    }
}

/// The same refusal with the caller's name for the parameter.
pub(crate) fn in_words_of(format: Format, error: Error) -> Error {
    renamed(error, |param| hub::param_in(format, param))
}

/// The same failure with another name for the parameter.
pub(crate) fn renamed(mut error: Error, name: impl FnOnce(&str) -> String) -> Error {
    let Some(param) = error.param.take() else {
        return error;
    };
    let name = name(&param);
    error.message = error.message.replace(&format!("'{param}'"), &format!("'{name}'"));
    error.with_param(name)
}

/// Adapters answer in the caller's format or in the common form.
pub(crate) fn wrong_format() -> Error {
    Error::internal("an adapter answered in a format that the caller does not speak")
}
