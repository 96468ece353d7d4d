//! What a film sounds like: voices, sounds and music in one, as loud as films are.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::film::{PATIENCE, SAMPLE_RATE};
use crate::inspect::{LOUDNESS, loudness, written};
use crate::music::{samples, seconds};
use crate::probe::FORMATS;
use crate::process::Run;
use crate::scratch::Scratch;
use crate::tools::{Program, Tools};

use super::{CutSpec, Music, Sound};

/// The loudness of voices and of music before they are put together, in tenths of LUFS.
const TOGETHER: i32 = -180;
/// The most that something is made louder, in tenths of decibels: what is almost silent stays so.
const MOST_GAIN: i32 = 400;
/// The loudest sample there is: 1.5 decibels below all there can be.
const PEAK: f64 = 0.84;
/// How the music begins and ends with the film.
const RISE: Duration = Duration::from_millis(500);
const FALL: Duration = Duration::from_millis(1_200);
/// How music steps back: by all it can when somebody speaks, and then so much of that is mixed with the music as it was
/// that it is no deeper than was asked for.
const DUCKING: &str = "sidechaincompress=threshold=0.01:ratio=20:attack=15:release=350:makeup=1";
/// How far sounds step back when there is no music, in decibels.
const DUCK: u32 = 12;
/// How everything is while it is mixed.
const FORMAT: &str = "aformat=sample_fmts=fltp:sample_rates=48000:channel_layouts=stereo";
/// Files between two steps keep what is louder than all there can be.
const BETWEEN: [&str; 4] = ["-c:a", "pcm_f32le", "-f", "wav"];

/// What is heard, and what is done to it last.
pub(super) struct Mix {
    /// The file.
    pub(super) path: PathBuf,
    /// The filters that make it as loud as films are.
    pub(super) last: String,
}

/// Something of the mix in a file of the length of the film, and how loud it is.
struct Track {
    path: PathBuf,
    loudness: Option<i32>,
}

impl Track {
    /// The tenths of decibels that bring it to a loudness.
    fn gain(&self, wanted: i32) -> f64 {
        let gain = self.loudness.map_or(0, |found| wanted - found);
        f64::from(gain.min(MOST_GAIN)) / 10.0
    }
}

impl Tools {
    /// Mixes what is heard.
    pub(super) async fn mix(&self, spec: &CutSpec, scratch: &Scratch) -> Result<Mix> {
        let length = samples(spec.duration());
        let music: Vec<Sound> = spec.music.iter().map(whole).collect();
        let voices = self.track("voices", &spec.voices, length, scratch).await?;
        let sounds = self.track("sounds", &spec.sounds, length, scratch).await?;
        let music = self.track("music", &music, length, scratch).await?;
        let mut run = Run::new(Program::Ffmpeg, PATIENCE).inside(scratch.path());
        let mut parts: Vec<String> = Vec::new();
        for (name, track, filters) in [
            ("voices", &voices, level(&voices)),
            ("sounds", &sounds, "anull".to_owned()),
            ("music", &music, format!("{},{}", level(&music), bed(spec))),
        ] {
            if let Some(track) = track {
                run = run.source(&track.path);
                parts.push(format!("[{}:a]{filters}[{name}]", parts.len()));
            }
        }
        let under = [sounds.map(|_| "[sounds]"), music.map(|_| "[music]")];
        let under: Vec<&str> = under.into_iter().flatten().collect();
        let duck = spec.music.as_ref().map_or(DUCK, |music| music.duck_db);
        let mut heard: Vec<&str> = voices.iter().map(|_| "[voices]").collect();
        if !heard.is_empty() && !under.is_empty() && duck > 0 {
            let depth = 1.0 - 10_f64.powf(-f64::from(duck) / 20.0);
            parts.push(format!("{}{}[under]", under.concat(), amix(under.len())));
            parts.push("[voices]asplit[spoken][key]".to_owned());
            parts.push(format!("[under][key]{DUCKING}:mix={depth:.4}[ducked]"));
            heard = vec!["[spoken]", "[ducked]"];
        } else {
            heard.extend(under);
        }
        parts.push(format!(
            "{}{},{FORMAT},apad=whole_len={length},atrim=end_sample={length},{}[a]",
            heard.concat(),
            amix(heard.len()),
            measured("mix")
        ));
        let path = scratch.file("mix.wav");
        let run = run
            .args(["-filter_complex", &parts.join(";"), "-map", "[a]"])
            .args(BETWEEN)
            .file(&path);
        self.run(run).await?;
        let mix = Track {
            loudness: loudness(&written(&scratch.file("mix.txt")).await?),
            path,
        };
        let gain = mix.gain(LOUDNESS);
        Ok(Mix {
            last: format!(
                "volume={gain:.1}dB,alimiter=limit={PEAK}:level=0:attack=2:release=80,atrim=end_sample={length}"
            ),
            path: mix.path,
        })
    }

    /// Puts sounds at their moments, each with its volume, into a file of this many samples. Nothing when there are none.
    async fn track(
        &self,
        name: &str,
        sounds: &[Sound],
        length: u64,
        scratch: &Scratch,
    ) -> Result<Option<Track>> {
        if sounds.is_empty() {
            return Ok(None);
        }
        let mut run = Run::new(Program::Ffmpeg, PATIENCE).inside(scratch.path());
        let mut parts = Vec::new();
        let mut all = String::new();
        for (number, sound) in sounds.iter().enumerate() {
            let path = std::path::absolute(&sound.path)?;
            if self.probe(&path).await?.audio.is_none() {
                return Err(Error::Input("has a voice or a sound that is none".to_owned()));
            }
            run = run.args(["-format_whitelist", FORMATS]).source(path);
            let ends = sound.length.map_or(length, samples).min(length);
            parts.push(format!(
                "[{number}:a:0]aresample={SAMPLE_RATE}:async=1:first_pts=0,{FORMAT},atrim=end_sample={ends},\
                 volume={:.4},adelay={}S:all=1[s{number}]",
                sound.volume,
                samples(sound.at)
            ));
            all.push_str(&format!("[s{number}]"));
        }
        parts.push(format!(
            "{all}{},apad=whole_len={length},atrim=end_sample={length},{}[a]",
            amix(sounds.len()),
            measured(name)
        ));
        let path = scratch.file(&format!("{name}.wav"));
        let run = run
            .args(["-filter_complex", &parts.join(";"), "-map", "[a]"])
            .args(BETWEEN)
            .file(&path);
        self.run(run).await?;
        let loudness = loudness(&written(&scratch.file(&format!("{name}.txt"))).await?);
        Ok(Some(Track { path, loudness }))
    }
}

/// Music, from its beginning.
fn whole(music: &Music) -> Sound {
    Sound {
        path: music.path.clone(),
        at: Duration::ZERO,
        length: None,
        volume: 1.0,
    }
}

/// Brings a track to the loudness at which it is mixed.
fn level(track: &Option<Track>) -> String {
    let gain = track.as_ref().map_or(0.0, |track| track.gain(TOGETHER));
    format!("volume={gain:.1}dB")
}

/// How loud the music is under the voices, and how it begins and ends.
fn bed(spec: &CutSpec) -> String {
    let volume = spec.music.as_ref().map_or(0.0, |music| music.volume);
    let length = spec.duration();
    let (rise, fall) = (RISE.min(length / 4), FALL.min(length / 3));
    format!(
        "volume={volume:.4},afade=t=in:d={},afade=t=out:st={}:d={}",
        seconds(rise),
        seconds(length - fall),
        seconds(fall)
    )
}

/// Puts so many sounds into one, each as it is.
fn amix(inputs: usize) -> String {
    format!("amix=inputs={inputs}:normalize=0:duration=longest")
}

/// Measures how loud it is, and writes that into a file of the scratch folder.
fn measured(name: &str) -> String {
    format!("ebur128=metadata=1,ametadata=mode=print:key=lavfi.r128.I:file={name}.txt")
}
