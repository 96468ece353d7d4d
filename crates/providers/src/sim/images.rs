//! Pictures of the simulator: drawn from the prompt and the seed, the same for the same call. The prompt may have a script:
//! with `delay`, `cut` or `refuse` it is accepted and made later, else it is made at once.

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tollgate_studio::picture::{USUAL_QUALITY, with_note};
use tollgate_studio::{Dimensions, Encoding, Palette, Picture, Sketch};
use tollgate_upstream::{
    CallContext, Content, ContentStream, ImageCall, ImageFormat, ImageTask, Made, Maker, Piece, State,
    Submitted, UpstreamError,
};

use super::Simulator;
use super::ticket::{self, Kept, Ticket, blocking, decode, fault, hash, rejected};

/// The most pictures of one submission.
const MOST_AT_ONCE: u32 = 10;
/// How large a picture is unless it is said.
const USUAL_SIZE: (u32, u32) = (1_024, 1_024);
/// The longest side of a picture and of a mask in a handle, and the most bytes of their files.
const KEPT_SOURCE: (u32, usize) = (384, 24 << 10);
const KEPT_MASK: (u32, usize) = (256, 16 << 10);
/// What every PNG says of itself.
const NOTE: (&str, &str) = (
    "Comment",
    "Simulated: drawn by the built-in simulator of Tollgate, no model was asked",
);

/// What is to be drawn, but for the pictures that go into it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Order {
    task: Task,
    title: String,
    seed: u64,
    width: u32,
    height: u32,
    count: u32,
    set: bool,
    format: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Task {
    Generate,
    Edit,
    Inpaint,
    Vary,
}

/// An order as it is in a handle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Work {
    #[serde(flatten)]
    order: Order,
    source: Option<Kept>,
    mask: Option<Kept>,
}

#[async_trait]
impl Maker<ImageCall> for Simulator {
    fn most_at_once(&self, _upstream_model: &str) -> u32 {
        MOST_AT_ONCE
    }

    fn keeps_keys(&self) -> bool {
        true
    }

    async fn submit(
        &self,
        _ctx: &CallContext,
        call: &ImageCall,
        key: &str,
    ) -> Result<Submitted, UpstreamError> {
        let (script, said) = ticket::script(&call.prompt)?;
        let order = Order::of(call, &said, script.size);
        let (source, mask) = (call.images.first().cloned(), call.mask.clone());
        let is_made_later = !script.delay.is_zero() || script.cut.is_some() || script.refuse;
        if !is_made_later {
            let pieces = blocking(move || {
                let source = source.map(|source| decode(&source, "image")).transpose()?;
                let mask = mask.map(|mask| decode(&mask, "mask")).transpose()?;
                order.draw(source.as_ref(), mask.as_ref())
            });
            return Ok(Submitted::Made(made(pieces.await?)));
        }
        let work = blocking(move || {
            let kept = |picture: Picture, (longest, most)| Kept::small(&picture, longest, most);
            let source = source
                .map(|source| kept(decode(&source, "image")?, KEPT_SOURCE))
                .transpose()?;
            let mask = mask
                .map(|mask| kept(decode(&mask, "mask")?, KEPT_MASK))
                .transpose()?;
            Ok(Work { order, source, mask })
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
        // What cannot be drawn now cannot be drawn later.
        let drawn = blocking(move || ticket.work.draw()).await;
        Ok(drawn.map_or_else(State::Failed, |files| State::Made(made(files))))
    }

    async fn cancel(&self, _ctx: &CallContext, handle: &[u8]) -> Result<(), UpstreamError> {
        let ticket: Ticket<Work> = Ticket::read(handle)?;
        if let Some(State::Running { .. }) = ticket.state(self.clock.now()) {
            self.cancelled.add(handle);
        }
        Ok(())
    }

    async fn fetch(&self, _ctx: &CallContext, _own: &str) -> Result<ContentStream, UpstreamError> {
        Err(UpstreamError::protocol(
            "pictures of the simulator come with the answer",
        ))
    }
}

fn made(files: Vec<Bytes>) -> Made {
    let pieces = files.into_iter().map(|file| Piece {
        content: Content::Bytes(file),
        revised_prompt: None,
    });
    Made {
        pieces: pieces.collect(),
        usage: None,
    }
}

impl Work {
    fn draw(&self) -> Result<Vec<Bytes>, UpstreamError> {
        let source = self.source.as_ref().map(Kept::picture).transpose()?;
        let mask = self.mask.as_ref().map(Kept::picture).transpose()?;
        self.order.draw(source.as_ref(), mask.as_ref())
    }
}

impl Order {
    fn of(call: &ImageCall, said: &str, scripted: Option<(u32, u32)>) -> Self {
        let asked = call.size.map(|size| (size.width, size.height));
        let (width, height) = scripted.or(asked).unwrap_or(USUAL_SIZE);
        let negative = call.negative_prompt.as_deref().unwrap_or_default();
        let number = call.seed.unwrap_or_default().to_le_bytes();
        Self {
            task: match call.task {
                ImageTask::Generate => Task::Generate,
                ImageTask::Edit => Task::Edit,
                ImageTask::Inpaint => Task::Inpaint,
                ImageTask::Vary => Task::Vary,
            },
            title: ticket::title(said),
            seed: hash(&[said.as_bytes(), negative.as_bytes(), &number]),
            width,
            height,
            count: call.count.clamp(1, MOST_AT_ONCE),
            set: call.set,
            format: call.format.unwrap_or(ImageFormat::Png).as_str().to_owned(),
        }
    }

    /// The files of all pictures.
    fn draw(&self, source: Option<&Picture>, mask: Option<&Picture>) -> Result<Vec<Bytes>, UpstreamError> {
        let files = (0..self.count).map(|place| {
            let picture = self
                .picture(place, source, mask)
                .map_err(|error| rejected(error, "size"))?;
            self.encode(&picture)
        });
        files.collect()
    }

    fn sketch(&self, place: u32) -> Sketch {
        let size = Dimensions::new(self.width, self.height);
        let seed = match self.set || place == 0 {
            true => self.seed,
            false => hash(&[&self.seed.to_le_bytes(), &place.to_le_bytes()]),
        };
        Sketch {
            number: self.set.then_some((place + 1, self.count)),
            ..Sketch::new(size, seed, self.title.as_str())
        }
    }

    fn picture(
        &self,
        place: u32,
        source: Option<&Picture>,
        mask: Option<&Picture>,
    ) -> tollgate_studio::error::Result<Picture> {
        let mut sketch = self.sketch(place);
        let (Some(source), false) = (source, self.task == Task::Generate) else {
            return sketch.draw();
        };
        sketch.palette = Some(Palette::of(source));
        if let (Task::Inpaint, Some(mask)) = (self.task, mask) {
            let drawn = sketch.draw()?;
            let (under, mask) = (source.covering(sketch.size), mask.covering(sketch.size));
            return Ok(under.redrawn(&drawn, &mask));
        }
        let scene = sketch.scene()?;
        let under = source.covering(sketch.size);
        let mut picture = match self.task {
            Task::Vary if place.is_multiple_of(2) => under.mirrored().blended(&scene, 0.3),
            Task::Vary => under.blended(&scene, 0.5),
            _ => under.blended(&scene, 0.4),
        };
        sketch.sign(&mut picture);
        Ok(picture)
    }

    fn encode(&self, picture: &Picture) -> Result<Bytes, UpstreamError> {
        let encoding = match ImageFormat::parse(&self.format) {
            Some(ImageFormat::Jpeg) => Encoding::Jpeg(USUAL_QUALITY),
            Some(ImageFormat::Webp) => Encoding::Webp,
            _ => Encoding::Png,
        };
        let file = picture.encode(encoding).map_err(fault)?;
        let (keyword, note) = NOTE;
        Ok(with_note(file, keyword, note).into())
    }
}

#[cfg(test)]
mod tests;
