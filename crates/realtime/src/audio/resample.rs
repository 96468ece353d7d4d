//! Conversion of sample rates while the audio streams, by rubato's synchronous FFT resampler.

#[cfg(test)]
mod tests;

use std::fmt;

use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{Fft, FixedSync, Resampler as _, WindowFunction};

/// Supported samples per second.
const RATES: std::ops::RangeInclusive<u32> = 8_000..=48_000;
/// Blocks per second: a block of 10 ms passes 3.4 kHz between 8 and 24 kHz, the band of telephony.
const BLOCKS_PER_SECOND: u32 = 100;

/// Converts mono audio from one sample rate to another. The output begins with the first input
/// sample: the delay of the filter is removed. Audio of the same rate stays unchanged.
#[derive(Debug)]
pub struct Resampler {
    /// `None` if both rates are equal.
    converter: Option<Converter>,
}

impl Resampler {
    /// Creates a converter. Returns `None` if a rate is below 8 kHz or above 48 kHz.
    pub fn new(from: u32, to: u32) -> Option<Self> {
        if !RATES.contains(&from) || !RATES.contains(&to) {
            return None;
        }
        let converter = if from == to {
            None
        } else {
            Some(Converter::new(from, to)?)
        };
        Some(Self { converter })
    }

    /// Returns the output that the samples complete. The output is up to 15 ms behind.
    pub fn push(&mut self, samples: &[i16]) -> Vec<i16> {
        match &mut self.converter {
            Some(converter) => converter.push(samples),
            None => samples.to_vec(),
        }
    }

    /// Returns the remaining output, so that its total length is the input's times the ratio,
    /// rounded. The converter is then ready for other audio.
    pub fn finish(&mut self) -> Vec<i16> {
        self.converter.as_mut().map(Converter::finish).unwrap_or_default()
    }
}

/// A resampler of fixed blocks with the input that fills no block yet.
struct Converter {
    from: u64,
    to: u64,
    fft: Fft<f32>,
    /// Input that waits for the rest of its block.
    pending: Vec<f32>,
    /// Output of a block.
    block: Vec<f32>,
    /// Samples of the filter's delay that are still to be removed.
    delay: usize,
    /// Samples received since the start.
    received: u64,
    /// Samples returned since the start.
    returned: u64,
}

impl Converter {
    fn new(from: u32, to: u32) -> Option<Self> {
        let (rate, block) = (from as usize, (from / BLOCKS_PER_SECOND) as usize);
        let window = WindowFunction::BlackmanHarris2;
        let fft = Fft::new_custom(rate, to as usize, block, 1, 1, window, FixedSync::Both).ok()?;
        Some(Self {
            from: u64::from(from),
            to: u64::from(to),
            pending: Vec::with_capacity(fft.input_frames_next()),
            block: vec![0.0; fft.output_frames_next()],
            delay: fft.output_delay(),
            fft,
            received: 0,
            returned: 0,
        })
    }

    fn push(&mut self, samples: &[i16]) -> Vec<i16> {
        self.received += samples.len() as u64;
        let mut output =
            Vec::with_capacity(samples.len() * self.to as usize / self.from as usize + self.block.len());
        for sample in samples {
            self.pending.push(f32::from(*sample));
            if self.pending.len() == self.fft.input_frames_next() {
                self.convert(&mut output);
            }
        }
        self.returned += output.len() as u64;
        output
    }

    fn finish(&mut self) -> Vec<i16> {
        let total = (self.received * self.to + self.from / 2) / self.from;
        let rest = total.saturating_sub(self.returned) as usize;
        let mut output = Vec::with_capacity(rest + self.block.len());
        while output.len() < rest {
            self.pending.resize(self.fft.input_frames_next(), 0.0);
            self.convert(&mut output);
        }
        output.truncate(rest);
        self.pending.clear();
        self.fft.reset();
        self.delay = self.fft.output_delay();
        (self.received, self.returned) = (0, 0);
        output
    }

    /// Converts the pending block. The sizes fit, so rubato reports no error; silence would replace
    /// the block.
    fn convert(&mut self, output: &mut Vec<i16>) {
        let (input_frames, output_frames) = (self.pending.len(), self.block.len());
        let input = InterleavedSlice::new(&self.pending, 1, input_frames);
        let block = InterleavedSlice::new_mut(&mut self.block, 1, output_frames);
        let converted = match (input, block) {
            (Ok(input), Ok(mut block)) => self.fft.process_into_buffer(&input, &mut block, None).is_ok(),
            _ => false,
        };
        if !converted {
            self.block.fill(0.0);
        }
        self.pending.clear();
        let delay = self.delay.min(self.block.len());
        self.delay -= delay;
        // The conversion of floats to integers saturates.
        output.extend(self.block.iter().skip(delay).map(|sample| sample.round() as i16));
    }
}

impl fmt::Debug for Converter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Converter")
            .field("from", &self.from)
            .field("to", &self.to)
            .finish_non_exhaustive()
    }
}
