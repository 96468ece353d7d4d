use std::path::PathBuf;

use crate::image::Image;
use crate::scratch::Scratch;
use crate::video::VideoSpec;

use super::*;

struct TestVideo {
    size: (u32, u32),
    millis: u64,
    rate: u32,
    audio: bool,
}

const fn video(size: (u32, u32), millis: u64, rate: u32, audio: bool) -> TestVideo {
    TestVideo {
        size,
        millis,
        rate,
        audio,
    }
}

async fn make(tools: &Tools, path: PathBuf, video: &TestVideo, grey: u8) -> PathBuf {
    let size = Dimensions::new(video.size.0, video.size.1);
    let spec = VideoSpec {
        size,
        duration: Duration::from_millis(video.millis),
        rate: video.rate,
        audio: video.audio.then_some(u64::from(grey)),
        banner: None,
        note: None,
    };
    let pixels = [grey, grey, grey, 255].repeat(size.pixels() as usize);
    let still = Image::from_rgba(size, pixels).unwrap();
    tools.make_video(&spec, &[still], &path).await.unwrap();
    path
}

#[tokio::test]
async fn joined_videos_have_the_total_length() {
    for (first, second, frames) in [
        (
            video((96, 64), 1_500, 24, true),
            video((96, 64), 1_000, 24, true),
            60,
        ),
        (
            video((96, 64), 1_000, 30, true),
            video((64, 128), 1_000, 24, false),
            60,
        ),
        (
            video((64, 96), 1_000, 24, false),
            video((128, 64), 2_000, 30, true),
            72,
        ),
        (
            video((64, 64), 500, 24, false),
            video((64, 64), 200, 30, false),
            17,
        ),
        (video((64, 64), 100, 24, true), video((64, 64), 100, 24, true), 4),
    ] {
        let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
        let one = make(&tools, scratch.file("one.mp4"), &first, 30).await;
        let two = make(&tools, scratch.file("two.mp4"), &second, 220).await;
        let place = scratch.file("both.mp4");
        tools.join(&one, &two, &place).await.unwrap();
        let probe = tools.probe(&place).await.unwrap();
        let video = probe.video().unwrap();
        assert_eq!((video.size.width, video.size.height), first.size);
        assert_eq!(
            (video.frames, video.frame_rate),
            (frames, FrameRate::per_second(first.rate))
        );
        assert_eq!(probe.audio.is_some(), first.audio || second.audio);
        let expected = joined_duration(
            &tools.probe(&one).await.unwrap(),
            &tools.probe(&two).await.unwrap(),
        );
        let apart = expected.unwrap().abs_diff(video.duration);
        assert!(apart < Duration::from_millis(1), "{apart:?}");
        assert_eq!(middle(&tools.first_frame(&place).await.unwrap()) / 100, 0);
        assert_eq!(middle(&tools.last_frame(&place).await.unwrap()) / 100, 2);
    }
}

fn middle(file: &[u8]) -> u8 {
    let image = Image::decode(file).unwrap();
    let size = image.size();
    image.rgba()[((size.height / 2 * size.width + size.width / 2) * 4) as usize]
}

#[tokio::test]
async fn audio_continues_across_the_join() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let one = make(
        &tools,
        scratch.file("one.mp4"),
        &video((64, 64), 2_000, 24, true),
        30,
    )
    .await;
    let two = make(
        &tools,
        scratch.file("two.mp4"),
        &video((64, 64), 2_000, 24, true),
        220,
    )
    .await;
    let both = scratch.file("both.mp4");
    tools.join(&one, &two, &both).await.unwrap();
    let samples = |path: &Path| {
        let run = Run::new(Program::Ffmpeg, TIMEOUT)
            .source(path)
            .args(["-map", "0:a", "-ac", "1", "-f", "s16le", "-"]);
        tools.run(run)
    };
    let heard = samples(&both).await.unwrap();
    let samples: Vec<i32> = heard
        .chunks_exact(2)
        .map(|pair| i32::from(i16::from_le_bytes([pair[0], pair[1]])))
        .collect();
    assert!(samples.len().abs_diff(4 * 48_000) < 2_400, "{}", samples.len());
    let steps = samples.windows(2).map(|pair| (pair[1] - pair[0]).abs());
    assert!(samples.iter().any(|sample| sample.abs() > 1_000));
    // The steepest step of the chords is far below the step of a click.
    assert!(steps.max().unwrap() < 1_000);
}

#[tokio::test]
async fn non_videos_are_not_joined() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let one = make(
        &tools,
        scratch.file("one.mp4"),
        &video((64, 64), 200, 24, false),
        30,
    )
    .await;
    let other = scratch.file("other.mp4");
    std::fs::write(&other, "garbage").unwrap();
    let place = scratch.file("both.mp4");
    for (first, second) in [(&one, &other), (&other, &one)] {
        let refused = tools.join(first, second, &place).await;
        assert!(matches!(refused, Err(Error::Input(_))), "{refused:?}");
    }
    assert!(!place.exists() && !scratch.file("both.mp4.part").exists());
}
