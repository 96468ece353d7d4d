//! Audio mix of a video: voices, clips and music, normalized in loudness.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::inspect::{LOUDNESS, loudness, written};
use crate::music::{samples, seconds};
use crate::probe::FORMATS;
use crate::process::Run;
use crate::scratch::Scratch;
use crate::tools::{Program, Tools};
use crate::video::{SAMPLE_RATE, TIMEOUT};

use super::{AudioClip, CutSpec, Music};

/// Loudness of voices and music before they are mixed, in tenths of LUFS.
const INPUT_LOUDNESS: i32 = -180;
/// Maximum gain in tenths of decibels, so that almost silent audio stays quiet.
const MAX_GAIN: i32 = 400;
/// Maximum amplitude of a sample: 1.5 dB below full scale.
const PEAK: f64 = 0.84;
/// Duration of the fade-in of the music.
const FADE_IN: Duration = Duration::from_millis(500);
/// Duration of the fade-out of the music.
const FADE_OUT: Duration = Duration::from_millis(1_200);
/// ffmpeg filter that attenuates music and clips strongly during speech. Its `mix` option adds the
/// unchanged signal, so that the attenuation is the requested one.
const DUCKING: &str = "sidechaincompress=threshold=0.01:ratio=20:attack=15:release=350:makeup=1";
/// Ducking of clips in decibels if there is no music.
const DEFAULT_DUCK_DB: u32 = 12;
/// Sample format while mixing.
const FORMAT: &str = "aformat=sample_fmts=fltp:sample_rates=48000:channel_layouts=stereo";
/// ffmpeg options of intermediate files: 32-bit float samples, which do not clip.
const INTERMEDIATE_ARGS: [&str; 4] = ["-c:a", "pcm_f32le", "-f", "wav"];

/// A mix of all audio, and the filters to apply to it.
pub(super) struct Mix {
    /// Path of the mixed file.
    pub(super) path: PathBuf,
    /// ffmpeg filters that normalize the loudness and limit the peaks.
    pub(super) last: String,
}

/// A track of the mix: a file as long as the video, and its loudness in tenths of LUFS. The
/// loudness of silence is `None`.
struct Track {
    path: PathBuf,
    loudness: Option<i32>,
}

impl Track {
    /// Returns the gain in decibels that brings the track to the wanted loudness, at most
    /// [`MAX_GAIN`].
    fn gain(&self, wanted: i32) -> f64 {
        let gain = self.loudness.map_or(0, |found| wanted - found);
        f64::from(gain.min(MAX_GAIN)) / 10.0
    }
}

impl Tools {
    /// Mixes voices, clips and music into one file as long as the video.
    pub(super) async fn mix(&self, spec: &CutSpec, scratch: &Scratch) -> Result<Mix> {
        let length = samples(spec.duration());
        let music: Vec<AudioClip> = spec.music.iter().map(whole).collect();
        let voices = self.track("voices", &spec.voices, length, scratch).await?;
        let clips = self.track("clips", &spec.clips, length, scratch).await?;
        let music = self.track("music", &music, length, scratch).await?;
        let mut run = Run::new(Program::Ffmpeg, TIMEOUT).inside(scratch.path());
        let mut parts: Vec<String> = Vec::new();
        for (name, track, filters) in [
            ("voices", &voices, level(&voices)),
            ("clips", &clips, "anull".to_owned()),
            ("music", &music, format!("{},{}", level(&music), bed(spec))),
        ] {
            if let Some(track) = track {
                run = run.source(&track.path);
                parts.push(format!("[{}:a]{filters}[{name}]", parts.len()));
            }
        }
        let under = [clips.map(|_| "[clips]"), music.map(|_| "[music]")];
        let under: Vec<&str> = under.into_iter().flatten().collect();
        let duck = spec.music.as_ref().map_or(DEFAULT_DUCK_DB, |music| music.duck_db);
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
            .args(INTERMEDIATE_ARGS)
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

    /// Places clips at their times and volumes in a file of `length` samples. Returns `None` if
    /// there are no clips.
    async fn track(
        &self,
        name: &str,
        clips: &[AudioClip],
        length: u64,
        scratch: &Scratch,
    ) -> Result<Option<Track>> {
        if clips.is_empty() {
            return Ok(None);
        }
        let mut run = Run::new(Program::Ffmpeg, TIMEOUT).inside(scratch.path());
        let mut parts = Vec::new();
        let mut all = String::new();
        for (number, clip) in clips.iter().enumerate() {
            let path = std::path::absolute(&clip.path)?;
            if self.probe(&path).await?.audio.is_none() {
                return Err(Error::Input("has a voice or clip without audio".to_owned()));
            }
            run = run.args(["-format_whitelist", FORMATS]).source(path);
            let ends = clip.length.map_or(length, samples).min(length);
            parts.push(format!(
                "[{number}:a:0]aresample={SAMPLE_RATE}:async=1:first_pts=0,{FORMAT},atrim=end_sample={ends},\
                 volume={:.4},adelay={}S:all=1[s{number}]",
                clip.volume,
                samples(clip.at)
            ));
            all.push_str(&format!("[s{number}]"));
        }
        parts.push(format!(
            "{all}{},apad=whole_len={length},atrim=end_sample={length},{}[a]",
            amix(clips.len()),
            measured(name)
        ));
        let path = scratch.file(&format!("{name}.wav"));
        let run = run
            .args(["-filter_complex", &parts.join(";"), "-map", "[a]"])
            .args(INTERMEDIATE_ARGS)
            .file(&path);
        self.run(run).await?;
        let loudness = loudness(&written(&scratch.file(&format!("{name}.txt"))).await?);
        Ok(Some(Track { path, loudness }))
    }
}

/// Returns the music as a clip that starts with the video.
fn whole(music: &Music) -> AudioClip {
    AudioClip {
        path: music.path.clone(),
        at: Duration::ZERO,
        length: None,
        volume: 1.0,
    }
}

/// Returns the filter that brings a track to [`INPUT_LOUDNESS`].
fn level(track: &Option<Track>) -> String {
    let gain = track.as_ref().map_or(0.0, |track| track.gain(INPUT_LOUDNESS));
    format!("volume={gain:.1}dB")
}

/// Returns the filters for volume, fade-in and fade-out of the music.
fn bed(spec: &CutSpec) -> String {
    let volume = spec.music.as_ref().map_or(0.0, |music| music.volume);
    let length = spec.duration();
    let (rise, fall) = (FADE_IN.min(length / 4), FADE_OUT.min(length / 3));
    format!(
        "volume={volume:.4},afade=t=in:d={},afade=t=out:st={}:d={}",
        seconds(rise),
        seconds(length - fall),
        seconds(fall)
    )
}

/// Returns the filter that mixes the inputs without changing their volume.
fn amix(inputs: usize) -> String {
    format!("amix=inputs={inputs}:normalize=0:duration=longest")
}

/// Returns the filters that write the loudness to `{name}.txt` in the scratch folder.
fn measured(name: &str) -> String {
    format!("ebur128=metadata=1,ametadata=mode=print:key=lavfi.r128.I:file={name}.txt")
}
