//! Answers of the image and video providers.

use serde_json::json;

use super::super::media::{image, parts, video};
use super::super::{FakeUpstream, MediaFault};
use super::client::{Client, post};

#[test]
fn images_and_videos_have_the_stated_size() {
    let png = image(300, 7, 0xaa);
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    assert_eq!(png[16..24], [0, 0, 1, 44, 0, 0, 0, 7]);
    assert_ne!(png, image(300, 7, 0xab));
    let mp4 = video(64, 32, 1);
    assert_eq!(&mp4[4..8], b"ftyp");
    // The track header of a video: width and height are its last fields, in fixed point.
    let shown = mp4.windows(4).position(|window| window == b"tkhd").unwrap();
    assert_eq!(mp4[shown + 80..shown + 88], [0, 64, 0, 0, 0, 32, 0, 0]);
}

#[test]
fn a_form_is_read_strictly() {
    let of = |body: &str| parts("multipart/form-data; boundary=b", &body.to_owned().into());
    let read = of("--b\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\nx\r\n--b--\r\n").unwrap();
    assert_eq!((read[0].name.as_str(), read[0].text().as_str()), ("a", "x"));
    for broken in [
        "",
        "--b--\r\n",
        "--b\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\nx\r\n--b\r\n",
        "--b\r\ncontent-disposition: form-data; name=a\r\n\r\nx\r\n--b--\r\n",
        "--b\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\nx\r\n--b--",
        "--c\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\nx\r\n--c--\r\n",
    ] {
        assert!(of(broken).is_none(), "{broken:?}");
    }
    assert!(parts("application/json", &"{}".into()).is_none());
}

#[tokio::test]
async fn a_submission_is_written_down_whatever_is_answered() {
    let upstream = FakeUpstream::start().await;
    upstream.push_for_media(MediaFault::Busy);
    upstream.push_for_media(MediaFault::WrongSize);
    upstream.push_for_media(MediaFault::ServerError);
    let body = json!({"model": "m", "prompt": "p", "n": 1, "size": "64x32"});
    let mut statuses = Vec::new();
    for _ in 0..3 {
        let mut client = Client::to(&upstream).await;
        client
            .send(&post("/v1/images/generations", &body.to_string()))
            .await;
        statuses.push(client.read().await.status);
    }
    assert_eq!(statuses, [429, 200, 500]);
    assert_eq!(upstream.media_submissions(), 3);
    let sizes: Vec<(u32, u32)> = upstream.made().iter().map(|making| making.size).collect();
    assert_eq!(sizes, [(32, 16), (64, 32)]);
}
