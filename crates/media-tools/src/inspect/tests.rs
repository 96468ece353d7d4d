use crate::video::{AUDIO_ARGS, MP4_ARGS, VIDEO_ARGS};

use super::*;

const SIZE: Dimensions = Dimensions::new(64, 64);

/// Creates a video from lavfi sources.
async fn video(tools: &Tools, place: &Path, video_source: &str, audio_source: &str) {
    let mut run = Run::new(Program::Ffmpeg, TIMEOUT).args(["-f", "lavfi", "-i", video_source]);
    if !audio_source.is_empty() {
        run = run.args(["-f", "lavfi", "-i", audio_source]).args(AUDIO_ARGS);
    }
    tools
        .run(run.args(VIDEO_ARGS).args(MP4_ARGS).file(place))
        .await
        .unwrap();
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[tokio::test]
async fn faults_are_found() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let place = scratch.file("video.mp4");
    let moving = "testsrc2=s=64x64:r=24:d=4";
    let black = "testsrc2=s=64x64:r=24:d=4,drawbox=t=fill:c=black:enable='between(t,1,2.2)'";
    let blink = "testsrc2=s=64x64:r=24:d=4,drawbox=t=fill:c=black:enable='between(t,1,1.3)'";
    let dark_end = "testsrc2=s=64x64:r=24:d=4,drawbox=t=fill:c=black:enable='gte(t,3)'";
    // A sine with a peak of -18 dB has a loudness of -21 LUFS in stereo.
    let standard = "sine=f=1000:r=48000:d=4,volume=7dB";
    let quiet = "sine=f=1000:r=48000:d=4,volume=-30dB";
    let silence = "anullsrc=r=48000:d=4";
    let right = CutExpected {
        size: SIZE,
        frames: 96,
        rate: 24,
        has_audio: true,
    };
    let other = Dimensions::new(64, 66);
    for (video_source, audio_source, expected, faults) in [
        (moving, standard, right, vec![]),
        (
            moving,
            "",
            CutExpected {
                has_audio: false,
                ..right
            },
            vec![],
        ),
        (moving, "", right, vec!["The output has no audio."]),
        (
            moving,
            standard,
            CutExpected {
                has_audio: false,
                ..right
            },
            vec!["The output has unexpected audio."],
        ),
        (moving, silence, right, vec!["The audio is silent."]),
        (moving, quiet, right, vec!["The loudness is "]),
        (
            moving,
            "sine=f=1000:r=48000:d=3.8,volume=7dB",
            right,
            vec!["The audio ends after "],
        ),
        (
            black,
            standard,
            right,
            vec!["The video is black from 1.0 s to 2.2 s."],
        ),
        (blink, standard, right, vec![]),
        (
            dark_end,
            standard,
            right,
            vec!["The video is black from 3.0 s to 4.0 s."],
        ),
        (
            moving,
            standard,
            CutExpected { size: other, ..right },
            vec!["The size is 64 by 64 instead of 64 by 66."],
        ),
        (
            moving,
            standard,
            CutExpected { frames: 98, ..right },
            vec!["The output has 96 frames "],
        ),
        (moving, standard, CutExpected { frames: 97, ..right }, vec![]),
        (
            moving,
            standard,
            CutExpected { rate: 30, ..right },
            vec!["The output has 96 frames "],
        ),
    ] {
        video(&tools, &place, video_source, audio_source).await;
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
    let place = scratch.file("video.mp4");
    let video_source = "testsrc2=s=64x64:r=24:d=2,tpad=stop_mode=clone:stop_duration=4";
    let audio_source = "sine=f=1000:r=48000:d=2,volume=7dB,apad=whole_dur=6";
    video(&tools, &place, video_source, audio_source).await;
    let expected = CutExpected {
        size: SIZE,
        frames: 144,
        rate: 24,
        has_audio: true,
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
async fn non_videos_are_not_inspected() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let path = scratch.file("video");
    std::fs::write(&path, "garbage").unwrap();
    let expected = CutExpected {
        size: SIZE,
        frames: 1,
        rate: 24,
        has_audio: false,
    };
    let refused = tools.inspect(&path, &expected).await;
    assert!(
        matches!(refused, Err(crate::error::Error::Input(_))),
        "{refused:?}"
    );
}
