//! Tokens of a service account. The gateway exchanges a signed assertion for a token (RFC 7523,
//! section 2.1; developers.google.com/identity/protocols/oauth2/service-account).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tollgate_types::Clock;

use super::{Issued, TokenError, TokenSource, read};
use crate::http::{BaseUrl, Credential, Endpoint, EndpointError, HttpClient, Response, Timeouts};
use crate::refusal;

/// Default URL of the token server, for keys without one.
const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";
/// OAuth scope of the tokens.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// Grant type `urn:ietf:params:oauth:grant-type:jwt-bearer`, form-encoded.
const GRANT: &str = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer";
/// Lifetime of an assertion, in seconds.
const ASSERTION_LIFETIME_SECONDS: i64 = 3_600;
/// Age of an assertion when it is sent, in seconds, because the server's clock may be slow.
const BACKDATE_SECONDS: i64 = 10;
/// Maximum clock difference in seconds. An error message reports a larger one as the likely cause.
const MAX_CLOCK_SKEW_SECONDS: u64 = 60;

/// A service account with its private key.
pub(crate) struct ServiceAccount {
    project: Option<String>,
    email: String,
    key_id: Option<String>,
    key: RsaKeyPair,
    audience: String,
    endpoint: Endpoint,
    description: String,
    is_secure: bool,
    is_exposed: bool,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccount")
            .field("email", &self.email)
            .finish_non_exhaustive()
    }
}

impl ServiceAccount {
    /// Parses the JSON text of a key. The error describes the problem and quotes no part of the
    /// text.
    pub(crate) fn read(text: &SecretString, clock: Arc<dyn Clock>) -> Result<Self, EndpointError> {
        let wrong =
            |what: &str| EndpointError::new(format!("the credentials are not a service account key: {what}"));
        let value: Value = serde_json::from_str(text.expose_secret()).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            wrong(&format!("invalid JSON at line {line}, column {column}"))
        })?;
        let member = |name: &str| {
            let text = value.get(name).and_then(Value::as_str).map(str::trim);
            text.filter(|text| !text.is_empty())
        };
        let needed = |name: &str| member(name).ok_or_else(|| wrong(&format!("`{name}` is missing")));
        match member("type") {
            Some("service_account") => {}
            Some("authorized_user" | "external_account" | "impersonated_service_account") => {
                return Err(wrong("the type is unsupported; create a service account key"));
            }
            _ => return Err(wrong("`type` is not `service_account`")),
        }
        let key = key_of(needed("private_key")?).map_err(wrong)?;
        let audience = member("token_uri").unwrap_or(TOKEN_URI);
        let base = BaseUrl::parse(audience).map_err(|_| wrong("`token_uri` is not a URL"))?;
        let form = SecretString::from("application/x-www-form-urlencoded");
        let form = Credential::header("content-type", &form)?;
        Ok(Self {
            project: member("project_id").map(str::to_owned),
            email: needed("client_email")?.to_owned(),
            key_id: member("private_key_id").map(str::to_owned),
            key,
            audience: audience.to_owned(),
            endpoint: Endpoint::new(&base, "", &[form])?,
            description: format!("the token server at {}", base.host()),
            is_secure: base.is_secure(),
            is_exposed: !base.is_secure() && !base.is_local(),
            clock,
        })
    }

    /// Returns the account's project, if the key contains it.
    pub(crate) fn project(&self) -> Option<&str> {
        self.project.as_deref()
    }

    /// Whether the token server uses TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// Whether another machine would send the tokens over plain HTTP.
    pub(crate) fn is_exposed(&self) -> bool {
        self.is_exposed
    }

    /// Builds the signed assertion.
    fn assertion(&self) -> Result<String, TokenError> {
        let issued = self.clock.now().as_seconds() - BACKDATE_SECONDS;
        let mut header = json!({"alg": "RS256", "typ": "JWT"});
        if let Some(id) = &self.key_id {
            header["kid"] = json!(id);
        }
        let claims = json!({
            "iss": self.email, "scope": SCOPE, "aud": self.audience, "iat": issued, "exp": issued + ASSERTION_LIFETIME_SECONDS,
        });
        let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let signed = format!("{header}.{claims}");
        let mut signature = vec![0; self.key.public_modulus_len()];
        self.key
            .sign(
                &RSA_PKCS1_SHA256,
                &SystemRandom::new(),
                signed.as_bytes(),
                &mut signature,
            )
            .map_err(|_| TokenError::refused("cannot sign the token request with the service account key"))?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// Converts an error response. Only its codes are used, not its message (RFC 6749, section
    /// 5.2).
    async fn refused(&self, response: Response, http: &HttpClient) -> TokenError {
        let (status, description) = (response.status, &self.description);
        let skew = self.skew(&response);
        let body = response.read_prefix(http.settings()).await;
        let value: Value = serde_json::from_slice(&body).unwrap_or_default();
        let code = value.get("error").and_then(Value::as_str).and_then(refusal::word);
        let code = code.map_or(String::new(), |code| format!(" {code}"));
        match status {
            400 | 401 | 403 => {
                let clock = skew.unwrap_or_default();
                let detail = format!("{description} rejected the service account ({status}{code}){clock}");
                TokenError::refused(detail)
            }
            _ => TokenError::unavailable(format!("{description} returned status {status}{code}")),
        }
    }

    /// Describes the difference between this machine's clock and the response's date, if it exceeds
    /// [`MAX_CLOCK_SKEW_SECONDS`].
    fn skew(&self, response: &Response) -> Option<String> {
        let theirs = refusal::http_date(response.header("date")?)?;
        let ours = self.clock.now().as_seconds();
        let (apart, side) = match ours >= theirs {
            true => (ours.abs_diff(theirs), "ahead of"),
            false => (ours.abs_diff(theirs), "behind"),
        };
        (apart > MAX_CLOCK_SKEW_SECONDS)
            .then(|| format!(": the clock of this machine is {apart} s {side} the server's"))
    }
}

/// Parses a private RSA key in PEM, with PKCS #8 or PKCS #1.
fn key_of(pem: &str) -> Result<RsaKeyPair, &'static str> {
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| "`private_key` is not a PEM key")?;
    let pair = match &key {
        PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
        PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
        _ => return Err("`private_key` is not an RSA key"),
    };
    pair.map_err(|_| "`private_key` is not an RSA key of 2,048 to 8,192 bits")
}

#[async_trait]
impl TokenSource for ServiceAccount {
    async fn issue(&self, http: &HttpClient, timeout: Duration) -> Result<Issued, TokenError> {
        let body = Bytes::from(format!("grant_type={GRANT}&assertion={}", self.assertion()?));
        let asked = http
            .post(&self.endpoint, body.into(), Timeouts::brief(timeout))
            .await;
        let response = asked.map_err(|error| {
            TokenError::unavailable(format!(
                "{} cannot be reached: {}",
                self.description, error.detail
            ))
        })?;
        match response.status {
            200 => read(response, &self.description).await,
            _ => Err(self.refused(response, http).await),
        }
    }

    fn description(&self) -> &str {
        &self.description
    }
}
