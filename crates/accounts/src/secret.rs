//! Format and generation of keys: `sk-<slug>-`, `test-` for test mode, 40 random base62 characters
//! (238 bits) and six check characters, so that a mistyped key is refused without a storage lookup.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use subtle::ConstantTimeEq;
use tollgate_storage::KeyMode;
use tollgate_storage::key::KeyDigest;
use tollgate_types::Error;

const RANDOM_CHARS: usize = 40;
const CHECK_CHARS: usize = 6;
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// A key in the clear. It is shown once and never stored, logged or formatted.
#[derive(Clone)]
pub struct SecretKey(String);

impl SecretKey {
    /// Returns the key, for the one time that it is shown.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns the last four characters, which are stored for display.
    pub fn last4(&self) -> &str {
        &self.0[self.0.len() - 4..]
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(…)")
    }
}

/// Format of this installation's keys.
#[derive(Clone, Debug)]
pub struct KeyShape {
    live_prefix: String,
    test_prefix: String,
}

impl KeyShape {
    /// Creates the format with the prefix `sk-<slug>-`.
    pub fn new(slug: &str) -> Self {
        Self {
            live_prefix: format!("sk-{slug}-"),
            test_prefix: format!("sk-{slug}-test-"),
        }
    }

    /// Returns the prefix of live keys; test keys begin with it too.
    pub fn prefix(&self) -> &str {
        &self.live_prefix
    }

    /// Generates a key from the operating system's random source.
    pub fn generate(&self, mode: KeyMode) -> Result<SecretKey, getrandom::Error> {
        generate(match mode {
            KeyMode::Live => &self.live_prefix,
            KeyMode::Test => &self.test_prefix,
        })
    }

    /// Returns the mode of a key with valid format and checksum; `None` for any other text.
    pub fn mode_of(&self, key: &str) -> Option<KeyMode> {
        let (mode, random) = match key.strip_prefix(&self.test_prefix) {
            Some(random) => (KeyMode::Test, random),
            None => (KeyMode::Live, key.strip_prefix(&self.live_prefix)?),
        };
        is_well_formed(key, random).then_some(mode)
    }

    /// Whether a text looks like a key of this service: whole, mistyped or truncated. Keys of other
    /// services with the same prefix are longer or have other characters.
    pub fn resembles(&self, text: &str) -> bool {
        let live = text.strip_prefix(&self.live_prefix);
        live.is_some_and(|random| could_be_random(random.strip_prefix("test-").unwrap_or(random)))
    }
}

/// Format of this installation's admin tokens. No text is both a key and a token.
#[derive(Clone, Debug)]
pub struct TokenShape {
    prefix: String,
}

impl TokenShape {
    /// Creates the format with the prefix `adm-<slug>-`.
    pub fn new(slug: &str) -> Self {
        Self {
            prefix: format!("adm-{slug}-"),
        }
    }

    /// Returns the prefix of admin tokens.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Generates a token from the operating system's random source.
    pub fn generate(&self) -> Result<SecretKey, getrandom::Error> {
        generate(&self.prefix)
    }

    /// Whether a token has valid format and checksum.
    pub fn fits(&self, token: &str) -> bool {
        let random = token.strip_prefix(&self.prefix);
        random.is_some_and(|random| is_well_formed(token, random))
    }

    /// Whether a text looks like a token of this service: whole, mistyped or truncated.
    pub fn resembles(&self, text: &str) -> bool {
        text.strip_prefix(&self.prefix).is_some_and(could_be_random)
    }
}

/// Whether a text has the characters of a secret's random part, and at most its length.
fn could_be_random(text: &str) -> bool {
    text.len() <= RANDOM_CHARS + CHECK_CHARS && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Prefix of client secrets of realtime sessions.
pub const CLIENT_SECRET_PREFIX: &str = "ek_";

/// Whether a text has the prefix, the length and the characters of a client secret. Client secrets
/// have no check characters, because programs pass them on and no person types them.
pub fn is_client_secret(text: &str) -> bool {
    let random = text.strip_prefix(CLIENT_SECRET_PREFIX);
    random.is_some_and(|random| {
        random.len() == RANDOM_CHARS && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// Generates a client secret from the operating system's random source.
pub(crate) fn generate_client_secret() -> Result<SecretKey, getrandom::Error> {
    with_random_chars(CLIENT_SECRET_PREFIX).map(SecretKey)
}

fn generate(prefix: &str) -> Result<SecretKey, getrandom::Error> {
    let mut text = with_random_chars(prefix)?;
    let check = check_chars(&text);
    text.extend(check.into_iter().map(char::from));
    Ok(SecretKey(text))
}

/// Returns the prefix followed by random characters.
fn with_random_chars(prefix: &str) -> Result<String, getrandom::Error> {
    let mut text = prefix.to_owned();
    let full = text.len() + RANDOM_CHARS;
    while text.len() < full {
        let mut bytes = [0_u8; 64];
        getrandom::fill(&mut bytes)?;
        // 248 is the largest multiple of 62 that fits in a byte. Larger values would make some
        // characters more likely.
        let fair = bytes
            .into_iter()
            .filter(|byte| *byte < 248)
            .take(full - text.len());
        text.extend(fair.map(|byte| char::from(BASE62[usize::from(byte % 62)])));
    }
    Ok(text)
}

/// Whether the part after the prefix of `whole` has the right length and characters, and the
/// checksum matches.
fn is_well_formed(whole: &str, random: &str) -> bool {
    let plain =
        random.len() == RANDOM_CHARS + CHECK_CHARS && random.bytes().all(|b| b.is_ascii_alphanumeric());
    if !plain {
        return false;
    }
    let (body, check) = whole.split_at(whole.len() - CHECK_CHARS);
    check_chars(body) == check.as_bytes()
}

fn check_chars(text: &str) -> [u8; CHECK_CHARS] {
    let mut rest = crc32fast::hash(text.as_bytes());
    let mut check = [0; CHECK_CHARS];
    for place in check.iter_mut().rev() {
        *place = BASE62[(rest % 62) as usize];
        rest /= 62;
    }
    check
}

/// A random token of 256 bits in base64url: the cookie of a session, or the token of a sign-in
/// link. It is shown once and never stored, logged or formatted.
#[derive(Clone)]
pub struct RandomToken(String);

impl RandomToken {
    const BYTES: usize = 32;
    const CHARS: usize = 43;

    /// Generates a token from the operating system's random source.
    pub fn generate() -> Result<Self, Error> {
        let mut bytes = [0; Self::BYTES];
        getrandom::fill(&mut bytes).map_err(|error| Error::internal(error.to_string()))?;
        Ok(Self(URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// Whether a text has the length and the characters of a token.
    pub fn fits(text: &str) -> bool {
        text.len() == Self::CHARS
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    }

    /// Returns the token, for the one time that it is sent.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for RandomToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RandomToken(…)")
    }
}

/// HMAC secret of the key digests. Without the pepper, a stolen database does not allow an attacker
/// to verify guessed keys.
#[derive(Clone)]
pub struct Pepper(Arc<hmac::Key>);

impl Pepper {
    /// Creates a pepper from at least 32 secret bytes; `None` if there are fewer.
    pub fn new(secret: &[u8]) -> Option<Self> {
        if secret.len() < 32 {
            return None;
        }
        Some(Self(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, secret))))
    }

    /// Returns the digest under which a key is stored.
    pub fn digest(&self, key: &str) -> KeyDigest {
        let mut digest = KeyDigest::default();
        digest.copy_from_slice(hmac::sign(&self.0, key.as_bytes()).as_ref());
        digest
    }
}

impl fmt::Debug for Pepper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pepper(…)")
    }
}

/// Returns the first half of a digest, the key of lookups in storage.
pub(crate) fn digest_prefix(digest: &KeyDigest) -> [u8; 16] {
    let mut prefix = [0; 16];
    prefix.copy_from_slice(&digest[..16]);
    prefix
}

/// Compares digests in constant time.
pub fn same_digest(left: &KeyDigest, right: &KeyDigest) -> bool {
    left.ct_eq(right).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_key_has_the_shape_and_no_two_are_alike() {
        let shape = KeyShape::new("service");
        let live = shape.generate(KeyMode::Live).unwrap();
        let test = shape.generate(KeyMode::Test).unwrap();
        assert_eq!(live.reveal().len(), "sk-service-".len() + 46);
        assert_eq!(shape.mode_of(live.reveal()), Some(KeyMode::Live));
        assert_eq!(shape.mode_of(test.reveal()), Some(KeyMode::Test));
        assert_ne!(live.reveal(), shape.generate(KeyMode::Live).unwrap().reveal());
        assert!(live.reveal().ends_with(live.last4()));
        assert!(!format!("{live:?}").contains(&live.reveal()[11..20]));
    }

    #[test]
    fn any_changed_character_is_detected() {
        let shape = KeyShape::new("service");
        let key = shape.generate(KeyMode::Live).unwrap();
        for place in 0..key.reveal().len() {
            let mut bytes = key.reveal().as_bytes().to_vec();
            bytes[place] = if bytes[place] == b'x' { b'y' } else { b'x' };
            let changed = String::from_utf8(bytes).unwrap();
            assert_eq!(shape.mode_of(&changed), None, "{changed}");
        }
        for bad in [
            "",
            "sk-service-",
            "sk-other-abc",
            "Bearer x",
            &key.reveal()[1..],
            &format!("{}a", key.reveal()),
        ] {
            assert_eq!(shape.mode_of(bad), None, "{bad}");
        }
    }

    #[test]
    fn no_key_is_a_token_and_no_token_a_key() {
        for slug in ["service", "adm", "sk", "test"] {
            let (keys, tokens) = (KeyShape::new(slug), TokenShape::new(slug));
            let token = tokens.generate().unwrap();
            assert!(tokens.fits(token.reveal()));
            assert_eq!(keys.mode_of(token.reveal()), None);
            for mode in [KeyMode::Live, KeyMode::Test] {
                assert!(!tokens.fits(keys.generate(mode).unwrap().reveal()));
            }
            assert!(!tokens.fits(&format!("{}x", token.reveal())));
            assert!(!tokens.fits(&token.reveal().to_lowercase()));
            assert!(!TokenShape::new("other").fits(token.reveal()));
        }
    }

    #[test]
    fn client_secrets_have_their_shape_and_are_no_keys() {
        let secret = generate_client_secret().unwrap();
        let text = secret.reveal();
        assert!(is_client_secret(text));
        assert_ne!(text, generate_client_secret().unwrap().reveal());
        assert_eq!(KeyShape::new("service").mode_of(text), None);
        let key = KeyShape::new("service").generate(KeyMode::Live).unwrap();
        for bad in [
            "",
            "ek_",
            key.reveal(),
            &text[1..],
            &text[..text.len() - 1],
            &format!("{text}a"),
            &format!("{}-", &text[..text.len() - 1]),
            &text.replace("ek_", "EK_"),
            &format!("ek_{}", "é".repeat(20)),
        ] {
            assert!(!is_client_secret(bad), "{bad}");
        }
    }

    #[test]
    fn a_digest_is_an_hmac_sha_256() {
        // RFC 4231, test case 6.
        let pepper = Pepper::new(&[0xaa; 131]).unwrap();
        let digest = pepper.digest("Test Using Larger Than Block-Size Key - Hash Key First");
        let expected = 0x60e4_3159_1ee0_b67f_0d8a_26aa_cbf5_b77f_u128;
        assert_eq!(digest[..16], expected.to_be_bytes());
        let expected = 0x8e0b_c621_3728_c514_0546_040f_0ee3_7f54_u128;
        assert_eq!(digest[16..], expected.to_be_bytes());
    }

    #[test]
    fn digests_depend_on_the_pepper() {
        let one = Pepper::new(&[1; 32]).unwrap();
        let other = Pepper::new(&[2; 32]).unwrap();
        assert!(Pepper::new(&[1; 31]).is_none());
        assert!(same_digest(&one.digest("k"), &one.digest("k")));
        assert!(!same_digest(&one.digest("k"), &other.digest("k")));
    }
}
