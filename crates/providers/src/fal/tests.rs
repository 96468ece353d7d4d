//! Tests of the adapter against a server that implements fal's queue API.

use serde_json::{Value, json};
use tollgate_testkit::upstream::{FakeUpstream, MediaFault, Reply};
use tollgate_upstream::{Content, GenerationState, ImageTask, UpstreamCause, VideoCall, VideoTask};

use super::PRESET;
use super::wire::Accepted;
use crate::http::BaseUrl;
use crate::media::tests::calls::{
    KEY, check_ends, check_faults, context, image_call, images_of, provider_at, root_of, source, states,
    submission, video_call, videos_of,
};

const MODEL: &str = "fal-ai/flux/dev";

#[tokio::test]
async fn requests_have_the_default_field_names() {
    let data = "data:image/png;base64,AAEC";
    let mut full = image_call(MODEL);
    full.aspect_ratio = Some("2:1".into());
    full.resolution = Some("1k".into());
    full.format = Some(tollgate_upstream::ImageFormat::Png);
    let edit_of = |model: &str, count: usize| {
        let mut call = image_call(model);
        (call.task, call.images) = (ImageTask::Edit, vec![source(&[0, 1, 2]); count]);
        (call.negative_prompt, call.seed, call.size, call.count) = (None, None, None, 1);
        call
    };
    let cases: [(_, Value); 4] = [
        (
            full,
            json!({
                "prompt": "a tall gate", "negative_prompt": "people", "seed": 7, "num_images": 2,
                "image_size": {"width": 64, "height": 32}, "aspect_ratio": "2:1", "resolution": "1k",
                "output_format": "png",
            }),
        ),
        (
            edit_of("fal-ai/flux-pro/kontext", 1),
            json!({"prompt": "a tall gate", "num_images": 1, "image_url": data}),
        ),
        (
            edit_of("fal-ai/nano-banana/edit", 1),
            json!({"prompt": "a tall gate", "num_images": 1, "image_urls": [data]}),
        ),
        (
            edit_of("fal-ai/flux-pro/kontext", 2),
            json!({"prompt": "a tall gate", "num_images": 1, "image_urls": [data, data]}),
        ),
    ];
    for (call, expected) in cases {
        let upstream = FakeUpstream::start().await;
        let provider = provider_at(PRESET, &root_of(&upstream));
        submission(images_of(&*provider), &call).await.unwrap();
        let asked = upstream.requests().remove(0);
        assert_eq!(asked.path, format!("/{}", call.upstream_model));
        assert_eq!(asked.json().unwrap(), expected);
        assert_eq!(asked.header("authorization"), Some(&*format!("Key {KEY}")));
    }
}

#[tokio::test]
async fn video_durations_use_the_models_format() {
    let data = "data:image/png;base64,AAEC";
    let usual = json!({"prompt": "a gate opens", "aspect_ratio": "16:9", "resolution": "720p", "generate_audio": true});
    let with = |more: Value| {
        let mut body = usual.clone();
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    };
    let mut from_image = video_call("fal-ai/kling-video/v2/master/image-to-video");
    (from_image.task, from_image.image) = (VideoTask::FromImage, Some(source(&[0, 1, 2])));
    let mut referring = video_call("fal-ai/bytedance/seedance/v1/lite/reference-to-video");
    (referring.task, referring.references) = (VideoTask::FromReferences, vec![source(&[0, 1, 2])]);
    let mut veo = referring.clone();
    veo.upstream_model = "fal-ai/veo3.1/reference-to-video".into();
    let mut extended = video_call("fal-ai/ltx-2/extend-video");
    (extended.task, extended.video) = (VideoTask::Extend, Some(source(&[0, 1, 2])));
    for (call, more) in [
        (video_call("fal-ai/veo3.1"), json!({"duration": "8s"})),
        (from_image, json!({"duration": "8", "image_url": data})),
        (
            referring,
            json!({"duration": "8", "reference_image_urls": [data]}),
        ),
        (veo, json!({"duration": "8s", "image_urls": [data]})),
        (extended, json!({"duration": "8", "video_url": data})),
    ] {
        let upstream = FakeUpstream::start().await;
        let provider = provider_at(PRESET, &root_of(&upstream));
        videos_of(&*provider).check(&call).unwrap();
        submission(videos_of(&*provider), &call).await.unwrap();
        assert_eq!(upstream.requests().remove(0).json().unwrap(), with(more));
    }
}

/// An endpoint whose path names a task accepts only this task.
#[tokio::test]
async fn endpoints_accept_only_the_task_in_their_path() {
    use VideoTask::{Extend, FromImage, FromReferences, FromText};
    let provider = provider_at(PRESET, "http://127.0.0.1:9");
    for (model, task, refused) in [
        ("fal-ai/veo3.1", FromText, None),
        ("fal-ai/veo3.1", FromImage, None),
        ("fal-ai/veo3.1", Extend, Some("extend_from")),
        ("fal-ai/ltx-2/extend-video", Extend, None),
        ("fal-ai/ltx-2/extend-video", FromText, Some("extend_from")),
        ("fal-ai/ltx-2/extend-video", FromImage, Some("image")),
        ("fal-ai/ltx-2/text-to-video", FromText, None),
        ("fal-ai/ltx-2/text-to-video", FromImage, Some("image")),
        ("fal-ai/ltx-2/text-to-video", Extend, Some("extend_from")),
        ("fal-ai/wan/v2.2-a14b/image-to-video/turbo", FromImage, None),
        (
            "fal-ai/wan/v2.2-a14b/image-to-video/turbo",
            FromText,
            Some("image"),
        ),
        ("fal-ai/veo3.1/reference-to-video", FromReferences, None),
        (
            "fal-ai/veo3.1/image-to-video",
            FromReferences,
            Some("reference_images"),
        ),
    ] {
        let call = VideoCall {
            task,
            ..video_call(model)
        };
        let checked = videos_of(&*provider).check(&call);
        let param = checked.err().and_then(|error| error.param);
        assert_eq!(param.as_deref(), refused, "{model} {task:?}");
    }
}

#[tokio::test]
async fn final_states_are_reported() {
    let expected: [(Option<MediaFault>, &[&str]); 5] = [
        (None, &["waiting after 2", "running", "2 made"]),
        (
            Some(MediaFault::Fails("a gate too far".to_owned())),
            &["waiting after 2", "running", "failed: Rejected"],
        ),
        (
            Some(MediaFault::Blocked),
            &["waiting after 2", "running", "blocked"],
        ),
        (Some(MediaFault::Lost), &["lost"]),
        (Some(MediaFault::Endless), &["failed: Rejected"]),
    ];
    check_ends(PRESET, "", &image_call(MODEL), images_of, &expected).await;
}

#[tokio::test]
async fn submission_faults_report_retry_safety() {
    check_faults(PRESET, "", &image_call(MODEL), images_of).await;
}

#[tokio::test]
async fn results_are_at_other_hosts() {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at(PRESET, &root_of(&upstream));
    let handle = submission(videos_of(&*provider), &video_call("fal-ai/veo3.1"))
        .await
        .unwrap();
    let Some(GenerationState::Completed(made)) = states(videos_of(&*provider), &handle).await.pop() else {
        panic!("it is made");
    };
    let making = upstream.made().remove(0);
    let port = upstream.address().port();
    let address = format!("http://localhost:{port}/media/{}/0", making.id);
    assert_eq!(made.items[0].content, Content::Address(address));
    assert_eq!((making.is_video, making.seconds), (true, 8));
}

#[test]
fn only_own_addresses_are_followed() {
    let base = BaseUrl::parse("https://queue.fal.run").unwrap();
    let reported: Accepted = serde_json::from_value(json!({
        "request_id": "r/1", "status_url": "https://queue.fal.run/fal-ai/flux/requests/r1/status",
        "response_url": "https://evil.test/r1", "cancel_url": null,
    }))
    .unwrap();
    let handle = reported.handle(&base, "fal-ai/flux/dev/image-to-image").unwrap();
    assert_eq!(handle.status, "/fal-ai/flux/requests/r1/status");
    assert_eq!(handle.response, "/fal-ai/flux/requests/r%2F1");
    assert_eq!(handle.cancel, "/fal-ai/flux/requests/r%2F1/cancel");
    let nothing: Accepted = serde_json::from_value(json!({"request_id": ""})).unwrap();
    nothing.handle(&base, "m").unwrap_err();
}

#[tokio::test]
async fn result_status_decides_the_outcome() {
    let detail =
        json!({"detail": [{"loc": ["body", "prompt"], "msg": "a gate", "type": "content_policy_violation"}]});
    let half = json!({"images": [{"url": "https://v3.fal.media/1.png"}, {"url": "https://v3.fal.media/2.png"}],
                      "has_nsfw_concepts": [true, false]});
    let cases = [
        (200, half, Some("1 made")),
        (
            200,
            json!({"image": {"url": "https://v3.fal.media/1.png"}}),
            Some("1 made"),
        ),
        (422, detail, Some("failed: ContentBlocked")),
        (
            500,
            json!({"detail": "Internal Server Error"}),
            Some("failed: Unavailable"),
        ),
        (404, json!({"detail": "Not found"}), Some("lost")),
        (503, json!({"detail": "Come again"}), None),
        (429, json!({"detail": "Come again"}), None),
        (200, json!({"seed": 1}), None),
        (200, json!({"images": [{"url": "file:///etc/passwd"}]}), None),
    ];
    for (status, body, word) in cases {
        let upstream = FakeUpstream::start().await;
        let status_of = Reply::body(200, "application/json", "{\"status\": \"COMPLETED\"}");
        upstream.set_file("/q/status", status_of);
        upstream.set_file("/q", Reply::body(status, "application/json", body.to_string()));
        let provider = provider_at(PRESET, &root_of(&upstream));
        let handle = br#"{"status": "/q/status", "response": "/q", "cancel": "/q/cancel"}"#;
        let state = images_of(&*provider).poll(&context(), handle).await;
        let reported = state.as_ref().ok().map(|state| {
            let words = crate::media::tests::calls::words(std::slice::from_ref(state));
            words.join("")
        });
        assert_eq!(reported.as_deref(), word, "{status} {body}: {state:?}");
        if let Err(error) = state {
            assert!(matches!(
                error.cause,
                UpstreamCause::Status | UpstreamCause::Protocol
            ));
        }
    }
}
