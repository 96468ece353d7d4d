//! Inlines media that a caller references, as the first step of stage 2. URLs are fetched if an
//! upstream accepts only bytes. Uploaded files are always read, since upstreams have no access to
//! them. Media are inlined before the hold, since the cost of a document depends on its bytes, but
//! after all checks that need no bytes.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use tollgate_billing::{Demand, Hold};
use tollgate_storage::{FileError, FileSource, StoredFile};
use tollgate_types::generate::{File, GenerateRequest, Part, Stored};
use tollgate_types::{AccountId, Error, ErrorCode, Retry};
use tollgate_upstream::{
    EmbedCall, FetchError, FetchRequest, Fetcher, MediaInspector, MediaKind, ModerationCall, TextCall,
};

use crate::Pipeline;
use crate::admit::CallRequest;
use crate::route::Routed;

/// Maximum number of media to fetch or read for one request.
const MAX_MEDIA: usize = 16;
/// Maximum total bytes of these media.
const MAX_TOTAL_BYTES: u64 = 32 << 20;
/// Maximum number of concurrent fetches or reads per request.
const MAX_CONCURRENT: usize = 4;

/// Sources of media that callers reference instead of sending them.
#[derive(Clone)]
pub struct MediaSources {
    /// Client that fetches media by URL.
    pub fetcher: Arc<dyn Fetcher>,
    /// Store from which uploaded files are read by id.
    pub files: Arc<dyn FileSource>,
    /// Inspector that measures media, such as the duration of a recording.
    pub inspector: Arc<dyn MediaInspector>,
}

impl MediaSources {
    /// Reads a file of an account. Fails if the file is larger than `max_bytes`. `param` is the
    /// parameter that errors name.
    pub async fn file(
        &self,
        account: AccountId,
        id: &str,
        max_bytes: u64,
        param: &str,
    ) -> Result<StoredFile, Error> {
        let read = self.files.read(account, id, max_bytes).await;
        read.map_err(|error| file_error(error, param))
    }
}

/// A call that may reference media by URL or file id.
pub trait ReferencesMedia: Sized + Send + Sync {
    /// Inlines the media that candidates need as bytes, and adds the bytes to the demand. Removes
    /// candidates that do not accept the media types. By default, does nothing.
    fn fetch_media(
        pipeline: &Pipeline,
        routed: &mut Routed,
        request: &mut CallRequest<Self>,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        let _ = (pipeline, routed, request);
        async { Ok(()) }
    }
}

impl ReferencesMedia for EmbedCall {}

impl ReferencesMedia for ModerationCall {}

impl ReferencesMedia for TextCall {
    async fn fetch_media(
        pipeline: &Pipeline,
        routed: &mut Routed,
        request: &mut CallRequest<Self>,
    ) -> Result<(), Error> {
        let Some(common) = &request.call.common else {
            return Ok(());
        };
        let referenced = referenced(routed, common);
        if referenced.is_empty() {
            return Ok(());
        }
        let has_files = referenced.iter().any(MediaReference::is_stored);
        let account = request.caller.account_id();
        let mut with_bytes = GenerateRequest::clone(common);
        check_count(&referenced)?;
        let at = request.caller.account.time(request.accepted_at);
        let (model, limit) = (&routed.model, request.max_cost);
        Hold::check(&*pipeline.ledger, account, model, &request.demand, limit, at).await?;
        pipeline
            .inline_media(account, referenced, &mut with_bytes, &mut request.demand)
            .await?;
        if has_files {
            // The type of a file was unknown when the candidates were checked.
            routed.retain_compatible(request.call.format, &with_bytes, true, false)?;
        }
        let call = &mut request.call;
        call.common = Some(Arc::new(with_bytes));
        (call.body, call.outline) = (Bytes::new(), None);
        Ok(())
    }
}

impl Pipeline {
    async fn inline_media(
        &self,
        account: AccountId,
        referenced: Vec<MediaReference>,
        request: &mut GenerateRequest,
        demand: &mut Demand,
    ) -> Result<(), Error> {
        let found: Vec<(MediaReference, FetchedMedia)> = stream::iter(referenced)
            .map(|referenced| self.find(account, referenced))
            .buffered(MAX_CONCURRENT)
            .try_collect()
            .await?;
        let mut total = 0;
        for (referenced, found) in found {
            total += found.bytes.len() as u64;
            if total > MAX_TOTAL_BYTES {
                return Err(media_error(&referenced.param, FetchError::TooLarge));
            }
            inline_part(request, &referenced, found, demand);
        }
        Ok(())
    }

    async fn find(
        &self,
        account: AccountId,
        referenced: MediaReference,
    ) -> Result<(MediaReference, FetchedMedia), Error> {
        let found = match &referenced.source {
            Source::Address(url) => self.fetch_one(account, url, &referenced).await,
            Source::File(id) => self.read_one(account, id, &referenced).await,
        };
        found.map(|found| (referenced, found))
    }

    async fn fetch_one(
        &self,
        account: AccountId,
        url: &str,
        referenced: &MediaReference,
    ) -> Result<FetchedMedia, Error> {
        let request = FetchRequest {
            url,
            account: Some(account),
            kind: referenced.kind,
            max_bytes: MAX_TOTAL_BYTES,
            media_types: referenced.media_types.as_deref().unwrap_or_default(),
        };
        let fetched = self.media.fetcher.fetch(&request).await;
        let fetched = fetched.map_err(|error| fetch_error(&referenced.param, error))?;
        Ok(FetchedMedia {
            bytes: fetched.bytes,
            media_type: fetched.media_type.into(),
            filename: None,
        })
    }

    async fn read_one(
        &self,
        account: AccountId,
        id: &str,
        referenced: &MediaReference,
    ) -> Result<FetchedMedia, Error> {
        let limit = referenced.kind.max_bytes();
        let file = self.media.file(account, id, limit, &referenced.param).await?;
        if !referenced.accepts(&file.media_type) {
            return Err(media_error(&referenced.param, FetchError::WrongType));
        }
        Ok(FetchedMedia {
            bytes: file.bytes.into(),
            media_type: file.media_type.into(),
            filename: Some(file.filename),
        })
    }
}

impl Routed {
    /// Whether a candidate accepts only bytes for some kind of media.
    pub fn needs_bytes(&self) -> bool {
        MediaKind::ALL
            .iter()
            .any(|kind| self.media_types(*kind).is_some())
    }

    /// Whether the request references media that must be fetched or read.
    pub fn must_fetch(&self, request: &GenerateRequest) -> bool {
        !referenced(self, request).is_empty()
    }

    /// Returns the media types of this kind that all candidates with a need for bytes accept;
    /// `None` if all candidates accept URLs.
    fn media_types(&self, kind: MediaKind) -> Option<Vec<&'static str>> {
        let texts = self.routes.iter().filter_map(|route| route.provider.text());
        texts
            .filter_map(|text| text.needs_bytes(kind))
            .map(<[_]>::to_vec)
            .reduce(|both, types| both.into_iter().filter(|name| types.contains(name)).collect())
    }
}

/// A part of the request that references media, with its position.
struct MediaReference {
    message: usize,
    part: usize,
    /// Parameter path in the caller's format.
    param: String,
    source: Source,
    kind: MediaKind,
    /// Accepted media types, if the candidates restrict them.
    media_types: Option<Vec<&'static str>>,
}

/// URL or file id of a reference.
enum Source {
    Address(String),
    File(String),
}

/// Content of a referenced medium.
struct FetchedMedia {
    bytes: Bytes,
    media_type: Cow<'static, str>,
    filename: Option<String>,
}

impl MediaReference {
    fn is_stored(&self) -> bool {
        matches!(self.source, Source::File(_))
    }

    /// Whether a file's media type matches the referenced kind, and the candidates accept it.
    /// Returns `true` for all text types of documents; the candidates are checked again after the
    /// file is read.
    fn accepts(&self, media_type: &str) -> bool {
        let matches_kind = match media_type.split('/').next() {
            Some("image") => self.kind == MediaKind::Image,
            Some("audio" | "video") => false,
            _ => self.kind == MediaKind::Document,
        };
        let accepted = self.media_types.as_ref();
        let is_text = media_type.starts_with("text/");
        matches_kind && (is_text || accepted.is_none_or(|types| types.contains(&media_type)))
    }
}

fn referenced(routed: &Routed, request: &GenerateRequest) -> Vec<MediaReference> {
    let mut found = Vec::new();
    for (message, turn) in request.messages.iter().enumerate() {
        let mut place = 0;
        for (part, content) in turn.parts.iter().enumerate() {
            if let Some((kind, source)) = source_of(content) {
                let media_types = routed.media_types(kind);
                let (must_inline, param) = match content {
                    Part::Stored(stored) => (true, format!("{}.{}", turn.place.part(place), stored.field)),
                    _ => (media_types.is_some(), turn.place.part(place)),
                };
                if must_inline {
                    found.push(MediaReference {
                        message,
                        part,
                        param,
                        source,
                        kind,
                        media_types,
                    });
                }
            }
            // Cache breakpoints are not parts of the caller's request.
            place += usize::from(!matches!(content, Part::CacheBreakpoint(_)));
        }
    }
    found
}

fn check_count(referenced: &[MediaReference]) -> Result<(), Error> {
    let Some(excess) = referenced.get(MAX_MEDIA) else {
        return Ok(());
    };
    let what = format!("exceeds the maximum of {MAX_MEDIA} fetched media per request; remove some");
    Err(media_error(&excess.param, what))
}

/// Returns the kind and source of a part; `None` if the part references no media.
fn source_of(part: &Part) -> Option<(MediaKind, Source)> {
    let is_inline = |url: &str| {
        url.get(..5)
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
    };
    match part {
        Part::Image { url, .. } if !is_inline(url) => Some((MediaKind::Image, Source::Address(url.clone()))),
        Part::File(File { url: Some(url), .. }) => Some((MediaKind::Document, Source::Address(url.clone()))),
        Part::Stored(Stored { id, is_image, .. }) => {
            let kind = if *is_image {
                MediaKind::Image
            } else {
                MediaKind::Document
            };
            Some((kind, Source::File(id.clone())))
        }
        _ => None,
    }
}

/// Replaces a reference by its content. Adds the bytes of documents to the demand; images do not
/// add bytes, because the demand counts them by number.
fn inline_part(
    request: &mut GenerateRequest,
    referenced: &MediaReference,
    found: FetchedMedia,
    demand: &mut Demand,
) {
    let place = &mut request.messages[referenced.message].parts[referenced.part];
    let data_url = || {
        let data = STANDARD.encode(&found.bytes);
        format!("data:{};base64,{data}", found.media_type)
    };
    let (detail, filename) = match place {
        Part::Image { detail, .. } => (detail.take(), None),
        Part::File(file) => (None, file.filename.take()),
        Part::Stored(stored) => (stored.detail.take(), stored.filename.take()),
        _ => (None, None),
    };
    if referenced.kind == MediaKind::Image {
        let url = data_url();
        *place = Part::Image { url, detail };
        return;
    }
    let is_text = found.media_type.starts_with("text/");
    let text = is_text.then(|| String::from_utf8_lossy(&found.bytes).into_owned());
    let data = (!is_text).then(data_url);
    let bytes = text.iter().chain(&data).map(String::len).sum::<usize>() as u64;
    demand.media_bytes = demand.media_bytes.saturating_add(bytes);
    *place = Part::File(File {
        text,
        data,
        filename: filename.or(found.filename),
        url: None,
    });
}

pub(crate) fn media_error(param: &str, what: impl std::fmt::Display) -> Error {
    Error::new(ErrorCode::InvalidParameter, format!("'{param}' {what}.")).with_param(param)
}

/// Returns the public error of a failed fetch: `invalid_parameter`, or `overloaded` if the gateway
/// is at its limit of concurrent fetches.
pub fn fetch_error(param: &str, error: FetchError) -> Error {
    match error {
        FetchError::Busy => {
            let message = format!("'{param}' {error}. Retry with backoff.");
            Error::new(ErrorCode::Overloaded, message).with_retry(Retry::After(Duration::from_secs(5)))
        }
        error => media_error(param, error),
    }
}

fn file_error(error: FileError, param: &str) -> Error {
    match error {
        FileError::NotFound => {
            let message = format!("'{param}' is not the id of a file of this account. Check the id.");
            Error::new(ErrorCode::NotFound, message).with_param(param)
        }
        FileError::TooLarge => media_error(param, FetchError::TooLarge),
        FileError::Storage(error) => {
            let message = "The gateway cannot reach its storage at the moment. Retry with backoff.";
            Error::new(ErrorCode::Overloaded, message)
                .with_retry(Retry::After(Duration::from_secs(2)))
                .with_source(error.to_string())
        }
    }
}
