//! Encryption of tenant data at rest: without the pepper, encrypted data in a stolen database
//! cannot be read.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use tollgate_types::AccountId;

use crate::secret::Pepper;

/// First byte of an encrypted text: version of the format.
const VERSION: u8 = 1;
const HEADER: usize = 1 + NONCE_LEN;

/// Error of a text that could not be encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealError;

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the text cannot be encrypted")
    }
}

impl std::error::Error for SealError {}

/// Encryption of texts with AES-256-GCM-SIV (RFC 8452). Each account has its own key, derived from
/// the installation's pepper. A text can be decrypted only for the account and id for which it was
/// encrypted.
#[derive(Clone)]
pub struct Vault(Pepper);

impl Vault {
    /// Creates the vault of the installation with this pepper.
    pub fn new(pepper: Pepper) -> Self {
        Self(pepper)
    }

    /// Encrypts a text and binds it to this account and id.
    pub fn seal(&self, account: AccountId, id: u128, text: &[u8]) -> Result<Vec<u8>, SealError> {
        let key = self.key(account).ok_or(SealError)?;
        let mut body = text.to_vec();
        let nonce = key
            .seal_in_place_append_tag(bound_to(id), &mut body)
            .map_err(|_| SealError)?;
        let mut sealed = Vec::with_capacity(HEADER + body.len());
        sealed.push(VERSION);
        sealed.extend_from_slice(nonce.as_ref());
        sealed.append(&mut body);
        Ok(sealed)
    }

    /// Decrypts a text; `None` if the text was not encrypted with this pepper for this account and
    /// id, or was changed.
    pub fn open(&self, account: AccountId, id: u128, sealed: &[u8]) -> Option<Vec<u8>> {
        let (header, body) = sealed.split_at_checked(HEADER)?;
        let (version, nonce) = header.split_first()?;
        if *version != VERSION {
            return None;
        }
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut text = body.to_vec();
        let opened = self
            .key(account)?
            .open_in_place(nonce, bound_to(id), &mut text)
            .ok()?
            .len();
        text.truncate(opened);
        Some(text)
    }

    /// Returns the webhook signing key of an account. `number` counts the account's successive
    /// keys.
    pub fn webhook_key(&self, account: AccountId, number: u32) -> [u8; 32] {
        self.0.digest(&format!("webhook {account} {number}"))
    }

    fn key(&self, account: AccountId) -> Option<RandomizedNonceKey> {
        let secret = self.0.digest(&format!("vault {account}"));
        RandomizedNonceKey::new(&AES_256_GCM_SIV, &secret).ok()
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vault(…)")
    }
}

fn bound_to(id: u128) -> Aad<[u8; 16]> {
    Aad::from(id.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNT: AccountId = AccountId::from_u128(7);

    fn vault(secret: u8) -> Vault {
        Vault::new(Pepper::new(&[secret; 32]).unwrap())
    }

    #[test]
    fn open_returns_the_sealed_text() {
        for text in [&b""[..], b"what was said", &[0; 70_000]] {
            let sealed = vault(1).seal(ACCOUNT, 5, text).unwrap();
            assert_eq!(vault(1).open(ACCOUNT, 5, &sealed).unwrap(), text);
            assert!(text.is_empty() || !sealed.windows(text.len()).any(|part| part == text));
        }
        let twice = [(); 2].map(|()| vault(1).seal(ACCOUNT, 5, b"same").unwrap());
        assert_ne!(twice[0], twice[1]);
    }

    #[test]
    fn open_rejects_other_accounts_ids_and_changed_bytes() {
        let sealed = vault(1).seal(ACCOUNT, 5, b"what was said").unwrap();
        assert_eq!(vault(2).open(ACCOUNT, 5, &sealed), None);
        assert_eq!(vault(1).open(AccountId::from_u128(8), 5, &sealed), None);
        assert_eq!(vault(1).open(ACCOUNT, 6, &sealed), None);
        for place in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[place] ^= 1;
            assert_eq!(vault(1).open(ACCOUNT, 5, &changed), None, "{place}");
            assert_eq!(vault(1).open(ACCOUNT, 5, &sealed[..place]), None, "{place}");
        }
    }
}
