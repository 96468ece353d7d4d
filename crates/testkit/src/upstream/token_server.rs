//! The upstream as a server that issues access tokens: for assertions that its only service account
//! signed, and as the metadata server of a machine. It verifies the signature of an assertion with
//! the public key.

use std::collections::VecDeque;

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::received::ReceivedRequest;
use super::reply::Reply;

/// The endpoint that exchanges assertions for tokens.
pub(super) const PATH: &str = "/token";
/// The endpoint of the machine's own token.
pub(super) const METADATA_PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token";
/// The issuer of the assertions.
const EMAIL: &str = "gateway@acme-project.iam.gserviceaccount.com";
/// The project of the service account.
const PROJECT: &str = "acme-project";
const KEY_ID: &str = "0123456789abcdef";
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const GRANT: &str = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=";
/// Maximum lifetime of an assertion, in seconds.
const LONGEST: i64 = 3_600;

/// The state of the token server: its key, valid tokens and scripted replies.
#[derive(Debug)]
pub(super) struct TokenServer {
    public_key: Vec<u8>,
    audience: String,
    valid: Vec<String>,
    /// Number of issued tokens.
    pub(super) issued: u64,
    /// Reported lifetime of a token, in seconds.
    pub(super) life: u64,
    /// Replies that are sent instead of tokens.
    pub(super) queue: VecDeque<Reply>,
}

impl TokenServer {
    /// Creates a server at this address. Also returns the key file of its service account, as JSON
    /// text.
    #[expect(
        clippy::expect_used,
        reason = "a machine without random numbers cannot run tests"
    )]
    pub(super) fn new(audience: String) -> (Self, String) {
        let pair = KeyPair::generate(KeySize::Rsa2048).expect("random numbers");
        let der = pair.as_der().expect("a key can be written");
        let encoded = STANDARD.encode(der.as_ref());
        let lines: Vec<&str> = (0..encoded.len())
            .step_by(64)
            .map(|start| &encoded[start..encoded.len().min(start + 64)])
            .collect();
        let label = "PRIVATE KEY";
        let pem = format!(
            "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
            lines.join("\n")
        );
        let file = json!({
            "type": "service_account", "project_id": PROJECT, "private_key_id": KEY_ID, "private_key": pem,
            "client_email": EMAIL, "client_id": "1", "token_uri": audience,
        });
        let server = Self {
            public_key: pair.public_key().as_ref().to_vec(),
            audience,
            valid: Vec::new(),
            issued: 0,
            life: 3_599,
            queue: VecDeque::new(),
        };
        (server, file.to_string())
    }

    /// Returns the reply to a request for a token.
    pub(super) fn reply(&mut self, request: &ReceivedRequest) -> Reply {
        if let Some(scripted) = self.queue.pop_front() {
            return scripted;
        }
        let checked = match request.bare_path() {
            PATH => self.check(request),
            _ => checked_flavor(request),
        };
        match checked {
            Ok(()) => self.issue(),
            Err(problem) => {
                let body = json!({"error": "invalid_grant", "error_description": problem});
                Reply::body(400, "application/json", body.to_string())
            }
        }
    }

    fn issue(&mut self) -> Reply {
        self.issued += 1;
        let token = format!("ya29.c4n4ry-{}", self.issued);
        self.valid.push(token.clone());
        let body = json!({"access_token": token, "expires_in": self.life, "token_type": "Bearer"});
        Reply::body(200, "application/json; charset=UTF-8", body.to_string())
    }

    /// Whether a request has a valid token.
    pub(super) fn admits(&self, request: &ReceivedRequest) -> bool {
        let shown = request
            .header("authorization")
            .and_then(|value| value.strip_prefix("Bearer "));
        shown.is_some_and(|token| self.valid.iter().any(|valid| valid == token))
    }

    /// Revokes all tokens.
    pub(super) fn revoke(&mut self) {
        self.valid.clear();
    }

    fn check(&self, request: &ReceivedRequest) -> Result<(), &'static str> {
        if request.method != "POST"
            || request.header("content-type") != Some("application/x-www-form-urlencoded")
        {
            return Err("not a form");
        }
        let body = std::str::from_utf8(&request.body).map_err(|_| "not a form")?;
        let statement = body.strip_prefix(GRANT).ok_or("Invalid grant type.")?;
        let (signed, signature) = statement.rsplit_once('.').ok_or("Invalid JWT.")?;
        let decoded = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| "Invalid JWT.");
        UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.public_key)
            .verify(signed.as_bytes(), &decoded(signature)?)
            .map_err(|_| "Invalid JWT Signature.")?;
        let (header, claims) = signed.split_once('.').ok_or("Invalid JWT.")?;
        let json = |text: &str| -> Result<Value, &'static str> {
            serde_json::from_slice(&decoded(text)?).map_err(|_| "Invalid JWT.")
        };
        let (header, claims) = (json(header)?, json(claims)?);
        if header != json!({"alg": "RS256", "typ": "JWT", "kid": KEY_ID}) {
            return Err("Invalid JWT header.");
        }
        let claim = |name: &str| claims[name].as_str().unwrap_or_default();
        if (claim("iss"), claim("scope"), claim("aud")) != (EMAIL, SCOPE, &*self.audience) {
            return Err("Invalid JWT claims.");
        }
        let time = |name: &str| claims[name].as_i64().unwrap_or_default();
        match time("exp") - time("iat") {
            1..=LONGEST => Ok(()),
            _ => Err("Invalid JWT: Token must be a short-lived token (60 minutes)."),
        }
    }
}

fn checked_flavor(request: &ReceivedRequest) -> Result<(), &'static str> {
    let is_meant = request.method == "GET" && request.header("metadata-flavor") == Some("Google");
    is_meant
        .then_some(())
        .ok_or("Missing Metadata-Flavor:Google header.")
}
