//! Credentials for Bedrock.

use secrecy::SecretString;

/// AWS access keys, which sign requests.
#[derive(Clone, Debug)]
pub struct AccessKeys {
    /// Access key id, which is sent.
    pub id: String,
    /// Secret access key, which is never sent.
    pub secret: SecretString,
    /// Session token of temporary keys; `None` for long-term keys.
    pub session_token: Option<SecretString>,
}

/// Credentials of requests: a bearer token, or keys for signatures.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// A Bedrock API key, sent as a bearer token.
    ApiKey(SecretString),
    /// Access keys for Signature Version 4.
    Keys(AccessKeys),
}
