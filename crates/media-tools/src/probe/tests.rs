use std::path::PathBuf;

use crate::draw::Sketch;
use crate::image::Encoding;
use crate::scratch::Scratch;
use crate::video::VideoSpec;

use super::*;

/// Creates a video of two seconds with audio.
async fn video(tools: &Tools, scratch: &Scratch) -> PathBuf {
    let size = Dimensions::new(128, 96);
    let spec = VideoSpec {
        size,
        duration: Duration::from_secs(2),
        rate: 24,
        audio: Some(1),
        banner: None,
        note: None,
    };
    let still = Sketch::new(size, 1, "sea").draw().unwrap();
    let path = scratch.file("video.mp4");
    tools.make_video(&spec, &[still], &path).await.unwrap();
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
async fn all_video_properties_are_read() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let probe = tools.probe(&video(&tools, &scratch).await).await.unwrap();
    let video = probe.video().unwrap();
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
async fn invalid_videos_are_rejected_with_the_reason() {
    let image = Sketch::new(Dimensions::new(64, 64), 1, "sea").draw().unwrap();
    let png = image.encode(Encoding::Png).unwrap();
    let reason_unreadable = "is not a readable video or audio file";
    for (bytes, name, reason) in [
        (&b""[..], "empty.mp4", "is empty"),
        (&[7; 5_000], "garbage.mp4", reason_unreadable),
        (&png, "image.mp4", reason_unreadable),
        (&png, "image.png", reason_unreadable),
        (
            b"#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\nother.ts\n",
            "list.m3u8",
            reason_unreadable,
        ),
        (
            b"ffconcat version 1.0\nfile other.mp4\n",
            "list.mp4",
            reason_unreadable,
        ),
    ] {
        assert_eq!(refusal(bytes, name).await, reason, "{name}");
    }
}

#[tokio::test]
async fn truncated_videos_are_rejected() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let whole = std::fs::read(video(&tools, &scratch).await).unwrap();
    let reason = refusal(&whole[..whole.len() / 3], "cut.mp4").await;
    assert!(
        reason.starts_with("is truncated: it declares 48 frames"),
        "{reason}"
    );
    let reason = refusal(&whole[..200], "head.mp4").await;
    assert_eq!(reason, "has neither video nor audio");
}

#[tokio::test]
async fn files_beyond_limits_are_rejected() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let path = video(&tools, &scratch).await;
    let defaults = ProbeLimits::default();
    let short = Duration::from_secs(1);
    for limits in [
        ProbeLimits {
            max_duration: short,
            ..defaults
        },
        ProbeLimits {
            max_pixels: 128 * 96 - 1,
            ..defaults
        },
        ProbeLimits {
            max_streams: 1,
            ..defaults
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
fn frame_rates_convert_to_durations() {
    let video = FrameRate::parse("30000/1001").unwrap();
    assert_eq!(video.count(Duration::from_millis(10_010)), 300);
    assert_eq!(video.duration(300), Duration::from_millis(10_010));
    assert_eq!(FrameRate::per_second(24).count(Duration::ZERO), 1);
    for text in ["0/0", "25", "x/1", "1/0"] {
        assert_eq!(FrameRate::parse(text), None, "{text}");
    }
}

#[test]
fn rotated_videos_report_their_display_size() {
    let stream = r#"{"codec_type": "video", "width": 640, "height": 360, "avg_frame_rate": "25/1", "nb_read_packets": "25",
        "side_data_list": [{"side_data_type": "Display Matrix", "rotation": -90}]}"#;
    let report = format!(
        "{{\"streams\": [{stream}], \"format\": {{\"format_name\": \"mov\", \"duration\": \"1.0\"}}}}"
    );
    let report: Report = serde_json::from_str(&report).unwrap();
    let probe = report.read(ProbeLimits::default()).unwrap();
    assert_eq!(probe.video().unwrap().size, Dimensions::new(360, 640));
}
