//! Addresses of media that whoever has them may open for a while, without a key: `/v1/media/{id}?exp=…&kid=…&sig=…`.
//!
//! The signature is an HMAC-SHA-256 over method, path, end, key id, account and disposition. An address has one way to be
//! written: what differs from it in a byte is no address.

use std::fmt;
use std::time::Duration;

use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tollgate_types::{AccountId, MediaId, Timestamp};

use crate::secret::Pepper;

/// The longest that an address can be opened.
pub const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

/// What addresses begin with.
const FOLDER: &str = "/v1/media/";
/// What is allowed. A HEAD is a GET whose body nobody wants.
const METHOD: &str = "GET";
/// What the keys are for, and nothing else.
const PURPOSE: &str = "media addresses";

/// A key that addresses are signed with, and the id by which they name it.
#[derive(Clone)]
pub struct SigningKey {
    id: String,
    key: hmac::Key,
}

impl SigningKey {
    /// The key that follows from a secret of at least 32 bytes (HKDF, RFC 5869); `None` when there are fewer.
    pub fn new(secret: &[u8]) -> Option<Self> {
        if secret.len() < 32 {
            return None;
        }
        Self::expand(&Salt::new(HKDF_SHA256, PURPOSE.as_bytes()).extract(secret))
    }

    /// The key that follows from the installation's pepper.
    pub fn of_installation(pepper: &Pepper) -> Option<Self> {
        // HKDF's first step with the pepper as its salt: an HMAC under the pepper.
        Self::expand(&Prk::new_less_safe(HKDF_SHA256, &pepper.digest(PURPOSE)))
    }

    fn expand(secret: &Prk) -> Option<Self> {
        let key = hmac::Key::from(secret.expand(&[b"key"], hmac::HMAC_SHA256).ok()?);
        // No address begins like this, so the id says nothing of a signature.
        let id = hmac::sign(&key, b"id");
        let id = id.as_ref()[..4]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Some(Self { id, key })
    }

    /// Eight hexadecimal digits.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.id)
    }
}

/// What a browser is to do with the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Show it.
    Inline,
    /// Save it.
    Attachment,
}

impl Disposition {
    /// `inline` or `attachment`, as the header `content-disposition` has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Attachment => "attachment",
        }
    }
}

/// Why an address is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It was not signed by this installation for this object, or was changed since.
    BadSignature,
    /// It was signed, and its time is over.
    Expired,
    /// It names a key that is not in use, or not any more.
    UnknownKey,
}

/// An address, and until when it can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedAddress {
    /// Path and query.
    pub path: String,
    /// A whole second.
    pub expires_at: Timestamp,
}

/// Signs addresses with one key, and knows those that were signed with the one before it, too.
#[derive(Clone, Debug)]
pub struct MediaAddresses {
    current: SigningKey,
    previous: Option<SigningKey>,
}

impl MediaAddresses {
    /// With these keys.
    pub fn new(current: SigningKey, previous: Option<SigningKey>) -> Self {
        Self { current, previous }
    }

    /// An address of an object that is kept until `kept_until`: it can be opened for [`LONGEST`], and no longer than
    /// the object is kept. `None` when that is less than a second.
    pub fn sign(
        &self,
        account: AccountId,
        id: MediaId,
        kept_until: Timestamp,
        disposition: Disposition,
        now: Timestamp,
    ) -> Option<SignedAddress> {
        let end = now.plus(LONGEST).min(kept_until).as_seconds();
        if end <= now.as_seconds() {
            return None;
        }
        let key = &self.current;
        let signature = hmac::sign(&key.key, text(account, id, end, &key.id, disposition).as_bytes());
        let signature = URL_SAFE_NO_PAD.encode(signature);
        let download = match disposition {
            Disposition::Inline => "",
            Disposition::Attachment => DOWNLOAD,
        };
        Some(SignedAddress {
            path: format!("{FOLDER}{id}?exp={end}&kid={}&sig={signature}{download}", key.id),
            expires_at: Timestamp::from_micros(end.saturating_mul(1_000_000)),
        })
    }

    /// What is to be done with the object of this account, by the query of its address. The signature is compared in a
    /// time that does not depend on where it differs.
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

/// What ends an address of something to be saved.
const DOWNLOAD: &str = "&download=1";

/// What is signed. No part of it can have a line's end in it.
fn text(account: AccountId, id: MediaId, end: i64, key: &str, disposition: Disposition) -> String {
    let disposition = disposition.as_str();
    format!("{METHOD}\n{FOLDER}{id}\n{end}\n{key}\n{account}\n{disposition}")
}

/// What stands behind the path.
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
        // A sign or a zero in front would be another way to write the same.
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
        let kept_until = NOW.plus(LONGEST * 2);
        let address = addresses().sign(ACCOUNT, OBJECT, kept_until, disposition, NOW);
        address.unwrap()
    }

    /// An address as it comes in: the object is the one that its path names.
    fn open(addresses: &MediaAddresses, path: &str, now: Timestamp) -> Result<Disposition, Refusal> {
        let (id, query) = path
            .strip_prefix(FOLDER)
            .and_then(|rest| rest.split_once('?'))
            .ok_or(Refusal::BadSignature)?;
        let id = id.parse().map_err(|_| Refusal::BadSignature)?;
        addresses.verify(ACCOUNT, id, query, now)
    }

    #[test]
    fn what_was_signed_is_opened_until_its_end() {
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
    fn an_address_ends_with_its_object() {
        let sign = |kept_until| {
            let address = addresses().sign(ACCOUNT, OBJECT, kept_until, Disposition::Inline, NOW);
            address.map(|address| address.expires_at)
        };
        let seconds = |seconds| NOW.plus(Duration::from_secs(seconds));
        let whole = |at: Timestamp| Some(Timestamp::from_micros(at.as_seconds() * 1_000_000));
        assert_eq!(sign(seconds(60)), whole(seconds(60)));
        assert_eq!(sign(NOW.plus(LONGEST * 9)), whole(NOW.plus(LONGEST)));
        assert_eq!(sign(NOW), None);
        assert_eq!(sign(NOW.minus(LONGEST)), None);
    }

    #[test]
    fn keys_are_changed_one_by_one() {
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
    fn an_address_is_written_in_one_way() {
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
        fn any_piece_that_is_missing_or_added_fails(start in 0..200_usize, length in 1..20_usize, added in "[ -~]{0,20}") {
            let path = signed(Disposition::Attachment).path;
            let start = start % path.len();
            let end = (start + length).min(path.len());
            let changed = format!("{}{added}{}", &path[..start], &path[end..]);
            prop_assume!(changed != path);
            prop_assert!(open(&addresses(), &changed, NOW).is_err(), "{}", changed);
        }

        #[test]
        fn whatever_comes_is_read(query in "(exp=)?[ -~]{0,60}(&kid=)?[ -~]{0,20}(&sig=)?[ -~]{0,60}") {
            prop_assert!(addresses().verify(ACCOUNT, OBJECT, &query, NOW).is_err());
        }
    }
}
