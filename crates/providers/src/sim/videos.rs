//! Films of the simulator: a few pictures that turn into each other, with a chord for sound, the same for the same call. They
//! are always made later; their bytes are made when they are fetched, by ffmpeg.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use serde::{Deserialize, Serialize};
use tollgate_studio::{Dimensions, FilmSpec, Palette, Picture, Program, Scratch, Sketch};
use tollgate_types::{Error, ErrorCode};
use tollgate_upstream::{
    CallContext, Content, ContentStream, Made, Maker, Piece, State, Submitted, UpstreamError, VideoCall,
    VideoTask,
};

use super::Simulator;
use super::ticket::{self, Kept, Ticket, blocking, decode, fault, hash, rejected};

/// Frames in a second.
const RATE: u32 = 24;
/// How long a picture stands before it turns into the next.
const STILL: Duration = Duration::from_secs(4);
/// The most pictures of a film.
const MOST_STILLS: u128 = 6;
/// The longest side of a picture in a handle, and the most bytes of its file.
const KEPT: (u32, usize) = (640, 40 << 10);
/// How much is handed out at once.
const PIECE: usize = 256 << 10;
/// By what films are made and looked at.
const PROGRAMS: [Program; 2] = [Program::Ffmpeg, Program::Ffprobe];
/// What every film says of itself.
const NOTE: &str = "Simulated by the built-in simulator of Tollgate";

/// A film as it is in a handle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Work {
    title: String,
    seed: u64,
    width: u32,
    height: u32,
    duration_ms: u64,
    audio: bool,
    /// What it begins with.
    first: Option<Kept>,
    /// What it looks like.
    reference: Option<Kept>,
}

#[async_trait]
impl Maker<VideoCall> for Simulator {
    fn keeps_keys(&self) -> bool {
        true
    }

    fn check(&self, call: &VideoCall) -> Result<(), Error> {
        if call.task == VideoTask::Extend {
            let message = "The model does not go on with a film.";
            return Err(Error::new(ErrorCode::UnsupportedParameter, message).with_param("extend_from"));
        }
        self.tools.need(&PROGRAMS).map_err(|error| {
            let message = "The simulator cannot make films at the moment: a program for that is missing.";
            Error::new(ErrorCode::ModelUnavailable, message).with_source(error.to_string())
        })
    }

    async fn submit(
        &self,
        _ctx: &CallContext,
        call: &VideoCall,
        key: &str,
    ) -> Result<Submitted, UpstreamError> {
        let (script, said) = ticket::script(&call.prompt)?;
        self.tools.need(&PROGRAMS).map_err(fault)?;
        let (image, reference) = (call.image.clone(), call.references.first().cloned());
        let work = Work::of(call, &said, script.size);
        let spec = work.spec().map_err(fault)?;
        spec.check(work.count())
            .map_err(|error| rejected(error, "size"))?;
        let work = blocking(move || {
            let (longest, most) = KEPT;
            let kept = |picture: &Picture| Kept::small(picture, longest, most);
            let first = image.map(|image| kept(&decode(&image, "image")?)).transpose()?;
            // A handle has room for one.
            let reference = reference.filter(|_| first.is_none());
            let reference = reference
                .map(|one| kept(&decode(&one, "references")?))
                .transpose()?;
            Ok(Work {
                first,
                reference,
                ..work
            })
        });
        let ticket = Ticket::new(&script, key, self.clock.now(), work.await?);
        Ok(Submitted::Accepted {
            handle: ticket.handle()?,
            poll_after: ticket.poll_after(&script),
        })
    }

    async fn poll(&self, _ctx: &CallContext, handle: &[u8]) -> Result<State, UpstreamError> {
        let ticket: Ticket<Work> = Ticket::read(handle)?;
        if self.cancelled.has(handle) {
            return Ok(State::Cancelled);
        }
        if let Some(state) = ticket.state(self.clock.now()) {
            return Ok(state);
        }
        let piece = Piece {
            content: Content::Own(String::from_utf8_lossy(handle).into_owned()),
            revised_prompt: None,
        };
        Ok(State::Made(Made {
            pieces: vec![piece],
            usage: None,
        }))
    }

    async fn cancel(&self, _ctx: &CallContext, handle: &[u8]) -> Result<(), UpstreamError> {
        let ticket: Ticket<Work> = Ticket::read(handle)?;
        if let Some(State::Running { .. }) = ticket.state(self.clock.now()) {
            self.cancelled.add(handle);
        }
        Ok(())
    }

    async fn fetch(&self, _ctx: &CallContext, own: &str) -> Result<ContentStream, UpstreamError> {
        let ticket: Ticket<Work> = Ticket::read(own.as_bytes())?;
        let work = ticket.work;
        let (spec, stills) = blocking(move || Ok((work.spec().map_err(fault)?, work.stills()?))).await?;
        let scratch = Scratch::make().map_err(fault)?;
        let place = scratch.file("film.mp4");
        self.tools
            .make_film(&spec, &stills, &place)
            .await
            .map_err(fault)?;
        let film = tokio::fs::read(&place).await;
        let film = Bytes::from(film.map_err(|error| fault(error.into()))?);
        let starts = (0..film.len()).step_by(PIECE);
        let pieces: Vec<Bytes> = starts
            .map(|start| film.slice(start..film.len().min(start + PIECE)))
            .collect();
        Ok(Box::pin(stream::iter(pieces.into_iter().map(Ok))))
    }
}

impl Work {
    fn of(call: &VideoCall, said: &str, scripted: Option<(u32, u32)>) -> Self {
        let (width, height) = scripted.unwrap_or((call.size.width, call.size.height));
        let negative = call.negative_prompt.as_deref().unwrap_or_default();
        let number = call.seed.unwrap_or_default().to_le_bytes();
        Self {
            title: ticket::title(said),
            seed: hash(&[said.as_bytes(), negative.as_bytes(), &number]),
            width,
            height,
            duration_ms: u64::try_from(call.duration.as_millis()).unwrap_or(u64::MAX),
            audio: call.audio,
            first: None,
            reference: None,
        }
    }

    fn sketch(&self) -> Sketch {
        let size = Dimensions::new(self.width, self.height);
        Sketch::new(size, self.seed, self.title.as_str())
    }

    fn spec(&self) -> tollgate_studio::error::Result<FilmSpec> {
        Ok(FilmSpec {
            size: Dimensions::new(self.width, self.height),
            duration: Duration::from_millis(self.duration_ms),
            rate: RATE,
            sound: self.audio.then_some(self.seed),
            banner: Some(self.sketch().banner()?),
            note: Some(NOTE),
        })
    }

    /// How many pictures it has.
    fn count(&self) -> usize {
        let stills = u128::from(self.duration_ms)
            .div_ceil(STILL.as_millis())
            .clamp(1, MOST_STILLS);
        usize::try_from(stills).unwrap_or(1)
    }

    fn stills(&self) -> Result<Vec<Picture>, UpstreamError> {
        if let Some(first) = &self.first {
            return Ok(vec![first.picture()?]);
        }
        let reference = self.reference.as_ref().map(Kept::picture).transpose()?;
        let count = u32::try_from(self.count()).unwrap_or(1);
        let stills = (1..=count).map(|number| {
            let sketch = Sketch {
                number: Some((number, count)),
                palette: reference.as_ref().map(Palette::of),
                ..self.sketch()
            };
            let scene = sketch.scene().map_err(fault)?;
            Ok(match &reference {
                Some(reference) => reference.covering(sketch.size).blended(&scene, 0.55),
                None => scene,
            })
        });
        stills.collect()
    }
}

#[cfg(test)]
mod tests;
