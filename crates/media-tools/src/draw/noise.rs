//! Deterministic pseudo-random numbers, the same on all machines.

/// Mixes the bits of a number (SplitMix64).
pub(super) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Hashes a number to a number from 0 (inclusive) to 1 (exclusive).
fn unit(number: u64) -> f32 {
    (mix(number) >> 40) as f32 / (1_u32 << 24) as f32
}

/// A pseudo-random number generator (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Rng {
    state: u64,
}

impl Rng {
    /// Creates a generator from a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: mix(seed) }
    }

    /// Returns the next 64 random bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.state)
    }

    /// Returns a random number from `low` to `high`.
    pub(crate) fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * unit(self.next())
    }

    /// Returns true with the probability `share`, 0 to 1.
    pub(crate) fn hits(&mut self, share: f32) -> bool {
        unit(self.next()) < share
    }
}

/// Returns smooth noise along a line, 0 to 1, with a wavelength of about one.
pub(super) fn along(seed: u64, x: f32) -> f32 {
    let whole = x.floor();
    let at = |step: f32| unit(seed ^ mix((whole + step) as i64 as u64));
    let t = smooth(x - whole);
    at(0.0) * (1.0 - t) + at(1.0) * t
}

/// Returns smooth noise in the plane, 0 to 1.
fn plane(seed: u64, x: f32, y: f32) -> f32 {
    let (column, row) = (x.floor(), y.floor());
    let at = |right: f32, down: f32| {
        let corner = ((column + right) as i64 as u64).wrapping_mul(0x0100_0000_01B3);
        unit(seed ^ corner ^ mix((row + down) as i64 as u64))
    };
    let (s, t) = (smooth(x - column), smooth(y - row));
    let above = at(0.0, 0.0) * (1.0 - s) + at(1.0, 0.0) * s;
    let below = at(0.0, 1.0) * (1.0 - s) + at(1.0, 1.0) * s;
    above * (1.0 - t) + below * t
}

/// Returns fractal noise along a line, 0 to 1: the weighted mean of several octaves of [`along`].
pub(super) fn rough_line(seed: u64, x: f32, octaves: u32) -> f32 {
    octave_sum(octaves, |octave, scale| along(seed ^ mix(octave), x * scale))
}

/// Returns fractal noise in the plane, 0 to 1: the weighted mean of several octaves of [`plane`].
pub(super) fn rough_plane(seed: u64, x: f32, y: f32, octaves: u32) -> f32 {
    octave_sum(octaves, |octave, scale| {
        plane(seed ^ mix(octave), x * scale, y * scale)
    })
}

fn octave_sum(octaves: u32, noise: impl Fn(u64, f32) -> f32) -> f32 {
    let (mut sum, mut weights, mut weight, mut scale) = (0.0, 0.0, 1.0, 1.0);
    for octave in 0..octaves {
        sum += weight * noise(u64::from(octave), scale);
        weights += weight;
        weight *= 0.5;
        scale *= 2.03;
    }
    sum / weights
}

/// Returns a smooth step from 0 to 1.
pub(super) fn smooth(t: f32) -> f32 {
    let t = t.clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}
