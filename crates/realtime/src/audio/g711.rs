//! µ-law and A-law companding of ITU-T Recommendation G.711 (11/88), with 16-bit linear samples.
//! µ-law has 14 significant bits and A-law 13; the lower bits of a linear sample are rounded.

#[cfg(test)]
mod tests;

/// Linear value of each µ-law code (table 2 of G.711, times 4).
static MU_LAW: [i16; 256] = {
    let mut table = [0; 256];
    let mut code = 0;
    while code < table.len() {
        table[code] = expand_mu_law(code as u8);
        code += 1;
    }
    table
};

/// Linear value of each A-law code (table 1 of G.711, times 8).
static A_LAW: [i16; 256] = {
    let mut table = [0; 256];
    let mut code = 0;
    while code < table.len() {
        table[code] = expand_a_law(code as u8);
        code += 1;
    }
    table
};

/// Bits of A-law codes that are inverted on the line.
const EVEN_BITS: u8 = 0x55;
/// Bit of positive values.
const POSITIVE: u8 = 0x80;
/// Value that µ-law adds before it finds the segment, in units of 14 bits.
const MU_LAW_BIAS: i16 = 33;
/// Largest biased magnitude of µ-law, in units of 14 bits.
const MU_LAW_MAX: i16 = 0x1fff;

/// Returns the linear sample of a µ-law code.
pub fn mu_law_to_linear(code: u8) -> i16 {
    MU_LAW[usize::from(code)]
}

/// Returns the linear sample of an A-law code.
pub fn a_law_to_linear(code: u8) -> i16 {
    A_LAW[usize::from(code)]
}

/// Returns the µ-law code of a linear sample. Zero is positive zero, `0xff`.
pub const fn linear_to_mu_law(sample: i16) -> u8 {
    let biased = (magnitude(sample) >> 2) + MU_LAW_BIAS;
    let biased = if biased > MU_LAW_MAX { MU_LAW_MAX } else { biased };
    let segment = 10 - biased.leading_zeros() as u8;
    let step = (biased >> (segment + 1)) as u8 & 0x0f;
    let code = !(segment << 4 | step);
    if sample < 0 { code & !POSITIVE } else { code }
}

/// Returns the A-law code of a linear sample.
pub const fn linear_to_a_law(sample: i16) -> u8 {
    let magnitude = magnitude(sample) >> 4;
    let segment = 12_u8.saturating_sub(magnitude.leading_zeros() as u8);
    let shift = segment.saturating_sub(1);
    let step = (magnitude >> shift) as u8 & 0x0f;
    let sign = if sample < 0 { 0 } else { POSITIVE };
    (sign | segment << 4 | step) ^ EVEN_BITS
}

/// Returns the absolute value; of a negative one, less 1, so that every value fits.
const fn magnitude(sample: i16) -> i16 {
    if sample < 0 { !sample } else { sample }
}

const fn expand_mu_law(code: u8) -> i16 {
    let inverted = !code;
    let segment = inverted >> 4 & 7;
    let step = (inverted & 0x0f) as i16;
    let value = (((step << 1) + MU_LAW_BIAS) << segment) - MU_LAW_BIAS;
    signed(code, value << 2)
}

const fn expand_a_law(code: u8) -> i16 {
    let bits = code ^ EVEN_BITS;
    let segment = bits >> 4 & 7;
    let step = (bits & 0x0f) as i16;
    let value = match segment {
        0 => (step << 4) + 8,
        _ => ((step << 4) + 0x108) << (segment - 1),
    };
    signed(code, value)
}

const fn signed(code: u8, magnitude: i16) -> i16 {
    if code & POSITIVE == 0 {
        -magnitude
    } else {
        magnitude
    }
}
