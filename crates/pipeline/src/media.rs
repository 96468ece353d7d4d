//! Before stage 2: media that a caller names are put in the place of their names. What is at an address is fetched where
//! an upstream takes bytes only; what the caller has uploaded is read from its file, since no upstream knows our ids.
//! Nothing is held yet, since what a document costs depends on its bytes; everything that can be refused for nothing was.

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
    EmbedCall, FetchError, FetchRequest, Fetcher, Gauge, MediaKind, ModerationCall, TextCall,
};

use crate::Pipeline;
use crate::admit::CallRequest;
use crate::route::Routed;

/// The most media that are fetched or read for one request.
const MOST_MEDIA: usize = 16;
/// The most bytes of them together: as many as may stand in a request.
const MOST_BYTES: u64 = 32 << 20;
/// How many are fetched or read at once.
const AT_ONCE: usize = 4;

/// Where media are that callers name instead of sending them.
#[derive(Clone)]
pub struct MediaSources {
    /// Fetches what they name by its address.
    pub fetcher: Arc<dyn Fetcher>,
    /// Reads what they have uploaded and name by its id.
    pub files: Arc<dyn FileSource>,
    /// Looks into what they send.
    pub gauge: Arc<dyn Gauge>,
}

impl MediaSources {
    /// A file of an account, of at most so many bytes. `param` is where the caller has named it.
    pub async fn file(
        &self,
        account: AccountId,
        id: &str,
        most_bytes: u64,
        param: &str,
    ) -> Result<StoredFile, Error> {
        let read = self.files.read(account, id, most_bytes).await;
        read.map_err(|error| not_read(error, param))
    }
}

/// A call whose caller may name media instead of sending them.
pub trait NamesMedia: Sized + Send + Sync {
    /// Puts those into the call that its candidates need as bytes, and counts them in its demand. Candidates that cannot
    /// be sent what was found are left out.
    fn fetch_media(
        pipeline: &Pipeline,
        routed: &mut Routed,
        request: &mut CallRequest<Self>,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        let _ = (pipeline, routed, request);
        async { Ok(()) }
    }
}

impl NamesMedia for EmbedCall {}

impl NamesMedia for ModerationCall {}

impl NamesMedia for TextCall {
    async fn fetch_media(
        pipeline: &Pipeline,
        routed: &mut Routed,
        request: &mut CallRequest<Self>,
    ) -> Result<(), Error> {
        let Some(common) = &request.call.common else {
            return Ok(());
        };
        let wanted = wanted(routed, common);
        if wanted.is_empty() {
            return Ok(());
        }
        let has_files = wanted.iter().any(Wanted::is_stored);
        let account = request.caller.account_id();
        let mut with_bytes = GenerateRequest::clone(common);
        check_number(&wanted)?;
        let at = request.caller.account.time(request.accepted_at);
        let (model, most) = (&routed.model, request.max_cost);
        Hold::check(&*pipeline.ledger, account, model, &request.demand, most, at).await?;
        pipeline
            .put_wanted(account, wanted, &mut with_bytes, &mut request.demand)
            .await?;
        if has_files {
            // What a file is was not known when the candidates were asked.
            routed.retain_carriers(request.call.format, &with_bytes, true)?;
        }
        let call = &mut request.call;
        call.common = Some(Arc::new(with_bytes));
        (call.body, call.outline) = (Bytes::new(), None);
        Ok(())
    }
}

impl Pipeline {
    async fn put_wanted(
        &self,
        account: AccountId,
        wanted: Vec<Wanted>,
        request: &mut GenerateRequest,
        demand: &mut Demand,
    ) -> Result<(), Error> {
        let found: Vec<(Wanted, Found)> = stream::iter(wanted)
            .map(|wanted| self.find(account, wanted))
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        let mut total = 0;
        for (wanted, found) in found {
            total += found.bytes.len() as u64;
            if total > MOST_BYTES {
                return Err(refusal(&wanted.param, FetchError::TooLarge));
            }
            put(request, &wanted, found, demand);
        }
        Ok(())
    }

    async fn find(&self, account: AccountId, wanted: Wanted) -> Result<(Wanted, Found), Error> {
        let found = match &wanted.source {
            Source::Address(url) => self.fetch_one(url, &wanted).await,
            Source::File(id) => self.read_one(account, id, &wanted).await,
        };
        found.map(|found| (wanted, found))
    }

    async fn fetch_one(&self, url: &str, wanted: &Wanted) -> Result<Found, Error> {
        let request = FetchRequest {
            url,
            kind: wanted.kind,
            most_bytes: MOST_BYTES,
            media_types: wanted.media_types.as_deref().unwrap_or_default(),
        };
        let fetched = self.media.fetcher.fetch(&request).await;
        let fetched = fetched.map_err(|error| refusal(&wanted.param, error))?;
        Ok(Found {
            bytes: fetched.bytes,
            media_type: fetched.media_type.into(),
            filename: None,
        })
    }

    async fn read_one(&self, account: AccountId, id: &str, wanted: &Wanted) -> Result<Found, Error> {
        let most = wanted.kind.most_bytes();
        let file = self.media.file(account, id, most, &wanted.param).await?;
        if !wanted.takes(&file.media_type) {
            return Err(refusal(&wanted.param, FetchError::WrongType));
        }
        Ok(Found {
            bytes: file.bytes.into(),
            media_type: file.media_type.into(),
            filename: Some(file.filename),
        })
    }
}

impl Routed {
    /// Whether some candidate takes media of some kind as bytes only.
    pub fn needs_bytes(&self) -> bool {
        MediaKind::ALL
            .iter()
            .any(|kind| self.media_types(*kind).is_some())
    }

    /// Whether something of the request is to be fetched or read.
    pub fn must_fetch(&self, request: &GenerateRequest) -> bool {
        !wanted(self, request).is_empty()
    }

    /// What media of a kind must be when they are fetched; `None` when every candidate takes their addresses.
    fn media_types(&self, kind: MediaKind) -> Option<Vec<&'static str>> {
        let texts = self.routes.iter().filter_map(|route| route.provider.text());
        texts
            .filter_map(|text| text.needs_bytes(kind))
            .map(<[_]>::to_vec)
            .reduce(|both, types| both.into_iter().filter(|name| types.contains(name)).collect())
    }
}

/// A part to be put in the place of its name, and where it stands.
struct Wanted {
    message: usize,
    part: usize,
    /// As the caller knows it.
    param: String,
    source: Source,
    kind: MediaKind,
    /// What it may be, where that is known before it is sent.
    media_types: Option<Vec<&'static str>>,
}

/// How the caller named it.
enum Source {
    Address(String),
    File(String),
}

/// What was there.
struct Found {
    bytes: Bytes,
    media_type: Cow<'static, str>,
    filename: Option<String>,
}

impl Wanted {
    fn is_stored(&self) -> bool {
        matches!(self.source, Source::File(_))
    }

    /// Whether a file of this type is of the kind that the caller said, and may be taken by a candidate. Texts need no
    /// type: whether they can be sent is seen when they are there.
    fn takes(&self, media_type: &str) -> bool {
        let is_of_kind = match media_type.split('/').next() {
            Some("image") => self.kind == MediaKind::Image,
            Some("audio" | "video") => false,
            _ => self.kind == MediaKind::Document,
        };
        let taken = self.media_types.as_ref();
        let is_text = media_type.starts_with("text/");
        is_of_kind && (is_text || taken.is_none_or(|types| types.contains(&media_type)))
    }
}

fn wanted(routed: &Routed, request: &GenerateRequest) -> Vec<Wanted> {
    let mut found = Vec::new();
    for (message, turn) in request.messages.iter().enumerate() {
        let mut place = 0;
        for (part, content) in turn.parts.iter().enumerate() {
            if let Some((kind, source)) = source_of(content) {
                let media_types = routed.media_types(kind);
                let (is_wanted, param) = match content {
                    Part::Stored(stored) => (true, format!("{}.{}", turn.place.part(place), stored.field)),
                    _ => (media_types.is_some(), turn.place.part(place)),
                };
                if is_wanted {
                    found.push(Wanted {
                        message,
                        part,
                        param,
                        source,
                        kind,
                        media_types,
                    });
                }
            }
            // A mark is none of the caller's parts.
            place += usize::from(!matches!(content, Part::CacheBreakpoint(_)));
        }
    }
    found
}

fn check_number(wanted: &[Wanted]) -> Result<(), Error> {
    let Some(one_too_many) = wanted.get(MOST_MEDIA) else {
        return Ok(());
    };
    let what = format!("is one more than the {MOST_MEDIA} that are fetched for a request");
    Err(refusal(&one_too_many.param, what))
}

/// What a part is and how it is named, if it is not inline.
fn source_of(part: &Part) -> Option<(MediaKind, Source)> {
    let is_inline = |url: &str| {
        url.get(..5)
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
    };
    match part {
        Part::Image { url, .. } if !is_inline(url) => Some((MediaKind::Image, Source::Address(url.clone()))),
        Part::File(File { url: Some(url), .. }) => Some((MediaKind::Document, Source::Address(url.clone()))),
        Part::Stored(Stored { id, is_picture, .. }) => {
            let kind = if *is_picture {
                MediaKind::Image
            } else {
                MediaKind::Document
            };
            Some((kind, Source::File(id.clone())))
        }
        _ => None,
    }
}

/// Puts what was found in the place of its name. A picture is charged by its size on the model's grid, whatever its
/// bytes; other media at most by their bytes.
fn put(request: &mut GenerateRequest, wanted: &Wanted, found: Found, demand: &mut Demand) {
    let place = &mut request.messages[wanted.message].parts[wanted.part];
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
    if wanted.kind == MediaKind::Image {
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

pub(crate) fn refusal(param: &str, what: impl std::fmt::Display) -> Error {
    Error::new(ErrorCode::InvalidParameter, format!("'{param}' {what}.")).with_param(param)
}

fn not_read(error: FileError, param: &str) -> Error {
    match error {
        FileError::NotFound => {
            let message = format!("'{param}' names no file of this account.");
            Error::new(ErrorCode::NotFound, message).with_param(param)
        }
        FileError::TooLarge => refusal(param, FetchError::TooLarge),
        FileError::Storage(error) => {
            let message = "The gateway cannot reach its storage at the moment. Retry with backoff.";
            Error::new(ErrorCode::Overloaded, message)
                .with_retry(Retry::After(Duration::from_secs(2)))
                .with_source(error.to_string())
        }
    }
}
