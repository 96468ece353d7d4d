//! Messages of upstream error bodies, redacted for the log and for callers.

use std::net::IpAddr;
use std::sync::LazyLock;

use regex::Regex;
use secrecy::{ExposeSecret, SecretString};
use tollgate_formats::openai_chat::read_error;
use tollgate_upstream::{ErrorText, UpstreamText};

/// Maximum number of bytes of an error body that are parsed.
const MAX_READ_BYTES: usize = 16 << 10;
/// Maximum number of characters of a message.
const MAX_TEXT_CHARS: usize = 500;
/// Maximum number of numbers that are stored from a message.
const MAX_NUMBERS: usize = 16;
/// Minimum value of a stored number: smaller numbers are never a context length.
const MIN_NUMBER: u64 = 256;
/// Replacement of a redacted key.
const REDACTED: &str = "[redacted]";
/// Prefixes of API keys of providers and gateways.
const KEY_PREFIXES: &[&str] = &[
    "sk-", "sk_", "rk_", "gsk_", "xai-", "AIza", "ya29.", "eyJ", "AKIA", "ASIA", "ABSK", "hf_", "r8_",
    "nvapi-", "csk-", "fw_", "pplx-", "tgp_", "whsec_",
];
/// Minimum length of a key to redact, in bytes. A shorter key is a placeholder such as `none`,
/// which may be a normal word of the message.
const MIN_KEY_CHARS: usize = 6;
/// Minimum number of characters of a word with letters and digits that counts as a key.
const MIN_SECRET_CHARS: usize = 32;

/// Patterns of a value after the name of a secret, and of the user information of a URL. Such
/// secrets may be short and have no prefix.
static NAMED_SECRETS: LazyLock<Option<[Regex; 2]>> = LazyLock::new(|| {
    let name = "password|passwd|pwd|secret|api[-_ ]?key|credentials?|(?:access|api|auth|hf|id|refresh|session)[-_]token";
    let value = r#""[^"]*"|'[^']*'|[^\s"'&,;]+"#;
    let values = Regex::new(&format!(r#"(?i)((?:{name})["']?(?:=|: ?))(?:{value})"#)).ok()?;
    Some([values, Regex::new(r"(://)[^\s/?#@]+@").ok()?])
});

/// Policy for the error messages of one endpoint.
#[derive(Debug, Default)]
pub(crate) struct ErrorTexts {
    mode: ErrorText,
    /// Keys of the endpoint, to be redacted.
    secrets: Vec<SecretString>,
}

impl ErrorTexts {
    pub(super) fn new(mode: ErrorText, secrets: Vec<SecretString>) -> Self {
        Self { mode, secrets }
    }

    /// Parses the first [`MAX_READ_BYTES`] of an error body; `None` if the body is empty or a web
    /// page.
    pub(crate) fn read(&self, body: &[u8]) -> Option<Box<UpstreamText>> {
        let body = body.get(..MAX_READ_BYTES).unwrap_or(body);
        // An HTML page has no useful message.
        let is_page = body.trim_ascii_start().starts_with(b"<");
        if body.is_empty() || is_page {
            return None;
        }
        let message = message(body);
        let text = match self.mode {
            ErrorText::Hide => None,
            ErrorText::Log | ErrorText::Pass => Some(self.clean(&message)).filter(|text| !text.is_empty()),
        };
        Some(Box::new(UpstreamText {
            passes: self.mode == ErrorText::Pass && text.is_some(),
            text,
            numbers: numbers(&message),
        }))
    }

    /// Redacts keys, puts the message on one line and cuts it to [`MAX_TEXT_CHARS`].
    fn clean(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            // The value of `Authorization` has a scheme before the key.
            let key = secret.expose_secret().rsplit(' ').next().unwrap_or_default();
            if key.len() >= MIN_KEY_CHARS {
                text = text.replace(key, REDACTED);
            }
        }
        let text = without_keys(&without_named_secrets(&text));
        let line: Vec<&str> = text
            .split(|c: char| c.is_whitespace() || c.is_control())
            .filter(|word| !word.is_empty())
            .collect();
        let line = line.join(" ");
        match line.char_indices().nth(MAX_TEXT_CHARS) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line,
        }
    }
}

/// Returns the message of an error body. For FastAPI, this is the message of the first validation
/// error.
fn message(body: &[u8]) -> String {
    let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    match value.pointer("/detail/0/msg").and_then(serde_json::Value::as_str) {
        Some(text) => text.to_owned(),
        None => read_error(body).message,
    }
}

fn without_named_secrets(text: &str) -> String {
    let Some([values, users]) = &*NAMED_SECRETS else {
        return REDACTED.to_owned();
    };
    let text = values.replace_all(text, format!("${{1}}{REDACTED}"));
    users
        .replace_all(&text, format!("${{1}}{REDACTED}@"))
        .into_owned()
}

/// Replaces each word that looks like a key.
fn without_keys(text: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || "-_./+=~*…".contains(c);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut follows_scheme = false;
    while let Some(first) = rest.chars().next() {
        let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        if length == 0 {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (word, tail) = rest.split_at(length);
        out.push_str(if follows_scheme || is_key(word) {
            REDACTED
        } else {
            word
        });
        follows_scheme = word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic");
        rest = tail;
    }
    out
}

fn is_key(word: &str) -> bool {
    let has_prefix = |prefix: &&str| word.len() > prefix.len() + 3 && word.starts_with(*prefix);
    let is_long = word.chars().count() >= MIN_SECRET_CHARS
        && word.contains(|c: char| c.is_ascii_digit())
        && word.contains(|c: char| c.is_ascii_alphabetic())
        && !word.contains(['/', '.']);
    KEY_PREFIXES.iter().any(has_prefix) || is_long
}

fn numbers(text: &str) -> Vec<u64> {
    let digits = text.split(|c: char| !c.is_ascii_digit());
    let numbers = digits.filter_map(|digits| digits.parse().ok());
    numbers
        .filter(|number| *number >= MIN_NUMBER)
        .take(MAX_NUMBERS)
        .collect()
}

/// Returns the default policy for error messages of a host: messages of private hosts are logged,
/// messages of all other hosts are hidden.
pub(super) fn default_mode(host: &str) -> ErrorText {
    let host = host.trim_matches(['[', ']']);
    let is_private = match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(v4)) => {
            let [a, b, ..] = v4.octets();
            // 100.64.0.0/10 is shared address space (RFC 6598), which private overlay networks use.
            v4.is_loopback() || v4.is_private() || v4.is_link_local() || (a == 100 && (64..128).contains(&b))
        }
        Ok(IpAddr::V6(v6)) => v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local(),
        Err(_) => {
            let host = host.trim_end_matches('.').to_ascii_lowercase();
            let ends = [".localhost", ".local", ".internal", ".home.arpa"];
            !host.contains('.') || ends.iter().any(|end| host.ends_with(end))
        }
    };
    if is_private {
        ErrorText::Log
    } else {
        ErrorText::Hide
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(mode: ErrorText) -> ErrorTexts {
        ErrorTexts::new(mode, vec!["Bearer hunter2-northwind".to_owned().into()])
    }

    #[test]
    fn texts_are_cleaned() {
        let long = "x ".repeat(600);
        for (body, expected) in [
            (r#"{"error":{"message":"too large: 32768"}}"#, "too large: 32768"),
            (r#"{"error":"busy"}"#, "busy"),
            (
                r#"{"detail":[{"msg":"field required","loc":["body","n"]}]}"#,
                "field required",
            ),
            (r#"{"error":{"message":"a\nb\u0007\tc"}}"#, "a b c"),
            ("plain words", "plain words"),
            (
                "the key hunter2-northwind is wrong",
                "the key [redacted] is wrong",
            ),
            (
                "Incorrect API key: sk-abc***wxyz.",
                "Incorrect API key: [redacted]",
            ),
            (
                "'Authorization: Bearer abcdef' is refused",
                "'Authorization: Bearer [redacted]' is refused",
            ),
            ("Incorrect API key: abc", "Incorrect API key: [redacted]"),
            ("db: user=me password=pw9;x", "db: user=me password=[redacted];x"),
            (
                r#"config {'secret': 'x y', "access_token": "q"}"#,
                r#"config {'secret': [redacted], "access_token": [redacted]}"#,
            ),
            (
                "cannot reach redis://:pw@cache:6379/0",
                "cannot reach redis://[redacted]@cache:6379/0",
            ),
            (
                "GET https://a.example/@b?api_key=5&n=2",
                "GET https://a.example/@b?api_key=[redacted]&n=2",
            ),
            (
                "max_tokens: 5, unexpected token: 'end' at a@b",
                "max_tokens: 5, unexpected token: 'end' at a@b",
            ),
            ("token eyJhbGciOi.payload.sig!", "token [redacted]!"),
            ("AIzaSyD4iE2xVSpkLLOXoyqT", "[redacted]"),
            ("0123456789abcdef0123456789abcdef", "[redacted]"),
            (
                "model meta-llama/Llama-3.1-8B-Instruct-quantized-w4a16",
                "model meta-llama/Llama-3.1-8B-Instruct-quantized-w4a16",
            ),
            (&long, &format!("{}…", &long[..500])),
        ] {
            let error_text = texts(ErrorText::Log).read(body.as_bytes()).unwrap();
            assert_eq!(error_text.text.as_deref(), Some(expected), "{body}");
            assert!(!error_text.passes);
            let error_text = texts(ErrorText::Hide).read(body.as_bytes()).unwrap();
            assert_eq!(error_text.text, None, "{body}");
            assert!(texts(ErrorText::Pass).read(body.as_bytes()).unwrap().passes);
        }
        for body in ["", "  <html><body>502</body></html>"] {
            assert_eq!(texts(ErrorText::Pass).read(body.as_bytes()), None, "{body}");
        }
    }

    #[test]
    fn numbers_are_read_in_every_error_text_mode() {
        let body = br#"{"error":{"message":"maximum context length is 1024 tokens, 2100 requested (12)"}}"#;
        let error_text = texts(ErrorText::Hide).read(body).unwrap();
        assert_eq!(error_text.numbers, [1024, 2100]);
    }

    #[test]
    fn private_hosts_are_detected_by_address() {
        for (host, mode) in [
            ("127.0.0.1", ErrorText::Log),
            ("[::1]", ErrorText::Log),
            ("10.0.0.7", ErrorText::Log),
            ("192.168.1.5", ErrorText::Log),
            ("172.16.0.1", ErrorText::Log),
            ("100.64.0.1", ErrorText::Log),
            ("[fd00::1]", ErrorText::Log),
            ("localhost", ErrorText::Log),
            ("vllm", ErrorText::Log),
            ("gpu.internal", ErrorText::Log),
            ("8.8.8.8", ErrorText::Hide),
            ("172.32.0.1", ErrorText::Hide),
            ("100.128.0.1", ErrorText::Hide),
            ("[2001:db8::1]", ErrorText::Hide),
            ("api.example.com", ErrorText::Hide),
            ("internal.example.com", ErrorText::Hide),
        ] {
            assert_eq!(default_mode(host), mode, "{host}");
        }
    }
}
