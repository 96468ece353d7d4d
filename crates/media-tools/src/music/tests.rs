use super::*;

async fn heard(path: &Path) -> Vec<i32> {
    let bytes = tokio::fs::read(path).await.unwrap();
    let data = bytes.windows(4).position(|four| four == b"data").unwrap() + 8;
    let samples = bytes[data..].chunks_exact(2);
    samples
        .map(|pair| i32::from(i16::from_le_bytes([pair[0], pair[1]])))
        .collect()
}

/// Returns the mean amplitude of the samples.
fn loudness(samples: &[i32]) -> i64 {
    samples.iter().map(|sample| i64::from(sample.abs())).sum::<i64>() / samples.len().max(1) as i64
}

#[tokio::test]
async fn music_has_the_requested_length_without_gaps() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let place = scratch.file("music.wav");
    let mut chunks = Vec::new();
    for mood in Mood::ALL {
        for seed in [1, 2] {
            let length = Duration::from_millis(6_500);
            tools.make_music(mood, seed, length, &place).await.unwrap();
            let audio = tools.probe(&place).await.unwrap().audio.unwrap();
            assert_eq!(
                (audio.duration, audio.sample_rate, audio.channels),
                (length, 48_000, 2)
            );
            let samples = heard(&place).await;
            // Parts of half a second, without the first and the last part.
            let parts: Vec<i64> = samples.chunks(48_000).map(loudness).collect();
            assert!(
                parts[1..parts.len() - 2].iter().all(|part| *part > 600),
                "{mood:?}: {parts:?}"
            );
            assert!(samples.iter().all(|sample| sample.abs() < 32_000));
            // The music starts and ends quietly, without clicks.
            assert!(samples[0].abs() < 50 && samples[samples.len() - 1].abs() < 50);
            let steps = samples.windows(3).map(|three| (three[2] - three[0]).abs());
            assert!(steps.max().unwrap() < 3_000, "{mood:?}");
            chunks.push(samples);
        }
    }
    for (place, chunk) in chunks.iter().enumerate() {
        assert!(chunks[..place].iter().all(|other| other != chunk));
    }
}

#[tokio::test]
async fn equal_mood_and_seed_give_equal_music() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let (one, two) = (scratch.file("one.wav"), scratch.file("two.wav"));
    for place in [&one, &two] {
        tools
            .make_music(Mood::Warm, 7, Duration::from_secs(1), place)
            .await
            .unwrap();
    }
    assert_eq!(std::fs::read(one).unwrap(), std::fs::read(two).unwrap());
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 2);
}

#[tokio::test]
async fn recordings_are_fitted_to_the_video() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let (source, place) = (scratch.file("source.wav"), scratch.file("fitted.wav"));
    let run = Run::new(Program::Ffmpeg, TIMEOUT)
        .args(["-f", "lavfi", "-i", "sine=f=330:r=44100:d=2"])
        .file(&source);
    tools.run(run).await.unwrap();
    for millis in [500, 2_000, 2_300, 9_000] {
        let length = Duration::from_millis(millis);
        tools.fit_music(&source, length, &place).await.unwrap();
        assert_eq!(tools.probe(&place).await.unwrap().duration, length);
        let samples = heard(&place).await;
        // The music is audible except at its ends, and fades out.
        let (tenth, all) = (9_600, samples.len());
        let middle = samples[all / 4..all * 2 / 3]
            .chunks_exact(tenth / 4)
            .map(loudness);
        assert!(middle.min().unwrap_or(1_000) > 500, "{millis}");
        assert!(loudness(&samples[all - tenth / 10..]) < loudness(&samples[all / 2..all / 2 + tenth]) / 4);
        let steps = samples.windows(3).map(|three| (three[2] - three[0]).abs());
        assert!(steps.max().unwrap() < 800, "{millis}");
    }
}

#[tokio::test]
async fn invalid_music_is_rejected() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let (short, garbage, place) = (
        scratch.file("short.wav"),
        scratch.file("garbage"),
        scratch.file("place.wav"),
    );
    let run = Run::new(Program::Ffmpeg, TIMEOUT)
        .args(["-f", "lavfi", "-i", "sine=f=330:d=0.9"])
        .file(&short);
    tools.run(run).await.unwrap();
    std::fs::write(&garbage, "garbage").unwrap();
    let second = Duration::from_secs(1);
    for source in [&short, &garbage] {
        let refused = tools.fit_music(source, second, &place).await;
        assert!(matches!(refused, Err(Error::Input(_))), "{refused:?}");
    }
    // A short recording is sufficient for a shorter duration.
    tools.fit_music(&short, second / 2, &place).await.unwrap();
    std::fs::remove_file(&place).unwrap();
    for length in [
        Duration::ZERO,
        Duration::from_millis(99),
        Duration::from_millis(600_001),
    ] {
        let refused = tools.make_music(Mood::Calm, 1, length, &place).await;
        assert!(matches!(refused, Err(Error::Input(_))), "{refused:?}");
    }
    assert!(!place.exists());
}

#[test]
fn moods_have_names() {
    for mood in Mood::ALL {
        assert_eq!(Mood::parse(mood.as_str()), Some(mood));
    }
    assert_eq!(Mood::parse("sad"), None);
}
