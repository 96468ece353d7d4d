//! How a film is put together: one segment for each scene, which is kept as soon as it is there, then all of them with voices
//! and music. The film is looked at before it is called done.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tollgate_jobs::Work;
use tollgate_storage::{UsagePart, blob};
use tollgate_studio::picture::Picture;
use tollgate_studio::{
    Caption, CutScene, CutSpec, Dimensions, Music, SceneSpec, Scratch, Sketch, Sound, captions,
};
use tollgate_types::{Error, ErrorCode, MediaId};

use super::composing::{Composing, FILM, LEAD, RATE, Ready, SEGMENTS};
use super::order::{Composed, Composition, Line, Measured, Segment, Subtitles};
use super::stage::{Meter, Stage, Stop};
use super::storyboard::{self, Storyboard};
use crate::order::Kept;
use crate::shelf::{Facts, INPUT_KEPT, KEPT};
use crate::videos::read_film;

/// How many segments are made at once. Each is encoded by all cores.
const AT_ONCE: usize = 2;
/// How loud the sound of a caller's own film is.
const OWN_SOUND: f64 = 1.0;

/// A film that is kept, as a step.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Film {
    kept: Kept,
    subtitles: Option<Subtitles>,
    measured: Measured,
}

impl Composing {
    pub(super) async fn segments(
        &self,
        work: &Work,
        board: &Storyboard,
        size: Dimensions,
        ready: &[Ready<'_>],
    ) -> Result<Vec<Segment>, Stop> {
        let stage = Stage {
            phase: "rendering",
            from: 30,
            to: 75,
            at_once: AT_ONCE,
        };
        let pieces = (SEGMENTS..)
            .zip(ready)
            .map(async |(step, ready): (u32, &Ready<'_>)| {
                let segment = self.local(work, step, async || self.segment(work, board, size, ready).await);
                Box::pin(segment).await
            });
        let pieces: Vec<_> = pieces.collect();
        stage.run(work, &Meter::new(pieces.len()), pieces).await
    }

    async fn segment(
        &self,
        work: &Work,
        board: &Storyboard,
        size: Dimensions,
        ready: &Ready<'_>,
    ) -> Result<Segment, Error> {
        let tools = &self.studio.tools;
        let written = board.captions.as_ref().filter(|_| !ready.captions.is_empty());
        let written = written.map(|wish| captions::ass(&ready.captions, wish.style(), wish.position(), size));
        let spec = SceneSpec {
            size,
            rate: RATE,
            duration: ready.duration,
            motion: ready.scene.motion(),
            captions: written,
            banner: ready
                .shown
                .simulated
                .then(|| simulated(size))
                .transpose()
                .map_err(unmade)?,
        };
        let scratch = Scratch::make().map_err(unmade)?;
        let place = scratch.file("segment.mp4");
        let bytes = self.bytes(work, ready.shown.media).await?;
        let may_be_black = match ready.shown.is_film {
            true => {
                let film = scratch.file("film");
                tokio::fs::write(&film, &bytes).await.map_err(file)?;
                tools
                    .scene_from_film(&spec, &film, &place)
                    .await
                    .map_err(unmade)?;
                true
            }
            false => {
                let decoded = tokio::task::spawn_blocking(move || Picture::decode(&bytes)).await;
                let picture = decoded.map_err(|error| Error::internal(error.to_string()))?;
                let picture = picture.map_err(unmade)?;
                tools
                    .scene_from_picture(&spec, &picture, &place)
                    .await
                    .map_err(unmade)?;
                is_black(&picture)
            }
        };
        let facts = Facts {
            mime_type: "video/mp4".to_owned(),
            width: Some(size.width),
            height: Some(size.height),
            duration: Some(ready.duration),
        };
        let media = self.keep_film(work, &place, facts, INPUT_KEPT).await?;
        Ok(Segment {
            media,
            frames: spec.frames(),
            may_be_black,
        })
    }

    pub(super) async fn film(
        &self,
        work: &Work,
        order: &Composition,
        board: &Storyboard,
        (ready, segments): (&[Ready<'_>], &[Segment]),
        bill: &[UsagePart],
    ) -> Result<Composed, Stop> {
        let stage = Stage {
            phase: "rendering",
            from: 75,
            to: 99,
            at_once: 1,
        };
        let meter = Meter::new(1);
        let film = self.local(work, FILM, async || {
            self.assembled(work, order, board, (ready, segments), &meter)
                .await
        });
        let mut films = stage.run(work, &meter, vec![film]).await?;
        let Some(film) = films.pop() else {
            return Err(super::composing::fault(Error::internal("no film")));
        };
        Ok(Composed {
            outcome: self.outcome(vec![film.kept]),
            is_plan: false,
            recipe: order.recipe.clone(),
            board: board.clone(),
            price: bill.iter().map(Line::from).collect(),
            subtitles: film.subtitles,
            measured: Some(film.measured),
        })
    }

    async fn assembled(
        &self,
        work: &Work,
        order: &Composition,
        board: &Storyboard,
        (ready, segments): (&[Ready<'_>], &[Segment]),
        meter: &Arc<Meter>,
    ) -> Result<Film, Error> {
        let tools = &self.studio.tools;
        let scratch = Scratch::make().map_err(unmade)?;
        let mut spec = CutSpec {
            size: board.size(),
            rate: RATE,
            scenes: Vec::with_capacity(segments.len()),
            voices: Vec::new(),
            sounds: Vec::new(),
            music: None,
            note: None,
        };
        for (number, (segment, ready)) in segments.iter().zip(ready).enumerate() {
            let place = scratch.file(&format!("segment-{number}.mp4"));
            self.fetch(work, segment.media, &place).await?;
            spec.scenes.push(CutScene {
                segment: place,
                frames: segment.frames,
                transition: ready.scene.transition(),
            });
        }
        let starts: Vec<Duration> = spec.starts().into_iter().map(at).collect();
        for (number, (ready, start)) in ready.iter().zip(&starts).enumerate() {
            self.add_sound(work, &mut spec, &scratch, (number, ready, *start))
                .await?;
        }
        spec.music = self.music(work, order, board, &scratch, spec.duration()).await?;
        let place = scratch.file("film.mp4");
        let told = meter.clone();
        let progress = move |percent: u8| told.set(0, percent.min(90));
        tools
            .assemble(&spec, &place, Some(&progress))
            .await
            .map_err(unmade)?;
        let mut inspection = tools.inspect(&place, &spec.expected()).await.map_err(unmade)?;
        // What shows something black is black.
        let black = |at: Duration| {
            let scene = starts.iter().rposition(|start| *start <= at).unwrap_or_default();
            segments.get(scene).is_some_and(|segment| segment.may_be_black)
        };
        inspection.black.retain(|(from, _)| !black(*from));
        let faults = inspection.faults();
        if !faults.is_empty() {
            tracing::warn!(job.id = %work.job().terms.id, ?faults, "a film came out wrong");
            return Err(came_out_wrong(&faults));
        }
        meter.set(0, 95);
        let (frames, duration) = (spec.frames(), spec.duration());
        let facts = Facts {
            mime_type: "video/mp4".to_owned(),
            width: Some(spec.size.width),
            height: Some(spec.size.height),
            duration: Some(duration),
        };
        let media = self.keep_film(work, &place, facts, KEPT).await?;
        let micros = u64::try_from(duration.as_micros()).ok();
        Ok(Film {
            kept: Kept {
                media,
                mime_type: "video/mp4".to_owned(),
                width: spec.size.width,
                height: spec.size.height,
                duration: micros,
                made: micros,
                revised_prompt: None,
            },
            subtitles: self.subtitles(work, ready, &starts).await?,
            measured: Measured {
                frames,
                loudness: inspection.loudness_lufs_tenths,
            },
        })
    }

    async fn add_sound(
        &self,
        work: &Work,
        spec: &mut CutSpec,
        scratch: &Scratch,
        (number, ready, start): (usize, &Ready<'_>, Duration),
    ) -> Result<(), Error> {
        if let Some(voiced) = &ready.voiced {
            let path = scratch.file(&format!("voice-{number}"));
            self.fetch(work, voiced.media, &path).await?;
            spec.voices.push(Sound {
                path,
                at: start + LEAD,
                length: None,
                volume: 1.0,
            });
        } else if ready.scene.visual.video.is_some() {
            let film = scratch.file(&format!("film-{number}"));
            self.fetch(work, ready.shown.media, &film).await?;
            let path = scratch.file(&format!("sound-{number}.wav"));
            let heard = self.studio.tools.sound_of(&film, &path).await.map_err(unmade)?;
            if heard.is_some() {
                spec.sounds.push(Sound {
                    path,
                    at: start,
                    length: Some(ready.duration),
                    volume: OWN_SOUND,
                });
            }
        }
        Ok(())
    }

    async fn music(
        &self,
        work: &Work,
        order: &Composition,
        board: &Storyboard,
        scratch: &Scratch,
        duration: Duration,
    ) -> Result<Option<Music>, Error> {
        let Some(wish) = &board.music else {
            return Ok(None);
        };
        let path: PathBuf = scratch.file("music.wav");
        match wish.media {
            Some(media) => {
                let own = scratch.file("own-music");
                self.fetch(work, media, &own).await?;
                self.studio
                    .tools
                    .fit_music(&own, duration, &path)
                    .await
                    .map_err(unmade)?;
            }
            None => {
                let seed = order.seed.unwrap_or_default();
                let made = self.studio.tools.make_music(wish.mood(), seed, duration, &path);
                made.await.map_err(unmade)?;
            }
        }
        Ok(Some(Music {
            path,
            volume: wish.volume,
            duck_db: wish.duck_db.round() as u32,
        }))
    }

    async fn subtitles(
        &self,
        work: &Work,
        ready: &[Ready<'_>],
        starts: &[Duration],
    ) -> Result<Option<Subtitles>, Error> {
        let mut said: Vec<Caption> = Vec::new();
        for (ready, start) in ready.iter().zip(starts) {
            let Some(voiced) = &ready.voiced else { continue };
            said.extend(captions::group(
                &voiced.words(*start + LEAD),
                storyboard::SUBTITLE_WORDS,
            ));
        }
        if said.is_empty() {
            return Ok(None);
        }
        let srt = self
            .keep_text(work, "application/x-subrip", captions::srt(&said))
            .await?;
        let vtt = self.keep_text(work, "text/vtt", captions::vtt(&said)).await?;
        Ok(Some(Subtitles { srt, vtt }))
    }

    async fn keep_text(&self, work: &Work, mime_type: &str, text: String) -> Result<MediaId, Error> {
        let facts = Facts {
            mime_type: mime_type.to_owned(),
            ..Facts::default()
        };
        let (job, content) = (work.job(), blob::whole(Bytes::from(text)));
        let kept = self
            .studio
            .shelf
            .keep(job.account, content, facts, job.terms.id.as_u128(), KEPT);
        Ok(kept.await.map_err(|error| crate::jobs::unavailable(&error))?.id)
    }

    async fn keep_film(
        &self,
        work: &Work,
        place: &Path,
        facts: Facts,
        kept: Duration,
    ) -> Result<MediaId, Error> {
        let content = read_film(place)
            .await
            .map_err(|spoilt| Error::internal(format!("{spoilt:?}")))?;
        let job = work.job();
        let kept = self
            .studio
            .shelf
            .keep(job.account, content, facts, job.terms.id.as_u128(), kept);
        Ok(kept.await.map_err(|error| crate::jobs::unavailable(&error))?.id)
    }

    async fn bytes(&self, work: &Work, media: MediaId) -> Result<Bytes, Error> {
        let kept = crate::input::kept(&self.studio.shelf, work.job().account, media).await?;
        Ok(kept.bytes)
    }

    async fn fetch(&self, work: &Work, media: MediaId, place: &Path) -> Result<(), Error> {
        let bytes = self.bytes(work, media).await?;
        tokio::fs::write(place, &bytes).await.map_err(file)
    }
}

/// The mark of what the simulator has made, which stays where it is while the view moves.
fn simulated(size: Dimensions) -> Result<Picture, tollgate_studio::Error> {
    Sketch::new(size, 0, "").banner()
}

/// Whether there is nothing to be seen on a picture: as dark as what is called black of films.
fn is_black(picture: &Picture) -> bool {
    let pixels = picture.rgba().chunks_exact(4);
    let (mut dark, mut all) = (0_usize, 0_usize);
    for pixel in pixels {
        let luma: u32 = pixel
            .iter()
            .zip([299, 587, 114])
            .map(|(part, weight)| u32::from(*part) * weight)
            .sum();
        dark += usize::from(luma < 32_000);
        all += 1;
    }
    dark * 100 >= all * 95
}

/// When a frame is seen.
fn at(frame: u64) -> Duration {
    Duration::from_micros(frame * 1_000_000 / u64::from(RATE))
}

fn unmade(error: tollgate_studio::Error) -> Error {
    tracing::warn!(%error, "a film cannot be put together");
    let message = "The film could not be put together. It was not charged. Look at the media that you have sent, or send the \
                   request again.";
    Error::new(ErrorCode::InternalError, message).with_source(error.to_string())
}

fn came_out_wrong(faults: &[String]) -> Error {
    let message = format!(
        "The film came out wrong. {} It was not charged. Change the storyboard, or send the request again.",
        faults.join(" ")
    );
    Error::new(ErrorCode::InternalError, message)
}

fn file(error: std::io::Error) -> Error {
    Error::internal(error.to_string())
}
