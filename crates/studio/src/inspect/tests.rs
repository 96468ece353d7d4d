use crate::film::{FILE, PICTURE, SOUND};

use super::*;

const SIZE: Dimensions = Dimensions::new(64, 64);

/// A film of this picture and this sound, as ffmpeg describes them.
async fn film(tools: &Tools, place: &Path, picture: &str, sound: &str) {
    let mut run = Run::new(Program::Ffmpeg, PATIENCE).args(["-f", "lavfi", "-i", picture]);
    if !sound.is_empty() {
        run = run.args(["-f", "lavfi", "-i", sound]).args(SOUND);
    }
    tools.run(run.args(PICTURE).args(FILE).file(place)).await.unwrap();
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[tokio::test]
async fn what_is_wrong_is_found() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let place = scratch.file("film.mp4");
    let moving = "testsrc2=s=64x64:r=24:d=4";
    let black = "testsrc2=s=64x64:r=24:d=4,drawbox=t=fill:c=black:enable='between(t,1,2.2)'";
    let blink = "testsrc2=s=64x64:r=24:d=4,drawbox=t=fill:c=black:enable='between(t,1,1.3)'";
    let dark_end = "testsrc2=s=64x64:r=24:d=4,drawbox=t=fill:c=black:enable='gte(t,3)'";
    // This sine has a peak of -18 decibels and, on two sides, -21 LUFS.
    let usual = "sine=f=1000:r=48000:d=4,volume=7dB";
    let quiet = "sine=f=1000:r=48000:d=4,volume=-30dB";
    let silence = "anullsrc=r=48000:d=4";
    let right = CutExpected {
        size: SIZE,
        frames: 96,
        rate: 24,
        has_sound: true,
    };
    let other = Dimensions::new(64, 66);
    for (picture, sound, expected, faults) in [
        (moving, usual, right, vec![]),
        (
            moving,
            "",
            CutExpected {
                has_sound: false,
                ..right
            },
            vec![],
        ),
        (moving, "", right, vec!["It has no sound."]),
        (
            moving,
            usual,
            CutExpected {
                has_sound: false,
                ..right
            },
            vec!["It has sound."],
        ),
        (moving, silence, right, vec!["It is silent."]),
        (moving, quiet, right, vec!["Its loudness is "]),
        (
            moving,
            "sine=f=1000:r=48000:d=3.8,volume=7dB",
            right,
            vec!["Its sound ends after "],
        ),
        (black, usual, right, vec!["It is black from 1.0 s to 2.2 s."]),
        (blink, usual, right, vec![]),
        (dark_end, usual, right, vec!["It is black from 3.0 s to 4.0 s."]),
        (
            moving,
            usual,
            CutExpected { size: other, ..right },
            vec!["It is 64 by 64."],
        ),
        (
            moving,
            usual,
            CutExpected { frames: 98, ..right },
            vec!["It has 96 frames "],
        ),
        (moving, usual, CutExpected { frames: 97, ..right }, vec![]),
        (
            moving,
            usual,
            CutExpected { rate: 30, ..right },
            vec!["It has 96 frames "],
        ),
    ] {
        film(&tools, &place, picture, sound).await;
        let inspection = tools.inspect(&place, &expected).await.unwrap();
        let found = inspection.faults();
        let same = found
            .iter()
            .zip(&faults)
            .all(|(found, begins)| found.starts_with(begins));
        assert!(
            same && found.len() == faults.len(),
            "{found:?} and not {faults:?}: {inspection:?}"
        );
    }
}

#[tokio::test]
async fn stillness_and_silence_are_noted() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let place = scratch.file("film.mp4");
    let picture = "testsrc2=s=64x64:r=24:d=2,tpad=stop_mode=clone:stop_duration=4";
    let sound = "sine=f=1000:r=48000:d=2,volume=7dB,apad=whole_dur=6";
    film(&tools, &place, picture, sound).await;
    let expected = CutExpected {
        size: SIZE,
        frames: 144,
        rate: 24,
        has_sound: true,
    };
    let inspection = tools.inspect(&place, &expected).await.unwrap();
    let near = |spans: &[Span]| {
        let [(from, to)] = spans else {
            return false;
        };
        from.abs_diff(millis(2_000)) < millis(100) && to.abs_diff(millis(6_000)) < millis(100)
    };
    assert!(
        near(&inspection.frozen) && near(&inspection.silent),
        "{inspection:?}"
    );
    assert_eq!(inspection.faults(), Vec::<String>::new());
}

#[tokio::test]
async fn what_is_no_film_is_not_inspected() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let path = scratch.file("film");
    std::fs::write(&path, "garbage").unwrap();
    let expected = CutExpected {
        size: SIZE,
        frames: 1,
        rate: 24,
        has_sound: false,
    };
    let refused = tools.inspect(&path, &expected).await;
    assert!(
        matches!(refused, Err(crate::error::Error::Input(_))),
        "{refused:?}"
    );
}
