use super::*;

/// Score of speech: the threshold of `server_vad` with its default settings.
const SPEECH: f32 = 0.7;
const SECOND: usize = SAMPLE_RATE as usize;

fn milliseconds(text: &str, speed: f64) -> usize {
    samples(text, speed, 0).len() * 1_000 / SECOND
}

#[test]
fn durations_follow_letters_pauses_and_speed() {
    for (text, speed, expected) in [
        ("a", 1.0, 60),
        ("Hello", 1.0, 300),
        ("a b", 1.0, 160),
        ("Hi. Yes", 1.0, 540),
        ("Hi 🌍, „x“", 1.0, 260),
        ("你好。", 1.0, 320),
        ("abcd", 2.0, 120),
        ("abcd", 0.25, 960),
        ("…!? 🌍", 1.0, 0),
        ("", 1.0, 0),
    ] {
        assert_eq!(milliseconds(text, speed), expected, "{text:?} at {speed}");
    }
}

#[test]
fn voices_differ_and_repeat() {
    let text = "Good morning.";
    assert_eq!(samples(text, 1.0, 3), samples(text, 1.0, 3));
    assert_eq!(samples(text, 1.0, 3), samples(text, 1.0, 11));
    assert_ne!(samples(text, 1.0, 3), samples(text, 1.0, 4));
}

#[test]
fn letters_are_loud_and_pauses_silent() {
    let audio = samples("Good. Morning", 1.0, 0);
    let loudness = |from_ms: usize, to_ms: usize| {
        let part = &audio[from_ms * SECOND / 1_000..to_ms * SECOND / 1_000];
        let energy: f64 = part.iter().map(|sample| f64::from(*sample).powi(2)).sum();
        (energy / part.len() as f64).sqrt()
    };
    assert!(loudness(0, 240) > 1_000.0, "{}", loudness(0, 240));
    assert!(loudness(320, 480) < 10.0, "{}", loudness(320, 480));
    assert!(audio.iter().all(|sample| sample.unsigned_abs() < 20_000));
}

#[test]
fn a_voice_activity_detector_hears_speech() {
    const HALF_SECOND_FRAMES: usize = 500 / 16;
    for voice in 0..PITCHES.len() as u64 {
        for text in [
            "Good morning, harbour. How are you today?",
            "Yes",
            "你好世界你好",
            "1984",
        ] {
            let spoken = samples(text, 1.0, voice);
            let frames = spoken.len() * 1_000 / SECOND / 16;
            let scores = scores(&[vec![0; SECOND / 2], spoken, vec![0; SECOND]].concat());
            let (before, rest) = scores.split_at(HALF_SECOND_FRAMES);
            let (during, after) = rest.split_at(frames + 8);
            let speech = during.iter().filter(|score| **score > SPEECH).count();
            assert!(speech * 2 > frames, "{text:?} by {voice}: {scores:.1?}");
            let is_quiet = |scores: &[f32]| scores.iter().all(|score| *score < SPEECH);
            assert!(
                is_quiet(before) && is_quiet(after),
                "{text:?} by {voice}: {scores:.1?}"
            );
        }
    }
}

/// Returns the score of each frame of 16 ms.
fn scores(audio: &[i16]) -> Vec<f32> {
    let at_16_khz: Vec<i16> = (0..audio.len() * 2 / 3)
        .map(|place| {
            let (whole, is_between) = (place * 3 / 2, place % 2 == 1);
            let next = audio.get(whole + 1).copied().unwrap_or_default();
            match is_between {
                true => audio[whole].midpoint(next),
                false => audio[whole],
            }
        })
        .collect();
    let mut detector = earshot::Detector::default();
    at_16_khz
        .chunks_exact(256)
        .map(|frame| detector.predict_i16(frame))
        .collect()
}
