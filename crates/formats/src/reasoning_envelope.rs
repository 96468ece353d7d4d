//! Envelope of the signatures and encrypted data that providers attach to reasoning ([`Seal`]).
//! Callers receive a signature wrapped with its origin, `gw1.<origin>.<data>`. When a caller
//! returns a wrapped signature, the gateway forwards the signature only to upstreams of the same
//! origin.

use tollgate_types::generate::Seal;

const PREFIX: &str = "gw1.";
const ORIGIN_DIGITS: usize = 16;

/// Returns the origin of a provider's signatures: the 64-bit FNV-1a hash of the provider's name in
/// the settings, as 16 hexadecimal digits. The hash conceals the name from callers, but a caller
/// can verify a guess.
pub fn origin_of(provider: &str) -> String {
    let digest = provider.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{digest:016x}")
}

/// Returns the signature in the form for callers: `gw1.<origin>.<data>`.
pub fn wrap(seal: &Seal) -> String {
    format!("{PREFIX}{}.{}", seal.origin, seal.data)
}

/// Parses a signature from a caller. A signature without an envelope has an empty origin. Returns
/// `None` for an empty text.
pub fn unwrap(text: &str) -> Option<Seal> {
    if text.is_empty() {
        return None;
    }
    let wrapped = text.strip_prefix(PREFIX).and_then(|rest| rest.split_once('.'));
    Some(match wrapped {
        Some((origin, data)) if is_origin(origin) => Seal {
            origin: origin.to_owned(),
            data: data.to_owned(),
        },
        _ => Seal {
            origin: String::new(),
            data: text.to_owned(),
        },
    })
}

/// Whether the signature has another origin or is missing. A signature without an origin has no
/// envelope of the gateway and is not foreign: the upstream checks whether the signature is valid.
pub(crate) fn is_foreign(seal: Option<&Seal>, origin: &str) -> bool {
    seal.is_none_or(|seal| !seal.origin.is_empty() && seal.origin != origin)
}

fn is_origin(text: &str) -> bool {
    text.len() == ORIGIN_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seals_round_trip_through_the_envelope() {
        let origin = origin_of("main");
        assert_ne!(origin, origin_of("backup"));
        for data in ["", "EqQB.CkYI/+=", "gw1.x.y"] {
            let seal = Seal {
                origin: origin.clone(),
                data: data.to_owned(),
            };
            assert_eq!(unwrap(&wrap(&seal)), Some(seal), "{data}");
        }
        for text in ["EqQBCkYI", "gw1.", "gw1.main.x", "gw1.0123456789abcdeg.x"] {
            let seal = unwrap(text).unwrap();
            assert_eq!((seal.origin.as_str(), seal.data.as_str()), ("", text));
        }
        assert_eq!(unwrap(""), None);
    }
}
