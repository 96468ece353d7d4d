use crate::draw::Sketch;
use crate::tools::ToolPaths;

use super::*;

fn spec(width: u32, height: u32, millis: u64) -> FilmSpec {
    FilmSpec {
        size: Dimensions::new(width, height),
        duration: Duration::from_millis(millis),
        rate: 24,
        sound: None,
        banner: None,
        note: None,
    }
}

fn still(seed: u64) -> Picture {
    Sketch::new(Dimensions::new(160, 120), seed, "").scene().unwrap()
}

async fn make(spec: &FilmSpec, stills: &[Picture]) -> Probe {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let place = scratch.file("film.mp4");
    tools.make_film(spec, stills, &place).await.unwrap();
    assert!(!scratch.file("film.mp4.part").exists());
    tools.probe(&place).await.unwrap()
}

#[tokio::test]
async fn films_are_as_large_and_as_long_as_was_asked_for() {
    for (width, height, millis, rate, stills, frames) in [
        (160, 90, 1_000, 24, 1, 24),
        (90, 160, 1_500, 30, 2, 45),
        (64, 64, 2_700, 24, 5, 65),
        (32, 16, 40, 24, 1, 1),
        (64, 64, 100, 30, 4, 3),
    ] {
        let spec = FilmSpec {
            rate,
            ..spec(width, height, millis)
        };
        let stills: Vec<Picture> = (0..stills).map(still).collect();
        let probe = make(&spec, &stills).await;
        let video = probe.film().unwrap();
        assert_eq!((video.size, video.frames), (spec.size, frames), "{spec:?}");
        assert_eq!(probe.audio, None);
    }
}

#[tokio::test]
async fn a_banner_stands_still() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let place = scratch.file("film.mp4");
    let sketch = Sketch::new(Dimensions::new(320, 180), 1, "");
    let spec = FilmSpec {
        banner: Some(sketch.banner().unwrap()),
        ..spec(320, 180, 1_000)
    };
    tools.make_film(&spec, &[still(1)], &place).await.unwrap();
    let (first, last) = (tools.first_frame(&place).await, tools.last_frame(&place).await);
    for frame in [first.unwrap(), last.unwrap()] {
        let frame = Picture::decode(&frame).unwrap();
        let is_chip = |pixel: &&[u8]| pixel[0] > 230 && pixel[1].abs_diff(0xB8) < 20 && pixel[2] < 90;
        // Its own pixel of the signed picture, below the mark.
        let below = frame.rgba().chunks_exact(4).skip(320 * 175).take(320);
        assert!(below.filter(is_chip).count() > 40);
    }
}

#[tokio::test]
async fn sound_is_as_long_as_the_picture() {
    for (millis, choice) in [(500, 0), (2_000, 3), (3_333, u64::MAX)] {
        let spec = FilmSpec {
            sound: Some(choice),
            ..spec(64, 64, millis)
        };
        let probe = make(&spec, &[still(1)]).await;
        let (video, audio) = (probe.film().unwrap(), probe.audio.clone().unwrap());
        assert!(
            audio.duration.abs_diff(video.duration) < Duration::from_millis(50),
            "{probe:?}"
        );
        assert_eq!((audio.sample_rate, audio.channels), (48_000, 2));
    }
}

#[tokio::test]
async fn the_same_pictures_are_the_same_bytes() {
    let spec = FilmSpec {
        sound: Some(2),
        note: Some("simulated"),
        ..spec(64, 64, 500)
    };
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let mut films = Vec::new();
    for name in ["one", "two"] {
        let place = scratch.file(name);
        tools.make_film(&spec, &[still(1)], &place).await.unwrap();
        films.push(std::fs::read(place).unwrap());
    }
    assert_eq!(films.first(), films.last());
    let is_said = |film: &Vec<u8>| film.windows(9).any(|window| window == b"simulated");
    assert!(films.iter().all(is_said));
}

#[tokio::test]
async fn what_is_not_made_is_refused() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let place = scratch.file("film.mp4");
    let at_25 = FilmSpec {
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
        let refused = tools.make_film(&spec, &vec![still(1); stills], &place).await;
        let is_refusal = matches!(refused, Err(Error::Input(_) | Error::TooLarge(_)));
        assert!(is_refusal, "{spec:?}: {refused:?}");
    }
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn without_the_program_nothing_is_left_behind() {
    let paths = ToolPaths {
        ffmpeg: Some("/nowhere/ffmpeg".into()),
        ..ToolPaths::default()
    };
    let scratch = Scratch::make().unwrap();
    let place = scratch.file("film.mp4");
    let failed = Tools::at(&paths)
        .make_film(&spec(64, 64, 500), &[still(1)], &place)
        .await;
    assert!(
        matches!(failed, Err(Error::Missing(Program::Ffmpeg))),
        "{failed:?}"
    );
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn what_is_not_as_expected_does_not_pass() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let place = scratch.file("film.mp4");
    let spec = FilmSpec {
        sound: Some(1),
        ..spec(64, 64, 1_000)
    };
    tools.make_film(&spec, &[still(1)], &place).await.unwrap();
    let right = Expected {
        size: spec.size,
        frames: 24,
        rate: FrameRate::per_second(24),
        has_sound: true,
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
            has_sound: false,
            ..right
        },
    ] {
        let verified = tools.verify(&place, wrong).await;
        assert!(
            matches!(verified, Err(Error::Unfit(_))),
            "{wrong:?}: {verified:?}"
        );
    }
}

#[tokio::test]
async fn a_film_that_is_not_wanted_any_more_leaves_nothing() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let place = scratch.file("film.mp4");
    let part = scratch.file("film.mp4.part");
    let long = spec(1_280, 720, 600_000);
    let stills = [still(1)];
    let begun = async {
        while !part.exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        made = tools.make_film(&long, &stills, &place) => panic!("it takes minutes: {made:?}"),
        () = begun => {}
    }
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
}
