//! Preview features of the format, which callers request by name in the header `anthropic-beta`.
//!
//! The names do not affect validation: fields that a preview adds to a request are valid without
//! the header. The names are those of the SDK's `AnthropicBetaParam`.

use crate::error::DecodeError;

/// Header that lists the previews. Unknown previews are reported as `anthropic-beta.NAME`.
const HEADER: &str = "anthropic-beta";
/// Maximum number of names in a request, in all values of the header together.
const MAX_NAMES: usize = 32;
/// Maximum length of a name, in bytes.
const MAX_NAME_LENGTH: usize = 64;

/// Previews that are forwarded to an upstream of this format. The existing token classes cover
/// their effects on the price.
const FORWARDED: &[&str] = &[
    "effort-2025-11-24",
    "extended-cache-ttl-2025-04-11",
    "fine-grained-tool-streaming-2025-05-14",
    "interleaved-thinking-2025-05-14",
    "mid-conversation-system-2026-04-07",
    "model-context-window-exceeded-2025-08-26",
    "token-efficient-tools-2025-02-19",
];

/// Previews that are accepted but not forwarded: the gateway implements them, all current models
/// include them, or they only identify a client.
const SUPPORTED: &[&str] = &[
    "claude-code-20250219",
    "files-api-2025-04-14",
    "output-128k-2025-02-19",
    "pdfs-2024-09-25",
    "prompt-caching-2024-07-31",
    "structured-outputs-2025-11-13",
    "token-counting-2024-11-01",
];

/// Previews that a request names in the header `anthropic-beta`. Previews that are accepted but not
/// forwarded are in neither list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Betas {
    /// Names to forward to an upstream of this format, without duplicates.
    pub forwarded: Vec<&'static str>,
    /// Unknown names, in the form `anthropic-beta.NAME` in which they are reported to the caller.
    /// No upstream receives them.
    pub left_out: Vec<String>,
}

impl Betas {
    /// Parses the header's values, each a comma-separated list of names. Fails if a name is
    /// malformed or if there are more than 32 names; empty list items are skipped.
    pub fn parse<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, DecodeError> {
        let mut betas = Betas::default();
        let names = values
            .into_iter()
            .flat_map(|value| value.split(|byte| *byte == b','));
        let names = names.map(<[u8]>::trim_ascii).filter(|name| !name.is_empty());
        for (index, name) in names.enumerate() {
            let name = std::str::from_utf8(name).ok().filter(|name| is_name(name));
            let Some(name) = name.filter(|_| index < MAX_NAMES) else {
                return Err(malformed());
            };
            match FORWARDED.iter().find(|known| **known == name) {
                Some(known) if betas.forwarded.contains(known) => {}
                Some(known) => betas.forwarded.push(known),
                None if SUPPORTED.contains(&name) => {}
                None => betas.left_out.push(format!("{HEADER}.{name}")),
            }
        }
        Ok(betas)
    }
}

fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    name.len() <= MAX_NAME_LENGTH && name.bytes().all(is_plain)
}

fn malformed() -> DecodeError {
    let message = format!(
        "The header '{HEADER}' must be a comma-separated list of at most {MAX_NAMES} names. A name \
         has at most {MAX_NAME_LENGTH} characters: letters, digits, '-', '_' and '.'."
    );
    DecodeError::invalid(HEADER, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(values: &[&str]) -> Result<Betas, DecodeError> {
        Betas::parse(values.iter().map(|value| value.as_bytes()))
    }

    #[test]
    fn betas_are_forwarded_supported_or_left_out() {
        let interleaved = "interleaved-thinking-2025-05-14";
        let betas = parse(&[
            &format!("claude-code-20250219, {interleaved},,unheard-of-2027-01-01"),
            interleaved,
        ]);
        let expected = Betas {
            forwarded: vec![interleaved],
            left_out: vec!["anthropic-beta.unheard-of-2027-01-01".to_owned()],
        };
        assert_eq!(betas, Ok(expected));
        assert_eq!(parse(&[]), Ok(Betas::default()));
        assert!(
            FORWARDED
                .iter()
                .all(|name| !SUPPORTED.contains(name) && is_name(name))
        );
    }

    #[test]
    fn malformed_beta_lists_are_refused() {
        let max_names = vec!["a"; MAX_NAMES].join(",");
        let max_length = "a".repeat(MAX_NAME_LENGTH);
        assert!(parse(&[&max_names]).is_ok() && parse(&[&max_length]).is_ok());
        for bad in [
            &*format!("{max_names},b"),
            &format!("{max_length}b"),
            "a b",
            "a:b",
            "\u{e9}",
        ] {
            let error = parse(&[bad]).unwrap_err();
            assert_eq!(error.param.as_deref(), Some(HEADER), "{bad}");
        }
    }
}
