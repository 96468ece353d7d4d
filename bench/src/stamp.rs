//! Clock stamps inside the stub's content chunks, and the reader that finds them in a stream.
//!
//! A stamp is `t=` + 16 hexadecimal digits of [`crate::clock::now_ns`] + `;`. It is ordinary
//! content text, so it passes through every gateway unchanged, and the load tool on the same
//! machine can compute the transit time of its chunk.

/// Length of a stamp in bytes.
pub const LENGTH: usize = 19;
/// A stamp without its instant, for templates that [`write_instant`] overwrites.
pub const BLANK: &str = "t=0000000000000000;";

const DONE: &[u8] = b"data: [DONE]";

/// Writes the instant over the digits of the stamp that starts at `at`.
pub fn write_instant(event: &mut [u8], at: usize, instant_ns: u64) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = event.iter_mut().skip(at + 2).take(16);
    for (place, byte) in digits.enumerate() {
        *byte = DIGITS[(instant_ns >> (60 - 4 * place)) as usize & 15];
    }
}

/// Finds the stamps and the final `[DONE]` in the payload of one stream, however the payload was
/// split.
#[derive(Debug, Default)]
pub struct StampReader {
    tail: Vec<u8>,
    stamps: u64,
    done: bool,
}

impl StampReader {
    /// Reads the next payload bytes and calls `found` with the instant of each stamp that they
    /// complete.
    pub fn feed(&mut self, payload: &[u8], mut found: impl FnMut(u64)) {
        self.tail.extend_from_slice(payload);
        let mut used = 0;
        for end in memchr::memchr_iter(b';', &self.tail) {
            if let Some(instant) = (end + 1)
                .checked_sub(LENGTH)
                .and_then(|start| instant(&self.tail[start..end]))
            {
                self.stamps += 1;
                found(instant);
            }
            used = end + 1;
        }
        self.done |= memchr::memmem::find(&self.tail, DONE).is_some();
        let keep_from = self.tail.len().saturating_sub(LENGTH).max(used);
        self.tail.drain(..keep_from);
    }

    /// Returns the number of stamps read so far.
    pub fn stamps(&self) -> u64 {
        self.stamps
    }

    /// Returns whether `data: [DONE]` was read.
    pub fn done(&self) -> bool {
        self.done
    }
}

fn instant(stamp: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(stamp.strip_prefix(b"t=")?).ok()?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_found_however_the_stream_is_cut() {
        let mut stream = Vec::new();
        for instant_ns in [1_u64, 0xfedc_ba98_7654_3210, 77] {
            let start = stream.len() + 9;
            stream.extend_from_slice(format!("data: {{\"{BLANK}\"}}\n\n").as_bytes());
            write_instant(&mut stream, start - 1, instant_ns);
        }
        stream.extend_from_slice(b"data: [DONE]\n\n");
        for step in 1..stream.len() {
            let mut reader = StampReader::default();
            let mut seen = Vec::new();
            for chunk in stream.chunks(step) {
                reader.feed(chunk, |instant_ns| seen.push(instant_ns));
            }
            assert_eq!(seen, [1, 0xfedc_ba98_7654_3210, 77], "step {step}");
            assert_eq!(reader.stamps(), 3);
            assert!(reader.done());
        }
    }

    #[test]
    fn other_semicolons_are_no_stamps() {
        let mut reader = StampReader::default();
        reader.feed(b"; t=xyz; charset=utf-8; a stamp must be t=00;", |_| {});
        assert_eq!(reader.stamps(), 0);
        assert!(!reader.done());
    }
}
