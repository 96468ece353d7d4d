use std::path::PathBuf;

use crate::video::VideoSpec;

use super::*;

fn plain(grey: u8) -> Image {
    Image::from_rgba(Dimensions::new(64, 48), [grey, grey, grey, 255].repeat(64 * 48)).unwrap()
}

/// Creates a video that changes from dark to bright.
async fn video(tools: &Tools, scratch: &Scratch, millis: u64) -> PathBuf {
    let spec = VideoSpec {
        size: Dimensions::new(64, 48),
        duration: Duration::from_millis(millis),
        rate: 24,
        audio: Some(1),
        banner: None,
        note: None,
    };
    let stills: Vec<Image> = [20, 90, 160, 230].into_iter().map(plain).collect();
    let path = scratch.file("video.mp4");
    tools.make_video(&spec, &stills, &path).await.unwrap();
    path
}

fn grey(file: &[u8]) -> u8 {
    Image::decode(file).unwrap().rgba()[0]
}

#[tokio::test]
async fn frames_match_their_time() {
    for millis in [900, 4_000] {
        let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
        let path = video(&tools, &scratch, millis).await;
        let last = tools.last_frame(&path).await.unwrap();
        assert_eq!(Encoding::of(&last), Some(Encoding::Png));
        assert_eq!(Image::decode(&last).unwrap().size(), Dimensions::new(64, 48));
        let first = tools.first_frame(&path).await.unwrap();
        assert!(
            grey(&first) < 30 && grey(&last) > 220,
            "{} {}",
            grey(&first),
            grey(&last)
        );
        let middle = tools
            .thumbnail(&path, Duration::from_millis(millis / 2), 32)
            .await
            .unwrap();
        assert_eq!(Image::decode(&middle).unwrap().size(), Dimensions::new(32, 24));
        assert!((70..=180).contains(&grey(&middle)), "{}", grey(&middle));
        let after = tools.thumbnail(&path, Duration::from_secs(90), 64).await.unwrap();
        assert!(grey(&after) > 220);
    }
}

#[tokio::test]
async fn contact_sheets_cover_the_whole_video() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let path = video(&tools, &scratch, 4_000).await;
    let sheet = tools.contact_sheet(&path, 4, 2, 40).await.unwrap();
    let sheet = Image::decode(&sheet).unwrap();
    assert_eq!(sheet.size(), Dimensions::new(160, 60));
    let at = |x: usize, y: usize| sheet.rgba()[(y * 160 + x) * 4];
    let tiles: Vec<u8> = (0..8)
        .map(|tile| at(tile % 4 * 40 + 20, tile / 4 * 30 + 15))
        .collect();
    assert!(tiles.is_sorted() && tiles[0] < 60 && tiles[7] > 200, "{tiles:?}");
    for (columns, rows, wide) in [(0, 1, 40), (1, 13, 40), (1, 1, 5_000)] {
        let refused = tools.contact_sheet(&path, columns, rows, wide).await;
        assert!(matches!(refused, Err(Error::Input(_))), "{refused:?}");
    }
}

#[tokio::test]
async fn audio_has_no_frames() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let path = scratch.file("speech");
    let spec = crate::speech::SpeechSpec::new(crate::speech::SpeechFormat::Wav);
    std::fs::write(&path, tools.speak("hello", &spec).await.unwrap().bytes).unwrap();
    let refused = tools.last_frame(&path).await;
    assert!(
        matches!(&refused, Err(Error::Input(reason)) if reason == "has no video stream"),
        "{refused:?}"
    );
}
