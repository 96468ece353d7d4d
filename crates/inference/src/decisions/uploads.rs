//! Media that are uploaded files: their bytes are put where base64 of them would stand.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tollgate_catalog::Model;
use tollgate_formats::decisions::{self, Asked, FileKinds, NamedFile};
use tollgate_pipeline::Pipeline;
use tollgate_types::decide::StateMediaKind;
use tollgate_types::{AccountId, Error, ErrorCode};
use tollgate_upstream::{FetchError, MediaKind};

use super::service::check_media;

/// The most bytes of all files of a request: as many as are fetched for one.
const MOST_BYTES: u64 = 256 << 20;

/// Puts the bytes of a request's files where they belong; whether its text is another one thereby.
pub(super) async fn read(
    pipeline: &Pipeline,
    account: AccountId,
    model: &Model,
    asked: &mut Asked,
    body: &[u8],
) -> Result<bool, Error> {
    let (mut urls, mut kinds) = (Vec::with_capacity(asked.files.len()), FileKinds::new());
    let mut left = MOST_BYTES;
    for file in &asked.files {
        let param = &asked.state.media[file.medium].param;
        let (kind, url, bytes) = read_one(pipeline, account, file, left, param).await?;
        left = left.saturating_sub(bytes);
        urls.push(url);
        if file.kind.is_none() {
            kinds.insert(file.id.clone(), kind);
        }
    }
    let is_other = !kinds.is_empty();
    if is_other {
        *asked = decisions::read_knowing(body, &kinds)?;
    }
    for (file, url) in asked.files.iter().zip(urls) {
        asked.state.media[file.medium].url = url;
    }
    check_media(model, &asked.state)?;
    Ok(is_other)
}

/// What a file is, its data URL, and how many bytes it has.
async fn read_one(
    pipeline: &Pipeline,
    account: AccountId,
    file: &NamedFile,
    left: u64,
    param: &str,
) -> Result<(StateMediaKind, String, u64), Error> {
    let most = most_bytes(file.kind.unwrap_or(StateMediaKind::Video)).min(left);
    let found = pipeline.media.file(account, &file.id, most, param).await?;
    let (kind, media_type) =
        kind_of(&found.media_type, file.kind).ok_or_else(|| no_medium(file.kind, param))?;
    let bytes = found.bytes.len() as u64;
    if bytes > most_bytes(kind) {
        return Err(refusal(param, FetchError::TooLarge));
    }
    let url = format!("data:{media_type};base64,{}", STANDARD.encode(&found.bytes));
    Ok((kind, url, bytes))
}

fn most_bytes(kind: StateMediaKind) -> u64 {
    MediaKind::from(kind).most_bytes()
}

/// What a file of this type is, if it is of the kind that is said. Sound may be in what films are in.
fn kind_of(media_type: &str, said: Option<StateMediaKind>) -> Option<(StateMediaKind, String)> {
    let (family, format) = media_type.split_once('/')?;
    let kind = StateMediaKind::ALL
        .into_iter()
        .find(|kind| kind.as_str() == family)?;
    match said {
        Some(StateMediaKind::Audio) if kind == StateMediaKind::Video => {
            Some((StateMediaKind::Audio, format!("audio/{format}")))
        }
        Some(said) if said != kind => None,
        _ => Some((kind, media_type.to_owned())),
    }
}

fn no_medium(said: Option<StateMediaKind>, param: &str) -> Error {
    refusal(
        param,
        match said {
            Some(StateMediaKind::Image) => "names a file that is no image",
            Some(StateMediaKind::Audio) => "names a file that is no audio",
            Some(StateMediaKind::Video) => "names a file that is no video",
            None => "names a file that is neither image, audio nor video",
        },
    )
}

fn refusal(param: &str, what: impl std::fmt::Display) -> Error {
    Error::new(ErrorCode::InvalidParameter, format!("'{param}' {what}.")).with_param(param)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_what_its_part_says_or_what_it_is() {
        use StateMediaKind::{Audio, Image, Video};
        for (media_type, said, expected) in [
            ("image/png", Some(Image), Some((Image, "image/png"))),
            ("image/png", None, Some((Image, "image/png"))),
            ("image/png", Some(Video), None),
            ("audio/wav", None, Some((Audio, "audio/wav"))),
            ("audio/wav", Some(Image), None),
            ("audio/wav", Some(Video), None),
            ("video/mp4", None, Some((Video, "video/mp4"))),
            ("video/mp4", Some(Audio), Some((Audio, "audio/mp4"))),
            ("video/webm", Some(Image), None),
            ("text/plain", Some(Image), None),
            ("application/pdf", None, None),
        ] {
            let found = kind_of(media_type, said);
            let expected = expected.map(|(kind, name)| (kind, name.to_owned()));
            assert_eq!(found, expected, "{media_type} {said:?}");
        }
    }
}
