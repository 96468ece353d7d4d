//! Hashes of texts that are similar for similar texts, after Charikar (STOC 2002).

#[cfg(test)]
mod tests;

use crate::words::each_term;

/// Maximum number of different bits of near duplicates.
const MAX_DISTANCE: u32 = 3;

/// Returns the 64-bit SimHash of a text, over its terms and its pairs of adjacent terms. Case,
/// punctuation and stop words have no influence. The hash of a text without terms is 0.
pub fn simhash(text: &str) -> u64 {
    let mut sums = [0_i64; 64];
    let mut before = 0;
    let mut has_terms = false;
    each_term(text, |term| {
        let hash = hash(term.as_bytes());
        count(&mut sums, hash);
        if has_terms {
            count(&mut sums, mix(before ^ hash.rotate_left(21)));
        }
        before = hash;
        has_terms = true;
    });
    let bits = sums.iter().enumerate().filter(|(_, sum)| **sum > 0);
    bits.fold(0, |bits, (place, _)| bits | 1 << place)
}

/// Whether two hashes differ in at most 3 bits. Texts without terms are never near duplicates.
pub const fn is_near_duplicate(a: u64, b: u64) -> bool {
    a != 0 && b != 0 && (a ^ b).count_ones() <= MAX_DISTANCE
}

fn count(sums: &mut [i64; 64], hash: u64) {
    for (place, sum) in sums.iter_mut().enumerate() {
        *sum += if hash >> place & 1 == 1 { 1 } else { -1 };
    }
}

/// Returns the FNV-1a hash of bytes, with mixed bits.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    mix(bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

/// Distributes a change of one bit over all bits (the finalizer of SplitMix64).
pub(crate) const fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
