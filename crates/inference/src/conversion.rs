//! Converts calls whose upstream uses a different format from the caller's, or accepts media only
//! as bytes. A request that no candidate can represent is rejected before any hold or upstream
//! call. Dropped parameters are reported to the caller.

use std::sync::Arc;

use tollgate_accounts::Caller;
use tollgate_edge::RequestContext;
use tollgate_formats::{DecodeError, Media, to_common};
use tollgate_pipeline::Routed;
use tollgate_types::generate::GenerateRequest;
use tollgate_types::{Error, Format};
use tollgate_upstream::TextCall;

/// Decodes the request into the common form if a candidate does not accept the caller's format
/// unchanged, or if admission must fetch or load media. Drops the candidates that cannot represent
/// the request, and fails with the reason if none is left. Unless the key is strict, candidates
/// that can represent it with small changes follow as fallbacks.
pub(crate) fn common_form(
    routed: &mut Routed,
    format: Format,
    media: Media,
    caller: &Caller,
    ctx: &RequestContext,
    decode: impl FnOnce() -> Result<GenerateRequest, DecodeError>,
) -> Result<Option<Arc<GenerateRequest>>, Error> {
    let crosses = !routed.all_accept_format(format);
    if !crosses && media.stored == 0 && (media.addresses == 0 || !routed.needs_bytes()) {
        return Ok(None);
    }
    let request = decode()?;
    let is_replaced = media.stored > 0 || (media.addresses > 0 && routed.must_fetch(&request));
    if !crosses && !is_replaced {
        return Ok(None);
    }
    let ignored = routed
        .retain_compatible(format, &request, is_replaced, !caller.is_strict())
        .map_err(|error| in_format_terms(format, error))?;
    routed.rename_changed(|param| to_common::param_in(format, param));
    let ignored: Vec<String> = ignored
        .iter()
        .map(|param| to_common::param_in(format, param))
        .collect();
    let names: Vec<&str> = ignored.iter().map(String::as_str).collect();
    ctx.note_ignored(&names);
    Ok(Some(Arc::new(request)))
}

/// Fields of a request that only its own format has and that do not change the response content.
pub(crate) struct FormatFields {
    /// Fields that no upstream receives.
    pub(crate) ignored: Vec<&'static str>,
    /// Fields that upstreams of other formats do not receive.
    pub(crate) hints: Vec<&'static str>,
    /// Name of the reasoning parameter, if the request sets it.
    pub(crate) reasoning: Option<&'static str>,
}

/// Like [`common_form`], for a format with its own hints: reports the dropped fields. Reasoning
/// parameters are dropped for a model that does not reason.
pub(crate) fn common_form_dropping(
    format_fields: &FormatFields,
    routed: &mut Routed,
    format: Format,
    media: Media,
    caller: &Caller,
    ctx: &RequestContext,
    decode: impl FnOnce() -> Result<GenerateRequest, DecodeError>,
) -> Result<Option<Arc<GenerateRequest>>, Error> {
    ctx.note_ignored(&format_fields.ignored);
    let reasons = routed.model.reasoning || routed.model.simulated;
    let decode = || -> Result<GenerateRequest, DecodeError> {
        let mut request = decode()?;
        if !reasons {
            (request.thinking, request.reasoning_effort) = (None, None);
        }
        Ok(request)
    };
    let common = common_form(routed, format, media, caller, ctx, decode)?;
    if common.is_some() {
        ctx.note_ignored(&format_fields.hints);
        let unsupported_reasoning = format_fields.reasoning.filter(|_| !reasons);
        ctx.note_ignored(unsupported_reasoning.as_slice());
    }
    Ok(common)
}

/// Reports that the first candidate drops reasoning parts, although it accepts the caller's format.
pub(crate) fn note_foreign_reasoning(ctx: &RequestContext, routed: &Routed, call: &TextCall) {
    let text = routed.first_provider().and_then(|provider| provider.text());
    if call.common.is_none() && text.is_some_and(|text| text.drops_reasoning(call)) {
        ctx.note_ignored(&[&to_common::param_in(call.format, "reasoning")]);
    }
}

/// Renames the parameter of an error from the common form to the caller's format.
pub(crate) fn in_format_terms(format: Format, error: Error) -> Error {
    with_param_name(error, |param| to_common::param_in(format, param))
}

/// Renames the parameter of an error, in its message as well.
pub(crate) fn with_param_name(mut error: Error, name: impl FnOnce(&str) -> String) -> Error {
    let Some(param) = error.param.take() else {
        return error;
    };
    let name = name(&param);
    error.message = error.message.replace(&format!("'{param}'"), &format!("'{name}'"));
    error.with_param(name)
}

/// Returns an internal error: adapters must return the caller's format or the common form.
pub(crate) fn wrong_format() -> Error {
    Error::internal("an adapter returned a response in an unexpected format")
}
