//! The text of simulated speech in the lowest bits of its samples. Frames with the text fill the
//! audio, so that any part with one complete frame is readable. Each frame contains [`SYNC`], its
//! number, the length of the text in bytes, the text, and a CRC-32 of everything after `SYNC`.
//! Every sample stores one bit; integers are big-endian.

/// Start of a frame: 24 bits with 16 ones in a row, which no UTF-8 text and no header contains.
const SYNC: u32 = 0x7F_FF_A6;
/// Number of bits of [`SYNC`].
const SYNC_BITS: usize = 24;
/// Maximum number of a frame, and maximum length of a text in bytes. The first bit is 0, so that a
/// header has at most 15 ones in a row.
const MAX_NUMBER: u16 = 0x7F_FF;
/// Size of the number and the length, and of the CRC-32, in bytes.
const HEADER_BYTES: usize = 4;
const CRC_BYTES: usize = 4;
/// Bytes of broken frames that are read, for each sample of a recording. It limits the time for
/// recordings with false frames.
const MAX_BROKEN_BYTES_PER_SAMPLE: usize = 4;

/// Writes the text into the lowest bits of the samples. Samples that are too short for a frame are
/// extended with silence. A text of more than 32,767 bytes is not written.
pub(super) fn write(samples: &mut Vec<i16>, text: &str) {
    let Some(length) = number(text.len()) else {
        return;
    };
    let frame_samples = SYNC_BITS + 8 * (HEADER_BYTES + text.len() + CRC_BYTES);
    samples.resize(samples.len().max(frame_samples), 0);
    for (number, part) in (0..=MAX_NUMBER).zip(samples.chunks_exact_mut(frame_samples)) {
        let frame = frame(number, length, text);
        let bits = frame
            .iter()
            .flat_map(|byte| (0..8).rev().map(move |shift| byte >> shift & 1));
        for (sample, bit) in part.iter_mut().zip(bits) {
            *sample = *sample & !1 | i16::from(bit);
        }
    }
}

/// Returns the texts of all utterances in their order. The frames of one utterance count once: they
/// have the same text and increasing numbers.
pub(super) fn read(samples: &[i16]) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    let mut last_number = None;
    let mut budget = samples.len().saturating_mul(MAX_BROKEN_BYTES_PER_SAMPLE);
    let mut rest = samples;
    while let Some(body) = after_sync(rest) {
        rest = body;
        let Some(frame) = Frame::parse(body, &mut budget) else {
            continue;
        };
        rest = frame.rest;
        let is_repeated = last_number < Some(frame.number) && texts.last() == Some(&frame.text);
        last_number = Some(frame.number);
        if !is_repeated {
            texts.push(frame.text);
        }
    }
    texts
}

/// A complete frame of a recording.
struct Frame<'a> {
    number: u16,
    text: String,
    /// Samples after the frame.
    rest: &'a [i16],
}

impl<'a> Frame<'a> {
    /// Parses the samples after a sync pattern. Subtracts the length of the text from the budget;
    /// returns `None` if the frame is cut or invalid, or if the budget is exhausted.
    fn parse(body: &'a [i16], budget: &mut usize) -> Option<Self> {
        let (header, rest) = body.split_at_checked(8 * HEADER_BYTES)?;
        let header = bytes(header);
        let [a, b, c, d] = *header.first_chunk()?;
        let (number, length) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        if number > MAX_NUMBER || length > MAX_NUMBER {
            return None;
        }
        let (text, rest) = rest.split_at_checked(8 * usize::from(length))?;
        let (crc, rest) = rest.split_at_checked(8 * CRC_BYTES)?;
        *budget = budget.checked_sub(usize::from(length))?;
        let text = bytes(text);
        if bytes(crc) != checksum(&header, &text) {
            return None;
        }
        let text = String::from_utf8(text).ok()?;
        Some(Self { number, text, rest })
    }
}

fn frame(number: u16, length: u16, text: &str) -> Vec<u8> {
    let header = [number.to_be_bytes(), length.to_be_bytes()].concat();
    let [_, sync @ ..] = SYNC.to_be_bytes();
    let crc = checksum(&header, text.as_bytes());
    [&sync[..], &header, text.as_bytes(), &crc].concat()
}

fn checksum(header: &[u8], text: &[u8]) -> [u8; CRC_BYTES] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header);
    hasher.update(text);
    hasher.finalize().to_be_bytes()
}

fn number(length: usize) -> Option<u16> {
    u16::try_from(length).ok().filter(|length| *length <= MAX_NUMBER)
}

/// Returns the samples after the first sync pattern.
fn after_sync(samples: &[i16]) -> Option<&[i16]> {
    let mut recent = 0_u32;
    let last = samples.iter().position(|sample| {
        recent = (recent << 1 | u32::from(bit(*sample))) & ((1 << SYNC_BITS) - 1);
        recent == SYNC
    })?;
    samples.get(last + 1..)
}

fn bytes(samples: &[i16]) -> Vec<u8> {
    let byte = |samples: &[i16]| samples.iter().fold(0, |byte, sample| byte << 1 | bit(*sample));
    samples.chunks_exact(8).map(byte).collect()
}

fn bit(sample: i16) -> u8 {
    u8::from(sample & 1 == 1)
}

#[cfg(test)]
mod tests;
