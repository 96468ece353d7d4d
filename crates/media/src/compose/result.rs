//! What the record of a finished composition shows.

use serde_json::{Map, Value, json};
use tollgate_accounts::Disposition;
use tollgate_storage::Job;
use tollgate_types::{Credits, Error, MediaId};

use super::order::{Composed, Line};
use super::storyboard::INLINE;
use crate::jobs::unavailable;
use crate::order;
use crate::shelf::Shelf;

/// The result, but for the film itself, which is shown like any other.
pub(crate) async fn shown(
    shelf: &Shelf,
    vault: &tollgate_accounts::Vault,
    origin: &str,
    job: &Job,
    sealed: &[u8],
) -> Result<Map<String, Value>, Error> {
    let composed: Composed = order::open(vault, job, sealed)?;
    let addresses = Addresses { shelf, origin, job };
    let mut shown = Map::new();
    let object = if composed.is_plan {
        "storyboard"
    } else {
        "composition"
    };
    shown.insert("object".to_owned(), object.into());
    shown.insert("recipe".to_owned(), composed.recipe.clone().into());
    shown.insert("storyboard".to_owned(), storyboard(&composed, &addresses).await?);
    shown.insert("price".to_owned(), price(&composed.price));
    if let Some(subtitles) = composed.subtitles {
        let srt = addresses.of(subtitles.srt).await?;
        let vtt = addresses.of(subtitles.vtt).await?;
        shown.insert("subtitles".to_owned(), json!({"srt": srt, "vtt": vtt}));
    }
    if let Some(measured) = composed.measured {
        let loudness = measured.loudness.map(|tenths| f64::from(tenths) / 10.0);
        let measured = json!({"frames": measured.frames, "loudness_lufs": loudness});
        shown.insert("measured".to_owned(), measured);
    }
    Ok(shown)
}

/// The storyboard as it can be sent back: what came with a request is named by its address here.
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
    let mut shown = serde_json::to_value(&board).map_err(|error| Error::internal(error.to_string()))?;
    for name in ["voice", "captions", "music"] {
        if let Some(nothing) = shown.get_mut(name).filter(|value| value.is_null()) {
            *nothing = "none".into();
        }
    }
    Ok(shown)
}

struct Addresses<'a> {
    shelf: &'a Shelf,
    origin: &'a str,
    job: &'a Job,
}

impl Addresses<'_> {
    async fn fill(&self, address: &mut Option<String>, media: MediaId) -> Result<(), Error> {
        if address.as_deref() == Some(INLINE) {
            *address = Some(self.of(media).await?);
        }
        Ok(())
    }

    /// Past its time the address still says what was there; it answers 410.
    async fn of(&self, media: MediaId) -> Result<String, Error> {
        let address = self
            .shelf
            .address(self.origin, self.job.account, media, Disposition::Inline);
        let address = address.await.map_err(|error| unavailable(&error))?;
        let gone = || format!("{}/v1/media/{media}", self.origin);
        Ok(address.map_or_else(gone, |address| address.url))
    }
}

/// Each step and all of them together.
fn price(lines: &[Line]) -> Value {
    let total = lines.iter().fold(Credits::ZERO, |total, line| {
        let cost = line.cost.parse().unwrap_or(Credits::ZERO);
        total.checked_add(cost).unwrap_or(Credits::MAX)
    });
    json!({"total": total.to_string(), "items": lines})
}
