//! Calls, and what is done with them, for the tests of the makers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt;
use secrecy::SecretString;
use tollgate_testkit::upstream::{FakeUpstream, MediaFault};
use tollgate_types::{RequestId, Retry};
use tollgate_upstream::{
    CallContext, Content, ImageCall, ImageTask, Maker, Permit, Provider, Size, Source, State, Submitted,
    UpstreamCause, UpstreamError, UpstreamErrorKind, VideoCall, VideoTask,
};

use crate::http::{HttpClient, HttpSettings};
use crate::registry::{self, ProviderConfig};

/// Graphs of ComfyUI.
pub(crate) const WORKFLOWS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/comfyui/tests/workflows");
pub(crate) const KEY: &str = "sk-upstream-0123456789abcdef";

pub(crate) fn context() -> CallContext {
    CallContext {
        request: RequestId::from_u128(7),
        permit: Permit::Free("test"),
        header_timeout: Duration::from_secs(20),
        idle_timeout: Duration::from_secs(20),
        inspected: false,
    }
}

pub(crate) fn provider_at(preset: &str, base_url: &str) -> Arc<dyn Provider> {
    let config = ProviderConfig {
        preset: Some(preset.to_owned()),
        base_url: Some(base_url.to_owned()),
        api_key: Some(SecretString::from(KEY)),
        workflows: (preset == "comfyui").then(|| WORKFLOWS.into()),
        ..ProviderConfig::named("main")
    };
    registry::build(&config, &HttpClient::new(HttpSettings::default())).unwrap()
}

/// The address of an upstream without a path.
pub(crate) fn root_of(upstream: &FakeUpstream) -> String {
    format!("http://{}", upstream.address())
}

pub(crate) fn source(bytes: &'static [u8]) -> Source {
    Source {
        bytes: Bytes::from_static(bytes),
        mime_type: "image/png".into(),
    }
}

/// Two pictures from a prompt.
pub(crate) fn pictures(model: &str) -> ImageCall {
    ImageCall {
        upstream_model: model.into(),
        task: ImageTask::Generate,
        prompt: "a tall gate".to_owned(),
        negative_prompt: Some("people".to_owned()),
        images: Vec::new(),
        mask: None,
        count: 2,
        set: false,
        size: Some(Size {
            width: 64,
            height: 32,
        }),
        aspect_ratio: None,
        resolution: None,
        quality: None,
        format: None,
        seed: Some(7),
    }
}

/// A film from a prompt.
pub(crate) fn a_film(model: &str) -> VideoCall {
    VideoCall {
        upstream_model: model.into(),
        task: VideoTask::FromText,
        mode: None,
        prompt: "a gate opens".to_owned(),
        negative_prompt: None,
        image: None,
        references: Vec::new(),
        video: None,
        duration: Duration::from_secs(8),
        size: Size {
            width: 128,
            height: 72,
        },
        aspect_ratio: "16:9".into(),
        resolution: "720p".into(),
        audio: true,
        seed: None,
    }
}

/// The handle of a submission, which has neither key nor host in it.
pub(crate) async fn submitted<C: Sync>(maker: &dyn Maker<C>, call: &C) -> Result<Vec<u8>, UpstreamError> {
    match maker.submit(&context(), call, "key-1").await? {
        Submitted::Accepted { handle, .. } => {
            let kept = String::from_utf8(handle.clone()).unwrap();
            assert!(
                !kept.contains("0123456789") && !kept.contains("127.0.0.1"),
                "{kept}"
            );
            Ok(handle)
        }
        Submitted::Made(made) => panic!("it takes its time: {made:?}"),
    }
}

/// How it goes, at every time it is asked until it is over.
pub(crate) async fn states<C: Sync>(maker: &dyn Maker<C>, handle: &[u8]) -> Vec<State> {
    let mut states = Vec::new();
    loop {
        let state = maker.poll(&context(), handle).await.unwrap();
        let is_over = !matches!(state, State::Waiting { .. } | State::Running { .. });
        states.push(state);
        if is_over {
            return states;
        }
        assert!(states.len() < 20, "it never ends: {states:?}");
    }
}

/// The bytes of one that is at the upstream.
pub(crate) async fn fetched<C: Sync>(maker: &dyn Maker<C>, content: &Content) -> Vec<u8> {
    let Content::Own(own) = content else {
        panic!("at the upstream: {content:?}");
    };
    let stream = maker.fetch(&context(), own).await.unwrap();
    let pieces: Vec<Bytes> = stream.try_collect().await.unwrap();
    pieces.concat()
}

/// What every maker does when a submission goes wrong: it is asked once, and the error says what may have been done.
pub(crate) async fn check_faults<C: Sync>(preset: &str, path: &str, call: &C, maker_of: MakerOf<C>) {
    use UpstreamCause::{Protocol, Status, Timeout};
    use UpstreamErrorKind::{ContentBlocked, RateLimited, Unavailable};
    let after = Retry::After(Duration::from_secs(7));
    let cases = [
        (MediaFault::Hang, Unavailable, Timeout, Retry::Unknown, 1),
        (MediaFault::ServerError, Unavailable, Status, Retry::Unknown, 1),
        (MediaFault::Busy, RateLimited, Status, after, 0),
        (MediaFault::Refused, ContentBlocked, Status, Retry::Never, 0),
        (MediaFault::BrokenJson, Unavailable, Protocol, Retry::Unknown, 1),
        (MediaFault::Cut, Unavailable, Protocol, Retry::Unknown, 1),
    ];
    for (fault, kind, cause, retry, taken) in cases {
        let upstream = FakeUpstream::start().await;
        upstream.push_for_media(fault.clone());
        let provider = provider_at(preset, &format!("{}{path}", root_of(&upstream)));
        let ctx = match fault {
            MediaFault::Hang => CallContext {
                header_timeout: Duration::from_millis(300),
                ..context()
            },
            _ => context(),
        };
        let submitted = maker_of(&*provider).submit(&ctx, call, "key-1").await;
        let error = submitted.expect_err("a fault");
        assert_eq!(
            (error.kind, error.cause, error.retry),
            (kind, cause, retry),
            "{fault:?} {error}"
        );
        assert!(!format!("{error:?}").contains("gate"), "{error:?}");
        assert_eq!(upstream.media_submissions(), 1, "{fault:?}");
        assert_eq!(upstream.made().len(), taken, "{fault:?}");
    }
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key("another");
    let provider = provider_at(preset, &format!("{}{path}", root_of(&upstream)));
    let error = maker_of(&*provider)
        .submit(&context(), call, "key-1")
        .await
        .expect_err("a wrong key");
    assert_eq!(error.kind, UpstreamErrorKind::Credentials);
    assert!(!format!("{error} {error:?}").contains("0123456789"), "{error:?}");
    for handle in ["", "{}", "[7]"] {
        let asked = maker_of(&*provider).poll(&context(), handle.as_bytes()).await;
        assert_eq!(
            asked.expect_err("no handle").cause,
            UpstreamCause::Connect,
            "{handle}"
        );
    }
    assert_eq!((upstream.media_submissions(), upstream.request_count()), (0, 1));
}

/// What a maker of a provider is.
pub(crate) type MakerOf<C> = fn(&dyn Provider) -> &dyn Maker<C>;

pub(crate) fn images_of(provider: &dyn Provider) -> &dyn Maker<ImageCall> {
    provider.images().unwrap()
}

pub(crate) fn videos_of(provider: &dyn Provider) -> &dyn Maker<VideoCall> {
    provider.videos().unwrap()
}

/// The states as words, for those that have nothing more to say.
pub(crate) fn words(states: &[State]) -> Vec<String> {
    let word = |state: &State| match state {
        State::Waiting { ahead: Some(ahead) } => format!("waiting after {ahead}"),
        State::Waiting { ahead: None } => "waiting".to_owned(),
        State::Running {
            percent: Some(percent),
        } => format!("running at {percent}"),
        State::Running { percent: None } => "running".to_owned(),
        State::Made(made) => format!("{} made", made.pieces.len()),
        State::Blocked => "blocked".to_owned(),
        State::Failed(error) => format!("failed: {:?}", error.kind),
        State::Cancelled => "cancelled".to_owned(),
        State::Lost => "lost".to_owned(),
    };
    states.iter().map(word).collect()
}

/// What becomes of a submission with each of these faults, and of one that is cancelled.
pub(crate) async fn check_ends<C: Sync>(
    preset: &str,
    path: &str,
    call: &C,
    maker_of: MakerOf<C>,
    expected: &[(Option<MediaFault>, &[&str])],
) {
    for (fault, words_expected) in expected {
        let upstream = FakeUpstream::start().await;
        upstream.set_api_key(KEY);
        fault
            .iter()
            .for_each(|fault| upstream.push_for_media(fault.clone()));
        let provider = provider_at(preset, &format!("{}{path}", root_of(&upstream)));
        let maker = maker_of(&*provider);
        let handle = submitted(maker, call).await.unwrap();
        if fault == &Some(MediaFault::Endless) {
            for _ in 0..2 {
                maker.cancel(&context(), &handle).await.unwrap();
            }
            assert!(upstream.made()[0].is_cancelled);
        }
        let states = states(maker, &handle).await;
        assert_eq!(words(&states), *words_expected, "{preset} {fault:?}");
        assert!(!format!("{states:?}").contains("a gate"), "{states:?}");
        assert_eq!(upstream.made()[0].key.as_deref(), Some("key-1"));
        assert_eq!(upstream.media_submissions(), 1);
    }
}
