//! Speech without a program: a voiced tone of 60 ms for each letter or digit. The tone has a pitch,
//! harmonics and three formants, so that voice activity detectors classify it as speech.

use std::f32::consts::TAU;

use tollgate_media_tools::speech::SAMPLE_RATE;

/// Durations at speed 1, in milliseconds: a letter, a space, and the end of a sentence.
const LETTER_MS: f64 = 60.0;
const SPACE_MS: f64 = 40.0;
const SENTENCE_MS: f64 = 200.0;
/// Pitches of the voices, in hertz.
const PITCHES: [f32; 8] = [120.0, 180.0, 105.0, 200.0, 135.0, 165.0, 112.0, 150.0];
/// Deviation of the pitch, as a share of it, and its frequency in hertz.
const VIBRATO: (f32, f32) = (0.06, 2.7);
/// Formants of vowels in hertz, of an average speaker.
const FORMANTS: [[f32; 3]; 6] = [
    [730.0, 1_090.0, 2_440.0],
    [530.0, 1_840.0, 2_480.0],
    [270.0, 2_290.0, 3_010.0],
    [570.0, 840.0, 2_410.0],
    [300.0, 870.0, 2_240.0],
    [490.0, 1_350.0, 1_690.0],
];
/// Vowels of the first five [`FORMANTS`].
const VOWELS: [char; 5] = ['a', 'e', 'i', 'o', 'u'];
/// Rows of [`FORMANTS`] for all other letters and digits.
const OTHERS: [usize; 2] = [5, 2];
/// Amplitudes of the formants, and their bandwidths in hertz.
const FORMANT_SHAPES: [(f32, f32); 3] = [(1.0, 90.0), (0.5, 110.0), (0.25, 170.0)];
/// Highest frequency of a harmonic, in hertz.
const MAX_HARMONIC: f32 = 4_500.0;
/// Peak amplitude of a vowel, and the share of it that other letters have.
const VOWEL_AMPLITUDE: f32 = 18_000.0;
const CONSONANT_SHARE: f32 = 0.7;
/// Number of values of one period of a tone.
const PERIOD_VALUES: usize = 512;
/// Time in which amplitude and timbre follow a new letter, in seconds.
const TRANSITION_SECONDS: f32 = 0.008;

/// One period of a tone.
type Period = Vec<f32>;

/// Returns the samples of a text at [`SAMPLE_RATE`]; none if it has no letter or digit. Equal
/// numbers of a voice have equal pitches. The speed is at least 0.25.
pub(super) fn samples(text: &str, speed: f64, voice: u64) -> Vec<i16> {
    if !text.chars().any(char::is_alphanumeric) {
        return Vec::new();
    }
    let pitch = pitch(voice);
    let tones = FORMANTS.map(|formants| period(pitch, formants));
    let mut buzz = Buzz::new(pitch, &tones);
    for letter in text.chars() {
        let Some((duration_ms, tone, amplitude)) = utterance(letter) else {
            continue;
        };
        let count = duration_ms / 1_000.0 / speed.max(0.25) * f64::from(SAMPLE_RATE);
        buzz.play(count as usize, tone, amplitude);
    }
    buzz.samples
}

/// Returns the duration of a character in milliseconds, its row of [`FORMANTS`] and its amplitude;
/// `None` for characters without a duration.
fn utterance(letter: char) -> Option<(f64, usize, f32)> {
    let vowel = VOWELS
        .iter()
        .position(|vowel| letter.to_ascii_lowercase() == *vowel);
    match (vowel, letter) {
        (Some(vowel), _) => Some((LETTER_MS, vowel, VOWEL_AMPLITUDE)),
        (None, letter) if letter.is_alphanumeric() => {
            let tone = OTHERS
                .get(letter as usize % OTHERS.len())
                .copied()
                .unwrap_or_default();
            Some((LETTER_MS, tone, VOWEL_AMPLITUDE * CONSONANT_SHARE))
        }
        (None, '.' | '!' | '?' | '…' | '。' | '！' | '？') => Some((SENTENCE_MS, 0, 0.0)),
        (None, letter) if letter.is_whitespace() => Some((SPACE_MS, 0, 0.0)),
        _ => None,
    }
}

/// State of the tone between letters.
struct Buzz<'a> {
    tones: &'a [Period],
    /// Weights of the tones in the current timbre.
    weights: Vec<f32>,
    pitch: f32,
    amplitude: f32,
    /// Position in the period, from 0 to 1.
    phase: f32,
    samples: Vec<i16>,
}

impl<'a> Buzz<'a> {
    fn new(pitch: f32, tones: &'a [Period]) -> Self {
        Self {
            tones,
            weights: vec![0.0; tones.len()],
            pitch,
            amplitude: 0.0,
            phase: 0.0,
            samples: Vec::new(),
        }
    }

    fn play(&mut self, count: usize, tone: usize, amplitude: f32) {
        let rate = SAMPLE_RATE as f32;
        let step = 1.0 / (TRANSITION_SECONDS * rate);
        let is_pause = amplitude == 0.0;
        for _ in 0..count {
            self.amplitude += (amplitude - self.amplitude) * step;
            let value = self.value(tone, if is_pause { 0.0 } else { step });
            self.samples.push((value * self.amplitude) as i16);
            let time = self.samples.len() as f32 / rate;
            let bend = 1.0 + VIBRATO.0 * (TAU * VIBRATO.1 * time).sin();
            self.phase = (self.phase + self.pitch * bend / rate).fract();
        }
    }

    /// Moves the timbre by `step` towards a tone, and returns its value.
    fn value(&mut self, tone: usize, step: f32) -> f32 {
        let place = (self.phase * PERIOD_VALUES as f32) as usize;
        let mut value = 0.0;
        for (number, (weight, period)) in self.weights.iter_mut().zip(self.tones).enumerate() {
            let target = if number == tone { 1.0 } else { 0.0 };
            *weight += (target - *weight) * step;
            value += *weight * period.get(place).copied().unwrap_or_default();
        }
        value
    }
}

fn pitch(voice: u64) -> f32 {
    let place = usize::try_from(voice % PITCHES.len() as u64).unwrap_or_default();
    PITCHES.get(place).copied().unwrap_or(120.0)
}

/// Returns one period of a tone with a peak of 1.
fn period(pitch: f32, formants: [f32; 3]) -> Period {
    let count = (MAX_HARMONIC / pitch) as usize;
    let harmonics: Vec<(f32, f32)> = (1..=count)
        .map(|number| (number as f32, strength(number as f32 * pitch, formants)))
        .collect();
    let turns = (0..PERIOD_VALUES).map(|place| place as f32 / PERIOD_VALUES as f32 * TAU);
    let values = turns.map(|turn| {
        let parts = harmonics.iter();
        parts
            .map(|(number, strength)| strength * (turn * number).cos())
            .sum()
    });
    let values: Vec<f32> = values.collect();
    let peak = values
        .iter()
        .fold(f32::EPSILON, |peak: f32, value| peak.max(value.abs()));
    values.into_iter().map(|value| value / peak).collect()
}

/// Returns the amplitude of a harmonic at this frequency.
fn strength(hertz: f32, formants: [f32; 3]) -> f32 {
    let resonances = formants
        .into_iter()
        .zip(FORMANT_SHAPES)
        .map(|(formant, (gain, width))| {
            let offset = (hertz - formant) / width;
            gain / (1.0 + offset * offset)
        });
    resonances.sum()
}

#[cfg(test)]
mod tests;
