//! Images of the simulator, drawn from the prompt and the seed, and equal for equal calls. The
//! prompt may contain a script. With `delay`, `cut` or `refuse`, the job is accepted and the image
//! is drawn later; otherwise it is drawn immediately.

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tollgate_media_tools::image::{DEFAULT_QUALITY, with_note};
use tollgate_media_tools::memory::pixels_of;
use tollgate_media_tools::{Dimensions, Encoding, Image, Palette, Sketch};
use tollgate_upstream::{
    CallContext, Content, ContentStream, GenerationOutput, GenerationState, ImageCall, ImageFormat,
    ImageTask, JobProvider, OutputItem, Source, Submitted, UpstreamError,
};

use super::Simulator;
use super::ticket::{
    self, StoredImage, Ticket, decode, decode_without_banner, draw_blocking, fault, hash, rejected,
};

/// Maximum number of images of one submission.
const MAX_OUTPUTS: u32 = 10;
/// Default width and height in pixels.
const DEFAULT_SIZE: (u32, u32) = (1_024, 1_024);
/// Maximum side in pixels and maximum file size in bytes of an input image in a handle.
const SOURCE_COPY_LIMITS: (u32, usize) = (384, 24 << 10);
/// Maximum side in pixels and maximum file size in bytes of a mask in a handle.
const MASK_COPY_LIMITS: (u32, usize) = (256, 16 << 10);
/// Keyword and text of the text chunk in every PNG.
const NOTE: (&str, &str) = (
    "Comment",
    "Simulated by the built-in simulator of Tollgate; no model was used",
);

/// Drawing parameters, without the input images.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ImageSpec {
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

/// An image job, as stored in its handle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ImageJob {
    #[serde(flatten)]
    spec: ImageSpec,
    source: Option<StoredImage>,
    mask: Option<StoredImage>,
}

#[async_trait]
impl JobProvider<ImageCall> for Simulator {
    fn max_outputs(&self, _upstream_model: &str) -> u32 {
        MAX_OUTPUTS
    }

    fn is_idempotent(&self) -> bool {
        true
    }

    async fn submit(
        &self,
        _ctx: &CallContext,
        call: &ImageCall,
        key: &str,
    ) -> Result<Submitted, UpstreamError> {
        let (script, user_text) = ticket::script(&call.prompt)?;
        let spec = ImageSpec::of(call, &user_text, script.size);
        let (source, mask) = (call.images.first().cloned(), call.mask.clone());
        let sources = source.iter().chain(&mask);
        let pixels = spec.pixels() + sources.map(|source| pixels_of(&source.bytes)).sum::<u64>();
        let is_deferred = !script.delay.is_zero() || script.cut.is_some() || script.refuse;
        if !is_deferred {
            let items = draw_blocking(pixels, move || {
                let source = source.map(|source| spec.source(&source)).transpose()?;
                let mask = mask.map(|mask| decode(&mask, "mask")).transpose()?;
                spec.draw(source.as_ref(), mask.as_ref())
            });
            return Ok(Submitted::Completed(output(items.await?)));
        }
        let work = draw_blocking(pixels, move || {
            let stored = |image: Image, (longest, max)| StoredImage::shrunk(&image, longest, max);
            let source = source
                .map(|source| stored(spec.source(&source)?, SOURCE_COPY_LIMITS))
                .transpose()?;
            let mask = mask
                .map(|mask| stored(decode(&mask, "mask")?, MASK_COPY_LIMITS))
                .transpose()?;
            Ok(ImageJob { spec, source, mask })
        });
        let ticket = Ticket::new(&script, key, self.clock.now(), work.await?);
        Ok(Submitted::Accepted {
            handle: ticket.handle()?,
            poll_after: ticket.poll_after(&script),
        })
    }

    async fn poll(&self, _ctx: &CallContext, handle: &[u8]) -> Result<GenerationState, UpstreamError> {
        let ticket: Ticket<ImageJob> = Ticket::read(handle)?;
        if self.cancelled.has(handle) {
            return Ok(GenerationState::Cancelled);
        }
        if let Some(state) = ticket.state(self.clock.now()) {
            return Ok(state);
        }
        // A drawing error is permanent.
        let pixels = ticket.work.spec.pixels();
        let drawn = draw_blocking(pixels, move || ticket.work.draw()).await;
        Ok(drawn.map_or_else(GenerationState::Failed, |files| {
            GenerationState::Completed(output(files))
        }))
    }

    async fn cancel(&self, _ctx: &CallContext, handle: &[u8]) -> Result<(), UpstreamError> {
        let ticket: Ticket<ImageJob> = Ticket::read(handle)?;
        if let Some(GenerationState::Running { .. }) = ticket.state(self.clock.now()) {
            self.cancelled.add(handle);
        }
        Ok(())
    }

    async fn fetch(&self, _ctx: &CallContext, _own: &str) -> Result<ContentStream, UpstreamError> {
        Err(UpstreamError::protocol(
            "cannot download images: the response contains them",
        ))
    }
}

fn output(files: Vec<Bytes>) -> GenerationOutput {
    let items = files.into_iter().map(|file| OutputItem {
        content: Content::Bytes(file),
        revised_prompt: None,
    });
    GenerationOutput {
        items: items.collect(),
        usage: None,
    }
}

impl ImageJob {
    fn draw(&self) -> Result<Vec<Bytes>, UpstreamError> {
        let source = self.source.as_ref().map(StoredImage::image).transpose()?;
        let mask = self.mask.as_ref().map(StoredImage::image).transpose()?;
        self.spec.draw(source.as_ref(), mask.as_ref())
    }
}

impl ImageSpec {
    fn of(call: &ImageCall, user_text: &str, scripted: Option<(u32, u32)>) -> Self {
        let asked = call.size.map(|size| (size.width, size.height));
        let (width, height) = scripted.or(asked).unwrap_or(DEFAULT_SIZE);
        let negative = call.negative_prompt.as_deref().unwrap_or_default();
        let number = call.seed.unwrap_or_default().to_le_bytes();
        Self {
            task: match call.task {
                ImageTask::Generate => Task::Generate,
                ImageTask::Edit => Task::Edit,
                ImageTask::Inpaint => Task::Inpaint,
                ImageTask::Vary => Task::Vary,
            },
            title: ticket::title(user_text),
            seed: hash(&[user_text.as_bytes(), negative.as_bytes(), &number]),
            width,
            height,
            count: call.count.clamp(1, MAX_OUTPUTS),
            set: call.set,
            format: call.format.unwrap_or(ImageFormat::Png).as_str().to_owned(),
        }
    }

    /// Decodes the input image of a call. The banner of an image to inpaint is not removed, so that
    /// the sizes of the image and the mask match.
    fn source(&self, source: &Source) -> Result<Image, UpstreamError> {
        match self.task {
            Task::Inpaint => decode(source, "image"),
            _ => decode_without_banner(source, "image"),
        }
    }

    /// Returns the number of pixels of one image. Images are drawn sequentially.
    fn pixels(&self) -> u64 {
        Dimensions::new(self.width, self.height).pixels()
    }

    /// Draws all images and returns their files.
    fn draw(&self, source: Option<&Image>, mask: Option<&Image>) -> Result<Vec<Bytes>, UpstreamError> {
        let files = (0..self.count).map(|index| {
            let image = self
                .image(index, source, mask)
                .map_err(|error| rejected(error, "size"))?;
            self.encode(&image)
        });
        files.collect()
    }

    fn sketch(&self, index: u32) -> Sketch {
        let size = Dimensions::new(self.width, self.height);
        let seed = match self.set || index == 0 {
            true => self.seed,
            false => hash(&[&self.seed.to_le_bytes(), &index.to_le_bytes()]),
        };
        Sketch {
            number: self.set.then_some((index + 1, self.count)),
            ..Sketch::new(size, seed, self.title.as_str())
        }
    }

    fn image(
        &self,
        index: u32,
        source: Option<&Image>,
        mask: Option<&Image>,
    ) -> tollgate_media_tools::error::Result<Image> {
        let mut sketch = self.sketch(index);
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
        let under = sketch.toned(&under).unwrap_or(under);
        let mut image = match self.task {
            Task::Vary if index.is_multiple_of(2) => under.mirrored().blended(&scene, 0.3),
            Task::Vary => under.blended(&scene, 0.5),
            _ => under.blended(&scene, 0.4),
        };
        sketch.sign(&mut image);
        Ok(image)
    }

    fn encode(&self, image: &Image) -> Result<Bytes, UpstreamError> {
        let encoding = match ImageFormat::parse(&self.format) {
            Some(ImageFormat::Jpeg) => Encoding::Jpeg(DEFAULT_QUALITY),
            Some(ImageFormat::Webp) => Encoding::Webp,
            _ => Encoding::Png,
        };
        let file = image.encode(encoding).map_err(fault)?;
        let (keyword, note) = NOTE;
        Ok(with_note(file, keyword, note).into())
    }
}

#[cfg(test)]
mod tests;
