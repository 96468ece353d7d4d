use super::*;

async fn speak(text: &str, spec: &SpeechSpec) -> Result<Speech> {
    Tools::find().speak(text, spec).await
}

fn at_speed(speed: f64) -> SpeechSpec {
    SpeechSpec {
        speed,
        ..SpeechSpec::new(SpeechFormat::Wav)
    }
}

#[tokio::test]
async fn formats_match_their_names() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    for format in SpeechFormat::ALL {
        let speech = speak("Good morning, harbour.", &SpeechSpec::new(format))
            .await
            .unwrap();
        assert!(
            speech.duration > Duration::from_millis(700),
            "{:?}",
            speech.duration
        );
        if format == SpeechFormat::Pcm {
            let expected = speech.duration.as_secs_f64() * 2.0 * f64::from(SAMPLE_RATE);
            assert!((speech.bytes.len() as f64 - expected).abs() < 2_000.0);
            continue;
        }
        let path = scratch.file(format.as_str());
        std::fs::write(&path, &speech.bytes).unwrap();
        let probe = tools.probe(&path).await.unwrap();
        let audio = probe.audio.unwrap();
        let codec = match format {
            SpeechFormat::Wav => "pcm_s16le",
            other => other.as_str(),
        };
        assert_eq!((audio.codec.as_str(), audio.channels), (codec, 1), "{format:?}");
        assert_eq!(audio.sample_rate, format.sample_rate(), "{format:?}");
        let apart = probe.duration.abs_diff(speech.duration);
        assert!(apart < Duration::from_millis(200), "{format:?}: {apart:?}");
    }
}

#[tokio::test]
async fn lossless_formats_contain_samples_unchanged() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let samples: Vec<u8> = (0..48_000_u32)
        .map(|at| (at.wrapping_mul(40_503) >> 7) as u8)
        .collect();
    for format in [SpeechFormat::Wav, SpeechFormat::Flac] {
        let file = tools.encode_samples(&samples, format, Some("a=b")).await.unwrap();
        let path = scratch.file(format.as_str());
        std::fs::write(&path, &file).unwrap();
        let probe = tools.probe(&path).await.unwrap();
        assert_eq!(probe.comment.as_deref(), Some("a=b"), "{format:?}");
        assert_eq!(probe.duration, Duration::from_secs(1), "{format:?}");
        assert_eq!(tools.decode_samples(&path).await.unwrap(), samples, "{format:?}");
    }
    let raw = tools.encode_samples(&samples, SpeechFormat::Pcm, None).await;
    assert_eq!(raw.unwrap(), samples);
}

#[tokio::test]
async fn speed_shortens_the_audio() {
    let mut lengths = Vec::new();
    for speed in [0.25, 0.5, 1.0, 2.0, 4.0] {
        let speech = speak("One two three four five six seven.", &at_speed(speed))
            .await
            .unwrap();
        lengths.push(speech.duration);
    }
    assert!(lengths.is_sorted_by(|a, b| a > b), "{lengths:?}");
    assert!(
        lengths[0] > lengths[2] * 2 && lengths[4] * 2 < lengths[2],
        "{lengths:?}"
    );
}

#[tokio::test]
async fn raw_samples_need_ffmpeg_only_for_extreme_speeds() {
    let paths = crate::tools::ToolPaths {
        ffmpeg: Some("/missing".into()),
        ..Default::default()
    };
    let tools = Tools::at(&paths);
    for (speed, is_possible) in [(1.0, true), (0.5, true), (2.5, true), (0.25, false), (4.0, false)] {
        let spec = SpeechSpec {
            speed,
            ..SpeechSpec::new(SpeechFormat::Pcm)
        };
        match tools.speak("Good morning, harbour.", &spec).await {
            Ok(speech) => {
                assert!(is_possible, "{speed}");
                let seconds = speech.bytes.len() as f64 / 2.0 / f64::from(SAMPLE_RATE);
                assert!((seconds - speech.duration.as_secs_f64()).abs() < 0.001, "{speed}");
            }
            Err(Error::Missing(Program::Ffmpeg)) => assert!(!is_possible, "{speed}"),
            Err(error) => panic!("{speed}: {error}"),
        }
    }
}

#[test]
fn resampling_retains_a_tone() {
    let tone = |rate: u32, at: u32| {
        let turns = 440.0 * f64::from(at) / f64::from(rate);
        (10_000.0 * (turns * std::f64::consts::TAU).sin()) as i16
    };
    let mut file = vec![0; WAV_HEADER_BYTES];
    file.extend((0..ESPEAK_RATE).flat_map(|at| tone(ESPEAK_RATE, at).to_le_bytes()));
    let resampled = resample(&file);
    assert_eq!(resampled.len(), 2 * SAMPLE_RATE as usize);
    for (at, pair) in (0..).zip(resampled.chunks_exact(2)).skip(2).take(23_900) {
        let sample = i16::from_le_bytes([pair[0], pair[1]]);
        assert!(sample.abs_diff(tone(SAMPLE_RATE, at)) < 20, "{at}");
    }
}

#[tokio::test]
async fn texts_are_never_options() {
    for text in [
        "--help",
        "-v nonsense",
        "-w /dev/null",
        "\u{0}\u{7}hello",
        "[[hello]] <speak>you</speak>",
    ] {
        let speech = speak(text, &at_speed(1.0)).await.unwrap();
        assert!(
            speech.duration > Duration::from_millis(200),
            "{text}: {:?}",
            speech.duration
        );
    }
}

#[tokio::test]
async fn unspeakable_texts_are_rejected() {
    for text in ["", " \n", "…!?"] {
        let refused = speak(text, &at_speed(1.0)).await;
        assert!(matches!(refused, Err(Error::Input(_))), "{text}: {refused:?}");
    }
    let long = speak(&"a".repeat(MAX_CHARS + 1), &at_speed(1.0)).await;
    assert!(matches!(long, Err(Error::TooLarge(_))));
    for speed in [0.2, 4.1, f64::NAN] {
        assert!(matches!(speak("a", &at_speed(speed)).await, Err(Error::Input(_))));
    }
    for voice in ["", "-h", "+f3", "../../x", "nobody", "en us"] {
        let spec = SpeechSpec {
            voice: voice.to_owned(),
            ..at_speed(1.0)
        };
        let refused = speak("a", &spec).await;
        assert!(matches!(refused, Err(Error::Input(_))), "{voice}: {refused:?}");
    }
}

#[tokio::test]
async fn voices_differ() {
    let mut heard = Vec::new();
    for voice in ["en-us", "de", "en-us+f3"] {
        let spec = SpeechSpec {
            voice: voice.to_owned(),
            ..at_speed(1.0)
        };
        heard.push(speak("hello", &spec).await.unwrap().bytes);
    }
    assert_ne!(heard[0], heard[1]);
    assert_ne!(heard[0], heard[2]);
}

#[tokio::test]
async fn notes_are_read_back_unchanged() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let mixed = "-y -i /etc/passwd a=b;c#d\\e\nf „ü“ 🌍";
    let notes = [mixed, &"x".repeat(22_000)];
    for format in SpeechFormat::ALL {
        if format == SpeechFormat::Pcm {
            continue;
        }
        for note in notes {
            let spec = SpeechSpec {
                note: Some(note.to_owned()),
                ..SpeechSpec::new(format)
            };
            let path = scratch.file(format.as_str());
            std::fs::write(&path, speak("Hello.", &spec).await.unwrap().bytes).unwrap();
            let found = tools.probe(&path).await.unwrap().comment;
            assert_eq!(found.as_deref(), Some(note), "{format:?}");
        }
    }
}
