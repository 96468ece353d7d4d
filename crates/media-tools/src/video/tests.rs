use crate::draw::Sketch;
use crate::tools::ToolPaths;

use super::*;

fn spec(width: u32, height: u32, millis: u64) -> VideoSpec {
    VideoSpec {
        size: Dimensions::new(width, height),
        duration: Duration::from_millis(millis),
        rate: 24,
        audio: None,
        banner: None,
        note: None,
    }
}

fn still(seed: u64) -> Image {
    Sketch::new(Dimensions::new(160, 120), seed, "").scene().unwrap()
}

async fn make(spec: &VideoSpec, stills: &[Image]) -> Probe {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let place = scratch.file("video.mp4");
    tools.make_video(spec, stills, &place).await.unwrap();
    assert!(!scratch.file("video.mp4.part").exists());
    tools.probe(&place).await.unwrap()
}

#[tokio::test]
async fn videos_have_the_requested_size_and_duration() {
    for (width, height, millis, rate, stills, frames) in [
        (160, 90, 1_000, 24, 1, 24),
        (90, 160, 1_500, 30, 2, 45),
        (64, 64, 2_700, 24, 5, 65),
        (32, 16, 40, 24, 1, 1),
        (64, 64, 100, 30, 4, 3),
    ] {
        let spec = VideoSpec {
            rate,
            ..spec(width, height, millis)
        };
        let stills: Vec<Image> = (0..stills).map(still).collect();
        let probe = make(&spec, &stills).await;
        let video = probe.video().unwrap();
        assert_eq!((video.size, video.frames), (spec.size, frames), "{spec:?}");
        assert_eq!(probe.audio, None);
    }
}

#[tokio::test]
async fn banners_do_not_move() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let place = scratch.file("video.mp4");
    let sketch = Sketch::new(Dimensions::new(320, 180), 1, "");
    let spec = VideoSpec {
        banner: Some(sketch.banner().unwrap()),
        ..spec(320, 180, 1_000)
    };
    tools.make_video(&spec, &[still(1)], &place).await.unwrap();
    let (first, last) = (tools.first_frame(&place).await, tools.last_frame(&place).await);
    for frame in [first.unwrap(), last.unwrap()] {
        let frame = Image::decode(&frame).unwrap();
        let is_chip = |pixel: &&[u8]| pixel[0] > 230 && pixel[1].abs_diff(0xB8) < 20 && pixel[2] < 90;
        // A row of the mark, below its letters.
        let below = frame.rgba().chunks_exact(4).skip(320 * 175).take(320);
        assert!(below.filter(is_chip).count() > 40);
    }
}

#[tokio::test]
async fn audio_is_as_long_as_the_video() {
    for (millis, choice) in [(500, 0), (2_000, 3), (3_333, u64::MAX)] {
        let spec = VideoSpec {
            audio: Some(choice),
            ..spec(64, 64, millis)
        };
        let probe = make(&spec, &[still(1)]).await;
        let (video, audio) = (probe.video().unwrap(), probe.audio.clone().unwrap());
        assert!(
            audio.duration.abs_diff(video.duration) < Duration::from_millis(50),
            "{probe:?}"
        );
        assert_eq!((audio.sample_rate, audio.channels), (48_000, 2));
    }
}

#[tokio::test]
async fn equal_images_give_equal_bytes() {
    let spec = VideoSpec {
        audio: Some(2),
        note: Some("simulated"),
        ..spec(64, 64, 500)
    };
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let mut videos = Vec::new();
    for name in ["one", "two"] {
        let place = scratch.file(name);
        tools.make_video(&spec, &[still(1)], &place).await.unwrap();
        videos.push(std::fs::read(place).unwrap());
    }
    assert_eq!(videos.first(), videos.last());
    let has_note = |video: &Vec<u8>| video.windows(9).any(|window| window == b"simulated");
    assert!(videos.iter().all(has_note));
}

#[tokio::test]
async fn invalid_specs_are_rejected() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let place = scratch.file("video.mp4");
    let at_25 = VideoSpec {
        rate: 25,
        ..spec(64, 64, 500)
    };
    for (spec, stills) in [
        (spec(63, 64, 500), 1),
        (spec(64, 63, 500), 1),
        (spec(14, 64, 500), 1),
        (spec(8_192, 4_320, 500), 1),
        (spec(64, 64, 0), 1),
        (spec(64, 64, 601_000), 1),
        (spec(64, 64, 500), 0),
        (spec(64, 64, 500), 61),
        (at_25, 1),
    ] {
        let refused = tools.make_video(&spec, &vec![still(1); stills], &place).await;
        let is_refusal = matches!(refused, Err(Error::Input(_) | Error::TooLarge(_)));
        assert!(is_refusal, "{spec:?}: {refused:?}");
    }
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn missing_programs_leave_no_files() {
    let paths = ToolPaths {
        ffmpeg: Some("/nowhere/ffmpeg".into()),
        ..ToolPaths::default()
    };
    let scratch = Scratch::make().unwrap();
    let place = scratch.file("video.mp4");
    let failed = Tools::at(&paths)
        .make_video(&spec(64, 64, 500), &[still(1)], &place)
        .await;
    assert!(
        matches!(failed, Err(Error::Missing(Program::Ffmpeg))),
        "{failed:?}"
    );
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn unexpected_output_is_rejected() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let place = scratch.file("video.mp4");
    let spec = VideoSpec {
        audio: Some(1),
        ..spec(64, 64, 1_000)
    };
    tools.make_video(&spec, &[still(1)], &place).await.unwrap();
    let right = Expected {
        size: spec.size,
        frames: 24,
        rate: FrameRate::per_second(24),
        has_audio: true,
    };
    assert!(tools.verify(&place, right).await.is_ok());
    let other_size = Dimensions::new(64, 66);
    for wrong in [
        Expected {
            size: other_size,
            ..right
        },
        Expected { frames: 26, ..right },
        Expected { frames: 22, ..right },
        Expected {
            rate: FrameRate::per_second(30),
            ..right
        },
        Expected {
            has_audio: false,
            ..right
        },
    ] {
        let verified = tools.verify(&place, wrong).await;
        assert!(
            matches!(verified, Err(Error::UnexpectedOutput(_))),
            "{wrong:?}: {verified:?}"
        );
    }
}

#[tokio::test]
async fn cancelled_videos_leave_no_files() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let place = scratch.file("video.mp4");
    let part = scratch.file("video.mp4.part");
    let long = spec(1_280, 720, 600_000);
    let stills = [still(1)];
    let started = async {
        while !part.exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        made = tools.make_video(&long, &stills, &place) => panic!("it takes minutes: {made:?}"),
        () = started => {}
    }
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
}
