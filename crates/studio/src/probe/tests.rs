use std::path::PathBuf;

use crate::draw::Sketch;
use crate::film::FilmSpec;
use crate::picture::Encoding;
use crate::scratch::Scratch;

use super::*;

/// A film of two seconds with sound.
async fn film(tools: &Tools, scratch: &Scratch) -> PathBuf {
    let size = Dimensions::new(128, 96);
    let spec = FilmSpec {
        size,
        duration: Duration::from_secs(2),
        rate: 24,
        sound: Some(1),
        banner: None,
        note: None,
    };
    let still = Sketch::new(size, 1, "sea").draw().unwrap();
    let path = scratch.file("film.mp4");
    tools.make_film(&spec, &[still], &path).await.unwrap();
    path
}

async fn refusal(bytes: &[u8], name: &str) -> String {
    let scratch = Scratch::make().unwrap();
    let path = scratch.file(name);
    std::fs::write(&path, bytes).unwrap();
    match Tools::find().probe(&path).await {
        Err(Error::Input(reason)) => reason,
        other => panic!("{name}: {other:?}"),
    }
}

#[tokio::test]
async fn everything_of_a_film_is_read() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let probe = tools.probe(&film(&tools, &scratch).await).await.unwrap();
    let video = probe.film().unwrap();
    assert!(probe.format.contains("mp4"), "{}", probe.format);
    assert_eq!(
        (video.codec.as_str(), video.pixel_format.as_str()),
        ("h264", "yuv420p")
    );
    assert_eq!((video.size, video.frames), (Dimensions::new(128, 96), 48));
    assert_eq!(video.frame_rate, FrameRate::per_second(24));
    assert_eq!(video.duration, Duration::from_secs(2));
    let audio = probe.audio.unwrap();
    assert_eq!(
        (audio.codec.as_str(), audio.sample_rate, audio.channels),
        ("aac", 48_000, 2)
    );
}

#[tokio::test]
async fn what_is_no_film_is_refused_with_the_reason() {
    let picture = Sketch::new(Dimensions::new(64, 64), 1, "sea").draw().unwrap();
    let png = picture.encode(Encoding::Png).unwrap();
    let unread = "is no film and no recording that can be read";
    for (bytes, name, reason) in [
        (&b""[..], "empty.mp4", "is empty"),
        (&[7; 5_000], "garbage.mp4", unread),
        (&png, "picture.mp4", unread),
        (&png, "picture.png", unread),
        (
            b"#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\nother.ts\n",
            "list.m3u8",
            unread,
        ),
        (b"ffconcat version 1.0\nfile other.mp4\n", "list.mp4", unread),
    ] {
        assert_eq!(refusal(bytes, name).await, reason, "{name}");
    }
}

#[tokio::test]
async fn a_film_that_was_cut_is_refused() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let whole = std::fs::read(film(&tools, &scratch).await).unwrap();
    let reason = refusal(&whole[..whole.len() / 3], "cut.mp4").await;
    assert!(
        reason.starts_with("is cut off: it says that it has 48 frames"),
        "{reason}"
    );
    let reason = refusal(&whole[..200], "head.mp4").await;
    assert_eq!(reason, "has neither a moving picture nor sound");
}

#[tokio::test]
async fn what_is_beyond_a_limit_is_refused() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let path = film(&tools, &scratch).await;
    let usual = ProbeLimits::default();
    let short = Duration::from_secs(1);
    for limits in [
        ProbeLimits {
            longest: short,
            ..usual
        },
        ProbeLimits {
            most_pixels: 128 * 96 - 1,
            ..usual
        },
        ProbeLimits {
            most_streams: 1,
            ..usual
        },
    ] {
        let refused = tools.probe_within(&path, limits).await;
        assert!(
            matches!(refused, Err(Error::TooLarge(_))),
            "{limits:?}: {refused:?}"
        );
    }
}

#[test]
fn rates_and_lengths() {
    let film = FrameRate::parse("30000/1001").unwrap();
    assert_eq!(film.count(Duration::from_millis(10_010)), 300);
    assert_eq!(film.duration(300), Duration::from_millis(10_010));
    assert_eq!(FrameRate::per_second(24).count(Duration::ZERO), 1);
    for text in ["0/0", "25", "x/1", "1/0"] {
        assert_eq!(FrameRate::parse(text), None, "{text}");
    }
}

#[test]
fn a_film_that_is_turned_is_as_large_as_it_is_shown() {
    let stream = r#"{"codec_type": "video", "width": 640, "height": 360, "avg_frame_rate": "25/1", "nb_read_packets": "25",
        "side_data_list": [{"side_data_type": "Display Matrix", "rotation": -90}]}"#;
    let report = format!(
        "{{\"streams\": [{stream}], \"format\": {{\"format_name\": \"mov\", \"duration\": \"1.0\"}}}}"
    );
    let report: Report = serde_json::from_str(&report).unwrap();
    let probe = report.read(ProbeLimits::default()).unwrap();
    assert_eq!(probe.film().unwrap().size, Dimensions::new(360, 640));
}
