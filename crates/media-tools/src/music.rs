//! Background music: synthesized chords, and recordings fitted to the length of a video.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use crate::draw::noise::Rng;
use crate::error::{Error, Result};
use crate::probe::FORMATS;
use crate::process::{PartialFile, Run};
use crate::scene::absolute;
use crate::scratch::Scratch;
use crate::tools::{Program, Tools};
use crate::video::{SAMPLE_RATE, TIMEOUT};

mod synthesis;

/// Maximum duration of music.
const MAX_DURATION: Duration = Duration::from_secs(600);
/// Minimum duration of a recording that is looped.
const MIN_REPEATED: Duration = Duration::from_secs(1);
/// Overlap between the end of a loop and its start; shorter for short recordings.
const CROSSFADE: Duration = Duration::from_millis(1_500);
/// Duration of the fade-in of music.
const FADE_IN: Duration = Duration::from_millis(800);
/// Duration of the fade-out of music.
const FADE_OUT: Duration = Duration::from_millis(1_500);

/// Mood of synthesized music.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mood {
    /// Slow and soft chords.
    Calm,
    /// Chords in a major key, with plucked strings.
    Bright,
    /// Low chords in a minor key, with a pulse.
    Tense,
    /// Seventh chords, with a small number of plucked strings.
    Warm,
}

impl Mood {
    /// All moods, in declaration order.
    pub const ALL: [Mood; 4] = [Mood::Calm, Mood::Bright, Mood::Tense, Mood::Warm];

    /// Returns the name of the mood in requests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Mood::Calm => "calm",
            Mood::Bright => "bright",
            Mood::Tense => "tense",
            Mood::Warm => "warm",
        }
    }

    /// Parses a mood name; `None` if it is unknown.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mood| mood.as_str() == name)
    }
}

impl Tools {
    /// Generates music with this mood and duration (0.1 seconds to ten minutes), and writes it as a
    /// stereo WAV file at 48,000 Hz. The same mood and seed produce the same music.
    pub async fn make_music(&self, mood: Mood, seed: u64, duration: Duration, place: &Path) -> Result<()> {
        check(duration)?;
        let unfinished = PartialFile::at(&absolute(place)?);
        let path = unfinished.part().to_owned();
        let composed = tokio::task::spawn_blocking(move || compose(mood, seed, duration, &path));
        composed
            .await
            .map_err(|stopped| Error::UnexpectedOutput(stopped.to_string()))??;
        unfinished.finish()
    }

    /// Fits a recording to this duration (0.1 seconds to ten minutes), and writes it as a WAV file
    /// in the format of [`make_music`](Self::make_music). A longer recording is cut; a shorter one
    /// is looped with a crossfade. The music fades in at the start and fades out at the end.
    /// Returns [`Error::Input`] if the file has no audio, or if a recording to be looped is shorter
    /// than a second.
    pub async fn fit_music(&self, source: &Path, duration: Duration, place: &Path) -> Result<()> {
        check(duration)?;
        let Some(audio) = self.probe(source).await?.audio else {
            return Err(Error::Input("has no audio".to_owned()));
        };
        let scratch = Scratch::make()?;
        let (whole, again) = (scratch.file("whole.wav"), scratch.file("again.wav"));
        let run = Run::new(Program::Ffmpeg, TIMEOUT)
            .args(["-format_whitelist", FORMATS])
            .source(source)
            .args(["-map", "0:a:0", "-t", &seconds(duration.min(audio.duration))])
            .args(["-ac", "2", "-ar", &SAMPLE_RATE.to_string()])
            .args(WAV)
            .file(&whole);
        self.run(run).await?;
        // The declared duration may be wrong, so the decoded duration is used.
        let length = samples(self.probe(&whole).await?.duration);
        let wanted = samples(duration);
        let unfinished = PartialFile::at(place);
        let mut run = Run::new(Program::Ffmpeg, TIMEOUT).source(&whole);
        let ending = format!(
            "afade=t=in:d={},afade=t=out:st={}:d={}",
            seconds(FADE_IN.min(duration / 4)),
            seconds(duration - FADE_OUT.min(duration / 3)),
            seconds(FADE_OUT.min(duration / 3))
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

    /// Writes a loop: the recording with its end crossfaded into its start. Returns its number of
    /// samples.
    async fn repeatable(&self, whole: &Path, length: u64, place: &Path) -> Result<u64> {
        if length < samples(MIN_REPEATED) {
            return Err(Error::Input("is shorter than one second".to_owned()));
        }
        let fade = samples(CROSSFADE).min(length / 4);
        let unit = length - fade;
        let graph = format!(
            "[0:a]asplit[one][two];[one]atrim=end_sample={unit}[first];\
             [two]atrim=start_sample={unit}:end_sample={length},asetpts=PTS-STARTPTS[end];\
             [end][first]acrossfade=ns={fade}:c1=qsin:c2=qsin[a]"
        );
        let run = Run::new(Program::Ffmpeg, TIMEOUT)
            .source(whole)
            .args(["-filter_complex", &graph, "-map", "[a]"])
            .args(WAV)
            .file(place);
        self.run(run).await?;
        Ok(unit)
    }
}

/// ffmpeg options for the WAV output.
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
    if duration < Duration::from_millis(100) || duration > MAX_DURATION {
        return Err(Error::Input(format!(
            "must have a duration of 0.1 to {} seconds",
            MAX_DURATION.as_secs()
        )));
    }
    Ok(())
}

/// Returns the number of samples of this duration, at 48,000 Hz.
pub(crate) fn samples(duration: Duration) -> u64 {
    (duration.as_secs_f64() * f64::from(SAMPLE_RATE)).round() as u64
}

/// Formats a duration in seconds for ffmpeg.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.6}", duration.as_secs_f64())
}

/// Writes synthesized music to a file, sample by sample.
fn compose(mood: Mood, seed: u64, duration: Duration, path: &Path) -> Result<()> {
    let all = samples(duration);
    let mut file = BufWriter::new(std::fs::File::create(path)?);
    file.write_all(&header(all))?;
    let score = synthesis::Score::new(mood, &mut Rng::new(seed), duration.as_secs_f64());
    let mut player = synthesis::Player::new(&score);
    let (rise, fall) = (
        samples(FADE_IN.min(duration / 4)),
        samples(FADE_OUT.min(duration / 3)),
    );
    for sample in 0..all {
        let started = (sample as f32 / rise.max(1) as f32).min(1.0);
        let left = ((all - sample) as f32 / fall.max(1) as f32).min(1.0);
        for side in player.next() {
            let loudness = (side * started * left).clamp(-1.0, 1.0) * 32_767.0;
            file.write_all(&(loudness as i16).to_le_bytes())?;
        }
    }
    file.flush()?;
    Ok(())
}

/// Returns the header of a WAV file with two channels of 16 bits.
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
