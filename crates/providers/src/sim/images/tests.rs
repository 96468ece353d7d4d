use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tollgate_media_tools::Tools;
use tollgate_media_tools::image::dimensions;
use tollgate_types::clock::ManualClock;
use tollgate_types::{Clock, ErrorCode, Timestamp};
use tollgate_upstream::{Size, Source, UpstreamErrorKind};

use super::super::tests::context;
use super::*;

/// Returns a simulator and its clock.
fn simulator() -> (Simulator, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(Timestamp::from_micros(1_700_000_000_000_000)));
    (another(&clock), clock)
}

/// Returns the simulator of another process at the same time.
fn another(clock: &Arc<ManualClock>) -> Simulator {
    Simulator::with("sim".into(), Tools::find(), clock.clone() as Arc<dyn Clock>)
}

fn call(prompt: &str) -> ImageCall {
    ImageCall {
        upstream_model: "image".into(),
        task: ImageTask::Generate,
        prompt: prompt.to_owned(),
        negative_prompt: None,
        images: Vec::new(),
        mask: None,
        count: 1,
        set: false,
        size: Some(Size {
            width: 96,
            height: 64,
        }),
        aspect_ratio: None,
        resolution: None,
        quality: None,
        format: None,
        seed: None,
    }
}

async fn submit(call: &ImageCall) -> Result<Submitted, UpstreamError> {
    simulator().0.submit(&context(), call, "key").await
}

fn files(output: GenerationOutput) -> Vec<Bytes> {
    let contents = output.items.into_iter().map(|item| item.content);
    contents
        .map(|content| match content {
            Content::Bytes(bytes) => bytes,
            other => panic!("{other:?}"),
        })
        .collect()
}

/// Submits a call that completes immediately, and returns its files.
async fn make(call: ImageCall) -> Vec<Bytes> {
    match submit(&call).await.unwrap() {
        Submitted::Completed(output) => files(output),
        Submitted::Accepted { .. } => panic!("made at once"),
    }
}

/// Submits a call that completes later, and returns its handle.
async fn accepted(simulator: &Simulator, call: &ImageCall) -> (Vec<u8>, Duration) {
    match simulator.submit(&context(), call, "key").await.unwrap() {
        Submitted::Accepted { handle, poll_after } => (handle, poll_after),
        Submitted::Completed(_) => panic!("made later"),
    }
}

async fn poll(simulator: &Simulator, handle: &[u8]) -> GenerationState {
    JobProvider::<ImageCall>::poll(simulator, &context(), handle)
        .await
        .unwrap()
}

fn size(file: &[u8]) -> (u32, u32) {
    let size = dimensions(file).unwrap();
    (size.width, size.height)
}

/// Returns an image of one colour.
fn plain(colour: [u8; 4], width: u32, height: u32) -> Source {
    let size = Dimensions::new(width, height);
    let image = Image::from_rgba(size, colour.repeat(size.pixels() as usize)).unwrap();
    Source {
        bytes: image.encode(Encoding::Png).unwrap().into(),
        mime_type: "image/png".into(),
    }
}

#[tokio::test]
async fn images_match_the_request() {
    for (format, mime_type) in [
        (None, "image/png"),
        (Some(ImageFormat::Jpeg), "image/jpeg"),
        (Some(ImageFormat::Webp), "image/webp"),
    ] {
        let files = make(ImageCall {
            format,
            count: 3,
            ..call("a lake")
        });
        let files = files.await;
        assert_eq!(files.len(), 3);
        for file in &files {
            assert_eq!(Encoding::of(file).unwrap().mime_type(), mime_type);
            assert_eq!(size(file), (96, 64));
        }
        assert_eq!(files.iter().collect::<BTreeSet<_>>().len(), 3);
    }
    let usual = make(ImageCall {
        size: None,
        ..call("a lake")
    });
    assert_eq!(size(&usual.await[0]), (1_024, 1_024));
    assert_eq!(size(&make(call("a lake [[sim size=33x44]]")).await[0],), (33, 44));
}

#[tokio::test]
async fn equal_calls_give_equal_images() {
    let once = make(call("a lake")).await;
    assert_eq!(once, make(call("a lake")).await);
    assert_eq!(once, make(call("a lake [[sim pace=3]]")).await);
    let with = |seed| ImageCall {
        seed: Some(seed),
        ..call("a lake")
    };
    let seeded = make(with(7)).await;
    assert_eq!(seeded, make(with(7)).await);
    for other in [make(with(8)).await, once, make(call("a lake.")).await] {
        assert_ne!(seeded, other);
    }
}

#[tokio::test]
async fn images_of_a_set_share_their_colours() {
    let files = make(ImageCall {
        set: true,
        count: 4,
        ..call("hills at dawn")
    });
    let files = files.await;
    assert_eq!(files.iter().collect::<BTreeSet<_>>().len(), 4);
    let skies: BTreeSet<[u32; 3]> = files
        .iter()
        .map(|file| {
            let top = Palette::of(&Image::decode(file).unwrap()).sky;
            top.map(|colour| colour & 0xC0_C0_C0)
        })
        .collect();
    assert!(skies.len() <= 2, "{skies:x?}");
}

#[tokio::test]
async fn only_the_mask_is_redrawn() {
    let mut mask = Image::decode(&plain([0, 0, 0, 255], 96, 64).bytes).unwrap();
    for pixel in mask.rgba_mut().chunks_exact_mut(4).take(96 * 20) {
        pixel.copy_from_slice(&[0; 4]);
    }
    let mask = Source {
        bytes: mask.encode(Encoding::Png).unwrap().into(),
        mime_type: "image/png".into(),
    };
    let inpainted = make(ImageCall {
        task: ImageTask::Inpaint,
        images: vec![plain([10, 200, 30, 255], 96, 64)],
        mask: Some(mask),
        ..call("a lake")
    });
    let image = Image::decode(&inpainted.await[0]).unwrap();
    let pixels: Vec<&[u8]> = image.rgba().chunks_exact(4).collect();
    let (redrawn, unchanged) = pixels.split_at(96 * 20);
    assert!(unchanged.iter().all(|pixel| *pixel == [10, 200, 30, 255]));
    assert!(redrawn.iter().any(|pixel| *pixel != [10, 200, 30, 255]));
}

#[tokio::test]
async fn edits_and_variations_show_their_source() {
    let green = plain([10, 200, 30, 255], 300, 100);
    for task in [ImageTask::Edit, ImageTask::Vary, ImageTask::Inpaint] {
        let of = |source: &Source| ImageCall {
            task,
            images: vec![source.clone()],
            ..call("")
        };
        let files = make(of(&green)).await;
        assert_eq!(size(&files[0]), (96, 64));
        let [red, green, _] = mean(&files[0]);
        assert!(green > red + 40, "{task:?}: {red} {green}");
        let other = make(of(&plain([200, 10, 30, 255], 300, 100))).await;
        assert_ne!(files, other);
    }
}

fn mean(file: &[u8]) -> [u64; 3] {
    let image = Image::decode(file).unwrap();
    let pixels = image.size().pixels();
    let sum = |part: usize| {
        image
            .rgba()
            .chunks_exact(4)
            .map(|pixel| u64::from(pixel[part]))
            .sum::<u64>()
    };
    [0, 1, 2].map(|part| sum(part) / pixels)
}

#[tokio::test]
async fn invalid_images_are_rejected() {
    let garbage = Source {
        bytes: Bytes::from_static(b"garbage"),
        mime_type: "image/png".into(),
    };
    let whole = plain([1, 2, 3, 255], 8, 8);
    for (images, mask, prompt, param) in [
        (vec![garbage.clone()], None, "", "image"),
        (vec![garbage.clone()], None, "[[sim delay=5]]", "image"),
        (vec![whole], Some(garbage), "", "mask"),
        (vec![], None, "[[sim size=99999x2]]", "size"),
    ] {
        let call = ImageCall {
            task: ImageTask::Inpaint,
            images,
            mask,
            ..call(prompt)
        };
        let error = submit(&call).await.unwrap_err();
        assert_eq!(error.kind, UpstreamErrorKind::Rejected, "{error}");
        assert_eq!(error.param.as_deref(), Some(param), "{error}");
    }
}

/// A job that started while the clock was ahead ends when the clock is corrected, not an hour
/// later.
#[tokio::test]
async fn clock_set_back_adds_no_delay() {
    let (simulator, clock) = simulator();
    clock.advance(Duration::from_hours(1));
    let (handle, _) = accepted(&simulator, &call("a lake [[sim delay=3000]]")).await;
    assert!(matches!(
        poll(&simulator, &handle).await,
        GenerationState::Running { .. }
    ));
    let (right, _) = self::simulator();
    assert!(matches!(
        poll(&right, &handle).await,
        GenerationState::Completed(_)
    ));
}

#[tokio::test]
async fn with_a_delay_it_follows_the_clock() {
    let (simulator, clock) = simulator();
    let (handle, poll_after) = accepted(&simulator, &call("a lake [[sim delay=4000]]")).await;
    assert_eq!(poll_after, Duration::from_secs(1));
    for expected in [0, 25, 50, 75] {
        let state = poll(&simulator, &handle).await;
        assert!(
            matches!(state, GenerationState::Running { percent: Some(percent) } if percent == expected),
            "{state:?}"
        );
        clock.advance(Duration::from_secs(1));
    }
    // Another process needs only the handle.
    let GenerationState::Completed(output) = poll(&another(&clock), &handle).await else {
        panic!("it is made");
    };
    assert_eq!(files(output), make(call("a lake")).await);
}

#[tokio::test]
async fn deferred_images_end_as_scripted() {
    let (simulator, clock) = simulator();
    let mut ends = Vec::new();
    for prompt in [
        "[[sim cut=start]]",
        "[[sim cut=end]]",
        "[[sim cut=end error=overloaded delay=10]]",
        "[[sim refuse]]",
        "[[sim delay=10 size=99999x2]]",
    ] {
        let (handle, _) = accepted(&simulator, &call(prompt)).await;
        clock.advance(Duration::from_millis(10));
        ends.push(poll(&simulator, &handle).await);
    }
    let failed = |state: &GenerationState, code| match state {
        GenerationState::Failed(error) => error.kind == UpstreamErrorKind::Simulated(code),
        _ => false,
    };
    assert!(matches!(ends[0], GenerationState::Lost), "{ends:?}");
    assert!(failed(&ends[1], ErrorCode::UpstreamError), "{ends:?}");
    assert!(failed(&ends[2], ErrorCode::Overloaded), "{ends:?}");
    assert!(matches!(ends[3], GenerationState::Blocked), "{ends:?}");
    assert!(
        matches!(&ends[4], GenerationState::Failed(error) if error.kind == UpstreamErrorKind::Rejected),
        "{ends:?}"
    );
}

#[tokio::test]
async fn requested_errors_fail_the_submission() {
    let error = submit(&call("[[sim error=overloaded]]")).await.unwrap_err();
    assert_eq!(error.kind, UpstreamErrorKind::Simulated(ErrorCode::Overloaded));
    let error = submit(&call("[[sim nonsense]]")).await.unwrap_err();
    assert_eq!(error.param.as_deref(), Some("prompt"));
}

#[tokio::test]
async fn cancelled_images_are_not_drawn() {
    let (simulator, clock) = simulator();
    let (handle, _) = accepted(&simulator, &call("[[sim delay=1000]]")).await;
    let (other, _) = accepted(&simulator, &call("other [[sim delay=1000]]")).await;
    JobProvider::<ImageCall>::cancel(&simulator, &context(), &handle)
        .await
        .unwrap();
    clock.advance(Duration::from_secs(2));
    assert!(matches!(
        poll(&simulator, &handle).await,
        GenerationState::Cancelled
    ));
    // The cancellation does not change a completed job.
    JobProvider::<ImageCall>::cancel(&simulator, &context(), &other)
        .await
        .unwrap();
    assert!(matches!(
        poll(&simulator, &other).await,
        GenerationState::Completed(_)
    ));
}

#[tokio::test]
async fn handles_contain_shrunk_sources() {
    let (simulator, clock) = simulator();
    // Noise is hard to compress, so this is the largest image file.
    let size = Dimensions::new(900, 1_200);
    let noise = |clear: u64| {
        let bytes = (0..size.pixels() * 4).map(|at| hash(&[&(at | clear).to_le_bytes()]) as u8);
        let image = Image::from_rgba(size, bytes.collect()).unwrap();
        Source {
            bytes: image.encode(Encoding::Png).unwrap().into(),
            mime_type: "image/png".into(),
        }
    };
    let call = ImageCall {
        task: ImageTask::Inpaint,
        images: vec![noise(3)],
        mask: Some(noise(0)),
        ..call(&format!("{} [[sim delay=1]]", "word ".repeat(5_000)))
    };
    let (handle, _) = accepted(&simulator, &call).await;
    assert!(handle.len() < 64 << 10, "{}", handle.len());
    clock.advance(Duration::from_millis(1));
    assert!(matches!(
        poll(&another(&clock), &handle).await,
        GenerationState::Completed(_)
    ));
}

#[tokio::test]
async fn foreign_handles_are_errors() {
    let (simulator, _) = simulator();
    for handle in [&b""[..], b"{}", b"garbage"] {
        assert!(
            JobProvider::<ImageCall>::poll(&simulator, &context(), handle)
                .await
                .is_err()
        );
    }
}
