//! Preview images of templates. A preview is drawn from the template's prompt on the first request,
//! and cached in memory.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use tollgate_catalog::Template;
use tollgate_catalog::media::parse_ratio;
use tollgate_media_tools::memory::with_pixels;
use tollgate_media_tools::{Dimensions, Encoding, Sketch};
use tollgate_types::Error;

/// Length of the longer side of a preview, in pixels.
const LONG_SIDE: u32 = 512;
/// JPEG quality of a preview, from 1 to 100.
const QUALITY: u8 = 80;

/// Cache of the previews that were drawn.
#[derive(Default)]
pub struct Previews {
    /// Previews by slug. The lock ensures that only one preview is drawn at a time, because the
    /// endpoint needs no key.
    cached: Mutex<HashMap<Arc<str>, Preview>>,
}

/// The preview image of a template.
#[derive(Clone)]
pub(super) struct Preview {
    /// Prompt from which the preview was drawn. A changed prompt invalidates the cache entry.
    prompt: String,
    /// Bytes of the JPEG file.
    pub(super) bytes: Bytes,
    /// Entity tag of the bytes, in quotes.
    pub(super) tag: String,
}

impl Previews {
    /// Returns the preview of a template, and draws it if the cache has none.
    pub(super) async fn of(&self, template: &Template) -> Result<Preview, Error> {
        let prompt = template.blend(None, None);
        let mut cached = self.cached.lock().await;
        if let Some(known) = cached.get(&template.slug).filter(|known| known.prompt == prompt) {
            return Ok(known.clone());
        }
        let sketch = Sketch::new(size(template), seed(&template.slug), prompt.clone());
        let draw = move || sketch.draw()?.encode(Encoding::Jpeg(QUALITY));
        let bytes = with_pixels(size(template).pixels(), draw).await;
        let bytes = bytes.and_then(|bytes| bytes);
        let bytes = bytes.map_err(|error| Error::internal(error.to_string()))?;
        let preview = Preview {
            prompt,
            tag: format!("\"{}\"", hex(&Sha256::digest(&bytes)[..16])),
            bytes: bytes.into(),
        };
        cached.insert(template.slug.clone(), preview.clone());
        Ok(preview)
    }
}

/// Returns the dimensions of the preview, in the template's aspect ratio.
fn size(template: &Template) -> Dimensions {
    let ratio = template.params.aspect_ratio.as_deref().and_then(parse_ratio);
    let (width, height) = ratio.unwrap_or((1, 1));
    let longer = width.max(height).max(1);
    let side = |part: u32| (LONG_SIDE * part / longer).max(16);
    Dimensions::new(side(width), side(height))
}

/// Derives the seed of the drawing from the slug, so that previews differ.
fn seed(slug: &str) -> u64 {
    let digest = Sha256::digest(slug.as_bytes());
    digest
        .iter()
        .take(8)
        .fold(0, |seed, byte| seed << 8 | u64::from(*byte))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use tollgate_catalog::{CatalogInput, load};
    use tollgate_media_tools::Image;

    use super::*;

    #[tokio::test]
    async fn every_template_has_its_own_preview_in_its_ratio() {
        let snapshot = load(&CatalogInput::default()).unwrap();
        let previews = Previews::default();
        let mut tags = std::collections::HashSet::new();
        for template in snapshot.templates() {
            let preview = previews.of(template).await.unwrap();
            let image = Image::decode(&preview.bytes).unwrap();
            assert_eq!(image.size(), size(template), "{}", template.slug);
            assert!(tags.insert(preview.tag.clone()), "{}", template.slug);
        }
        let first = snapshot.templates().first().unwrap();
        let again = previews.of(first).await.unwrap();
        let anew = Previews::default().of(first).await.unwrap();
        assert_eq!((&again.tag, &again.bytes), (&anew.tag, &anew.bytes));
        let mut changed = Template::clone(first);
        changed.prompt = "Something else: {prompt}.".to_owned();
        let changed = previews.of(&changed).await.unwrap();
        assert_ne!(changed.tag, again.tag, "a new prompt needs a new image");
    }
}
