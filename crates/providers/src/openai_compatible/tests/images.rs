//! Tests of images: request bodies and parsing of responses.

use bytes::Bytes;
use futures_util::TryStreamExt;
use serde_json::{Value, json};
use tollgate_testkit::upstream::media::image;
use tollgate_testkit::upstream::{FakeUpstream, MediaFault, Reply};
use tollgate_types::{Retry, Usage};
use tollgate_upstream::{
    Content, GenerationOutput, GenerationState, ImageCall, ImageFormat, ImageTask, JobProvider, Provider,
    Size, Source, Submitted, UpstreamCause, UpstreamError, UpstreamErrorKind,
};

use super::{KEY, context, context_with_short_timeout, provider_at};

fn call(model: &str) -> ImageCall {
    ImageCall {
        upstream_model: model.into(),
        task: ImageTask::Generate,
        prompt: "a tall gate".to_owned(),
        negative_prompt: None,
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
        seed: None,
    }
}

/// Returns a call with every parameter.
fn full(model: &str) -> ImageCall {
    ImageCall {
        negative_prompt: Some("people".to_owned()),
        aspect_ratio: Some("2:1".into()),
        resolution: Some("1k".into()),
        quality: Some("high".into()),
        format: Some(ImageFormat::Webp),
        seed: Some(7),
        ..call(model)
    }
}

fn source(bytes: &'static [u8], mime_type: &str) -> Source {
    Source {
        bytes: Bytes::from_static(bytes),
        mime_type: mime_type.into(),
    }
}

fn media_provider(provider: &dyn Provider) -> &dyn JobProvider<ImageCall> {
    provider.images().unwrap()
}

async fn made(provider: &dyn Provider, call: &ImageCall) -> Result<GenerationOutput, UpstreamError> {
    match media_provider(provider).submit(&context(), call, "key-1").await? {
        Submitted::Completed(made) => Ok(made),
        Submitted::Accepted { .. } => panic!("images are returned immediately"),
    }
}

#[tokio::test]
async fn image_requests_have_the_presets_fields() {
    let cases: Vec<(&str, &str, Value)> = vec![
        (
            "openai",
            "gpt-image-1.5",
            json!({"size": "64x32", "quality": "high", "output_format": "webp"}),
        ),
        (
            "openai",
            "dall-e-3",
            json!({"size": "64x32", "quality": "high", "response_format": "b64_json"}),
        ),
        (
            "openai-compatible",
            "m",
            json!({"size": "64x32", "quality": "high", "response_format": "b64_json"}),
        ),
        (
            "vllm",
            "m",
            json!({"size": "64x32", "response_format": "b64_json", "output_format": "webp",
                   "negative_prompt": "people", "seed": 7}),
        ),
        (
            "together",
            "m",
            json!({"width": 64, "height": 32, "response_format": "base64", "output_format": "webp",
                   "negative_prompt": "people", "seed": 7}),
        ),
        (
            "xai",
            "m",
            json!({"aspect_ratio": "2:1", "resolution": "1k", "response_format": "b64_json"}),
        ),
    ];
    for (preset, model, mut expected) in cases {
        let upstream = FakeUpstream::start().await;
        upstream.set_api_key(KEY);
        let provider = provider_at(preset, &upstream.base_url());
        made(&*provider, &full(model)).await.unwrap();
        let asked = upstream.requests().remove(0);
        assert_eq!(asked.path, "/v1/images/generations", "{preset}");
        assert_eq!(asked.header("content-type"), Some("application/json"));
        assert_eq!(asked.header("idempotency-key"), Some("key-1"));
        for (name, value) in [
            ("model", json!(model)),
            ("prompt", json!("a tall gate")),
            ("n", json!(2)),
        ] {
            expected[name] = value;
        }
        assert_eq!(asked.json().unwrap(), expected, "{preset} {model}");
    }
}

/// Name, value and file name of a form part.
type Field = (&'static str, &'static str, Option<&'static str>);

#[tokio::test]
async fn image_edits_are_sent_as_forms() {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at("openai", &upstream.base_url());
    let (first, second) = (
        source(b"first\r\n--", "image/png"),
        source(b"second", "image/jpeg"),
    );
    let edit = ImageCall {
        task: ImageTask::Edit,
        images: vec![first.clone(), second],
        ..call("gpt-image-1.5")
    };
    let inpaint = ImageCall {
        task: ImageTask::Inpaint,
        images: vec![first.clone()],
        mask: Some(source(b"mask", "image/png")),
        ..call("gpt-image-1.5")
    };
    let vary = ImageCall {
        task: ImageTask::Vary,
        images: vec![first],
        ..call("dall-e-2")
    };
    let expected: [(&ImageCall, &str, &[Field]); 3] = [
        (
            &edit,
            "/v1/images/edits",
            &[
                ("model", "gpt-image-1.5", None),
                ("n", "2", None),
                ("prompt", "a tall gate", None),
                ("size", "64x32", None),
                ("image[]", "first\r\n--", Some("image-0.png")),
                ("image[]", "second", Some("image-1.jpg")),
            ],
        ),
        (
            &inpaint,
            "/v1/images/edits",
            &[
                ("model", "gpt-image-1.5", None),
                ("n", "2", None),
                ("prompt", "a tall gate", None),
                ("size", "64x32", None),
                ("image", "first\r\n--", Some("image-0.png")),
                ("mask", "mask", Some("mask.png")),
            ],
        ),
        (
            &vary,
            "/v1/images/variations",
            &[
                ("model", "dall-e-2", None),
                ("n", "2", None),
                ("response_format", "b64_json", None),
                ("size", "64x32", None),
                ("image", "first\r\n--", Some("image-0.png")),
            ],
        ),
    ];
    for (call, path, fields) in expected {
        media_provider(&*provider).check(call).unwrap();
        made(&*provider, call).await.unwrap();
        let asked = upstream.requests().pop().unwrap();
        assert_eq!(asked.path, path);
        let mut parts = asked.form().expect("a form");
        parts.sort_by_key(|part| (part.file_name.is_some(), part.name.clone()));
        let mut fields = fields.to_vec();
        fields.sort_by_key(|(name, _, file)| (file.is_some(), *name));
        let fields_sent: Vec<(String, String, Option<String>)> = parts
            .into_iter()
            .map(|part| (part.name.clone(), part.text(), part.file_name))
            .collect();
        let fields_sent: Vec<(&str, &str, Option<&str>)> = fields_sent
            .iter()
            .map(|(name, text, file)| (name.as_str(), text.as_str(), file.as_deref()))
            .collect();
        assert_eq!(fields_sent, fields);
    }
}

#[test]
fn unsupported_parameters_are_refused_by_preset() {
    let of = |change: fn(&mut ImageCall)| {
        let mut call = call("m");
        change(&mut call);
        call
    };
    let cases = [
        ("openai", of(|_| {}), None),
        (
            "openai",
            of(|call| call.negative_prompt = Some("x".to_owned())),
            Some("negative_prompt"),
        ),
        (
            "openai",
            of(|call| call.negative_prompt = Some(" ".to_owned())),
            None,
        ),
        ("openai", of(|call| call.seed = Some(1)), None),
        ("openai", of(|call| call.set = true), Some("image_set")),
        ("openai", of(|call| call.task = ImageTask::Vary), None),
        (
            "vllm",
            of(|call| call.task = ImageTask::Vary),
            Some("variation_of"),
        ),
        ("xai", of(|call| call.task = ImageTask::Edit), Some("image")),
        (
            "vllm",
            of(|call| call.mask = Some(source(b"m", "image/png"))),
            Some("mask"),
        ),
        (
            "vllm",
            of(|call| call.quality = Some("hd".into())),
            Some("quality"),
        ),
        (
            "vllm",
            of(|call| call.negative_prompt = Some("x".to_owned())),
            None,
        ),
        (
            "openai",
            of(|call| (call.size, call.aspect_ratio) = (None, Some("1:1".into()))),
            Some("aspect_ratio"),
        ),
        (
            "xai",
            of(|call| (call.size, call.aspect_ratio) = (None, Some("1:1".into()))),
            None,
        ),
    ];
    for (preset, call, param) in cases {
        let provider = provider_at(preset, "http://127.0.0.1:9/v1");
        let refused = media_provider(&*provider).check(&call).err();
        assert_eq!(
            refused.and_then(|error| error.param).as_deref(),
            param,
            "{preset} {call:?}"
        );
    }
}

#[test]
fn max_outputs_depends_on_preset_and_model() {
    for (preset, model, max) in [
        ("openai", "gpt-image-1.5", 10),
        ("openai", "dall-e-3", 1),
        ("vllm", "dall-e-3", 10),
    ] {
        let provider = provider_at(preset, "http://127.0.0.1:9/v1");
        assert_eq!(media_provider(&*provider).max_outputs(model), max);
        assert!(!media_provider(&*provider).is_idempotent());
    }
    assert!(provider_at("groq", "http://127.0.0.1:9/v1").images().is_none());
}

#[tokio::test]
async fn bytes_urls_and_usage_are_returned() {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at("openai-compatible", &upstream.base_url());
    let answer = made(&*provider, &call("m")).await.unwrap();
    assert_eq!(answer.usage, Some(Usage::tokens(30, 2_000)));
    let expected = [0, 1].map(|shade| Content::Bytes(image(64, 32, shade).into()));
    assert_eq!(
        answer.items.iter().map(|item| &item.content).collect::<Vec<_>>(),
        [&expected[0], &expected[1]]
    );

    let upstream = FakeUpstream::start().await;
    let provider = provider_at("openai-compatible", &upstream.base_url());
    let own = format!("{}/images/1.png", upstream.base_url());
    let data = json!([
        {"url": own, "revised_prompt": "a very tall gate"},
        {"url": "https://cdn.example.com/2.png", "b64_json": null, "revised_prompt": "a tall gate"},
    ]);
    upstream.set_hook(
        "/v1/images/generations",
        [Reply::body(
            200,
            "application/json",
            json!({"data": data}).to_string(),
        )],
    );
    upstream.set_file("/v1/images/1.png", Reply::body(200, "image/png", "image"));
    let answer = made(&*provider, &call("m")).await.unwrap();
    assert_eq!(answer.usage, None);
    let [first, second] = &answer.items[..] else {
        panic!("two images: {answer:?}");
    };
    assert_eq!(first.revised_prompt.as_deref(), Some("a very tall gate"));
    assert_eq!(second.revised_prompt, None, "it is the caller's own");
    assert_eq!(
        second.content,
        Content::Address("https://cdn.example.com/2.png".to_owned())
    );
    let Content::Upstream(path) = &first.content else {
        panic!("the first is the upstream's own: {first:?}");
    };
    let stream = media_provider(&*provider).fetch(&context(), path).await.unwrap();
    let bytes: Vec<Bytes> = stream.try_collect().await.unwrap();
    assert_eq!(bytes.concat(), b"image");
    assert_eq!(
        upstream.requests().pop().unwrap().header("authorization"),
        Some(&*format!("Bearer {KEY}"))
    );
}

#[tokio::test]
async fn submission_faults_report_retry_safety() {
    use UpstreamCause::{Protocol, Status, Timeout};
    use UpstreamErrorKind::{ContentBlocked, RateLimited, Unavailable};
    let after = Retry::After(std::time::Duration::from_secs(7));
    let cases = [
        (MediaFault::Hang, Unavailable, Timeout, Retry::Unknown, 1),
        (MediaFault::ServerError, Unavailable, Status, Retry::Unknown, 1),
        (MediaFault::Busy, RateLimited, Status, after, 0),
        (MediaFault::Refused, ContentBlocked, Status, Retry::Never, 0),
        (MediaFault::Blocked, ContentBlocked, Status, Retry::Never, 1),
        (MediaFault::BrokenJson, Unavailable, Protocol, Retry::Unknown, 1),
        (MediaFault::Cut, Unavailable, Protocol, Retry::Unknown, 1),
    ];
    for (fault, kind, cause, retry, taken) in cases {
        let upstream = FakeUpstream::start().await;
        upstream.push_for_media(fault.clone());
        let provider = provider_at("openai-compatible", &upstream.base_url());
        let ctx = if fault == MediaFault::Hang {
            context_with_short_timeout()
        } else {
            context()
        };
        let result = media_provider(&*provider).submit(&ctx, &call("m"), "key-1").await;
        let error = result.expect_err("a fault");
        assert_eq!(
            (error.kind, error.cause, error.retry),
            (kind, cause, retry),
            "{fault:?} {error}"
        );
        assert!(!error.to_string().contains("tall gate"), "{error}");
        assert_eq!(
            (upstream.media_submissions(), upstream.made().len()),
            (1, taken),
            "{fault:?}"
        );
    }
}

#[tokio::test]
async fn invalid_answers_are_failures() {
    let too_few: Vec<(&str, Value, UpstreamErrorKind)> = vec![
        ("nothing", json!({"data": []}), UpstreamErrorKind::Unavailable),
        ("no list", json!({"data": "x"}), UpstreamErrorKind::Unavailable),
        (
            "no bytes",
            json!({"data": [{"revised_prompt": "x"}]}),
            UpstreamErrorKind::Unavailable,
        ),
        (
            "no base64",
            json!({"data": [{"b64_json": "***"}]}),
            UpstreamErrorKind::Unavailable,
        ),
        (
            "a file",
            json!({"data": [{"url": "file:///etc/passwd"}]}),
            UpstreamErrorKind::Unavailable,
        ),
        (
            "an error",
            json!({"error": {"code": "moderation_blocked", "message": "no"}}),
            UpstreamErrorKind::ContentBlocked,
        ),
    ];
    for (name, body, kind) in too_few {
        let upstream = FakeUpstream::start().await;
        upstream.set_hook(
            "/v1/images/generations",
            [Reply::body(200, "application/json", body.to_string())],
        );
        let provider = provider_at("openai-compatible", &upstream.base_url());
        let error = made(&*provider, &call("m")).await.expect_err(name);
        assert_eq!((error.kind, error.retry), (kind, Retry::Unknown), "{name}");
    }
}

#[tokio::test]
async fn image_handles_are_never_polled() {
    let provider = provider_at("openai", "http://127.0.0.1:9/v1");
    let state = media_provider(&*provider).poll(&context(), b"{}").await.unwrap();
    assert!(matches!(state, GenerationState::Lost));
    media_provider(&*provider)
        .cancel(&context(), b"{}")
        .await
        .unwrap();
}
