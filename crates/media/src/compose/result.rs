//! The result fields of a finished composition.

use serde_json::{Map, Value, json};
use tollgate_accounts::Disposition;
use tollgate_jobs::sealed;
use tollgate_storage::Job;
use tollgate_types::{Credits, Error, MediaId};

use super::payload::{Composed, PriceLine};
use super::storyboard::INLINE;
use crate::jobs::unavailable;
use crate::storage::MediaStorage;

/// Returns the result fields that only compositions have. The caller of this function adds the
/// fields of the video.
pub(crate) async fn result_fields(
    storage: &MediaStorage,
    vault: &tollgate_accounts::Vault,
    origin: &str,
    job: &Job,
    sealed: &[u8],
) -> Result<Map<String, Value>, Error> {
    let composed: Composed = sealed::open(vault, job, sealed)?;
    let addresses = Addresses { storage, origin, job };
    let mut result_fields = Map::new();
    let object = if composed.is_plan {
        "storyboard"
    } else {
        "composition"
    };
    result_fields.insert("object".to_owned(), object.into());
    result_fields.insert("recipe".to_owned(), composed.recipe.clone().into());
    result_fields.insert("storyboard".to_owned(), storyboard(&composed, &addresses).await?);
    result_fields.insert("price".to_owned(), price(&composed.price));
    if let Some(subtitles) = composed.subtitles {
        let srt = addresses.of(subtitles.srt).await?;
        let vtt = addresses.of(subtitles.vtt).await?;
        result_fields.insert("subtitles".to_owned(), json!({"srt": srt, "vtt": vtt}));
    }
    if let Some(measured) = composed.measured {
        let loudness = measured.loudness.map(|tenths| f64::from(tenths) / 10.0);
        let measured = json!({"frames": measured.frames, "loudness_lufs": loudness});
        result_fields.insert("measured".to_owned(), measured);
    }
    Ok(result_fields)
}

/// Returns the storyboard in a form that a request can contain. Inline media are replaced by signed
/// URLs.
async fn storyboard(composed: &Composed, addresses: &Addresses<'_>) -> Result<Value, Error> {
    let mut board = composed.board.clone();
    for scene in &mut board.scenes {
        let visual = &mut scene.visual;
        let Some(media) = visual.media.take() else {
            continue;
        };
        for address in [&mut visual.image, &mut visual.video] {
            addresses.fill(address, media).await?;
        }
    }
    if let Some(music) = &mut board.music
        && let Some(media) = music.media.take()
    {
        addresses.fill(&mut music.url, media).await?;
    }
    let mut result_fields =
        serde_json::to_value(&board).map_err(|error| Error::internal(error.to_string()))?;
    for name in ["voice", "captions", "music"] {
        if let Some(nothing) = result_fields.get_mut(name).filter(|value| value.is_null()) {
            *nothing = "none".into();
        }
    }
    Ok(result_fields)
}

struct Addresses<'a> {
    storage: &'a MediaStorage,
    origin: &'a str,
    job: &'a Job,
}

impl Addresses<'_> {
    async fn fill(&self, address: &mut Option<String>, media: MediaId) -> Result<(), Error> {
        if address.as_deref() == Some(INLINE) {
            *address = self.of(media).await?;
        }
        Ok(())
    }

    async fn of(&self, media: MediaId) -> Result<Option<String>, Error> {
        let address = self
            .storage
            .address(self.origin, self.job.account, media, Disposition::Inline);
        let address = address.await.map_err(|error| unavailable(&error))?;
        Ok(address.map(|address| address.url))
    }
}

/// Returns the cost of each step and the total.
fn price(lines: &[PriceLine]) -> Value {
    let total = lines.iter().fold(Credits::ZERO, |total, line| {
        let cost = line.cost.parse().unwrap_or(Credits::ZERO);
        total.checked_add(cost).unwrap_or(Credits::MAX)
    });
    json!({"total": total.to_string(), "items": lines})
}
