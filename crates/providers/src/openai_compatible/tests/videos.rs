//! Tests of videos: submission, polling, download, cancellation.

use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt;
use serde_json::json;
use tollgate_testkit::upstream::{FakeUpstream, MediaFault};
use tollgate_types::Retry;
use tollgate_upstream::{
    Content, GenerationState, JobProvider, Provider, Size, Source, Submitted, UpstreamCause, UpstreamError,
    UpstreamErrorKind, VideoCall, VideoTask,
};

use super::{KEY, context, context_with_short_timeout, provider_at};

fn call() -> VideoCall {
    VideoCall {
        upstream_model: "video-1".into(),
        task: VideoTask::FromText,
        mode: None,
        prompt: "a gate opens".to_owned(),
        negative_prompt: None,
        image: None,
        references: Vec::new(),
        video: None,
        duration: Duration::from_secs(8),
        size: Size {
            width: 1280,
            height: 720,
        },
        aspect_ratio: "16:9".into(),
        resolution: "720p".into(),
        audio: true,
        seed: Some(3),
    }
}

fn from_image() -> VideoCall {
    VideoCall {
        task: VideoTask::FromImage,
        image: Some(Source {
            bytes: Bytes::from_static(b"image"),
            mime_type: "image/jpeg".into(),
        }),
        ..call()
    }
}

fn media_provider(provider: &dyn Provider) -> &dyn JobProvider<VideoCall> {
    provider.videos().unwrap()
}

async fn submission(provider: &dyn Provider, call: &VideoCall) -> Result<Vec<u8>, UpstreamError> {
    match media_provider(provider).submit(&context(), call, "key-1").await? {
        Submitted::Accepted { handle, .. } => Ok(handle),
        Submitted::Completed(_) => panic!("videos are generated asynchronously"),
    }
}

/// Name and value of a form part.
type Field = (&'static str, &'static str);

#[tokio::test]
async fn videos_are_submitted_as_json_or_form() {
    let json = json!({"model": "video-1", "prompt": "a gate opens", "seconds": "8", "size": "1280x720"});
    let mut with_seed = json.clone();
    with_seed["seed"] = json!(3);
    for (preset, expected) in [("openai-compatible", json), ("sglang", with_seed)] {
        let upstream = FakeUpstream::start().await;
        submission(&*provider_at(preset, &upstream.base_url()), &call())
            .await
            .unwrap();
        let asked = upstream.requests().remove(0);
        assert_eq!(
            (asked.path.as_str(), asked.header("idempotency-key")),
            ("/v1/videos", Some("key-1"))
        );
        assert_eq!(asked.json().unwrap(), expected, "{preset}");
    }
    let cases: [(&str, VideoCall, &[Field]); 3] = [
        ("openai", from_image(), &[("input_reference", "image")]),
        ("vllm", call(), &[("seed", "3"), ("generate_sound", "true")]),
        (
            "vllm",
            from_image(),
            &[
                ("seed", "3"),
                ("generate_sound", "true"),
                ("input_reference", "image"),
            ],
        ),
    ];
    for (preset, call, more) in cases {
        let upstream = FakeUpstream::start().await;
        submission(&*provider_at(preset, &upstream.base_url()), &call)
            .await
            .unwrap();
        let parts = upstream.requests().remove(0).form().expect("a form");
        let mut fields_sent: Vec<(String, String)> = parts
            .iter()
            .map(|part| (part.name.clone(), part.text()))
            .collect();
        let usual = [
            ("model", "video-1"),
            ("prompt", "a gate opens"),
            ("seconds", "8"),
            ("size", "1280x720"),
        ];
        let mut expected: Vec<(String, String)> = usual
            .iter()
            .chain(more)
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        fields_sent.sort();
        expected.sort();
        assert_eq!(fields_sent, expected, "{preset}");
        assert_eq!(upstream.made().remove(0).seconds, 8);
    }
}

#[tokio::test]
async fn videos_are_queued_run_and_completed() {
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key(KEY);
    let provider = provider_at("openai-compatible", &upstream.base_url());
    let media_provider = media_provider(&*provider);
    let handle = submission(&*provider, &call()).await.unwrap();
    let handle_text = String::from_utf8(handle.clone()).unwrap();
    assert!(
        !handle_text.contains(KEY) && !handle_text.contains("http"),
        "{handle_text}"
    );
    let ctx = context();
    assert!(matches!(
        media_provider.poll(&ctx, &handle).await.unwrap(),
        GenerationState::Waiting { ahead: None }
    ));
    assert!(matches!(
        media_provider.poll(&ctx, &handle).await.unwrap(),
        GenerationState::Running { percent: Some(40) }
    ));
    let GenerationState::Completed(made) = media_provider.poll(&ctx, &handle).await.unwrap() else {
        panic!("it is made");
    };
    let [item] = &made.items[..] else {
        panic!("one video: {made:?}");
    };
    let Content::Upstream(path) = &item.content else {
        panic!("at the upstream: {item:?}");
    };
    let stream = media_provider.fetch(&ctx, path).await.unwrap();
    let bytes: Vec<Bytes> = stream.try_collect().await.unwrap();
    assert_eq!(bytes.concat(), upstream.made().remove(0).output(0));
    assert_eq!(upstream.media_submissions(), 1);
}

#[tokio::test]
async fn failed_and_lost_videos_are_reported() {
    let cases = [
        (
            MediaFault::Fails("a gate opens: out of memory".to_owned()),
            Some(UpstreamErrorKind::Unavailable),
        ),
        (MediaFault::Blocked, Some(UpstreamErrorKind::ContentBlocked)),
        (MediaFault::Lost, None),
    ];
    for (fault, kind) in cases {
        let upstream = FakeUpstream::start().await;
        upstream.set_media_polls(0);
        upstream.push_for_media(fault.clone());
        let provider = provider_at("openai-compatible", &upstream.base_url());
        let handle = submission(&*provider, &call()).await.unwrap();
        match (
            media_provider(&*provider)
                .poll(&context(), &handle)
                .await
                .unwrap(),
            kind,
        ) {
            (GenerationState::Failed(error), Some(kind)) => {
                assert_eq!(error.kind, kind, "{fault:?}");
                assert!(!error.to_string().contains("a gate"), "{error}");
            }
            (GenerationState::Lost, None) => {}
            (state, _) => panic!("{fault:?}: {state:?}"),
        }
    }
}

#[tokio::test]
async fn cancelled_videos_are_deleted() {
    let upstream = FakeUpstream::start().await;
    upstream.push_for_media(MediaFault::Endless);
    let provider = provider_at("openai-compatible", &upstream.base_url());
    let media_provider = media_provider(&*provider);
    let handle = submission(&*provider, &call()).await.unwrap();
    for _ in 0..2 {
        media_provider.cancel(&context(), &handle).await.unwrap();
    }
    assert!(upstream.made().remove(0).is_cancelled);
    assert!(matches!(
        media_provider.poll(&context(), &handle).await.unwrap(),
        GenerationState::Lost
    ));
    let asked: Vec<String> = upstream
        .requests()
        .into_iter()
        .map(|request| request.method)
        .collect();
    assert_eq!(asked, ["POST", "DELETE", "DELETE", "GET"]);
}

#[tokio::test]
async fn failed_video_submissions_report_retry_safety() {
    use UpstreamCause::{Protocol, Status, Timeout};
    let cases = [
        (MediaFault::Hang, Timeout, Retry::Unknown),
        (MediaFault::ServerError, Status, Retry::Unknown),
        (MediaFault::Refused, Status, Retry::Never),
        (MediaFault::BrokenJson, Protocol, Retry::Unknown),
        (MediaFault::Cut, Protocol, Retry::Unknown),
    ];
    for (fault, cause, retry) in cases {
        let upstream = FakeUpstream::start().await;
        upstream.push_for_media(fault.clone());
        let provider = provider_at("openai-compatible", &upstream.base_url());
        let ctx = if fault == MediaFault::Hang {
            context_with_short_timeout()
        } else {
            context()
        };
        let error = media_provider(&*provider)
            .submit(&ctx, &call(), "key-1")
            .await
            .expect_err("a fault");
        assert_eq!((error.cause, error.retry), (cause, retry), "{fault:?}");
        assert_eq!(upstream.media_submissions(), 1);
    }
}

#[tokio::test]
async fn refused_keys_are_credential_errors() {
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key("another");
    let provider = provider_at("openai-compatible", &upstream.base_url());
    let error = submission(&*provider, &call()).await.unwrap_err();
    assert_eq!(error.kind, UpstreamErrorKind::Credentials);
    assert!(!format!("{error} {error:?}").contains("0123456789abcdef"));
    assert_eq!(upstream.media_submissions(), 0);
}

#[tokio::test]
async fn foreign_handles_are_never_polled() {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at("openai-compatible", &upstream.base_url());
    for handle in ["", "{}", "{\"job\": 7}"] {
        let error = media_provider(&*provider)
            .poll(&context(), handle.as_bytes())
            .await
            .unwrap_err();
        assert_eq!(error.cause, UpstreamCause::Connect, "{handle}");
    }
    assert_eq!(upstream.request_count(), 0);
}

#[test]
fn unsupported_parameters_are_refused() {
    let provider = provider_at("openai-compatible", "http://127.0.0.1:9/v1");
    let of = |change: fn(&mut VideoCall)| {
        let mut call = call();
        change(&mut call);
        call
    };
    for (call, param) in [
        (of(|_| {}), None),
        (
            of(|call| call.task = VideoTask::FromReferences),
            Some("reference_images"),
        ),
        (of(|call| call.task = VideoTask::Extend), Some("extend_from")),
        (
            of(|call| call.duration = Duration::from_millis(2_500)),
            Some("duration"),
        ),
        (
            of(|call| call.negative_prompt = Some("people".to_owned())),
            Some("negative_prompt"),
        ),
    ] {
        let refused = media_provider(&*provider).check(&call).err();
        assert_eq!(refused.and_then(|error| error.param).as_deref(), param);
    }
    assert!(provider_at("groq", "http://127.0.0.1:9/v1").videos().is_none());
}
