//! By what a request shows who asks.

use secrecy::SecretString;

/// An account's keys, by which requests are signed.
#[derive(Clone, Debug)]
pub struct AccessKeys {
    /// The id, which is sent.
    pub id: String,
    /// The secret, which is not.
    pub secret: SecretString,
    /// The token of temporary keys.
    pub session_token: Option<SecretString>,
}

/// One of the two ways.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// A key of Bedrock's own, sent as a bearer token.
    ApiKey(SecretString),
    /// Signatures.
    Keys(AccessKeys),
}
