//! Signed media URLs, which open without a key for a limited time:
//! `/v1/media/{id}?exp=…&kid=…&sig=…`.
//!
//! The signature is an HMAC-SHA-256 over method, path, expiry, key id, account and disposition. A
//! URL has one canonical form: any other spelling is invalid.

use std::fmt;
use std::time::Duration;

use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tollgate_types::{AccountId, MediaId, Timestamp};

use crate::secret::Pepper;

/// Maximum lifetime of a signed URL.
pub const MAX_LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);

/// Path prefix of signed URLs.
const FOLDER: &str = "/v1/media/";
/// The signed method. A HEAD request is verified as GET.
const METHOD: &str = "GET";
/// Domain separation of the signing keys.
const PURPOSE: &str = "media addresses";

/// A signing key, and the id that identifies it in URLs.
#[derive(Clone)]
pub struct SigningKey {
    id: String,
    key: hmac::Key,
}

impl SigningKey {
    /// Derives the key from a secret of at least 32 bytes (HKDF, RFC 5869); `None` if the secret is
    /// shorter.
    pub fn new(secret: &[u8]) -> Option<Self> {
        if secret.len() < 32 {
            return None;
        }
        Self::expand(&Salt::new(HKDF_SHA256, PURPOSE.as_bytes()).extract(secret))
    }

    /// Derives the key from the installation's pepper.
    pub fn of_installation(pepper: &Pepper) -> Option<Self> {
        // HKDF's first step with the pepper as its salt: an HMAC under the pepper.
        Self::expand(&Prk::new_less_safe(HKDF_SHA256, &pepper.digest(PURPOSE)))
    }

    fn expand(secret: &Prk) -> Option<Self> {
        let key = hmac::Key::from(secret.expand(&[b"key"], hmac::HMAC_SHA256).ok()?);
        // No signed text begins with `id`, so the key id reveals nothing about a signature.
        let id = hmac::sign(&key, b"id");
        let id = id.as_ref()[..4]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Some(Self { id, key })
    }

    /// Returns the key id: eight hexadecimal digits.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.id)
    }
}

/// Handling of the object in a browser: the `content-disposition` type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// The browser displays the object.
    Inline,
    /// The browser saves the object.
    Attachment,
}

impl Disposition {
    /// Returns `inline` or `attachment`, as in the header `content-disposition`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Attachment => "attachment",
        }
    }
}

/// Reason why a URL is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The signature does not match this installation, object and account, or the URL was changed.
    BadSignature,
    /// The signature is valid, and the URL has expired.
    Expired,
    /// The URL names a key that is unknown or was replaced.
    UnknownKey,
}

/// A signed URL and its expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedAddress {
    /// Path and query of the URL.
    pub path: String,
    /// Expiry, in whole seconds.
    pub expires_at: Timestamp,
}

/// Signer of media URLs. It signs with the current key, and also accepts URLs that were signed with
/// the previous key.
#[derive(Clone, Debug)]
pub struct MediaAddresses {
    current: SigningKey,
    previous: Option<SigningKey>,
}

impl MediaAddresses {
    /// Creates the signer from the current and the previous key.
    pub fn new(current: SigningKey, previous: Option<SigningKey>) -> Self {
        Self { current, previous }
    }

    /// Signs a URL of an object that is stored until `retained_until`. The URL expires after
    /// [`MAX_LIFETIME`], and at the latest with the object: the URL of an object past its retention
    /// is expired from the start.
    pub fn sign(
        &self,
        account: AccountId,
        id: MediaId,
        retained_until: Timestamp,
        disposition: Disposition,
        now: Timestamp,
    ) -> SignedAddress {
        let end = now.plus(MAX_LIFETIME).min(retained_until).as_seconds();
        let key = &self.current;
        let signature = hmac::sign(&key.key, text(account, id, end, &key.id, disposition).as_bytes());
        let signature = URL_SAFE_NO_PAD.encode(signature);
        let download = match disposition {
            Disposition::Inline => "",
            Disposition::Attachment => DOWNLOAD,
        };
        SignedAddress {
            path: format!("{FOLDER}{id}?exp={end}&kid={}&sig={signature}{download}", key.id),
            expires_at: Timestamp::from_micros(end.saturating_mul(1_000_000)),
        }
    }

    /// Verifies the query of a URL of this account's object and returns the disposition in the URL.
    /// The signature is compared in constant time.
    pub fn verify(
        &self,
        account: AccountId,
        id: MediaId,
        query: &str,
        now: Timestamp,
    ) -> Result<Disposition, Refusal> {
        let query = Query::parse(query).ok_or(Refusal::BadSignature)?;
        let keys = [Some(&self.current), self.previous.as_ref()];
        let mut keys = keys.into_iter().flatten();
        let key = keys.find(|key| key.id == query.key).ok_or(Refusal::UnknownKey)?;
        let text = text(account, id, query.end, query.key, query.disposition);
        hmac::verify(&key.key, text.as_bytes(), &query.signature).map_err(|_| Refusal::BadSignature)?;
        if query.end <= now.as_seconds() {
            return Err(Refusal::Expired);
        }
        Ok(query.disposition)
    }
}

/// Query suffix of a URL with the disposition `attachment`.
const DOWNLOAD: &str = "&download=1";

/// Returns the signed text. None of its fields can contain a line break.
fn text(account: AccountId, id: MediaId, end: i64, key: &str, disposition: Disposition) -> String {
    let disposition = disposition.as_str();
    format!("{METHOD}\n{FOLDER}{id}\n{end}\n{key}\n{account}\n{disposition}")
}

/// Parsed query of a signed URL.
struct Query<'q> {
    end: i64,
    key: &'q str,
    signature: Vec<u8>,
    disposition: Disposition,
}

impl<'q> Query<'q> {
    fn parse(query: &'q str) -> Option<Self> {
        let (rest, disposition) = match query.strip_suffix(DOWNLOAD) {
            Some(rest) => (rest, Disposition::Attachment),
            None => (query, Disposition::Inline),
        };
        let (end, rest) = rest.strip_prefix("exp=")?.split_once("&kid=")?;
        let (key, signature) = rest.split_once("&sig=")?;
        let number: i64 = end.parse().ok()?;
        // A sign or a leading zero would be another spelling of the same number.
        if number.to_string() != end {
            return None;
        }
        Some(Self {
            end: number,
            key,
            signature: URL_SAFE_NO_PAD.decode(signature).ok()?,
            disposition,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ACCOUNT: AccountId = AccountId::from_u128(7);
    const OBJECT: MediaId = MediaId::from_u128(9);
    /// 2026-11-20, 13:30:00.5 UTC.
    const NOW: Timestamp = Timestamp::from_micros(1_795_181_400_500_000);

    fn key(secret: u8) -> SigningKey {
        SigningKey::new(&[secret; 32]).unwrap()
    }

    fn addresses() -> MediaAddresses {
        MediaAddresses::new(key(1), Some(key(2)))
    }

    fn signed(disposition: Disposition) -> SignedAddress {
        let retained_until = NOW.plus(MAX_LIFETIME * 2);
        addresses().sign(ACCOUNT, OBJECT, retained_until, disposition, NOW)
    }

    /// Opens a URL as a request: the path names the object.
    fn open(addresses: &MediaAddresses, path: &str, now: Timestamp) -> Result<Disposition, Refusal> {
        let (id, query) = path
            .strip_prefix(FOLDER)
            .and_then(|rest| rest.split_once('?'))
            .ok_or(Refusal::BadSignature)?;
        let id = id.parse().map_err(|_| Refusal::BadSignature)?;
        addresses.verify(ACCOUNT, id, query, now)
    }

    #[test]
    fn signed_address_opens_until_it_expires() {
        for disposition in [Disposition::Inline, Disposition::Attachment] {
            let address = signed(disposition);
            let end = address.expires_at;
            let second = Duration::from_secs(1);
            assert_eq!(open(&addresses(), &address.path, NOW), Ok(disposition));
            assert_eq!(
                open(&addresses(), &address.path, end.minus(second)),
                Ok(disposition)
            );
            assert_eq!(open(&addresses(), &address.path, end), Err(Refusal::Expired));
        }
        let path = signed(Disposition::Attachment).path;
        let id = key(1).id().to_owned();
        let start = format!("/v1/media/{OBJECT}?exp=1795786200&kid={id}&sig=");
        assert!(path.starts_with(&start), "{path}");
        assert!(path.ends_with("&download=1"), "{path}");
    }

    #[test]
    fn address_expires_with_its_object() {
        let whole = |at: Timestamp| Timestamp::from_micros(at.as_seconds() * 1_000_000);
        for (retained_until, end, opened) in [
            (
                NOW.plus(MAX_LIFETIME * 9),
                NOW.plus(MAX_LIFETIME),
                Ok(Disposition::Inline),
            ),
            (
                NOW.plus(Duration::from_secs(60)),
                NOW.plus(Duration::from_secs(60)),
                Ok(Disposition::Inline),
            ),
            (NOW, NOW, Err(Refusal::Expired)),
            (
                NOW.minus(MAX_LIFETIME),
                NOW.minus(MAX_LIFETIME),
                Err(Refusal::Expired),
            ),
        ] {
            let signed = addresses().sign(ACCOUNT, OBJECT, retained_until, Disposition::Inline, NOW);
            assert_eq!(signed.expires_at, whole(end));
            assert_eq!(open(&addresses(), &signed.path, NOW), opened, "{}", signed.path);
        }
    }

    #[test]
    fn previous_signing_key_is_accepted() {
        let path = signed(Disposition::Inline).path;
        for (current, previous, opened) in [
            (1, None, true),
            (3, Some(1), true),
            (3, Some(2), false),
            (3, None, false),
        ] {
            let addresses = MediaAddresses::new(key(current), previous.map(key));
            let expected = if opened {
                Ok(Disposition::Inline)
            } else {
                Err(Refusal::UnknownKey)
            };
            assert_eq!(open(&addresses, &path, NOW), expected, "{current} {previous:?}");
        }
    }

    #[test]
    fn keys_follow_from_their_secrets() {
        let of_pepper = |secret| SigningKey::of_installation(&Pepper::new(&[secret; 32]).unwrap()).unwrap();
        assert_eq!(of_pepper(1).id(), of_pepper(1).id());
        assert_ne!(of_pepper(1).id(), of_pepper(2).id());
        assert_ne!(of_pepper(1).id(), key(1).id());
        assert!(SigningKey::new(&[1; 31]).is_none());
    }

    #[test]
    fn no_other_account_or_object_is_opened() {
        let path = signed(Disposition::Inline).path;
        let (_, query) = path.split_once('?').unwrap();
        for (account, object) in [
            (AccountId::from_u128(8), OBJECT),
            (ACCOUNT, MediaId::from_u128(8)),
        ] {
            let refused = addresses().verify(account, object, query, NOW);
            assert_eq!(refused, Err(Refusal::BadSignature));
        }
    }

    #[test]
    fn non_canonical_addresses_are_rejected() {
        let path = signed(Disposition::Attachment).path;
        for changed in [
            path.replace("exp=", "exp=+"),
            path.replace("exp=", "exp=0"),
            path.replace("&download=1", ""),
            path.replace("&download=1", "&download=0"),
            format!("{path}&download=1"),
            format!("{path}&x=1"),
            format!("{path}="),
            path.replace("&sig=", "&sig=&sig="),
        ] {
            assert!(open(&addresses(), &changed, NOW).is_err(), "{changed}");
        }
    }

    proptest! {
        #[test]
        fn any_changed_byte_fails(place in 0..200_usize, byte in 0x20..0x7f_u8, saved in any::<bool>()) {
            let disposition = if saved { Disposition::Attachment } else { Disposition::Inline };
            let path = signed(disposition).path;
            let mut changed = path.clone().into_bytes();
            let place = place % changed.len();
            prop_assume!(changed[place] != byte);
            changed[place] = byte;
            let changed = String::from_utf8(changed).unwrap();
            prop_assert!(open(&addresses(), &changed, NOW).is_err(), "{}", changed);
        }

        #[test]
        fn missing_or_added_parts_fail(start in 0..200_usize, length in 1..20_usize, added in "[ -~]{0,20}") {
            let path = signed(Disposition::Attachment).path;
            let start = start % path.len();
            let end = (start + length).min(path.len());
            let changed = format!("{}{added}{}", &path[..start], &path[end..]);
            prop_assume!(changed != path);
            prop_assert!(open(&addresses(), &changed, NOW).is_err(), "{}", changed);
        }

        #[test]
        fn arbitrary_queries_are_rejected(query in "(exp=)?[ -~]{0,60}(&kid=)?[ -~]{0,20}(&sig=)?[ -~]{0,60}") {
            prop_assert!(addresses().verify(ACCOUNT, OBJECT, &query, NOW).is_err());
        }
    }
}
