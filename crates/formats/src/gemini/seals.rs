//! Encoding of `thoughtSignature`, a provider's signature of reasoning or of a call. The field
//! contains bytes: the official clients decode the base64 and encode the bytes again, in either
//! alphabet. Therefore the gateway also encodes a wrapped signature as base64.

use base64::Engine;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use tollgate_types::generate::Seal;

use crate::reasoning_envelope;

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const PLAIN: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);
const FOR_URLS: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, LENIENT);

/// Returns the signature, wrapped for a caller and encoded as base64.
pub(super) fn wrap(seal: &Seal) -> String {
    PLAIN.encode(reasoning_envelope::wrap(seal))
}

/// Parses a signature. A text that the gateway did not wrap has an empty origin. Returns `None` for
/// an empty text.
pub(super) fn unwrap(text: &str) -> Option<Seal> {
    let decoded = decode(text).and_then(|bytes| String::from_utf8(bytes).ok());
    match decoded.as_deref().and_then(reasoning_envelope::unwrap) {
        Some(seal) if !seal.origin.is_empty() => Some(seal),
        _ => (!text.is_empty()).then(|| Seal {
            origin: String::new(),
            data: text.to_owned(),
        }),
    }
}

/// Decodes base64 in either alphabet, with or without padding; `None` for other texts.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let is_for_urls = text.bytes().any(|byte| matches!(byte, b'-' | b'_'));
    let engine = if is_for_urls { &FOR_URLS } else { &PLAIN };
    engine.decode(text).ok()
}

/// Encodes bytes as base64 in the standard alphabet, with padding.
pub(super) fn encode(bytes: &[u8]) -> String {
    PLAIN.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_survives_clients_that_decode_it() {
        let seal = Seal {
            origin: "0123456789abcdef".to_owned(),
            data: "CiQB+/>?=~~~".to_owned(),
        };
        let text = wrap(&seal);
        assert_eq!(unwrap(&text), Some(seal.clone()));
        let again = FOR_URLS.encode(decode(&text).unwrap());
        assert_eq!(unwrap(&again), Some(seal.clone()));
        assert_eq!(unwrap(again.trim_end_matches('=')), Some(seal));
        for foreign in ["CiQBabc=", "gw1.0123456789abcdef.x", "no base64 at all"] {
            let seal = unwrap(foreign).unwrap();
            assert_eq!((seal.origin.as_str(), seal.data.as_str()), ("", foreign));
        }
        assert_eq!(unwrap(""), None);
    }
}
