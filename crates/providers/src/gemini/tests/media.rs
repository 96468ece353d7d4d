//! Tests of images and videos, at both services.

use super::*;
use crate::media::tests::calls::{
    check_faults, fetched, image_call, images_of, provider_at, source, states, submission, video_call,
    videos_of, words,
};
use tollgate_testkit::upstream::MediaFault;
use tollgate_upstream::{
    Content, GenerationOutput, GenerationState, ImageCall, ImageTask, Submitted, VideoTask,
};

const VEO: &str = "veo-3.1-generate-preview";

/// Returns a call for two images, without the negative prompt, which no model supports.
fn plain(model: &str) -> ImageCall {
    ImageCall {
        negative_prompt: None,
        ..image_call(model)
    }
}

async fn made(provider: &dyn Provider, call: &ImageCall) -> Result<GenerationOutput, UpstreamError> {
    images_of(provider).check(call).unwrap();
    match images_of(provider)
        .submit(&context_with_long_timeout(), call, "key-1")
        .await?
    {
        Submitted::Completed(made) => Ok(made),
        Submitted::Accepted { .. } => panic!("images are returned immediately"),
    }
}

#[tokio::test]
async fn imagen_predicts() {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at("gemini", &upstream.base_url());
    let mut call = plain("imagen-4.0-generate-001");
    call.resolution = Some("2k".into());
    let answer = made(&*provider, &call).await.unwrap();
    let asked = last(&upstream);
    assert_eq!(asked.path, "/v1/models/imagen-4.0-generate-001:predict");
    let parameters = json!({"sampleCount": 2, "aspectRatio": "2:1", "sampleImageSize": "2K"});
    assert_eq!(
        asked.json().unwrap(),
        json!({"instances": [{"prompt": "a tall gate"}], "parameters": parameters})
    );
    let making = upstream.made().remove(0);
    let contents: Vec<Content> = answer.items.into_iter().map(|item| item.content).collect();
    assert_eq!(
        contents,
        [0, 1].map(|index| Content::Bytes(making.output(index).into()))
    );
    upstream.push_for_media(MediaFault::Blocked);
    let error = made(&*provider, &call).await.unwrap_err();
    assert_eq!(error.kind, UpstreamErrorKind::ContentBlocked);
}

#[tokio::test]
async fn other_models_generate_images_as_content() {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at("gemini", &upstream.base_url());
    let mut call = plain("gemini-3-pro-image");
    (call.task, call.images, call.count) = (ImageTask::Edit, vec![source(&[0, 1, 2])], 1);
    let answer = made(&*provider, &call).await.unwrap();
    let asked = last(&upstream);
    assert_eq!(asked.path, "/v1/models/gemini-3-pro-image:generateContent");
    let parts = json!([{"inlineData": {"mimeType": "image/png", "data": "AAEC"}}, {"text": "a tall gate"}]);
    let config = json!({"responseModalities": ["IMAGE"], "imageConfig": {"aspectRatio": "2:1"}, "seed": 7});
    assert_eq!(
        asked.json().unwrap(),
        json!({"contents": [{"role": "user", "parts": parts}], "generationConfig": config})
    );
    assert_eq!(answer.usage, Some(Usage::tokens(20, 1_290)));
    let making = upstream.made().remove(0);
    assert_eq!(answer.items[0].content, Content::Bytes(making.output(0).into()));

    let path = "/v1/models/gemini-3-pro-image:generateContent";
    for (body, kind) in [
        (
            json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}),
            UpstreamErrorKind::ContentBlocked,
        ),
        (
            json!({"candidates": [{"finishReason": "IMAGE_SAFETY", "content": {}}]}),
            UpstreamErrorKind::ContentBlocked,
        ),
        (
            json!({"candidates": [{"finishReason": "STOP", "content": {"parts": [{"text": "I cannot"}]}}]}),
            UpstreamErrorKind::Unavailable,
        ),
        (
            json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}),
            UpstreamErrorKind::RateLimited,
        ),
    ] {
        upstream.set_hook(path, [Reply::body(200, "application/json", body.to_string())]);
        let error = made(&*provider, &call).await.expect_err("no image");
        assert_eq!(error.kind, kind, "{body}");
    }
}

#[test]
fn unsupported_parameters_are_refused() {
    let provider = provider_at("gemini", "http://127.0.0.1:9/v1beta");
    let mut edit = plain("imagen-4.0-generate-001");
    edit.images = vec![source(b"x")];
    let mut masked = plain("gemini-3-pro-image");
    masked.mask = Some(source(b"x"));
    for (call, param) in [
        (edit, "image"),
        (masked, "mask"),
        (image_call("gemini-3-pro-image"), "negative_prompt"),
    ] {
        let refused = images_of(&*provider).check(&call).unwrap_err();
        assert_eq!(refused.param.as_deref(), Some(param));
    }
    let media_provider = images_of(&*provider);
    assert_eq!(
        (
            media_provider.max_outputs("imagen-4.0-generate-001"),
            media_provider.max_outputs("gemini-3-pro-image")
        ),
        (4, 1)
    );
    let mut extended = video_call(VEO);
    extended.task = VideoTask::Extend;
    let refused = videos_of(&*provider).check(&extended).unwrap_err();
    assert_eq!(refused.param.as_deref(), Some("extend_from"));
}

#[tokio::test]
async fn videos_are_long_running_operations() {
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key(crate::media::tests::calls::KEY);
    let provider = provider_at("gemini", &upstream.base_url());
    let mut call = video_call(VEO);
    (call.task, call.image, call.seed) = (VideoTask::FromImage, Some(source(&[0, 1, 2])), Some(3));
    call.negative_prompt = Some("people".to_owned());
    let handle = submission(videos_of(&*provider), &call).await.unwrap();
    let asked = last(&upstream);
    assert_eq!(asked.path, format!("/v1/models/{VEO}:predictLongRunning"));
    let image = json!({"mimeType": "image/png", "bytesBase64Encoded": "AAEC"});
    let parameters = json!({
        "aspectRatio": "16:9", "resolution": "720p", "durationSeconds": 8, "sampleCount": 1,
        "negativePrompt": "people", "seed": 3,
    });
    assert_eq!(
        asked.json().unwrap(),
        json!({"instances": [{"prompt": "a gate opens", "image": image}], "parameters": parameters})
    );
    let states = states(videos_of(&*provider), &handle).await;
    assert_eq!(words(&states), ["running", "running", "1 made"]);
    assert_eq!(
        last(&upstream).path,
        format!("/v1/models/{VEO}/operations/google-1")
    );
    let Some(GenerationState::Completed(made)) = states.last() else {
        panic!("it is made");
    };
    let bytes = fetched(videos_of(&*provider), &made.items[0].content).await;
    assert_eq!(bytes, upstream.made().remove(0).output(0));
    assert_eq!(upstream.media_submissions(), 1);
}

#[tokio::test]
async fn final_video_states_are_reported() {
    for (fault, end) in [
        (
            MediaFault::Fails("a gate too far".to_owned()),
            "failed: Unavailable",
        ),
        (MediaFault::Blocked, "blocked"),
        (MediaFault::Lost, "lost"),
    ] {
        let upstream = FakeUpstream::start().await;
        upstream.set_media_polls(0);
        upstream.push_for_media(fault.clone());
        let provider = provider_at("gemini", &upstream.base_url());
        let handle = submission(videos_of(&*provider), &video_call(VEO)).await.unwrap();
        videos_of(&*provider)
            .cancel(&context_with_long_timeout(), &handle)
            .await
            .unwrap();
        let states = states(videos_of(&*provider), &handle).await;
        assert_eq!(words(&states), [end], "{fault:?}");
        assert!(!format!("{states:?}").contains("a gate"), "{states:?}");
    }
}

#[tokio::test]
async fn submission_faults_report_retry_safety() {
    check_faults("gemini", "/v1", &video_call(VEO), videos_of).await;
}

#[tokio::test]
async fn vertex_returns_the_video_with_the_operation() {
    let upstream = FakeUpstream::start().await;
    let key = upstream.issue_tokens();
    let provider = vertex::built(&vertex::config(&upstream.base_url(), &key));
    let mut call = video_call("veo-3.1-generate-001");
    (call.task, call.video) = (VideoTask::Extend, Some(source(&[0, 1, 2])));
    let refused = videos_of(&*provider).check(&call).unwrap_err();
    assert_eq!(
        refused.param.as_deref(),
        Some("extend_from"),
        "by seven seconds only"
    );
    call.duration = Duration::from_secs(7);
    let mut older = call.clone();
    older.upstream_model = "veo-3.0-generate-001".into();
    assert!(videos_of(&*provider).check(&older).is_err());
    videos_of(&*provider).check(&call).unwrap();
    let handle = submission(videos_of(&*provider), &call).await.unwrap();
    let asked = last(&upstream);
    let folder =
        "/v1/projects/acme-project/locations/us-central1/publishers/google/models/veo-3.1-generate-001";
    assert_eq!(asked.path, format!("{folder}:predictLongRunning"));
    let body = asked.json().unwrap();
    assert_eq!(body["parameters"]["generateAudio"], json!(true));
    assert_eq!(body["instances"][0]["video"]["bytesBase64Encoded"], json!("AAEC"));
    assert_eq!(body["parameters"].get("durationSeconds"), None);
    // The first poll renews the rejected token.
    upstream.revoke_tokens();
    let Some(GenerationState::Completed(made)) = states(videos_of(&*provider), &handle).await.pop() else {
        panic!("it is made");
    };
    assert_eq!(last(&upstream).path, format!("{folder}:fetchPredictOperation"));
    let making = upstream.made().remove(0);
    assert_eq!(made.items[0].content, Content::Bytes(making.output(0).into()));
    let answer = made_at(&*provider).await;
    assert_eq!(answer.items.len(), 2);
}

async fn made_at(provider: &dyn Provider) -> GenerationOutput {
    made(provider, &plain("imagen-4.0-generate-001")).await.unwrap()
}
