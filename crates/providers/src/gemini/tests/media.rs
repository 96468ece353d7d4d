//! Pictures and films, at both services.

use super::*;
use crate::media::tests::calls::{
    a_film, check_faults, fetched, images_of, pictures, provider_at, source, states, submitted, videos_of,
    words,
};
use tollgate_testkit::upstream::MediaFault;
use tollgate_upstream::{Content, ImageCall, ImageTask, Made, State, Submitted, VideoTask};

const VEO: &str = "veo-3.1-generate-preview";

/// Two pictures without what no model takes.
fn plain(model: &str) -> ImageCall {
    ImageCall {
        negative_prompt: None,
        ..pictures(model)
    }
}

async fn made(provider: &dyn Provider, call: &ImageCall) -> Result<Made, UpstreamError> {
    images_of(provider).check(call).unwrap();
    match images_of(provider).submit(&patient(), call, "key-1").await? {
        Submitted::Made(made) => Ok(made),
        Submitted::Accepted { .. } => panic!("pictures come at once"),
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
    let contents: Vec<Content> = answer.pieces.into_iter().map(|piece| piece.content).collect();
    assert_eq!(
        contents,
        [0, 1].map(|index| Content::Bytes(making.piece(index).into()))
    );
    upstream.push_for_media(MediaFault::Blocked);
    let error = made(&*provider, &call).await.unwrap_err();
    assert_eq!(error.kind, UpstreamErrorKind::ContentBlocked);
}

#[tokio::test]
async fn other_models_generate_content_that_is_a_picture() {
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
    assert_eq!(answer.pieces[0].content, Content::Bytes(making.piece(0).into()));

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
        let error = made(&*provider, &call).await.expect_err("no picture");
        assert_eq!(error.kind, kind, "{body}");
    }
}

#[test]
fn what_google_has_no_word_for_is_refused() {
    let provider = provider_at("gemini", "http://127.0.0.1:9/v1beta");
    let mut edit = plain("imagen-4.0-generate-001");
    edit.images = vec![source(b"x")];
    let mut masked = plain("gemini-3-pro-image");
    masked.mask = Some(source(b"x"));
    for (call, param) in [
        (edit, "image"),
        (masked, "mask"),
        (pictures("gemini-3-pro-image"), "negative_prompt"),
    ] {
        let refused = images_of(&*provider).check(&call).unwrap_err();
        assert_eq!(refused.param.as_deref(), Some(param));
    }
    let maker = images_of(&*provider);
    assert_eq!(
        (
            maker.most_at_once("imagen-4.0-generate-001"),
            maker.most_at_once("gemini-3-pro-image")
        ),
        (4, 1)
    );
    let mut extended = a_film(VEO);
    extended.task = VideoTask::Extend;
    let refused = videos_of(&*provider).check(&extended).unwrap_err();
    assert_eq!(refused.param.as_deref(), Some("extend_from"));
}

#[tokio::test]
async fn a_film_is_an_operation() {
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key(crate::media::tests::calls::KEY);
    let provider = provider_at("gemini", &upstream.base_url());
    let mut call = a_film(VEO);
    (call.task, call.image, call.seed) = (VideoTask::FromImage, Some(source(&[0, 1, 2])), Some(3));
    call.negative_prompt = Some("people".to_owned());
    let handle = submitted(videos_of(&*provider), &call).await.unwrap();
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
    let Some(State::Made(made)) = states.last() else {
        panic!("it is made");
    };
    let bytes = fetched(videos_of(&*provider), &made.pieces[0].content).await;
    assert_eq!(bytes, upstream.made().remove(0).piece(0));
    assert_eq!(upstream.media_submissions(), 1);
}

#[tokio::test]
async fn every_end_of_a_film_is_told() {
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
        let handle = submitted(videos_of(&*provider), &a_film(VEO)).await.unwrap();
        videos_of(&*provider).cancel(&patient(), &handle).await.unwrap();
        let states = states(videos_of(&*provider), &handle).await;
        assert_eq!(words(&states), [end], "{fault:?}");
        assert!(!format!("{states:?}").contains("a gate"), "{states:?}");
    }
}

#[tokio::test]
async fn every_fault_says_whether_it_may_have_been_made() {
    check_faults("gemini", "/v1", &a_film(VEO), videos_of).await;
}

#[tokio::test]
async fn at_vertex_a_film_comes_with_its_operation() {
    let upstream = FakeUpstream::start().await;
    let key = upstream.issue_tokens();
    let provider = vertex::built(&vertex::config(&upstream.base_url(), &key));
    let mut call = a_film("veo-3.1-generate-001");
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
    let handle = submitted(videos_of(&*provider), &call).await.unwrap();
    let asked = last(&upstream);
    let folder =
        "/v1/projects/acme-project/locations/us-central1/publishers/google/models/veo-3.1-generate-001";
    assert_eq!(asked.path, format!("{folder}:predictLongRunning"));
    let body = asked.json().unwrap();
    assert_eq!(body["parameters"]["generateAudio"], json!(true));
    assert_eq!(body["instances"][0]["video"]["bytesBase64Encoded"], json!("AAEC"));
    assert_eq!(body["parameters"].get("durationSeconds"), None);
    // A token that is refused is renewed in the middle of it.
    upstream.revoke_tokens();
    let Some(State::Made(made)) = states(videos_of(&*provider), &handle).await.pop() else {
        panic!("it is made");
    };
    assert_eq!(last(&upstream).path, format!("{folder}:fetchPredictOperation"));
    let making = upstream.made().remove(0);
    assert_eq!(made.pieces[0].content, Content::Bytes(making.piece(0).into()));
    let answer = made_at(&*provider).await;
    assert_eq!(answer.pieces.len(), 2);
}

async fn made_at(provider: &dyn Provider) -> Made {
    made(provider, &plain("imagen-4.0-generate-001")).await.unwrap()
}
