use crate::captions::{Caption, CaptionPosition, CaptionStyle, ass};
use crate::draw::Sketch;
use crate::error::Error;
use crate::tools::ToolPaths;

use super::*;

fn spec(width: u32, height: u32, millis: u64) -> SceneSpec {
    SceneSpec {
        size: Dimensions::new(width, height),
        rate: 30,
        duration: Duration::from_millis(millis),
        motion: Motion::Still,
        captions: None,
        banner: None,
    }
}

fn image(seed: u64) -> Image {
    Sketch::new(Dimensions::new(160, 160), seed, "").scene().unwrap()
}

fn grey(level: u8) -> Image {
    let pixels = [level, level, level, 255].repeat(32 * 32);
    Image::from_rgba(Dimensions::new(32, 32), pixels).unwrap()
}

fn pixels(file: &[u8]) -> Vec<u8> {
    let image = Image::decode(file).unwrap();
    let pixels = image.rgba().chunks_exact(4);
    pixels.flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect()
}

/// Returns the mean difference between the bytes of two frames.
fn apart(one: &[u8], other: &[u8]) -> f64 {
    let (one, other) = (pixels(one), pixels(other));
    assert_eq!(one.len(), other.len());
    let all: u64 = one
        .iter()
        .zip(&other)
        .map(|(a, b)| u64::from(a.abs_diff(*b)))
        .sum();
    all as f64 / one.len() as f64
}

#[tokio::test]
async fn segments_have_exactly_their_frames() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    for (motion, rate, millis, frames) in [
        (Motion::In, 30, 2_000, 60),
        (Motion::Out, 24, 1_510, 36),
        (Motion::Left, 30, 40, 1),
        (Motion::Right, 24, 833, 20),
        (Motion::Still, 30, 1_000, 30),
    ] {
        let spec = SceneSpec {
            motion,
            rate,
            ..spec(90, 160, millis)
        };
        assert_eq!(spec.frames(), frames);
        let place = scratch.file("scene.mp4");
        tools.scene_from_image(&spec, &image(1), &place).await.unwrap();
        let probe = tools.probe(&place).await.unwrap();
        let video = probe.video().unwrap();
        assert_eq!(
            (video.size, video.frames, &probe.audio),
            (spec.size, frames, &None)
        );
        assert_eq!(video.frame_rate, FrameRate::per_second(rate));
        if frames > 1 {
            let (first, last) = (tools.first_frame(&place).await, tools.last_frame(&place).await);
            let moved = apart(&first.unwrap(), &last.unwrap());
            assert_eq!(moved > 2.0, motion != Motion::Still, "{motion:?}: {moved}");
        }
    }
}

#[tokio::test]
async fn equal_scenes_give_equal_bytes() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let spec = SceneSpec {
        motion: Motion::In,
        captions: Some(caption("Good morning", CaptionStyle::Boxed, 320, 568)),
        ..spec(320, 568, 400)
    };
    let mut scenes = Vec::new();
    for name in ["one", "two"] {
        let place = scratch.file(name);
        tools.scene_from_image(&spec, &image(1), &place).await.unwrap();
        scenes.push(std::fs::read(place).unwrap());
    }
    assert_eq!(scenes.first(), scenes.last());
}

fn caption(text: &str, style: CaptionStyle, width: u32, height: u32) -> String {
    let captions = [Caption::of(text, Duration::ZERO, Duration::from_millis(500))];
    ass(
        &captions,
        style,
        CaptionPosition::Bottom,
        Dimensions::new(width, height),
    )
}

/// Returns the number of almost white pixels in these rows of a frame.
fn white(frame: &[u8], rows: std::ops::Range<usize>, wide: usize) -> usize {
    let pixels = pixels(frame);
    let rows = &pixels[rows.start * wide * 3..rows.end * wide * 3];
    rows.chunks_exact(3)
        .filter(|pixel| pixel.iter().all(|part| *part > 215))
        .count()
}

#[tokio::test]
async fn captions_appear_at_their_place_and_time() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let place = scratch.file("scene.mp4");
    // Captions are in the lower third only, and not in the second half.
    for (style, text) in [
        (CaptionStyle::Plain, "Good morning"),
        (CaptionStyle::Boxed, "Good morning"),
        (
            CaptionStyle::Karaoke,
            "Good {\\an8\\fs300}\\N{\\p1}m 0 0 l 900 0 900 900{\\p0}",
        ),
    ] {
        let spec = SceneSpec {
            captions: Some(caption(text, style, 320, 568)),
            ..spec(320, 568, 1_000)
        };
        tools.scene_from_image(&spec, &grey(90), &place).await.unwrap();
        let (first, last) = (
            tools.first_frame(&place).await.unwrap(),
            tools.last_frame(&place).await.unwrap(),
        );
        let lit = |frame: &[u8]| {
            pixels(frame)[320 * 370 * 3..320 * 450 * 3]
                .chunks_exact(3)
                .filter(|pixel| pixel[0] > 180)
                .count()
        };
        assert!(lit(&first) > 120, "{style:?}: {}", lit(&first));
        assert_eq!(
            white(&first, 0..300, 320) + white(&first, 460..568, 320),
            0,
            "{style:?}"
        );
        assert_eq!(lit(&last), 0, "{style:?}");
    }
}

#[tokio::test]
async fn captions_need_the_font() {
    let scratch = Scratch::make().unwrap();
    let tools = Tools::at(&ToolPaths {
        font: Some("/nowhere/font.ttf".into()),
        ..ToolPaths::default()
    });
    let place = scratch.file("scene.mp4");
    let mut spec = SceneSpec {
        captions: Some(caption("a", CaptionStyle::Plain, 64, 64)),
        ..spec(64, 64, 100)
    };
    let failed = tools.scene_from_image(&spec, &grey(90), &place).await;
    assert!(matches!(failed, Err(Error::NoFont)), "{failed:?}");
    spec.captions = None;
    tools.scene_from_image(&spec, &grey(90), &place).await.unwrap();
}

/// Creates a video with a dark and a bright half.
async fn video(tools: &Tools, place: &Path, millis: u64, size: Dimensions) {
    let video = VideoSpec {
        size,
        duration: Duration::from_millis(millis),
        rate: 24,
        audio: Some(1),
        banner: None,
        note: None,
    };
    tools
        .make_video(&video, &[grey(20), grey(220)], place)
        .await
        .unwrap();
}

#[tokio::test]
async fn videos_are_trimmed_looped_or_frozen() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let (source, place) = (scratch.file("video.mp4"), scratch.file("scene.mp4"));
    for (length, wanted, ends_bright) in [
        (2_000, 600, false),
        (1_000, 1_000, true),
        // The last frame is shown for the rest of the scene.
        (1_000, 1_400, true),
        // The second repetition of the video has just started.
        (1_000, 1_700, true),
        (1_000, 2_200, false),
    ] {
        video(&tools, &source, length, Dimensions::new(160, 90)).await;
        let spec = spec(90, 160, wanted);
        tools.scene_from_video(&spec, &source, &place).await.unwrap();
        let probe = tools.probe(&place).await.unwrap();
        let video = probe.video().unwrap();
        assert_eq!((video.frames, video.size), (spec.frames(), spec.size));
        assert_eq!(probe.audio, None);
        let last = pixels(&tools.last_frame(&place).await.unwrap());
        assert_eq!(last[0] > 120, ends_bright, "{length} {wanted}: {}", last[0]);
        assert!(pixels(&tools.first_frame(&place).await.unwrap())[0] < 60);
    }
}

#[tokio::test]
async fn video_audio_is_extracted() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let (source, silent, place) = (
        scratch.file("video.mp4"),
        scratch.file("silent.mp4"),
        scratch.file("sound.wav"),
    );
    video(&tools, &source, 1_000, Dimensions::new(64, 64)).await;
    let length = tools.extract_audio(&source, &place).await.unwrap().unwrap();
    assert!(
        length.abs_diff(Duration::from_secs(1)) < Duration::from_millis(30),
        "{length:?}"
    );
    assert_eq!(
        tools.probe(&place).await.unwrap().audio.unwrap().sample_rate,
        48_000
    );
    tools
        .scene_from_image(&spec(64, 64, 100), &grey(9), &silent)
        .await
        .unwrap();
    assert_eq!(
        tools
            .extract_audio(&silent, &scratch.file("none.wav"))
            .await
            .unwrap(),
        None
    );
    assert!(!scratch.file("none.wav").exists());
}

#[tokio::test]
async fn invalid_specs_are_rejected() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let place = scratch.file("scene.mp4");
    for spec in [
        spec(63, 64, 500),
        spec(64, 64, 0),
        spec(64, 64, 601_000),
        SceneSpec {
            rate: 25,
            ..spec(64, 64, 500)
        },
    ] {
        let refused = tools.scene_from_image(&spec, &grey(9), &place).await;
        assert!(
            matches!(refused, Err(Error::Input(_) | Error::TooLarge(_))),
            "{refused:?}"
        );
    }
    let garbage = scratch.file("garbage");
    std::fs::write(&garbage, "#EXTM3U\nfile:///etc/passwd\n").unwrap();
    let refused = tools.scene_from_video(&spec(64, 64, 100), &garbage, &place).await;
    assert!(matches!(refused, Err(Error::Input(_))), "{refused:?}");
    assert!(!place.exists());
}

#[test]
fn motions_have_names() {
    for motion in Motion::ALL {
        assert_eq!(Motion::parse(motion.as_str()), Some(motion));
    }
    assert_eq!(Motion::parse("up"), None);
}
