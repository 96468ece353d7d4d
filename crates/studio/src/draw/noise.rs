//! Chance that is the same everywhere and at any time.

/// Mixes a number thoroughly (SplitMix64).
pub(super) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A number from 0 to 1 that stands for another.
fn unit(number: u64) -> f32 {
    (mix(number) >> 40) as f32 / (1_u32 << 24) as f32
}

/// A row of dice.
#[derive(Clone, Debug)]
pub(crate) struct Chance {
    state: u64,
}

impl Chance {
    /// The row that this number begins.
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: mix(seed) }
    }

    /// The next number of 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.state)
    }

    /// A number between two.
    pub(crate) fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * unit(self.next())
    }

    /// True this often of 1.
    pub(crate) fn hits(&mut self, share: f32) -> bool {
        unit(self.next()) < share
    }
}

/// Noise along a line: smooth, between 0 and 1, with bends about one apart.
pub(super) fn along(seed: u64, x: f32) -> f32 {
    let whole = x.floor();
    let at = |step: f32| unit(seed ^ mix((whole + step) as i64 as u64));
    let t = smooth(x - whole);
    at(0.0) * (1.0 - t) + at(1.0) * t
}

/// Noise in the plane: smooth, between 0 and 1.
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

/// Noise along a line with finer noise upon it.
pub(super) fn rough_line(seed: u64, x: f32, octaves: u32) -> f32 {
    octave_sum(octaves, |octave, scale| along(seed ^ mix(octave), x * scale))
}

/// Noise in the plane with finer noise upon it.
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

/// From 0 to 1 without a bend at either end.
pub(super) fn smooth(t: f32) -> f32 {
    let t = t.clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}
