//! Synthesis of music: selects the notes and renders their waveform.

use std::f32::consts::TAU;

use crate::draw::noise::Rng;
use crate::video::SAMPLE_RATE;

use super::Mood;

/// Number of samples of one period of the waveform.
const WAVE_SAMPLES: usize = 2_048;
/// Time for which a chord decays after its end, in seconds.
const RELEASE_SECONDS: f32 = 1.6;
/// Frequency ratio between the two channels.
const DETUNE: f32 = 1.0025;
/// Overall volume, 0 to 1.
const LOUDNESS: f32 = 0.5;
/// Delay of the echo in seconds, and its share of the signal.
const ECHO: (f32, f32) = (0.41, 0.34);

/// Parameters of a mood.
struct MoodStyle {
    /// Sequences of four chords. The notes of a chord are offsets from the key, in half tones.
    rows: &'static [[[i32; 4]; 4]],
    /// Duration of a chord in seconds.
    chord: f32,
    /// The lowest key as a MIDI note: 60 is middle C.
    key: i32,
    /// Maximum number of plucked notes during a chord.
    plucks: u32,
    /// Probability of each plucked note.
    share: f32,
    /// Strength of the second harmonic, from which the higher ones follow. Strong harmonics make
    /// the timbre sharper.
    edge: f32,
}

const MAJOR: [i32; 4] = [0, 7, 12, 16];
const MINOR: [i32; 4] = [0, 7, 12, 15];

/// Returns a chord, transposed by `step` half tones.
const fn on(step: i32, chord: [i32; 4]) -> [i32; 4] {
    let [a, b, c, d] = chord;
    [a + step, b + step, c + step, d + step]
}

const CALM: MoodStyle = MoodStyle {
    rows: &[
        [on(0, MAJOR), on(9, MINOR), on(5, MAJOR), on(7, MAJOR)],
        [on(0, MAJOR), on(4, MINOR), on(5, MAJOR), on(5, MAJOR)],
        [
            on(0, [0, 7, 14, 16]),
            on(5, [0, 7, 11, 16]),
            on(0, MAJOR),
            on(7, [0, 5, 12, 14]),
        ],
    ],
    chord: 5.0,
    key: 45,
    plucks: 4,
    share: 0.25,
    edge: 0.2,
};
const BRIGHT: MoodStyle = MoodStyle {
    rows: &[
        [on(0, MAJOR), on(7, MAJOR), on(9, MINOR), on(5, MAJOR)],
        [on(5, MAJOR), on(0, MAJOR), on(7, MAJOR), on(9, MINOR)],
        [on(0, MAJOR), on(5, MAJOR), on(2, MINOR), on(7, MAJOR)],
    ],
    chord: 2.4,
    key: 48,
    plucks: 8,
    share: 0.85,
    edge: 0.35,
};
const TENSE: MoodStyle = MoodStyle {
    rows: &[
        [on(0, MINOR), on(-4, MAJOR), on(0, MINOR), on(-2, MAJOR)],
        [on(0, MINOR), on(1, MAJOR), on(0, MINOR), on(-5, MINOR)],
        [on(0, [0, 7, 12, 14]), on(0, MINOR), on(-4, MAJOR), on(-5, MAJOR)],
    ],
    chord: 3.6,
    key: 40,
    plucks: 12,
    share: 0.7,
    edge: 0.5,
};
const WARM: MoodStyle = MoodStyle {
    rows: &[
        [
            on(0, [0, 7, 11, 16]),
            on(9, [0, 7, 10, 15]),
            on(2, [0, 7, 10, 15]),
            on(7, [0, 7, 10, 16]),
        ],
        [
            on(5, [0, 7, 11, 16]),
            on(4, [0, 7, 10, 15]),
            on(2, [0, 7, 10, 15]),
            on(0, [0, 7, 11, 16]),
        ],
    ],
    chord: 3.8,
    key: 43,
    plucks: 6,
    share: 0.4,
    edge: 0.3,
};

/// A note of a score.
struct Note {
    /// Start time, in samples.
    from: u64,
    /// End time, in samples.
    to: u64,
    attack: f32,
    /// Decay time before the end, in seconds. A plucked note decays from its start.
    release: f32,
    hertz: f32,
    loudness: f32,
    /// Stereo position from 0 (left) to 1 (right).
    side: f32,
}

/// Notes of a score, sorted by start, and the waveform of their tones.
pub(super) struct Score {
    notes: Vec<Note>,
    wave: Vec<f32>,
}

impl Score {
    /// Composes a score with this duration.
    pub(super) fn new(mood: Mood, rng: &mut Rng, seconds: f64) -> Self {
        let style = match mood {
            Mood::Calm => CALM,
            Mood::Bright => BRIGHT,
            Mood::Tense => TENSE,
            Mood::Warm => WARM,
        };
        let key = style.key + (rng.next() % 6) as i32;
        let chosen = rng.next() as usize % style.rows.len();
        let row = style.rows.get(chosen).copied().unwrap_or_default();
        let bars = (seconds / f64::from(style.chord)).ceil() as usize;
        let mut notes = Vec::new();
        for (bar, chord) in row.into_iter().cycle().take(bars).enumerate() {
            let from = bar as f32 * style.chord;
            let bass = chord.first().map(|note| note - 12);
            for (voice, tone) in (0..).zip(bass.into_iter().chain(chord)) {
                notes.push(Note {
                    from: at(from),
                    to: at(from + style.chord + RELEASE_SECONDS),
                    attack: 0.9,
                    release: RELEASE_SECONDS + 0.4,
                    hertz: hertz(key + tone),
                    loudness: if voice == 0 { 0.16 } else { 0.1 },
                    side: 0.3 + 0.1 * voice as f32,
                });
            }
            let step = style.chord / style.plucks as f32;
            for pluck in 0..style.plucks {
                let tone = chord.get(rng.next() as usize % chord.len());
                let (is_played, loudness) = (rng.hits(style.share), rng.between(0.05, 0.11));
                let (true, Some(tone)) = (is_played, tone) else {
                    continue;
                };
                // The pulse of a tense mood is low; plucked strings are an octave higher.
                let octave = if mood == Mood::Tense { 0 } else { 12 };
                let from = from + step * pluck as f32;
                notes.push(Note {
                    from: at(from),
                    to: at(from + 1.1),
                    attack: 0.008,
                    release: 1.09,
                    hertz: hertz(key + tone + octave),
                    loudness,
                    side: rng.between(0.2, 0.8),
                });
            }
        }
        notes.sort_by_key(|note| note.from);
        Self {
            notes,
            wave: wave(style.edge),
        }
    }
}

/// Renders a score sample by sample.
pub(super) struct Player<'a> {
    score: &'a Score,
    sample: u64,
    /// Index of the first note in the score that has not started.
    next: usize,
    sounding: Vec<&'a Note>,
    echo: Vec<[f32; 2]>,
}

impl<'a> Player<'a> {
    pub(super) fn new(score: &'a Score) -> Self {
        Self {
            score,
            sample: 0,
            next: 0,
            sounding: Vec::new(),
            echo: vec![[0.0; 2]; at(ECHO.0) as usize],
        }
    }

    /// Returns the next sample of both channels.
    pub(super) fn next(&mut self) -> [f32; 2] {
        let now = self.sample;
        while let Some(note) = self.score.notes.get(self.next).filter(|note| note.from <= now) {
            self.sounding.push(note);
            self.next += 1;
        }
        self.sounding.retain(|note| note.to > now);
        let (mut left, mut right) = (0.0, 0.0);
        for note in &self.sounding {
            let loudness = note.loudness * note.envelope(now);
            left += loudness * (1.0 - note.side) * self.score.tone(note.hertz, now - note.from);
            right += loudness * note.side * self.score.tone(note.hertz * DETUNE, now - note.from);
        }
        // The echo of one channel is added to the other.
        let place = (now % self.echo.len().max(1) as u64) as usize;
        let heard = match self.echo.get_mut(place) {
            Some(echo) => {
                let [before_left, before_right] = *echo;
                let heard = [left + ECHO.1 * before_right, right + ECHO.1 * before_left];
                *echo = heard;
                heard
            }
            None => [left, right],
        };
        self.sample += 1;
        heard.map(|side| (side * 2.0 * LOUDNESS).tanh())
    }
}

impl Note {
    /// Returns the volume of the note at this sample, from 0 to 1.
    fn envelope(&self, now: u64) -> f32 {
        let rate = SAMPLE_RATE as f32;
        let started = ((now - self.from) as f32 / rate / self.attack).min(1.0);
        let left = ((self.to - now) as f32 / rate / self.release).min(1.0);
        smooth(started) * left * left
    }
}

impl Score {
    /// Returns the value of a tone at a sample, counted from the start of the note.
    fn tone(&self, hertz: f32, sample: u64) -> f32 {
        let phase = f64::from(hertz) * sample as f64 / f64::from(SAMPLE_RATE);
        let place = phase.fract() * WAVE_SAMPLES as f64;
        let (whole, part) = (place as usize, place.fract() as f32);
        let at = |place: usize| self.wave.get(place % WAVE_SAMPLES).copied().unwrap_or_default();
        at(whole) * (1.0 - part) + at(whole + 1) * part
    }
}

/// Returns one period of a soft waveform.
fn wave(edge: f32) -> Vec<f32> {
    let overtones = [1.0, edge, edge * edge, edge * edge * 0.5];
    let turns = (0..WAVE_SAMPLES).map(|place| place as f32 / WAVE_SAMPLES as f32 * TAU);
    turns
        .map(|turn| {
            let parts = (1..).zip(overtones);
            parts
                .map(|(number, part)| part * (turn * number as f32).sin())
                .sum()
        })
        .collect()
}

/// Returns a smooth step from 0 to 1.
fn smooth(part: f32) -> f32 {
    part * part * (3.0 - 2.0 * part)
}

/// Returns the frequency of a MIDI note.
fn hertz(note: i32) -> f32 {
    440.0 * 2.0_f32.powf((note - 69) as f32 / 12.0)
}

fn at(seconds: f32) -> u64 {
    (seconds * SAMPLE_RATE as f32) as u64
}
