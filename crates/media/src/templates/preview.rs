//! What a template looks like in a list: a small picture that is drawn from its prompt when somebody first asks for it.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use tollgate_catalog::Template;
use tollgate_catalog::media::parse_ratio;
use tollgate_studio::{Dimensions, Encoding, Sketch};
use tollgate_types::Error;

/// The longer side, in pixels.
const LONGER: u32 = 512;
/// The quality of the JPEG.
const QUALITY: u8 = 80;

/// The pictures that were drawn.
#[derive(Default)]
pub struct Previews {
    /// By slug. One is drawn at a time: nobody needs a key to ask.
    drawn: Mutex<HashMap<Arc<str>, Preview>>,
}

/// A picture of a template.
#[derive(Clone)]
pub(super) struct Preview {
    /// What is drawn.
    prompt: String,
    /// A JPEG.
    pub(super) bytes: Bytes,
    /// Names the bytes.
    pub(super) tag: String,
}

impl Previews {
    /// The picture of a template.
    pub(super) async fn of(&self, template: &Template) -> Result<Preview, Error> {
        let prompt = template.blend(None, None);
        let mut drawn = self.drawn.lock().await;
        if let Some(known) = drawn.get(&template.slug).filter(|known| known.prompt == prompt) {
            return Ok(known.clone());
        }
        let sketch = Sketch::new(size(template), seed(&template.slug), prompt.clone());
        let draw = move || sketch.draw()?.encode(Encoding::Jpeg(QUALITY));
        let bytes = tokio::task::spawn_blocking(draw).await;
        let bytes = bytes.map_err(|error| Error::internal(error.to_string()))?;
        let bytes = bytes.map_err(|error| Error::internal(error.to_string()))?;
        let preview = Preview {
            prompt,
            tag: format!("\"{}\"", hex(&Sha256::digest(&bytes)[..16])),
            bytes: bytes.into(),
        };
        drawn.insert(template.slug.clone(), preview.clone());
        Ok(preview)
    }
}

/// As wide and high as what the template makes.
fn size(template: &Template) -> Dimensions {
    let ratio = template.params.aspect_ratio.as_deref().and_then(parse_ratio);
    let (width, height) = ratio.unwrap_or((1, 1));
    let longer = width.max(height).max(1);
    let side = |part: u32| (LONGER * part / longer).max(16);
    Dimensions::new(side(width), side(height))
}

/// Another slug, another picture.
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
    use tollgate_studio::Picture;

    use super::*;

    #[tokio::test]
    async fn every_template_has_a_picture_of_its_shape_and_its_own() {
        let snapshot = load(&CatalogInput::default()).unwrap();
        let previews = Previews::default();
        let mut tags = std::collections::HashSet::new();
        for template in snapshot.templates() {
            let preview = previews.of(template).await.unwrap();
            let picture = Picture::decode(&preview.bytes).unwrap();
            assert_eq!(picture.size(), size(template), "{}", template.slug);
            assert!(tags.insert(preview.tag.clone()), "{}", template.slug);
        }
        let first = snapshot.templates().first().unwrap();
        let again = previews.of(first).await.unwrap();
        let anew = Previews::default().of(first).await.unwrap();
        assert_eq!((&again.tag, &again.bytes), (&anew.tag, &anew.bytes));
        let mut changed = Template::clone(first);
        changed.prompt = "Something else: {prompt}.".to_owned();
        let changed = previews.of(&changed).await.unwrap();
        assert_ne!(changed.tag, again.tag, "a new prompt is drawn anew");
    }
}
