//! Music to lay under a film: chords of soft voices that this machine makes up by itself, and recordings that are made as
//! long as the film.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use crate::draw::noise::Chance;
use crate::error::{Error, Result};
use crate::film::{PATIENCE, SAMPLE_RATE};
use crate::probe::FORMATS;
use crate::process::{Run, Unfinished};
use crate::scene::absolute;
use crate::scratch::Scratch;
use crate::tools::{Program, Tools};

mod synthesis;

/// The longest music.
const LONGEST: Duration = Duration::from_secs(600);
/// The shortest recording that is repeated.
const SHORTEST: Duration = Duration::from_secs(1);
/// How long the end of a recording goes on under its beginning; less of a short one.
const CROSSFADE: Duration = Duration::from_millis(1_500);
/// How music begins and ends.
const RISE: Duration = Duration::from_millis(800);
const FALL: Duration = Duration::from_millis(1_500);

/// What music is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mood {
    /// Slow and soft.
    Calm,
    /// In major, with plucked strings.
    Bright,
    /// In minor, low, with a pulse.
    Tense,
    /// Sevenths, with few plucked strings.
    Warm,
}

impl Mood {
    /// Every mood.
    pub const ALL: [Mood; 4] = [Mood::Calm, Mood::Bright, Mood::Tense, Mood::Warm];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Mood::Calm => "calm",
            Mood::Bright => "bright",
            Mood::Tense => "tense",
            Mood::Warm => "warm",
        }
    }

    /// The mood of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mood| mood.as_str() == name)
    }
}

impl Tools {
    /// Makes music of this mood and length, at most ten minutes, as a WAV: 48,000 samples in a second, two channels. The
    /// same mood and seed are the same music.
    pub async fn make_music(&self, mood: Mood, seed: u64, duration: Duration, place: &Path) -> Result<()> {
        check(duration)?;
        let unfinished = Unfinished::at(&absolute(place)?);
        let path = unfinished.part().to_owned();
        let composed = tokio::task::spawn_blocking(move || compose(mood, seed, duration, &path));
        composed
            .await
            .map_err(|stopped| Error::Unfit(stopped.to_string()))??;
        unfinished.finish()
    }

    /// Makes a recording as long as this, at most ten minutes, as a WAV as [`make_music`](Self::make_music) writes them. A
    /// longer one is cut, a shorter one begins again while its end goes on for a moment; both fade out. `Input` when it has
    /// no sound, or is to be repeated and is shorter than a second.
    pub async fn fit_music(&self, source: &Path, duration: Duration, place: &Path) -> Result<()> {
        check(duration)?;
        let Some(audio) = self.probe(source).await?.audio else {
            return Err(Error::Input("has no sound".to_owned()));
        };
        let scratch = Scratch::make()?;
        let (whole, again) = (scratch.file("whole.wav"), scratch.file("again.wav"));
        let run = Run::new(Program::Ffmpeg, PATIENCE)
            .args(["-format_whitelist", FORMATS])
            .source(source)
            .args(["-map", "0:a:0", "-t", &seconds(duration.min(audio.duration))])
            .args(["-ac", "2", "-ar", &SAMPLE_RATE.to_string()])
            .args(WAV)
            .file(&whole);
        self.run(run).await?;
        // What it says of its length may be wrong; this is all there is.
        let length = samples(self.probe(&whole).await?.duration);
        let wanted = samples(duration);
        let unfinished = Unfinished::at(place);
        let mut run = Run::new(Program::Ffmpeg, PATIENCE).source(&whole);
        let ending = format!(
            "afade=t=in:d={},afade=t=out:st={}:d={}",
            seconds(RISE.min(duration / 4)),
            seconds(duration - FALL.min(duration / 3)),
            seconds(FALL.min(duration / 3))
        );
        let graph = match length >= wanted {
            true => format!("[0:a]atrim=end_sample={wanted},{ending}[a]"),
            false => {
                let unit = self.repeatable(&whole, length, &again).await?;
                let times = (wanted - unit.min(wanted)).div_ceil(unit.max(1));
                run = run.args(["-stream_loop", &times.to_string()]).source(&again);
                format!(
                    "[0:a]atrim=end_sample={unit}[first];[first][1:a]concat=n=2:v=0:a=1,apad=whole_len={wanted},\
                     atrim=end_sample={wanted},{ending}[a]"
                )
            }
        };
        let run = run.args(["-filter_complex", &graph, "-map", "[a]"]).args(WAV);
        self.run(run.file(unfinished.part())).await?;
        unfinished.finish()
    }

    /// Writes what can follow itself: the recording without its end, whose end goes on under its beginning. Answers how many
    /// samples it has.
    async fn repeatable(&self, whole: &Path, length: u64, place: &Path) -> Result<u64> {
        if length < samples(SHORTEST) {
            return Err(Error::Input("is shorter than a second".to_owned()));
        }
        let fade = samples(CROSSFADE).min(length / 4);
        let unit = length - fade;
        let graph = format!(
            "[0:a]asplit[one][two];[one]atrim=end_sample={unit}[first];\
             [two]atrim=start_sample={unit}:end_sample={length},asetpts=PTS-STARTPTS[end];\
             [end][first]acrossfade=ns={fade}:c1=qsin:c2=qsin[a]"
        );
        let run = Run::new(Program::Ffmpeg, PATIENCE)
            .source(whole)
            .args(["-filter_complex", &graph, "-map", "[a]"])
            .args(WAV)
            .file(place);
        self.run(run).await?;
        Ok(unit)
    }
}

/// How music is written.
const WAV: [&str; 8] = [
    "-map_metadata",
    "-1",
    "-fflags",
    "+bitexact",
    "-c:a",
    "pcm_s16le",
    "-f",
    "wav",
];

fn check(duration: Duration) -> Result<()> {
    if duration < Duration::from_millis(100) || duration > LONGEST {
        return Err(Error::Input(format!(
            "has a length from 0.1 to {} seconds",
            LONGEST.as_secs()
        )));
    }
    Ok(())
}

/// How many samples that are.
pub(crate) fn samples(duration: Duration) -> u64 {
    (duration.as_secs_f64() * f64::from(SAMPLE_RATE)).round() as u64
}

/// As ffmpeg reads it.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.6}", duration.as_secs_f64())
}

/// Writes music, second by second.
fn compose(mood: Mood, seed: u64, duration: Duration, path: &Path) -> Result<()> {
    let all = samples(duration);
    let mut file = BufWriter::new(std::fs::File::create(path)?);
    file.write_all(&header(all))?;
    let score = synthesis::Score::new(mood, &mut Chance::new(seed), duration.as_secs_f64());
    let mut player = synthesis::Player::new(&score);
    let (rise, fall) = (samples(RISE.min(duration / 4)), samples(FALL.min(duration / 3)));
    for sample in 0..all {
        let begun = (sample as f32 / rise.max(1) as f32).min(1.0);
        let left = ((all - sample) as f32 / fall.max(1) as f32).min(1.0);
        for side in player.next() {
            let loudness = (side * begun * left).clamp(-1.0, 1.0) * 32_767.0;
            file.write_all(&(loudness as i16).to_le_bytes())?;
        }
    }
    file.flush()?;
    Ok(())
}

/// The beginning of a WAV of two channels of 16 bits.
fn header(samples: u64) -> Vec<u8> {
    let length = u32::try_from(samples * 4).unwrap_or(u32::MAX - 36);
    let mut header = Vec::with_capacity(44);
    header.extend(b"RIFF");
    header.extend((length + 36).to_le_bytes());
    header.extend(b"WAVEfmt ");
    header.extend(16_u32.to_le_bytes());
    header.extend([1, 0, 2, 0]);
    header.extend(SAMPLE_RATE.to_le_bytes());
    header.extend((SAMPLE_RATE * 4).to_le_bytes());
    header.extend([4, 0, 16, 0]);
    header.extend(b"data");
    header.extend(length.to_le_bytes());
    header
}

#[cfg(test)]
mod tests;
