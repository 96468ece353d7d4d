//! The adapter against a server that speaks its wire.

use serde_json::{Value, json};
use tollgate_testkit::upstream::{FakeUpstream, MediaFault};
use tollgate_upstream::{Content, ImageTask, State, VideoTask};

use super::PRESET;
use crate::media::tests::calls::{
    KEY, a_film, check_ends, check_faults, images_of, pictures, provider_at, root_of, source, states,
    submitted, videos_of,
};

#[tokio::test]
async fn requests_have_the_native_fields() {
    let data = "data:image/png;base64,AAEC";
    let mut edit = pictures("m");
    (edit.task, edit.images) = (ImageTask::Edit, vec![source(&[0, 1, 2])]);
    let mut vary = edit.clone();
    (vary.task, vary.negative_prompt, vary.size) = (ImageTask::Vary, None, None);
    let mut film = a_film("m");
    (film.task, film.image) = (VideoTask::FromImage, Some(source(&[0, 1, 2])));
    let picture = json!({
        "prompt": "a tall gate", "negative_prompt": "people", "seed": 7, "batch_count": 2, "width": 64, "height": 32,
    });
    let with = |name: &str, value: Value| {
        let mut body = picture.clone();
        body[name] = value;
        body
    };
    let varied = json!({"prompt": "a tall gate", "seed": 7, "batch_count": 2, "init_image": data});
    let upstream = FakeUpstream::start().await;
    let provider = provider_at(PRESET, &root_of(&upstream));
    for call in [&pictures("m"), &edit, &vary] {
        images_of(&*provider).check(call).unwrap();
        submitted(images_of(&*provider), call).await.unwrap();
    }
    submitted(videos_of(&*provider), &film).await.unwrap();
    let filmed = json!({
        "prompt": "a gate opens", "width": 128, "height": 72, "video_frames": 129, "fps": 16, "init_image": data,
    });
    let expected = [
        ("/sdcpp/v1/img_gen", picture.clone()),
        ("/sdcpp/v1/img_gen", with("ref_images", json!([data]))),
        ("/sdcpp/v1/img_gen", varied),
        ("/sdcpp/v1/vid_gen", filmed),
    ];
    let asked = upstream.requests();
    assert_eq!(asked.len(), expected.len());
    for (asked, (path, body)) in asked.iter().zip(expected) {
        assert_eq!((asked.path.as_str(), asked.json().unwrap()), (path, body));
        assert_eq!(asked.header("authorization"), Some(&*format!("Bearer {KEY}")));
    }
}

#[tokio::test]
async fn pictures_and_films_come_with_the_job() {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at(PRESET, &root_of(&upstream));
    let handle = submitted(images_of(&*provider), &pictures("m")).await.unwrap();
    let Some(State::Made(made)) = states(images_of(&*provider), &handle).await.pop() else {
        panic!("it is made");
    };
    let making = upstream.made().remove(0);
    let contents: Vec<Content> = made.pieces.into_iter().map(|piece| piece.content).collect();
    assert_eq!(
        contents,
        [0, 1].map(|index| Content::Bytes(making.piece(index).into()))
    );
    let handle = submitted(videos_of(&*provider), &a_film("m")).await.unwrap();
    let Some(State::Made(made)) = states(videos_of(&*provider), &handle).await.pop() else {
        panic!("it is made");
    };
    let making = upstream.made().remove(1);
    assert_eq!((making.seconds, making.is_film), (8, true));
    assert_eq!(made.pieces[0].content, Content::Bytes(making.piece(0).into()));
    assert_eq!(made.pieces.len(), 1);
}

#[tokio::test]
async fn every_end_is_told() {
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
    check_ends(PRESET, "", &pictures("m"), images_of, &expected).await;
}

#[tokio::test]
async fn every_fault_says_whether_it_may_have_been_made() {
    check_faults(PRESET, "", &pictures("m"), images_of).await;
    check_faults(PRESET, "", &a_film("m"), videos_of).await;
}

#[tokio::test]
async fn what_it_has_no_word_for_is_refused() {
    let provider = provider_at(PRESET, "http://127.0.0.1:9");
    let mut masked = pictures("m");
    masked.mask = Some(source(b"m"));
    let mut named = pictures("m");
    named.quality = Some("high".into());
    let mut unsized_one = pictures("m");
    (unsized_one.size, unsized_one.aspect_ratio) = (None, Some("1:1".into()));
    for (call, param) in [
        (masked, "mask"),
        (named, "quality"),
        (unsized_one, "aspect_ratio"),
    ] {
        let refused = images_of(&*provider).check(&call).unwrap_err();
        assert_eq!(refused.param.as_deref(), Some(param));
    }
    let mut extended = a_film("m");
    extended.task = VideoTask::Extend;
    let refused = videos_of(&*provider).check(&extended).unwrap_err();
    assert_eq!(refused.param.as_deref(), Some("extend_from"));
}

#[tokio::test]
async fn it_is_there_or_it_is_not() {
    let upstream = FakeUpstream::start().await;
    let patience = std::time::Duration::from_secs(20);
    let provider = provider_at(PRESET, &root_of(&upstream));
    assert!(provider.list_models(patience).await.unwrap().is_empty());
    let provider = provider_at(PRESET, &format!("{}/elsewhere", root_of(&upstream)));
    assert_eq!(
        provider.list_models(patience).await.unwrap_err().status,
        Some(404)
    );
}
