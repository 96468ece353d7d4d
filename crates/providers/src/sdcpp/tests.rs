//! Tests of the adapter against a server that implements stable-diffusion.cpp's API.

use serde_json::{Value, json};
use tollgate_testkit::upstream::{FakeUpstream, MediaFault};
use tollgate_upstream::{Content, GenerationState, ImageTask, VideoTask};

use super::PRESET;
use crate::media::tests::calls::{
    KEY, check_ends, check_faults, image_call, images_of, provider_at, root_of, source, states, submission,
    video_call, videos_of,
};

#[tokio::test]
async fn requests_have_the_native_fields() {
    let data = "data:image/png;base64,AAEC";
    let mut edit = image_call("m");
    (edit.task, edit.images) = (ImageTask::Edit, vec![source(&[0, 1, 2])]);
    let mut vary = edit.clone();
    (vary.task, vary.negative_prompt, vary.size) = (ImageTask::Vary, None, None);
    let mut video = video_call("m");
    (video.task, video.image) = (VideoTask::FromImage, Some(source(&[0, 1, 2])));
    let image_body = json!({
        "prompt": "a tall gate", "negative_prompt": "people", "seed": 7, "batch_count": 2, "width": 64, "height": 32,
    });
    let with = |name: &str, value: Value| {
        let mut body = image_body.clone();
        body[name] = value;
        body
    };
    let varied = json!({"prompt": "a tall gate", "seed": 7, "batch_count": 2, "init_image": data});
    let upstream = FakeUpstream::start().await;
    let provider = provider_at(PRESET, &root_of(&upstream));
    for call in [&image_call("m"), &edit, &vary] {
        images_of(&*provider).check(call).unwrap();
        submission(images_of(&*provider), call).await.unwrap();
    }
    submission(videos_of(&*provider), &video).await.unwrap();
    let video_body = json!({
        "prompt": "a gate opens", "width": 128, "height": 72, "video_frames": 129, "fps": 16, "init_image": data,
    });
    let expected = [
        ("/sdcpp/v1/img_gen", image_body.clone()),
        ("/sdcpp/v1/img_gen", with("ref_images", json!([data]))),
        ("/sdcpp/v1/img_gen", varied),
        ("/sdcpp/v1/vid_gen", video_body),
    ];
    let asked = upstream.requests();
    assert_eq!(asked.len(), expected.len());
    for (asked, (path, body)) in asked.iter().zip(expected) {
        assert_eq!((asked.path.as_str(), asked.json().unwrap()), (path, body));
        assert_eq!(asked.header("authorization"), Some(&*format!("Bearer {KEY}")));
    }
}

#[tokio::test]
async fn images_and_videos_are_returned_with_the_job() {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at(PRESET, &root_of(&upstream));
    let handle = submission(images_of(&*provider), &image_call("m")).await.unwrap();
    let Some(GenerationState::Completed(made)) = states(images_of(&*provider), &handle).await.pop() else {
        panic!("it is made");
    };
    let making = upstream.made().remove(0);
    let contents: Vec<Content> = made.items.into_iter().map(|item| item.content).collect();
    assert_eq!(
        contents,
        [0, 1].map(|index| Content::Bytes(making.output(index).into()))
    );
    let handle = submission(videos_of(&*provider), &video_call("m")).await.unwrap();
    let Some(GenerationState::Completed(made)) = states(videos_of(&*provider), &handle).await.pop() else {
        panic!("it is made");
    };
    let making = upstream.made().remove(1);
    assert_eq!((making.seconds, making.is_video), (8, true));
    assert_eq!(made.items[0].content, Content::Bytes(making.output(0).into()));
    assert_eq!(made.items.len(), 1);
}

#[tokio::test]
async fn final_states_are_reported() {
    let expected: [(Option<MediaFault>, &[&str]); 5] = [
        (None, &["waiting after 3", "running", "2 made"]),
        (
            Some(MediaFault::Fails("a gate too far".to_owned())),
            &["waiting after 3", "running", "failed: Unavailable"],
        ),
        (
            Some(MediaFault::Blocked),
            &["waiting after 3", "running", "failed: ContentBlocked"],
        ),
        (Some(MediaFault::Lost), &["lost"]),
        (Some(MediaFault::Endless), &["cancelled"]),
    ];
    check_ends(PRESET, "", &image_call("m"), images_of, &expected).await;
}

#[tokio::test]
async fn submission_faults_report_retry_safety() {
    check_faults(PRESET, "", &image_call("m"), images_of).await;
    check_faults(PRESET, "", &video_call("m"), videos_of).await;
}

#[tokio::test]
async fn unsupported_parameters_are_refused() {
    let provider = provider_at(PRESET, "http://127.0.0.1:9");
    let mut masked = image_call("m");
    masked.mask = Some(source(b"m"));
    let mut named = image_call("m");
    named.quality = Some("high".into());
    let mut unsized_one = image_call("m");
    (unsized_one.size, unsized_one.aspect_ratio) = (None, Some("1:1".into()));
    for (call, param) in [
        (masked, "mask"),
        (named, "quality"),
        (unsized_one, "aspect_ratio"),
    ] {
        let refused = images_of(&*provider).check(&call).unwrap_err();
        assert_eq!(refused.param.as_deref(), Some(param));
    }
    let mut extended = video_call("m");
    extended.task = VideoTask::Extend;
    let refused = videos_of(&*provider).check(&extended).unwrap_err();
    assert_eq!(refused.param.as_deref(), Some("extend_from"));
}

#[tokio::test]
async fn list_models_checks_reachability() {
    let upstream = FakeUpstream::start().await;
    let timeout = std::time::Duration::from_secs(20);
    let provider = provider_at(PRESET, &root_of(&upstream));
    assert!(provider.list_models(timeout).await.unwrap().is_empty());
    let provider = provider_at(PRESET, &format!("{}/elsewhere", root_of(&upstream)));
    assert_eq!(provider.list_models(timeout).await.unwrap_err().status, Some(404));
}
