//! Audio of clients and models: sample formats and sample rates. All audio is mono.

pub mod g711;
pub mod pcm;
mod resample;

pub use resample::Resampler;

/// Encoding of a client's audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AudioEncoding {
    /// 16-bit little-endian samples at 24 kHz, `audio/pcm`.
    Pcm16,
    /// G.711 µ-law at 8 kHz, `audio/pcmu`.
    MuLaw,
    /// G.711 A-law at 8 kHz, `audio/pcma`.
    ALaw,
}

impl AudioEncoding {
    /// Returns the samples per second.
    pub const fn sample_rate(self) -> u32 {
        match self {
            Self::Pcm16 => 24_000,
            Self::MuLaw | Self::ALaw => 8_000,
        }
    }

    /// Returns the size of a sample.
    pub const fn bytes_per_sample(self) -> usize {
        match self {
            Self::Pcm16 => 2,
            Self::MuLaw | Self::ALaw => 1,
        }
    }

    /// Decodes bytes to samples of the same rate. Returns `None` if the last sample is incomplete.
    pub fn decode(self, bytes: &[u8]) -> Option<Vec<i16>> {
        match self {
            Self::Pcm16 => pcm::from_le_bytes(bytes),
            Self::MuLaw => Some(bytes.iter().map(|code| g711::mu_law_to_linear(*code)).collect()),
            Self::ALaw => Some(bytes.iter().map(|code| g711::a_law_to_linear(*code)).collect()),
        }
    }

    /// Encodes samples of the same rate.
    pub fn encode(self, samples: &[i16]) -> Vec<u8> {
        match self {
            Self::Pcm16 => pcm::to_le_bytes(samples),
            Self::MuLaw => samples
                .iter()
                .map(|sample| g711::linear_to_mu_law(*sample))
                .collect(),
            Self::ALaw => samples
                .iter()
                .map(|sample| g711::linear_to_a_law(*sample))
                .collect(),
        }
    }
}

/// Converts the speech of a model to the bytes that a client receives, while it streams.
#[derive(Debug)]
pub struct OutputEncoder {
    resampler: Resampler,
    encoding: AudioEncoding,
}

impl OutputEncoder {
    /// Creates an encoder for samples of a rate. Returns `None` for a rate that [`Resampler::new`]
    /// refuses.
    pub fn new(from_rate: u32, encoding: AudioEncoding) -> Option<Self> {
        let resampler = Resampler::new(from_rate, encoding.sample_rate())?;
        Some(Self { resampler, encoding })
    }

    /// Returns the bytes that the samples complete.
    pub fn push(&mut self, samples: &[i16]) -> Vec<u8> {
        self.encoding.encode(&self.resampler.push(samples))
    }

    /// Returns the remaining bytes. The encoder is then ready for other audio.
    pub fn finish(&mut self) -> Vec<u8> {
        self.encoding.encode(&self.resampler.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_state_sizes_and_durations() {
        for (encoding, rate, bytes) in [
            (AudioEncoding::Pcm16, 24_000, 2),
            (AudioEncoding::MuLaw, 8_000, 1),
            (AudioEncoding::ALaw, 8_000, 1),
        ] {
            assert_eq!(
                (encoding.sample_rate(), encoding.bytes_per_sample()),
                (rate, bytes)
            );
        }
        assert_eq!(AudioEncoding::Pcm16.decode(&[1, 2, 3]), None);
    }

    #[test]
    fn speech_becomes_bytes_of_the_client() {
        let samples: Vec<i16> = (0..24_000).map(|n| (n % 200 - 100) * 50).collect();
        let mut encoder = OutputEncoder::new(24_000, AudioEncoding::Pcm16).unwrap();
        let mut bytes = encoder.push(&samples);
        bytes.extend(encoder.finish());
        assert_eq!(AudioEncoding::Pcm16.decode(&bytes).unwrap(), samples);
        for encoding in [AudioEncoding::MuLaw, AudioEncoding::ALaw] {
            let mut encoder = OutputEncoder::new(24_000, encoding).unwrap();
            let mut bytes = Vec::new();
            for chunk in samples.chunks(700) {
                bytes.extend(encoder.push(chunk));
            }
            bytes.extend(encoder.finish());
            assert_eq!(bytes.len(), 8_000);
            assert_eq!(encoding.encode(&encoding.decode(&bytes).unwrap()), bytes);
        }
        assert!(OutputEncoder::new(0, AudioEncoding::Pcm16).is_none());
    }
}
