use std::sync::Arc;

use futures_util::StreamExt;
use tollgate_media_tools::{Encoding, Probe, ToolPaths, Tools};
use tollgate_types::clock::ManualClock;
use tollgate_types::{Clock, Timestamp};
use tollgate_upstream::{Size, Source, UpstreamCause, UpstreamErrorKind};

use super::super::tests::context;
use super::*;

/// Returns a simulator and its clock.
fn simulator() -> (Simulator, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000)));
    (another(&clock, Tools::find()), clock)
}

/// Returns the simulator of another process at the same time.
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
        Submitted::Completed(_) => panic!("videos are generated asynchronously"),
    }
}

async fn poll(simulator: &Simulator, handle: &[u8]) -> GenerationState {
    JobProvider::<VideoCall>::poll(simulator, &context(), handle)
        .await
        .unwrap()
}

/// Downloads the file of a completed video.
async fn fetch(simulator: &Simulator, handle: &[u8]) -> Vec<u8> {
    let state = poll(simulator, handle).await;
    let GenerationState::Completed(made) = state else {
        panic!("{state:?}");
    };
    let [item] = made.items.as_slice() else {
        panic!("one video");
    };
    let Content::Upstream(own) = &item.content else {
        panic!("it is fetched");
    };
    let mut items = JobProvider::<VideoCall>::fetch(simulator, &context(), own)
        .await
        .unwrap();
    let mut video = Vec::new();
    while let Some(item) = items.next().await {
        video.extend(item.unwrap());
    }
    video
}

async fn make(call: VideoCall) -> Vec<u8> {
    let (simulator, _) = simulator();
    let handle = accepted(&simulator, &call).await;
    fetch(&simulator, &handle).await
}

async fn probe(video: &[u8]) -> (Probe, Image) {
    let scratch = Scratch::make().unwrap();
    let path = scratch.file("video.mp4");
    std::fs::write(&path, video).unwrap();
    let tools = Tools::find();
    let first = tools.first_frame(&path).await.unwrap();
    (tools.probe(&path).await.unwrap(), Image::decode(&first).unwrap())
}

fn green() -> Source {
    let size = Dimensions::new(64, 64);
    let image = Image::from_rgba(size, [10, 200, 30, 255].repeat(64 * 64)).unwrap();
    Source {
        bytes: image.encode(Encoding::Png).unwrap().into(),
        mime_type: "image/png".into(),
    }
}

#[tokio::test]
async fn videos_match_the_request() {
    for (audio, millis, size, prompt, expected) in [
        (false, 1_000, (160, 90), "a lake", (160, 90)),
        (true, 4_500, (96, 160), "a lake", (96, 160)),
        (false, 500, (160, 90), "a lake [[sim size=64x48]]", (64, 48)),
    ] {
        let (width, height) = size;
        let video = make(VideoCall {
            audio,
            duration: Duration::from_millis(millis),
            size: Size { width, height },
            ..call(prompt)
        });
        let (probe, _) = probe(&video.await).await;
        let video = probe.video().unwrap();
        assert_eq!((video.size.width, video.size.height), expected);
        assert_eq!(video.duration, Duration::from_millis(millis));
        assert_eq!(probe.audio.is_some(), audio);
    }
}

#[tokio::test]
async fn equal_calls_give_equal_videos() {
    let with = |seed| VideoCall {
        seed: Some(seed),
        ..call("a lake")
    };
    let once = make(with(1)).await;
    assert_eq!(once, make(with(1)).await);
    assert_ne!(once, make(with(2)).await);
}

#[tokio::test]
async fn videos_begin_with_the_given_image() {
    let video = make(VideoCall {
        task: VideoTask::FromImage,
        image: Some(green()),
        ..call("go on")
    });
    let (_, first) = probe(&video.await).await;
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
async fn videos_follow_the_clock_across_processes() {
    let (simulator, clock) = simulator();
    let handle = accepted(&simulator, &call("a lake [[sim delay=2000]]")).await;
    assert!(handle.len() < 64 << 10);
    clock.advance(Duration::from_secs(1));
    let state = poll(&simulator, &handle).await;
    assert!(
        matches!(state, GenerationState::Running { percent: Some(50) }),
        "{state:?}"
    );
    clock.advance(Duration::from_secs(1));
    let video = fetch(&another(&clock, Tools::find()), &handle).await;
    assert_eq!(video, make(call("a lake")).await);
}

#[tokio::test]
async fn videos_end_as_scripted() {
    let (simulator, _) = simulator();
    let handle = accepted(&simulator, &call("[[sim cut=start]]")).await;
    assert!(matches!(poll(&simulator, &handle).await, GenerationState::Lost));
    let handle = accepted(&simulator, &call("[[sim cut=end]]")).await;
    assert!(matches!(
        poll(&simulator, &handle).await,
        GenerationState::Failed(_)
    ));
    let handle = accepted(&simulator, &call("[[sim refuse]]")).await;
    assert!(matches!(
        poll(&simulator, &handle).await,
        GenerationState::Blocked
    ));
    let handle = accepted(&simulator, &call("[[sim delay=9000]]")).await;
    JobProvider::<VideoCall>::cancel(&simulator, &context(), &handle)
        .await
        .unwrap();
    assert!(matches!(
        poll(&simulator, &handle).await,
        GenerationState::Cancelled
    ));
}

#[tokio::test]
async fn unsupported_video_tasks_are_refused() {
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
