//! Validation of the source of a medium: a URL, or base64 in the request.

use tollgate_types::decide::StateMediaKind;

use crate::error::BoxedError;
use crate::image::{MUST_BE_IMAGE, begins_as_image};
use crate::json::Path;

/// Maximum length of a URL, in bytes.
const MAX_ADDRESS: usize = 8_192;

/// Maximum length of a media type with its parameters, in bytes.
const MAX_TYPE: usize = 100;

/// Validates an http, https or data URL of this kind and returns it in the common form.
pub(super) fn url(text: &str, kind: StateMediaKind, path: &Path<'_>) -> Result<String, BoxedError> {
    if let Some(parts) = DataUrl::parse(text) {
        if parts.kind() != Some(kind) || !parts.is_base64 {
            let word = kind.as_str();
            return Err(path.invalid(format_args!("must be a base64 data URL of type '{word}/…'")));
        }
        return data_url(parts.mime, parts.data, path);
    }
    if !is_web_address(text) {
        return Err(path.invalid(format_args!(
            "must be a data URL, or a valid http or https URL of at most {MAX_ADDRESS} bytes"
        )));
    }
    Ok(text.to_owned())
}

/// Builds a data URL from base64. Data with an image type must start with an image signature.
pub(super) fn data_url(mime: &str, data: &str, path: &Path<'_>) -> Result<String, BoxedError> {
    if !is_base64(data.as_bytes()) {
        return Err(path.invalid("must have valid base64 data (standard alphabet, with padding)"));
    }
    if kind_of(mime) == Some(StateMediaKind::Image) && !begins_as_image(data) {
        return Err(path.invalid(MUST_BE_IMAGE));
    }
    Ok(format!("data:{};base64,{data}", mime.to_ascii_lowercase()))
}

/// Returns the media kind of a type such as `image/png`, which may have parameters; `None` for
/// other and invalid types.
pub(super) fn kind_of(mime: &str) -> Option<StateMediaKind> {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"+-./;=_".contains(&byte);
    if mime.len() > MAX_TYPE || !mime.bytes().all(is_valid) {
        return None;
    }
    let (family, format) = mime.split_once('/')?;
    let mut kinds = StateMediaKind::ALL.into_iter();
    let kind = kinds.find(|kind| family.eq_ignore_ascii_case(kind.as_str()));
    kind.filter(|_| format.starts_with(|first: char| first.is_ascii_alphanumeric()))
}

/// Parts of a data URL, not validated.
pub(super) struct DataUrl<'t> {
    /// Media type with its parameters.
    pub(super) mime: &'t str,
    pub(super) is_base64: bool,
    pub(super) data: &'t str,
}

impl<'t> DataUrl<'t> {
    pub(super) fn parse(text: &'t str) -> Option<DataUrl<'t>> {
        const SCHEME: &str = "data:";
        let scheme = text.get(..SCHEME.len())?;
        if !scheme.eq_ignore_ascii_case(SCHEME) {
            return None;
        }
        let (head, data) = text.get(SCHEME.len()..)?.split_once(',')?;
        let (mime, is_base64) = match head.rsplit_once(';') {
            Some((mime, last)) => (mime, last.trim().eq_ignore_ascii_case("base64")),
            None => (head, false),
        };
        Some(DataUrl {
            mime,
            is_base64,
            data,
        })
    }

    pub(super) fn kind(&self) -> Option<StateMediaKind> {
        kind_of(self.mime)
    }
}

/// Whether the text is an http or https URL of at most [`MAX_ADDRESS`] bytes that has a host and
/// only valid characters.
fn is_web_address(text: &str) -> bool {
    let after = |scheme: &str| {
        let start = text.get(..scheme.len())?;
        start
            .eq_ignore_ascii_case(scheme)
            .then(|| text.get(scheme.len()..))?
    };
    let Some(rest) = after("https://").or_else(|| after("http://")) else {
        return false;
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_odd = |character: char| {
        character.is_whitespace() || character.is_control() || "<>\"\\^`{|}".contains(character)
    };
    text.len() <= MAX_ADDRESS && host.chars().any(char::is_alphanumeric) && !text.chars().any(is_odd)
}

/// Whether the text is base64 of at least one byte, in the standard alphabet and with padding.
pub(crate) fn is_base64(text: &[u8]) -> bool {
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    let digits = text.get(..text.len() - padding).unwrap_or_default();
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    text.len().is_multiple_of(4) && padding <= 2 && !digits.is_empty() && digits.iter().all(is_digit)
}
