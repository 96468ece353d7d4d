//! Previews of the format, which callers ask for by name in the header `anthropic-beta`.
//!
//! What a preview adds to a request is refused with the request, so a name says only how an answer is made. The names are
//! those of the SDK's `AnthropicBetaParam`.

use crate::error::DecodeError;

/// The header.
const HEADER: &str = "anthropic-beta";
/// The most names, and the longest.
const MOST: usize = 32;
const LONGEST: usize = 64;

/// What they change is counted in the classes of tokens that there are: an upstream of the format is told of them.
const TOLD: &[&str] = &[
    "effort-2025-11-24",
    "extended-cache-ttl-2025-04-11",
    "fine-grained-tool-streaming-2025-05-14",
    "interleaved-thinking-2025-05-14",
    "mid-conversation-system-2026-04-07",
    "model-context-window-exceeded-2025-08-26",
    "token-efficient-tools-2025-02-19",
];

/// There is nothing to tell: the gateway does it itself, or every model of today does, or a client says its own name.
const SERVED: &[&str] = &[
    "claude-code-20250219",
    "files-api-2025-04-14",
    "output-128k-2025-02-19",
    "pdfs-2024-09-25",
    "prompt-caching-2024-07-31",
    "structured-outputs-2025-11-13",
    "token-counting-2024-11-01",
];

/// The previews that a request asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Betas {
    /// Those that an upstream of the format is told of.
    pub told: Vec<&'static str>,
    /// Those that no upstream is told of, as they are named to the caller: `anthropic-beta.NAME`.
    pub left_out: Vec<String>,
}

impl Betas {
    /// Reads the header's values, each of them a list of names with commas between.
    pub fn parse<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, DecodeError> {
        let mut betas = Betas::default();
        let names = values
            .into_iter()
            .flat_map(|value| value.split(|byte| *byte == b','));
        let names = names.map(<[u8]>::trim_ascii).filter(|name| !name.is_empty());
        for (index, name) in names.enumerate() {
            let name = std::str::from_utf8(name).ok().filter(|name| is_name(name));
            let Some(name) = name.filter(|_| index < MOST) else {
                return Err(malformed());
            };
            match TOLD.iter().find(|known| **known == name) {
                Some(known) if betas.told.contains(known) => {}
                Some(known) => betas.told.push(known),
                None if SERVED.contains(&name) => {}
                None => betas.left_out.push(format!("{HEADER}.{name}")),
            }
        }
        Ok(betas)
    }
}

fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    name.len() <= LONGEST && name.bytes().all(is_plain)
}

fn malformed() -> DecodeError {
    let message = format!(
        "The header '{HEADER}' must be at most {MOST} names of letters, digits, '-', '_' and '.', of at most {LONGEST} \
         characters each, with commas between."
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
    fn names_are_told_served_or_left_out() {
        let interleaved = "interleaved-thinking-2025-05-14";
        let betas = parse(&[
            &format!("claude-code-20250219, {interleaved},,unheard-of-2027-01-01"),
            interleaved,
        ]);
        let expected = Betas {
            told: vec![interleaved],
            left_out: vec!["anthropic-beta.unheard-of-2027-01-01".to_owned()],
        };
        assert_eq!(betas, Ok(expected));
        assert_eq!(parse(&[]), Ok(Betas::default()));
        assert!(TOLD.iter().all(|name| !SERVED.contains(name) && is_name(name)));
    }

    #[test]
    fn what_is_no_list_of_names_is_refused() {
        let most = vec!["a"; MOST].join(",");
        let longest = "a".repeat(LONGEST);
        assert!(parse(&[&most]).is_ok() && parse(&[&longest]).is_ok());
        for bad in [
            &*format!("{most},b"),
            &format!("{longest}b"),
            "a b",
            "a:b",
            "\u{e9}",
        ] {
            let error = parse(&[bad]).unwrap_err();
            assert_eq!(error.param.as_deref(), Some(HEADER), "{bad}");
        }
    }
}
