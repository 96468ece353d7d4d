//! PCM audio: 16-bit little-endian samples, WAV files and durations.

/// Size of the header of a WAV file whose format has no extension.
pub const WAV_HEADER_BYTES: usize = 44;

/// Bytes of a 16-bit sample.
const SAMPLE_BYTES: u16 = 2;
/// Format tag of integer PCM.
const PCM_TAG: u16 = 1;

/// Parses 16-bit little-endian samples. Returns `None` if half a sample is left.
pub fn from_le_bytes(bytes: &[u8]) -> Option<Vec<i16>> {
    let (samples, rest) = bytes.as_chunks::<2>();
    rest.is_empty()
        .then(|| samples.iter().copied().map(i16::from_le_bytes).collect())
}

/// Writes samples in 16 bits, little-endian.
pub fn to_le_bytes(samples: &[i16]) -> Vec<u8> {
    samples.iter().flat_map(|sample| sample.to_le_bytes()).collect()
}

/// Returns a WAV file of mono samples: a RIFF header with `fmt ` and `data` chunks (Microsoft's
/// "Multimedia Programming Interface and Data Specifications 1.0") and the samples.
pub fn wav(samples: &[i16], rate: u32) -> Vec<u8> {
    let data = u32::try_from(samples.len() * usize::from(SAMPLE_BYTES)).unwrap_or(u32::MAX);
    let mut file = Vec::with_capacity(WAV_HEADER_BYTES + samples.len() * usize::from(SAMPLE_BYTES));
    file.extend(b"RIFF");
    file.extend(data.saturating_add(36).to_le_bytes());
    file.extend(b"WAVEfmt ");
    file.extend(16_u32.to_le_bytes());
    file.extend(PCM_TAG.to_le_bytes());
    file.extend(1_u16.to_le_bytes());
    file.extend(rate.to_le_bytes());
    file.extend((rate * u32::from(SAMPLE_BYTES)).to_le_bytes());
    file.extend(SAMPLE_BYTES.to_le_bytes());
    file.extend((SAMPLE_BYTES * 8).to_le_bytes());
    file.extend(b"data");
    file.extend(data.to_le_bytes());
    file.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
    file
}

/// Returns the duration of samples in microseconds, rounded down. A rate of 0 counts as 1.
pub const fn duration_us(samples: usize, rate: u32) -> u64 {
    let rate = if rate == 0 { 1 } else { rate as u64 };
    samples as u64 * 1_000_000 / rate
}

/// Returns the number of samples in a duration, rounded down.
pub const fn samples_in_ms(ms: u64, rate: u32) -> usize {
    (ms * rate as u64 / 1_000) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn wav_files_have_the_header_of_the_specification() {
        let file = wav(&[1, -2], 24_000);
        let expected = b"RIFF\x28\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\xc0\x5d\0\0\x80\xbb\0\0\x02\0\x10\0\
            data\x04\0\0\0\x01\0\xfe\xff";
        assert_eq!(file, expected);
        assert_eq!(wav(&[], 8_000).len(), WAV_HEADER_BYTES);
    }

    #[test]
    fn durations_are_integers() {
        for (samples, rate, us) in [
            (24_000, 24_000, 1_000_000),
            (1, 24_000, 41),
            (0, 8_000, 0),
            (3, 0, 3_000_000),
        ] {
            assert_eq!(duration_us(samples, rate), us, "{samples} at {rate}");
        }
        assert_eq!(samples_in_ms(100, 24_000), 2_400);
        assert_eq!(samples_in_ms(1, 22_050), 22);
    }

    proptest! {
        #[test]
        fn samples_survive_bytes(samples: Vec<i16>) {
            let mut bytes = to_le_bytes(&samples);
            prop_assert_eq!(from_le_bytes(&bytes), Some(samples));
            bytes.push(0);
            prop_assert_eq!(from_le_bytes(&bytes), None);
        }
    }
}
