//! Deserializers of settings with an address and a port. The error for a value that is not a
//! string, such as a bare port, contains a complete address.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use toml::Value;

/// Deserializes the address of a listener.
pub(super) fn listener<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    read(deserializer, "127.0.0.1", 8080)
}

/// Deserializes the address of a mail server.
pub(super) fn mail_server<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    read(deserializer, "smtp.example.com", 587).map(Some)
}

fn read<'de, D: Deserializer<'de>>(deserializer: D, host: &str, usual_port: i64) -> Result<String, D::Error> {
    let port = match Value::deserialize(deserializer)? {
        Value::String(text) => return Ok(text),
        Value::Integer(port) if (1..=65_535).contains(&port) => port,
        _ => usual_port,
    };
    Err(D::Error::custom(format!(
        "must be an address with its port: write \"{host}:{port}\""
    )))
}
