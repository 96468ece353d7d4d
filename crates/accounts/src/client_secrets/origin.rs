//! Serialized origins, as the header `Origin` has them (RFC 6454, section 6.2).

/// Maximum length of an origin, in bytes: a host name of 253 with scheme and port.
const MAX_BYTES: usize = 300;

/// Whether a text is a scheme and a host in lower case, with an optional port. The opaque origin
/// `null` is not: any page can send it.
pub(super) fn is_serialized(text: &str) -> bool {
    let Some((scheme, authority)) = text.split_once("://") else {
        return false;
    };
    let (host, port) = split_port(authority);
    text.len() <= MAX_BYTES
        && scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme.bytes().all(is_scheme_byte)
        && !host.is_empty()
        && host.bytes().all(is_host_byte)
        && port.is_none_or(|port| is_port(scheme, port))
}

/// Splits an authority into host and port. The colons within `[…]` belong to an IPv6 address.
fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    }
}

fn is_scheme_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.')
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase()
        || byte.is_ascii_digit()
        || matches!(byte, b'-' | b'.' | b'_' | b'[' | b']' | b':')
}

/// Whether browsers send this port: they omit the default port of the scheme and leading zeros.
fn is_port(scheme: &str, port: &str) -> bool {
    let is_number = port.parse::<u16>().is_ok_and(|number| number.to_string() == port);
    let is_default = matches!((scheme, port), ("https", "443") | ("http", "80"));
    is_number && !is_default
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_as_browsers_send_them() {
        for (text, expected) in [
            ("https://example.com", true),
            ("http://localhost:3000", true),
            ("https://xn--bcher-kva.example:8443", true),
            ("http://[::1]:8080", true),
            ("http://[::1]", true),
            ("https://127.0.0.1", true),
            ("chrome-extension://abcdefghijklmnop", true),
            ("https://example.com:80", true),
            ("https://example.com:443", false),
            ("http://example.com:80", false),
            ("https://example.com:080", false),
            ("https://example.com:65536", false),
            ("https://example.com:+1", false),
            ("https://example.com:", false),
            ("https://example.com/", false),
            ("https://example.com/path", false),
            ("https://example.com?a", false),
            ("https://user@example.com", false),
            ("https://Example.com", false),
            ("https://bücher.example", false),
            ("HTTPS://example.com", false),
            ("https://*.example.com", false),
            ("https://", false),
            ("https://:8080", false),
            ("://example.com", false),
            ("example.com", false),
            ("null", false),
            ("*", false),
            ("", false),
        ] {
            assert_eq!(is_serialized(text), expected, "{text}");
        }
        let long = format!("https://{}", "a".repeat(300));
        assert!(!is_serialized(&long));
    }
}
