//! Tests of the adapter against a server that implements Replicate's API.

use serde_json::{Value, json};
use tollgate_testkit::upstream::{FakeUpstream, MediaFault, Reply};
use tollgate_upstream::{Content, GenerationState, ImageTask, VideoTask};

use super::PRESET;
use crate::media::tests::calls::{
    KEY, check_ends, check_faults, context, image_call, images_of, provider_at, root_of, source, states,
    submission, video_call, videos_of, words,
};

const MODEL: &str = "black-forest-labs/flux-schnell";

#[tokio::test]
async fn predictions_are_made_of_models_and_versions() {
    let input =
        json!({"prompt": "a tall gate", "negative_prompt": "people", "seed": 7, "width": 64, "height": 32});
    for (model, path, body) in [
        (
            MODEL,
            format!("/v1/models/{MODEL}/predictions"),
            json!({"input": input}),
        ),
        (
            "somebody/sdxl:7762fd07",
            "/v1/predictions".to_owned(),
            json!({"version": "7762fd07", "input": input}),
        ),
    ] {
        let upstream = FakeUpstream::start().await;
        let provider = provider_at(PRESET, &root_of(&upstream));
        submission(images_of(&*provider), &image_call(model))
            .await
            .unwrap();
        let asked = upstream.requests().remove(0);
        assert_eq!(asked.path, path);
        assert_eq!(asked.header("authorization"), Some(&*format!("Bearer {KEY}")));
        assert_eq!(asked.json().unwrap(), body);
    }
}

#[tokio::test]
async fn image_fields_depend_on_the_model_family() {
    let data = "data:image/png;base64,AAEC";
    let cases: [(&str, &str, Value); 4] = [
        ("google/nano-banana", "image_input", json!([data])),
        ("black-forest-labs/flux-kontext-pro", "input_image", json!(data)),
        ("black-forest-labs/flux-2-pro", "input_images", json!([data])),
        ("stability-ai/sdxl", "image", json!(data)),
    ];
    for (model, name, value) in cases {
        let upstream = FakeUpstream::start().await;
        let provider = provider_at(PRESET, &root_of(&upstream));
        let mut call = image_call(model);
        (call.task, call.images) = (ImageTask::Edit, vec![source(&[0, 1, 2])]);
        (call.aspect_ratio, call.resolution) = (Some("2:1".into()), Some("1K".into()));
        images_of(&*provider).check(&call).unwrap();
        submission(images_of(&*provider), &call).await.unwrap();
        let mut expected = json!({
            "prompt": "a tall gate", "negative_prompt": "people", "seed": 7, "aspect_ratio": "2:1", "resolution": "1K",
        });
        expected[name] = value;
        assert_eq!(
            upstream.requests().remove(0).json().unwrap()["input"],
            expected,
            "{model}"
        );
        call.images.push(source(b"more"));
        let is_refused = images_of(&*provider).check(&call).is_err();
        assert_eq!(is_refused, ["input_image", "image"].contains(&name), "{model}");
    }
    let mut video = video_call("kwaivgi/kling-v2.1");
    (video.task, video.image) = (VideoTask::FromImage, Some(source(&[0, 1, 2])));
    let upstream = FakeUpstream::start().await;
    let provider = provider_at(PRESET, &root_of(&upstream));
    submission(videos_of(&*provider), &video).await.unwrap();
    let expected = json!({
        "prompt": "a gate opens", "duration": 8, "aspect_ratio": "16:9", "resolution": "720p", "start_image": data,
    });
    assert_eq!(upstream.requests().remove(0).json().unwrap()["input"], expected);
}

#[tokio::test]
async fn final_states_are_reported() {
    let expected: [(Option<MediaFault>, &[&str]); 5] = [
        // One submission generates one image, as `max_outputs` reports.
        (None, &["waiting", "running", "1 made"]),
        (
            Some(MediaFault::Fails("a gate too far".to_owned())),
            &["waiting", "running", "failed: Unavailable"],
        ),
        (
            Some(MediaFault::Blocked),
            &["waiting", "running", "failed: ContentBlocked"],
        ),
        (Some(MediaFault::Lost), &["lost"]),
        (Some(MediaFault::Endless), &["cancelled"]),
    ];
    check_ends(PRESET, "", &image_call(MODEL), images_of, &expected).await;
    assert_eq!(
        images_of(&*provider_at(PRESET, "http://127.0.0.1:9")).max_outputs(MODEL),
        1
    );
}

#[tokio::test]
async fn submission_faults_report_retry_safety() {
    check_faults(PRESET, "", &image_call(MODEL), images_of).await;
}

#[tokio::test]
async fn an_output_is_one_address_or_several() {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at(PRESET, &root_of(&upstream));
    let handle = submission(videos_of(&*provider), &video_call("google/veo-3"))
        .await
        .unwrap();
    let Some(GenerationState::Completed(made)) = states(videos_of(&*provider), &handle).await.pop() else {
        panic!("it is made");
    };
    assert!(matches!(&made.items[0].content, Content::Address(url) if url.starts_with("http://localhost:")));

    let url = "https://replicate.delivery/a.png";
    let done = |output: Value| json!({"id": "p", "status": "succeeded", "output": output});
    let cases = [
        (done(json!([url, url])), Some("2 made")),
        (done(json!(url)), Some("1 made")),
        (done(json!("data:image/png;base64,AAEC")), Some("1 made")),
        (done(json!([])), None),
        (done(json!({"x": url})), None),
        (done(Value::Null), None),
        (
            json!({"id": "p", "status": "succeeded", "output": null, "data_removed": true}),
            Some("lost"),
        ),
        (
            json!({"id": "p", "status": "aborted"}),
            Some("failed: Unavailable"),
        ),
        (
            json!({"id": "p", "status": "failed", "error": "no (E005) here"}),
            Some("failed: Unavailable"),
        ),
        (json!({"id": "p", "status": "dreaming"}), None),
    ];
    for (body, word) in cases {
        let upstream = FakeUpstream::start().await;
        upstream.set_file(
            "/v1/predictions/p",
            Reply::body(200, "application/json", body.to_string()),
        );
        let provider = provider_at(PRESET, &root_of(&upstream));
        let state = images_of(&*provider).poll(&context(), br#"{"id": "p"}"#).await;
        let reported = state.ok().map(|state| words(&[state]).join(""));
        assert_eq!(reported.as_deref(), word, "{body}");
    }
}
