//! Before stage 2: media that a caller names by their addresses are fetched where an upstream takes bytes only. Nothing
//! is held yet, since what a document costs depends on its bytes; everything that can be refused for nothing was.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use tollgate_billing::{Demand, Hold};
use tollgate_types::generate::{File, GenerateRequest, Part};
use tollgate_types::{Error, ErrorCode};
use tollgate_upstream::{EmbedCall, FetchError, FetchRequest, Fetched, MediaKind, ModerationCall, TextCall};

use crate::Pipeline;
use crate::admit::CallRequest;
use crate::route::Routed;

/// The most media that are fetched for one request.
const MOST_MEDIA: usize = 16;
/// The most bytes of them together: as many as may stand in a request.
const MOST_BYTES: u64 = 32 << 20;
/// How many are fetched at once.
const AT_ONCE: usize = 4;

/// A call whose caller may name media by their addresses.
pub trait NamesMedia: Sized + Send + Sync {
    /// Has those fetched that a candidate needs as bytes, puts them into the call and counts them in its demand.
    fn fetch_media(
        pipeline: &Pipeline,
        routed: &Routed,
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
        routed: &Routed,
        request: &mut CallRequest<Self>,
    ) -> Result<(), Error> {
        let Some(common) = &request.call.common else {
            return Ok(());
        };
        let wanted = wanted(routed, common);
        if wanted.is_empty() {
            return Ok(());
        }
        if let Some(one_too_many) = wanted.get(MOST_MEDIA) {
            let what = format!("is one more than the {MOST_MEDIA} that are fetched for a request");
            return Err(refusal(&one_too_many.param, &what));
        }
        let account = request.caller.account_id();
        let (model, at) = (&routed.model, request.accepted_at);
        Hold::check(&*pipeline.ledger, account, model, &request.demand, at).await?;
        let fetched: Vec<(Wanted, Fetched)> = stream::iter(wanted)
            .map(|wanted| pipeline.fetch_one(wanted))
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        let mut with_bytes = GenerateRequest::clone(common);
        let mut total = 0;
        for (wanted, fetched) in fetched {
            total += fetched.bytes.len() as u64;
            if total > MOST_BYTES {
                return Err(refusal(&wanted.param, &FetchError::TooLarge.to_string()));
            }
            put(&mut with_bytes, &wanted, &fetched, &mut request.demand);
        }
        let call = &mut request.call;
        call.common = Some(Arc::new(with_bytes));
        (call.body, call.outline) = (Bytes::new(), None);
        Ok(())
    }
}

impl Pipeline {
    async fn fetch_one(&self, wanted: Wanted) -> Result<(Wanted, Fetched), Error> {
        let request = FetchRequest {
            url: &wanted.url,
            kind: wanted.kind,
            most_bytes: MOST_BYTES,
            media_types: &wanted.media_types,
        };
        match self.fetcher.fetch(&request).await {
            Ok(fetched) => Ok((wanted, fetched)),
            Err(error) => Err(refusal(&wanted.param, &error.to_string())),
        }
    }
}

impl Routed {
    /// Whether some candidate takes media of some kind as bytes only.
    pub fn needs_bytes(&self) -> bool {
        MediaKind::ALL
            .iter()
            .any(|kind| self.media_types(*kind).is_some())
    }

    /// Whether something of the request is to be fetched.
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

/// A part to be fetched, and where it stands.
struct Wanted {
    message: usize,
    part: usize,
    /// As the caller knows it.
    param: String,
    url: String,
    kind: MediaKind,
    media_types: Vec<&'static str>,
}

fn wanted(routed: &Routed, request: &GenerateRequest) -> Vec<Wanted> {
    let mut found = Vec::new();
    for (message, turn) in request.messages.iter().enumerate() {
        let mut place = 0;
        for (part, content) in turn.parts.iter().enumerate() {
            if let Some((kind, url)) = address_of(content)
                && let Some(media_types) = routed.media_types(kind)
            {
                found.push(Wanted {
                    message,
                    part,
                    param: turn.place.part(place),
                    url: url.to_owned(),
                    kind,
                    media_types,
                });
            }
            // A mark is none of the caller's parts.
            place += usize::from(*content != Part::CacheBreakpoint);
        }
    }
    found
}

fn address_of(part: &Part) -> Option<(MediaKind, &str)> {
    let is_inline = |url: &str| {
        url.get(..5)
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"))
    };
    match part {
        Part::Image { url, .. } if !is_inline(url) => Some((MediaKind::Image, url)),
        Part::File(File { url: Some(url), .. }) => Some((MediaKind::Document, url)),
        _ => None,
    }
}

/// Puts what was fetched in the place of its address. A picture is charged by its size on the model's grid, whatever its
/// bytes; other media at most by their bytes.
fn put(request: &mut GenerateRequest, wanted: &Wanted, fetched: &Fetched, demand: &mut Demand) {
    let data_url = || {
        let data = STANDARD.encode(&fetched.bytes);
        format!("data:{};base64,{data}", fetched.media_type)
    };
    match &mut request.messages[wanted.message].parts[wanted.part] {
        Part::Image { url, .. } => *url = data_url(),
        Part::File(file) => {
            file.url = None;
            let content = if fetched.media_type.starts_with("text/") {
                file.text
                    .insert(String::from_utf8_lossy(&fetched.bytes).into_owned())
            } else {
                file.data.insert(data_url())
            };
            demand.media_bytes = demand.media_bytes.saturating_add(content.len() as u64);
        }
        _ => {}
    }
}

fn refusal(param: &str, what: &str) -> Error {
    Error::new(ErrorCode::InvalidParameter, format!("'{param}' {what}.")).with_param(param)
}
