//! Loads media that requests reference as uploaded files, and replaces the references with data
//! URLs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tollgate_catalog::Model;
use tollgate_formats::decisions::{self, DecisionRequest, FileKinds, NamedFile};
use tollgate_pipeline::Pipeline;
use tollgate_types::decide::StateMediaKind;
use tollgate_types::{AccountId, Error, ErrorCode};
use tollgate_upstream::{FetchError, MediaKind};

use super::service::check_media;

/// Maximum total size of the files of a request, equal to the limit of fetched media.
const MAX_TOTAL_BYTES: u64 = 256 << 20;

/// Replaces the file references of a request with data URLs. Returns true if the text of the
/// request changed, because the kind of a file was not declared.
pub(super) async fn read(
    pipeline: &Pipeline,
    account: AccountId,
    model: &Model,
    asked: &mut DecisionRequest,
    body: &[u8],
) -> Result<bool, Error> {
    let (mut urls, mut kinds) = (Vec::with_capacity(asked.files.len()), FileKinds::new());
    let mut left = MAX_TOTAL_BYTES;
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
        *asked = decisions::read_with_kinds(body, &kinds)?;
    }
    for (file, url) in asked.files.iter().zip(urls) {
        asked.state.media[file.medium].url = url;
    }
    check_media(model, &asked.state)?;
    Ok(is_other)
}

/// Returns the kind of a file, its data URL and its size in bytes.
async fn read_one(
    pipeline: &Pipeline,
    account: AccountId,
    file: &NamedFile,
    left: u64,
    param: &str,
) -> Result<(StateMediaKind, String, u64), Error> {
    let max = max_bytes(file.kind.unwrap_or(StateMediaKind::Video)).min(left);
    let found = pipeline.media.file(account, &file.id, max, param).await?;
    let (kind, media_type) =
        kind_of(&found.media_type, file.kind).ok_or_else(|| unsupported_media(file.kind, param))?;
    let bytes = found.bytes.len() as u64;
    if bytes > max_bytes(kind) {
        return Err(refusal(param, FetchError::TooLarge));
    }
    let url = format!("data:{media_type};base64,{}", STANDARD.encode(&found.bytes));
    Ok((kind, url, bytes))
}

fn max_bytes(kind: StateMediaKind) -> u64 {
    MediaKind::from(kind).max_bytes()
}

/// Returns the kind of a file with this media type; `None` if it contradicts the declared kind.
/// Video containers may hold audio.
fn kind_of(media_type: &str, declared_kind: Option<StateMediaKind>) -> Option<(StateMediaKind, String)> {
    let (family, format) = media_type.split_once('/')?;
    let kind = StateMediaKind::ALL
        .into_iter()
        .find(|kind| kind.as_str() == family)?;
    match declared_kind {
        Some(StateMediaKind::Audio) if kind == StateMediaKind::Video => {
            Some((StateMediaKind::Audio, format!("audio/{format}")))
        }
        Some(declared_kind) if declared_kind != kind => None,
        _ => Some((kind, media_type.to_owned())),
    }
}

fn unsupported_media(declared_kind: Option<StateMediaKind>, param: &str) -> Error {
    refusal(
        param,
        match declared_kind {
            Some(StateMediaKind::Image) => "must reference an image file",
            Some(StateMediaKind::Audio) => "must reference an audio file",
            Some(StateMediaKind::Video) => "must reference a video file",
            None => "must reference an image, audio or video file",
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
    fn declared_kinds_must_match_the_file_type() {
        use StateMediaKind::{Audio, Image, Video};
        for (media_type, declared_kind, expected) in [
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
            let found = kind_of(media_type, declared_kind);
            let expected = expected.map(|(kind, name)| (kind, name.to_owned()));
            assert_eq!(found, expected, "{media_type} {declared_kind:?}");
        }
    }
}
