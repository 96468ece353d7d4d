//! Sound out of numbers: which notes are played when, and how they sound.

use std::f32::consts::TAU;

use crate::draw::noise::Chance;
use crate::film::SAMPLE_RATE;

use super::Mood;

/// How many places a wave has.
const WAVE: usize = 2_048;
/// How long a chord still sounds after its time, in seconds.
const RELEASE: f32 = 1.6;
/// How far the two sides are out of tune with each other.
const DETUNE: f32 = 1.0025;
/// How loud everything is.
const LOUDNESS: f32 = 0.5;
/// The echo: after how many seconds, and how much of it comes again.
const ECHO: (f32, f32) = (0.41, 0.34);

/// What a mood is made of.
struct Manner {
    /// Rows of chords; each chord has the notes over the key, in half tones.
    rows: &'static [[[i32; 4]; 4]],
    /// How long a chord is, in seconds.
    chord: f32,
    /// The lowest key, as MIDI counts: 60 is the middle C.
    key: i32,
    /// How many plucked notes there are in a chord's time; at most.
    plucks: u32,
    /// How often one of them is played.
    share: f32,
    /// How sharp the voices are: the strength of the second overtone.
    edge: f32,
}

const MAJOR: [i32; 4] = [0, 7, 12, 16];
const MINOR: [i32; 4] = [0, 7, 12, 15];

/// A chord on this step over the key.
const fn on(step: i32, chord: [i32; 4]) -> [i32; 4] {
    let [a, b, c, d] = chord;
    [a + step, b + step, c + step, d + step]
}

const CALM: Manner = Manner {
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
const BRIGHT: Manner = Manner {
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
const TENSE: Manner = Manner {
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
const WARM: Manner = Manner {
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

/// A note that is played.
struct Note {
    /// In samples.
    from: u64,
    to: u64,
    attack: f32,
    /// How long it takes to be gone, before its end; a plucked one is going from its beginning.
    release: f32,
    hertz: f32,
    loudness: f32,
    /// From the left, 0, to the right, 1.
    side: f32,
}

/// The notes of a piece, in the order in which they begin.
pub(super) struct Score {
    notes: Vec<Note>,
    wave: Vec<f32>,
}

impl Score {
    /// A piece so many seconds long.
    pub(super) fn new(mood: Mood, chance: &mut Chance, seconds: f64) -> Self {
        let manner = match mood {
            Mood::Calm => CALM,
            Mood::Bright => BRIGHT,
            Mood::Tense => TENSE,
            Mood::Warm => WARM,
        };
        let key = manner.key + (chance.next() % 6) as i32;
        let chosen = chance.next() as usize % manner.rows.len();
        let row = manner.rows.get(chosen).copied().unwrap_or_default();
        let bars = (seconds / f64::from(manner.chord)).ceil() as usize;
        let mut notes = Vec::new();
        for (bar, chord) in row.into_iter().cycle().take(bars).enumerate() {
            let from = bar as f32 * manner.chord;
            let bass = chord.first().map(|note| note - 12);
            for (voice, tone) in (0..).zip(bass.into_iter().chain(chord)) {
                notes.push(Note {
                    from: at(from),
                    to: at(from + manner.chord + RELEASE),
                    attack: 0.9,
                    release: RELEASE + 0.4,
                    hertz: hertz(key + tone),
                    loudness: if voice == 0 { 0.16 } else { 0.1 },
                    side: 0.3 + 0.1 * voice as f32,
                });
            }
            let step = manner.chord / manner.plucks as f32;
            for pluck in 0..manner.plucks {
                let tone = chord.get(chance.next() as usize % chord.len());
                let (is_played, loudness) = (chance.hits(manner.share), chance.between(0.05, 0.11));
                let (true, Some(tone)) = (is_played, tone) else {
                    continue;
                };
                // A pulse is low, strings are high.
                let octave = if mood == Mood::Tense { 0 } else { 12 };
                let from = from + step * pluck as f32;
                notes.push(Note {
                    from: at(from),
                    to: at(from + 1.1),
                    attack: 0.008,
                    release: 1.09,
                    hertz: hertz(key + tone + octave),
                    loudness,
                    side: chance.between(0.2, 0.8),
                });
            }
        }
        notes.sort_by_key(|note| note.from);
        Self {
            notes,
            wave: wave(manner.edge),
        }
    }
}

/// Plays a score, sample by sample.
pub(super) struct Player<'a> {
    score: &'a Score,
    sample: u64,
    /// The first note that has not begun.
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

    /// The next sample of both sides.
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
        // What was heard on one side comes back on the other.
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
    /// How much of it there is, from 0 to 1.
    fn envelope(&self, now: u64) -> f32 {
        let rate = SAMPLE_RATE as f32;
        let begun = ((now - self.from) as f32 / rate / self.attack).min(1.0);
        let left = ((self.to - now) as f32 / rate / self.release).min(1.0);
        smooth(begun) * left * left
    }
}

impl Score {
    /// The wave of a tone at a sample since its beginning.
    fn tone(&self, hertz: f32, sample: u64) -> f32 {
        let phase = f64::from(hertz) * sample as f64 / f64::from(SAMPLE_RATE);
        let place = phase.fract() * WAVE as f64;
        let (whole, part) = (place as usize, place.fract() as f32);
        let at = |place: usize| self.wave.get(place % WAVE).copied().unwrap_or_default();
        at(whole) * (1.0 - part) + at(whole + 1) * part
    }
}

/// One turn of a soft voice.
fn wave(edge: f32) -> Vec<f32> {
    let overtones = [1.0, edge, edge * edge, edge * edge * 0.5];
    let turns = (0..WAVE).map(|place| place as f32 / WAVE as f32 * TAU);
    turns
        .map(|turn| {
            let parts = (1..).zip(overtones);
            parts
                .map(|(number, part)| part * (turn * number as f32).sin())
                .sum()
        })
        .collect()
}

/// From 0 to 1 without a corner.
fn smooth(part: f32) -> f32 {
    part * part * (3.0 - 2.0 * part)
}

/// The tone of a number of MIDI.
fn hertz(note: i32) -> f32 {
    440.0 * 2.0_f32.powf((note - 69) as f32 / 12.0)
}

fn at(seconds: f32) -> u64 {
    (seconds * SAMPLE_RATE as f32) as u64
}
