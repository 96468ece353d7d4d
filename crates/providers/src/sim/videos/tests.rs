use std::sync::Arc;

use futures_util::StreamExt;
use tollgate_studio::{Encoding, Probe, ToolPaths, Tools};
use tollgate_types::clock::ManualClock;
use tollgate_types::{Clock, Timestamp};
use tollgate_upstream::{Size, Source, UpstreamCause, UpstreamErrorKind};

use super::super::tests::context;
use super::*;

/// A simulator and its clock.
fn simulator() -> (Simulator, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000)));
    (another(&clock, Tools::find()), clock)
}

/// The simulator of another process at the same time.
fn another(clock: &Arc<ManualClock>, tools: Tools) -> Simulator {
    Simulator::with("sim".into(), tools, clock.clone() as Arc<dyn Clock>)
}

fn call(prompt: &str) -> VideoCall {
    VideoCall {
        upstream_model: "video".into(),
        task: VideoTask::FromText,
        mode: None,
        prompt: prompt.to_owned(),
        negative_prompt: None,
        image: None,
        references: Vec::new(),
        video: None,
        duration: Duration::from_millis(1_000),
        size: Size {
            width: 160,
            height: 90,
        },
        aspect_ratio: "16:9".into(),
        resolution: "90p".into(),
        audio: false,
        seed: None,
    }
}

async fn accepted(simulator: &Simulator, call: &VideoCall) -> Vec<u8> {
    match simulator.submit(&context(), call, "key").await.unwrap() {
        Submitted::Accepted { handle, .. } => handle,
        Submitted::Made(_) => panic!("films are made later"),
    }
}

async fn poll(simulator: &Simulator, handle: &[u8]) -> State {
    Maker::<VideoCall>::poll(simulator, &context(), handle)
        .await
        .unwrap()
}

/// The bytes of a film that is made.
async fn fetch(simulator: &Simulator, handle: &[u8]) -> Vec<u8> {
    let state = poll(simulator, handle).await;
    let State::Made(made) = state else {
        panic!("{state:?}");
    };
    let [piece] = made.pieces.as_slice() else {
        panic!("one film");
    };
    let Content::Own(own) = &piece.content else {
        panic!("it is fetched");
    };
    let mut pieces = Maker::<VideoCall>::fetch(simulator, &context(), own)
        .await
        .unwrap();
    let mut film = Vec::new();
    while let Some(piece) = pieces.next().await {
        film.extend(piece.unwrap());
    }
    film
}

async fn make(call: VideoCall) -> Vec<u8> {
    let (simulator, _) = simulator();
    let handle = accepted(&simulator, &call).await;
    fetch(&simulator, &handle).await
}

async fn probe(film: &[u8]) -> (Probe, Picture) {
    let scratch = Scratch::make().unwrap();
    let path = scratch.file("film.mp4");
    std::fs::write(&path, film).unwrap();
    let tools = Tools::find();
    let first = tools.first_frame(&path).await.unwrap();
    (
        tools.probe(&path).await.unwrap(),
        Picture::decode(&first).unwrap(),
    )
}

fn green() -> Source {
    let size = Dimensions::new(64, 64);
    let picture = Picture::from_rgba(size, [10, 200, 30, 255].repeat(64 * 64)).unwrap();
    Source {
        bytes: picture.encode(Encoding::Png).unwrap().into(),
        mime_type: "image/png".into(),
    }
}

#[tokio::test]
async fn films_are_as_was_asked_for() {
    for (audio, millis, size, prompt, expected) in [
        (false, 1_000, (160, 90), "a lake", (160, 90)),
        (true, 4_500, (96, 160), "a lake", (96, 160)),
        (false, 500, (160, 90), "a lake [[sim size=64x48]]", (64, 48)),
    ] {
        let (width, height) = size;
        let film = make(VideoCall {
            audio,
            duration: Duration::from_millis(millis),
            size: Size { width, height },
            ..call(prompt)
        });
        let (probe, _) = probe(&film.await).await;
        let video = probe.film().unwrap();
        assert_eq!((video.size.width, video.size.height), expected);
        assert_eq!(video.duration, Duration::from_millis(millis));
        assert_eq!(probe.audio.is_some(), audio);
    }
}

#[tokio::test]
async fn the_same_call_is_the_same_film() {
    let with = |seed| VideoCall {
        seed: Some(seed),
        ..call("a lake")
    };
    let once = make(with(1)).await;
    assert_eq!(once, make(with(1)).await);
    assert_ne!(once, make(with(2)).await);
}

#[tokio::test]
async fn it_begins_with_the_picture_that_it_is_given() {
    let film = make(VideoCall {
        task: VideoTask::FromImage,
        image: Some(green()),
        ..call("go on")
    });
    let (_, first) = probe(&film.await).await;
    let pixel = &first.rgba()[(40 * 160 + 80) * 4..][..3];
    assert!(pixel[0] < 50 && pixel[1] > 170 && pixel[2] < 60, "{pixel:?}");
    let plain = make(call("go on")).await;
    let referred = make(VideoCall {
        task: VideoTask::FromReferences,
        references: vec![green()],
        ..call("go on")
    });
    assert_ne!(plain, referred.await);
}

#[tokio::test]
async fn it_follows_the_clock_and_another_process_can_end_it() {
    let (simulator, clock) = simulator();
    let handle = accepted(&simulator, &call("a lake [[sim delay=2000]]")).await;
    assert!(handle.len() < 64 << 10);
    clock.advance(Duration::from_secs(1));
    let state = poll(&simulator, &handle).await;
    assert!(matches!(state, State::Running { percent: Some(50) }), "{state:?}");
    clock.advance(Duration::from_secs(1));
    let film = fetch(&another(&clock, Tools::find()), &handle).await;
    assert_eq!(film, make(call("a lake")).await);
}

#[tokio::test]
async fn it_ends_as_the_script_says() {
    let (simulator, _) = simulator();
    let handle = accepted(&simulator, &call("[[sim cut=start]]")).await;
    assert!(matches!(poll(&simulator, &handle).await, State::Lost));
    let handle = accepted(&simulator, &call("[[sim cut=end]]")).await;
    assert!(matches!(poll(&simulator, &handle).await, State::Failed(_)));
    let handle = accepted(&simulator, &call("[[sim refuse]]")).await;
    assert!(matches!(poll(&simulator, &handle).await, State::Blocked));
    let handle = accepted(&simulator, &call("[[sim delay=9000]]")).await;
    Maker::<VideoCall>::cancel(&simulator, &context(), &handle)
        .await
        .unwrap();
    assert!(matches!(poll(&simulator, &handle).await, State::Cancelled));
}

#[tokio::test]
async fn what_it_cannot_do_is_refused() {
    let (simulator, clock) = simulator();
    let extend = VideoCall {
        task: VideoTask::Extend,
        ..call("")
    };
    let error = simulator.check(&extend).unwrap_err();
    assert_eq!(error.code, ErrorCode::UnsupportedParameter);
    assert_eq!(error.param.as_deref(), Some("extend_from"));
    assert!(simulator.check(&call("")).is_ok());
    let odd = simulator
        .submit(&context(), &call("[[sim size=63x64]]"), "key")
        .await;
    let error = odd.unwrap_err();
    assert_eq!(
        (error.kind, error.param.as_deref()),
        (UpstreamErrorKind::Rejected, Some("size"))
    );
    let without = another(
        &clock,
        Tools::at(&ToolPaths {
            ffmpeg: Some("/nowhere/ffmpeg".into()),
            ..ToolPaths::default()
        }),
    );
    let error = without.check(&call("")).unwrap_err();
    assert_eq!(error.code, ErrorCode::ModelUnavailable);
    let error = without.submit(&context(), &call(""), "key").await.unwrap_err();
    assert_eq!(
        (error.kind, error.cause),
        (UpstreamErrorKind::Unavailable, UpstreamCause::Connect)
    );
    assert!(error.detail.contains("apt-get install ffmpeg"), "{error}");
}
