//! The hash chain of an account's transfers. Each transfer has a sequence number and a hash that
//! covers its fields and the previous hash. Changing, removing or moving a transfer breaks the
//! chain from there on.
//!
//! A hash is the SHA-256 of these bytes; all integers are big-endian:
//!
//! ```text
//! "tollgate transfer 1"
//! previous hash, 32 bytes (zeros for the first transfer)
//! account, 16 bytes    sequence number, 8 bytes (1 for the first transfer)
//! entry, 16 bytes    leg, 2 bytes
//! amount in nano-credits, 8 bytes    time in microseconds, 8 bytes
//! price version: the byte 1 and 8 bytes; without a price version, the byte 0
//! names of subject, debit and credit: for each, its length in bytes (2 bytes), then the name
//! ```
//!
//! The PostgreSQL function `transfer_hash` computes the same hash.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use tollgate_types::AccountId;

use crate::audit::TransferRow;

/// Prefix of every hash input: the version of the encoding.
const ENCODING: &[u8] = b"tollgate transfer 1";

/// The hash of a transfer. Its text form is 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TransferHash(pub [u8; 32]);

impl TransferHash {
    /// Previous hash of the first transfer: all zeros.
    pub const BEFORE_FIRST: TransferHash = TransferHash([0; 32]);
}

impl fmt::Display for TransferHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TransferHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Error: the text is not 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashError;

impl FromStr for TransferHash {
    type Err = HashError;

    fn from_str(text: &str) -> Result<Self, HashError> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(HashError);
        }
        let mut hash = TransferHash::default();
        for (byte, pair) in hash.0.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| match digit {
                b'0'..=b'9' => Ok(digit - b'0'),
                b'a'..=b'f' => Ok(digit - b'a' + 10),
                _ => Err(HashError),
            };
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(hash)
    }
}

/// Position of a transfer in its account's chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Sequence number; the first is 1.
    pub sequence: i64,
    /// Hash of the previous transfer.
    pub previous: TransferHash,
    /// Hash of this transfer.
    pub hash: TransferHash,
}

/// Stored state of an account's chain of transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Chain {
    /// Link of the newest transfer; `None` before the first.
    pub head: Option<Link>,
    /// Number of transfers older than the chain, which have no link.
    pub unchained: u64,
}

impl TransferRow {
    /// Returns the hash of this transfer for this account, sequence number and previous hash.
    pub fn hash(&self, account: AccountId, sequence: i64, previous: TransferHash) -> TransferHash {
        let version = match self.price_version {
            None => &[0][..],
            Some(version) => &with_tag(version.as_u64().to_be_bytes())[..],
        };
        let mut digest = Sha256::new()
            .chain_update(ENCODING)
            .chain_update(previous.0)
            .chain_update(account.as_u128().to_be_bytes())
            .chain_update(sequence.to_be_bytes())
            .chain_update(self.subject.entry().to_be_bytes())
            .chain_update(self.leg.as_i16().to_be_bytes())
            .chain_update(self.amount.nanos().to_be_bytes())
            .chain_update(self.created_at.as_micros().to_be_bytes())
            .chain_update(version);
        for name in [self.subject.as_str(), self.debit.as_str(), self.credit.as_str()] {
            digest.update(u16::try_from(name.len()).unwrap_or(u16::MAX).to_be_bytes());
            digest.update(name);
        }
        TransferHash(digest.finalize().into())
    }

    /// Returns the link of this transfer after `head`; without `head`, the link of the first
    /// transfer.
    pub fn link_after(&self, account: AccountId, head: Option<Link>) -> Link {
        let sequence = head.map_or(1, |head| head.sequence + 1);
        let previous = head.map_or(TransferHash::BEFORE_FIRST, |head| head.hash);
        Link {
            sequence,
            previous,
            hash: self.hash(account, sequence, previous),
        }
    }
}

fn with_tag(value: [u8; 8]) -> [u8; 9] {
    let mut marked = [1; 9];
    marked[1..].copy_from_slice(&value);
    marked
}

#[cfg(test)]
mod tests {
    use tollgate_types::{Credits, HoldId, PriceVersion, Timestamp};

    use super::*;
    use crate::audit::{Leg, TransferSubject};

    fn settle() -> TransferRow {
        let (debit, credit) = Leg::Settle.sides();
        TransferRow {
            subject: TransferSubject::Hold(HoldId::from_u128(2)),
            leg: Leg::Settle,
            debit,
            credit,
            amount: Credits::from_nanos(30),
            created_at: Timestamp::from_micros(1_795_181_400_000_000),
            price_version: Some(PriceVersion::from_u64(9)),
            link: None,
        }
    }

    /// The expected input is written out byte by byte, because other verifiers of a chain must
    /// compute the same hash.
    #[test]
    fn the_encoding_is_the_documented_one() {
        let bytes = [
            &b"tollgate transfer 1"[..],
            &[0; 32],
            &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            &[0, 0, 0, 0, 0, 0, 0, 1],
            &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
            &[0, 2],
            &[0, 0, 0, 0, 0, 0, 0, 30],
            &1_795_181_400_000_000_i64.to_be_bytes(),
            &[1, 0, 0, 0, 0, 0, 0, 0, 9],
            b"\x00\x04hold\x00\x04hold\x00\x0drevenue:usage",
        ];
        let link = settle().link_after(AccountId::from_u128(1), None);
        assert_eq!(link.hash.0, <[u8; 32]>::from(Sha256::digest(bytes.concat())));
        assert_eq!((link.sequence, link.previous), (1, TransferHash::BEFORE_FIRST));
    }

    #[test]
    fn every_field_is_covered() {
        let (account, row) = (AccountId::from_u128(1), settle());
        let hash = |row: TransferRow| row.hash(account, 1, TransferHash::BEFORE_FIRST);
        let mut hashes = vec![
            hash(row),
            row.hash(AccountId::from_u128(9), 1, TransferHash::BEFORE_FIRST),
            row.hash(account, 2, TransferHash::BEFORE_FIRST),
            row.hash(account, 1, TransferHash([1; 32])),
        ];
        let other = TransferRow {
            subject: TransferSubject::Hold(HoldId::from_u128(3)),
            ..row
        };
        hashes.extend(
            [
                other,
                TransferRow {
                    leg: Leg::Hold,
                    ..row
                },
            ]
            .map(hash),
        );
        let (debit, credit) = (row.credit, row.debit);
        hashes.extend([TransferRow { debit, ..row }, TransferRow { credit, ..row }].map(hash));
        let amount = Credits::from_nanos(31);
        let created_at = Timestamp::from_micros(1);
        hashes.extend([TransferRow { amount, ..row }, TransferRow { created_at, ..row }].map(hash));
        for price_version in [None, Some(PriceVersion::from_u64(8))] {
            hashes.push(hash(TransferRow { price_version, ..row }));
        }
        let count = hashes.len();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), count);
    }

    #[test]
    fn text_round_trips() {
        let hash = settle().link_after(AccountId::from_u128(1), None).hash;
        assert_eq!(hash.to_string().parse(), Ok(hash));
        for text in ["", "00", &"0g".repeat(32), &"00".repeat(33), &"AB".repeat(32)] {
            assert_eq!(text.parse::<TransferHash>(), Err(HashError), "{text}");
        }
    }
}
