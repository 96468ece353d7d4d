//! Signature Version 4. A signing key is valid for one day, region and service (AWS Identity and
//! Access Management user guide, "Create a signed AWS API request").
//!
//! AWS's own crate for signatures depends on about twenty crates of the SDK; this module needs only
//! the hash crates that the project already uses.

use hmac::{Hmac, KeyInit, Mac};
use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};
use tollgate_types::Timestamp;

use super::credentials::AccessKeys;
use crate::http::escape;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// The signed parts of a request. The request has no query.
#[derive(Clone, Copy, Debug)]
pub(super) struct SignedRequest<'r> {
    /// `GET` or `POST`.
    pub(super) method: &'r str,
    /// Path as sent. The signed text escapes it a second time.
    pub(super) path: &'r str,
    /// Header names in lower case and their values, sorted by name.
    pub(super) headers: &'r [(&'r str, &'r str)],
    pub(super) body: &'r [u8],
}

/// Credential scope and time of the signature.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope<'s> {
    /// AWS region, such as `us-east-1`.
    pub(super) region: &'s str,
    /// AWS service, such as `bedrock`.
    pub(super) service: &'s str,
    /// Time in the format of `x-amz-date`, such as `20150830T123600Z`.
    pub(super) time: &'s str,
}

/// Returns the value of the header `x-amz-date`, such as `20150830T123600Z`.
pub(super) fn date(now: Timestamp) -> String {
    let text = now.to_rfc3339();
    let seconds = text.get(..19).unwrap_or_default();
    let mut date: String = seconds.chars().filter(|c| !matches!(c, '-' | ':')).collect();
    date.push('Z');
    date
}

/// Returns the value of the header `authorization`.
pub(super) fn authorization(request: &SignedRequest<'_>, scope: &Scope<'_>, keys: &AccessKeys) -> String {
    let day = scope.time.get(..8).unwrap_or_default();
    let credential_scope = format!("{day}/{}/{}/aws4_request", scope.region, scope.service);
    let names: Vec<&str> = request.headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let hashed = hex(&Sha256::digest(canonical(request, &names)));
    let text = format!("{ALGORITHM}\n{}\n{credential_scope}\n{hashed}", scope.time);
    let secret = format!("AWS4{}", keys.secret.expose_secret());
    let key = [day, scope.region, scope.service, "aws4_request"]
        .into_iter()
        .fold(secret.into_bytes(), |key, step| mac(&key, step.as_bytes()));
    let signature = hex(&mac(&key, text.as_bytes()));
    format!(
        "{ALGORITHM} Credential={}/{credential_scope}, SignedHeaders={names}, Signature={signature}",
        keys.id
    )
}

/// Returns the canonical request, which the client and the server hash.
fn canonical(request: &SignedRequest<'_>, names: &str) -> String {
    let mut out = format!("{}\n{}\n\n", request.method, escape(request.path, "/"));
    for (name, value) in request.headers {
        let words: Vec<&str> = value.split_whitespace().collect();
        out.push_str(&format!("{name}:{}\n", words.join(" ")));
    }
    out.push_str(&format!("\n{names}\n{}", hex(&Sha256::digest(request.body))));
    out
}

fn mac(key: &[u8], text: &[u8]) -> Vec<u8> {
    // HMAC accepts a key of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return Vec::new();
    };
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::*;

    /// The keys, the scope and the signatures are those of the published test suite of Signature
    /// Version 4.
    #[test]
    fn signatures_are_those_of_the_published_vectors() {
        let keys = AccessKeys {
            id: "AKIDEXAMPLE".to_owned(),
            secret: SecretString::from("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
            session_token: None,
        };
        let scope = Scope {
            region: "us-east-1",
            service: "service",
            time: "20150830T123600Z",
        };
        let headers = [
            ("host", "example.amazonaws.com"),
            ("x-amz-date", "20150830T123600Z"),
        ];
        // Test cases get-vanilla, post-vanilla, get-utf8, get-space and get-unreserved.
        for (method, path, signature) in [
            (
                "GET",
                "/",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "POST",
                "/",
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
            (
                "GET",
                "/ሴ",
                "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85",
            ),
            (
                "GET",
                "/example space/",
                "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741",
            ),
            (
                "GET",
                "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
                "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
            ),
        ] {
            let request = SignedRequest {
                method,
                path,
                headers: &headers,
                body: b"",
            };
            let expected = format!(
                "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
                 SignedHeaders=host;x-amz-date, Signature={signature}"
            );
            assert_eq!(
                authorization(&request, &scope, &keys),
                expected,
                "{method} {path}"
            );
        }
    }

    #[test]
    fn model_names_are_escaped_twice_in_the_signed_path() {
        let model = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-x-v1:0";
        let sent = escape(model, "");
        assert_eq!(
            sent,
            "arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2Fus.anthropic.claude-x-v1%3A0"
        );
        assert_eq!(escape("/model/a%3A0/converse", "/"), "/model/a%253A0/converse");
    }

    #[test]
    fn dates_have_no_punctuation() {
        let at = |micros| date(Timestamp::from_micros(micros));
        assert_eq!(at(1_440_938_160_000_000), "20150830T123600Z");
        assert_eq!(at(1_440_938_160_123_456), "20150830T123600Z");
    }
}
