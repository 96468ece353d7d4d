use std::io::Write as _;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::*;
use crate::audio::{Resampler, pcm};

const RATE: u32 = 16_000;

/// Returns a buzz like the vowel of "see": harmonics of 120 Hz, shaped by three formants.
fn buzz(ms: u64) -> Vec<i16> {
    const FORMANTS: [(f64, f64); 3] = [(300.0, 1.0), (2_200.0, 0.5), (3_000.0, 0.25)];
    let gain = |hz: f64| -> f64 {
        let near = |(center, level): (f64, f64)| level / (1.0 + ((hz - center) / 80.0).powi(2));
        FORMANTS.into_iter().map(near).sum::<f64>() + 0.02
    };
    let harmonics: Vec<(f64, f64)> = (1..=30)
        .map(|n| 120.0 * f64::from(n))
        .map(|hz| (hz, gain(hz)))
        .collect();
    let sample = |n: usize| -> f64 {
        let angle = std::f64::consts::TAU * n as f64 / f64::from(RATE);
        harmonics.iter().map(|(hz, gain)| (angle * hz).sin() * gain).sum()
    };
    (0..pcm::samples_in_ms(ms, RATE))
        .map(|n| (sample(n) * 6_000.0) as i16)
        .collect()
}

fn silence(ms: u64) -> Vec<i16> {
    vec![0; pcm::samples_in_ms(ms, RATE)]
}

/// Returns white noise with the given root mean square.
fn noise(samples: usize, rms: f64) -> Vec<i16> {
    let mut state = 1_u64;
    let mut next = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / f64::from(u32::MAX >> 1) - 0.5
    };
    // The variance of the uniform distribution is 1/12.
    (0..samples)
        .map(|_| (next() * rms * 12_f64.sqrt()) as i16)
        .collect()
}

fn events(settings: VadSettings, samples: &[i16]) -> Vec<VadEvent> {
    let mut vad = ServerVad::new(settings, 0);
    samples.chunks(777).flat_map(|chunk| vad.push(chunk)).collect()
}

/// Returns start and end of the speech of all turns, without padding.
fn turns(events: &[VadEvent]) -> Vec<(u64, u64)> {
    let starts = events.iter().filter_map(|event| match event {
        VadEvent::Started { at_ms } => Some(*at_ms),
        _ => None,
    });
    let ends = events.iter().filter_map(|event| match event {
        VadEvent::Stopped { speech_end_ms, .. } => Some(*speech_end_ms),
        _ => None,
    });
    starts.zip(ends).collect()
}

/// Returns settings without padding, so that turns begin with their speech.
fn unpadded() -> VadSettings {
    VadSettings {
        prefix_padding_ms: 0,
        ..VadSettings::default()
    }
}

#[track_caller]
fn assert_near(found: &[(u64, u64)], expected: &[(u64, u64)], case: &str) {
    let is_near = |(one, other): (&(u64, u64), &(u64, u64))| {
        one.0.abs_diff(other.0) <= 200 && one.1.abs_diff(other.1) <= 200
    };
    let is_equal = found.len() == expected.len() && found.iter().zip(expected).all(is_near);
    assert!(is_equal, "{case}: {found:?}, expected {expected:?}");
}

#[test]
fn buzzes_are_turns() {
    let audio = [silence(500), buzz(900), silence(1_000), buzz(600), silence(900)].concat();
    assert_near(
        &turns(&events(unpadded(), &audio)),
        &[(500, 1_400), (2_400, 3_000)],
        "two buzzes",
    );
}

#[test]
fn silence_and_noise_are_no_turns() {
    assert_eq!(events(VadSettings::default(), &silence(5_000)), []);
    for rms in [3.0, 30.0, 300.0] {
        assert_eq!(
            events(VadSettings::default(), &noise(80_000, rms)),
            [],
            "noise of {rms}"
        );
    }
}

/// Frames with a score each.
const SPEECH: f32 = 0.9;
const BETWEEN: f32 = 0.67;
const QUIET: f32 = 0.1;

fn run(turns: &mut Turns, frames: &[(u64, f32)]) -> Vec<VadEvent> {
    let mut events = Vec::new();
    for (count, score) in frames {
        for _ in 0..*count {
            turns.advance(*score, &mut events);
        }
    }
    events
}

#[test]
fn turns_begin_with_padding_and_end_after_silence() {
    let mut turns = Turns::new(VadSettings::default(), 0);
    let frames = [
        (50, QUIET),
        (3, SPEECH),
        (1, QUIET),
        (10, SPEECH),
        (13, QUIET),
        (1, SPEECH),
        (28, QUIET),
    ];
    let expected = [
        VadEvent::Started {
            at_ms: 864 - 64 - 300,
        },
        VadEvent::Quiet { at_ms: 960 + 208 },
        VadEvent::Resumed { at_ms: 1_248 },
        VadEvent::Quiet { at_ms: 1_184 + 208 },
        VadEvent::Stopped {
            at_ms: 1_184 + 512,
            speech_end_ms: 1_184,
        },
    ];
    assert_eq!(run(&mut turns, &frames), expected);
    // Padding does not reach into the previous turn, which ended just before.
    assert_eq!(
        run(&mut turns, &[(4, SPEECH)]),
        [VadEvent::Started { at_ms: 1_696 }]
    );
    // Nor before the first sample.
    let mut turns = Turns::new(VadSettings::default(), 100);
    assert_eq!(
        run(&mut turns, &[(4, SPEECH)]),
        [VadEvent::Started { at_ms: 100 }]
    );
}

#[test]
fn continuing_speech_may_be_weaker() {
    let mut turns = Turns::new(VadSettings::default(), 0);
    assert_eq!(run(&mut turns, &[(20, BETWEEN)]), []);
    let events = run(
        &mut turns,
        &[(1, SPEECH), (50, BETWEEN), (1, QUIET), (50, BETWEEN)],
    );
    let end_ms = 71 * 16 - 64;
    let expected = [
        VadEvent::Started { at_ms: 0 },
        VadEvent::Quiet { at_ms: end_ms + 208 },
        VadEvent::Stopped {
            at_ms: end_ms + 512,
            speech_end_ms: end_ms,
        },
    ];
    assert_eq!(events, expected);
}

#[test]
fn replies_need_more_speech_to_interrupt() {
    let mut turns = Turns::new(unpadded(), 0);
    turns.is_output_playing = true;
    assert_eq!(run(&mut turns, &[(11, SPEECH), (1, QUIET), (11, SPEECH)]), []);
    assert_eq!(
        run(&mut turns, &[(1, SPEECH)]),
        [VadEvent::Started { at_ms: 192 - 64 }]
    );
}

#[test]
fn turns_end_after_a_minute() {
    let mut turns = Turns::new(unpadded(), 0);
    let expected = [
        VadEvent::Started { at_ms: 0 },
        VadEvent::Stopped {
            at_ms: 60_000,
            speech_end_ms: 59_936,
        },
        VadEvent::Started { at_ms: 60_000 },
    ];
    assert_eq!(run(&mut turns, &[(3_754, SPEECH)]), expected);
}

#[test]
fn silence_of_a_turn_can_change() {
    let settings = VadSettings {
        silence_duration_ms: 4_000,
        ..unpadded()
    };
    let mut turns = Turns::new(settings, 0);
    let events = run(&mut turns, &[(4, SPEECH), (13, QUIET)]);
    assert_eq!(
        events,
        [VadEvent::Started { at_ms: 0 }, VadEvent::Quiet { at_ms: 208 }]
    );
    turns.speech.as_mut().unwrap().silence_ms = Some(304);
    // Speech restores the settings' value.
    assert_eq!(run(&mut turns, &[(1, SPEECH), (20, QUIET)]).len(), 2);
    turns.speech.as_mut().unwrap().silence_ms = Some(400);
    let stopped = VadEvent::Stopped {
        at_ms: 624,
        speech_end_ms: 224,
    };
    assert_eq!(run(&mut turns, &[(1, QUIET)]), [stopped]);
    // A silence below 200 ms is reported before the turn ends.
    turns.settings.silence_duration_ms = 100;
    let events = run(&mut turns, &[(4, SPEECH), (3, QUIET)]);
    assert!(matches!(
        events[1..],
        [
            VadEvent::Quiet { at_ms: 736 },
            VadEvent::Stopped { at_ms: 736, .. }
        ]
    ));
}

#[test]
fn idle_timeouts_are_reported_once() {
    let settings = VadSettings {
        idle_timeout_ms: Some(5_000),
        ..VadSettings::default()
    };
    let mut vad = ServerVad::new(settings, 1_000);
    assert_eq!(vad.push(&silence(6_000)), []);
    vad.arm_idle();
    let timed_out = VadEvent::TimedOut {
        armed_ms: 7_000,
        at_ms: 12_008,
    };
    assert_eq!(vad.push(&silence(20_000)), [timed_out]);
    vad.arm_idle();
    assert_eq!(vad.push(&buzz(300)), [VadEvent::Started { at_ms: 26_652 }]);
    assert!(vad.is_speaking());
    vad.end_turn();
    assert!(!vad.is_speaking());
    assert_eq!(vad.push(&silence(6_000)), []);
    vad.arm_idle();
    vad.disarm_idle();
    assert_eq!(vad.push(&silence(6_000)), []);
}

#[test]
fn thresholds_map_to_scores() {
    for (threshold, expected) in [
        (0.0, 0.0),
        (0.25, 0.35),
        (0.5, 0.7),
        (0.75, 0.845),
        (1.0, 0.99),
        (7.0, 0.99),
    ] {
        let settings = VadSettings {
            threshold,
            ..VadSettings::default()
        };
        assert!((settings.min_score() - expected).abs() < 1e-6, "{threshold}");
    }
}

proptest! {
    #[test]
    fn turns_are_ordered(
        frames in prop::collection::vec((1_u64..60, 0.0_f32..1.0), 0..60),
        padding_ms in 0_u64..2_000,
    ) {
        let settings = VadSettings {
            prefix_padding_ms: padding_ms,
            ..VadSettings::default()
        };
        let mut turns = Turns::new(settings, 0);
        let (mut is_speaking, mut is_quiet, mut before_ms) = (false, false, 0);
        for event in run(&mut turns, &frames) {
            let at_ms = match event {
                VadEvent::Started { at_ms } => {
                    prop_assert!(!is_speaking);
                    (is_speaking, is_quiet) = (true, false);
                    at_ms
                }
                VadEvent::Quiet { at_ms } => {
                    prop_assert!(is_speaking && !is_quiet);
                    is_quiet = true;
                    at_ms
                }
                VadEvent::Resumed { at_ms } => {
                    prop_assert!(is_speaking && is_quiet);
                    is_quiet = false;
                    at_ms
                }
                VadEvent::Stopped { at_ms, speech_end_ms } => {
                    prop_assert!(is_speaking && is_quiet && at_ms >= speech_end_ms + 500);
                    is_speaking = false;
                    at_ms
                }
                VadEvent::TimedOut { .. } => 0,
            };
            prop_assert!(at_ms >= before_ms);
            before_ms = at_ms;
        }
    }
}

/// Sentences of the table, with a voice each.
const SENTENCES: [(&str, &str); 6] = [
    ("en-us", "Good morning, how are you today?"),
    ("en-us", "What is the weather like in Paris?"),
    ("en-gb", "Please set a timer for ten minutes."),
    ("de", "Wie spät ist es gerade in Berlin?"),
    ("fr", "Bonjour, je voudrais réserver une table."),
    ("es", "Buenos días, quiero comprar un billete."),
];

/// Returns a sentence spoken by espeak-ng, at 16 kHz and without silence around it.
fn speak(voice: &str, text: &str) -> Vec<i16> {
    let mut child = Command::new("espeak-ng")
        .args(["-v", voice, "--stdin", "--stdout"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("espeak-ng is not installed. Install it: apt-get install espeak-ng");
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let wav = child.wait_with_output().unwrap().stdout;
    let rate = u32::from_le_bytes(wav[24..28].try_into().unwrap());
    let samples = pcm::from_le_bytes(&wav[pcm::WAV_HEADER_BYTES..]).unwrap();
    let mut resampler = Resampler::new(rate, RATE).unwrap();
    let mut speech = resampler.push(&samples);
    speech.extend(resampler.finish());
    let is_loud = |sample: &i16| sample.unsigned_abs() > 300;
    let start = speech.iter().position(is_loud).unwrap();
    let end = speech.iter().rposition(is_loud).unwrap();
    speech[start..=end].to_vec()
}

/// Returns two utterances with pauses, and the times of their speech.
fn conversation(first: &[i16], second: &[i16]) -> (Vec<i16>, Vec<(u64, u64)>) {
    let ms = |samples: usize| pcm::duration_us(samples, RATE) / 1_000;
    let pause = silence(1_000);
    let second_start = pause.len() * 2 + first.len();
    let times = vec![
        (1_000, 1_000 + ms(first.len())),
        (ms(second_start), ms(second_start + second.len())),
    ];
    ([&pause, first, &pause, second, &pause].concat(), times)
}

#[test]
fn spoken_sentences_are_turns() {
    for index in 0..SENTENCES.len() {
        let (voice, text) = SENTENCES[index];
        let (other_voice, other_text) = SENTENCES[(index + 1) % SENTENCES.len()];
        let (audio, expected) = conversation(&speak(voice, text), &speak(other_voice, other_text));
        assert_near(&turns(&events(unpadded(), &audio)), &expected, text);
        // Noise 10 dB below the speech.
        let spoken: Vec<f64> = audio
            .iter()
            .filter(|sample| **sample != 0)
            .map(|sample| f64::from(*sample))
            .collect();
        let power = spoken.iter().map(|sample| sample * sample).sum::<f64>() / spoken.len() as f64;
        let hiss = noise(audio.len(), (power / 10.0).sqrt());
        let noisy: Vec<i16> = audio
            .iter()
            .zip(&hiss)
            .map(|(one, other)| one.saturating_add(*other))
            .collect();
        assert_near(
            &turns(&events(unpadded(), &noisy)),
            &expected,
            &format!("{text} with noise"),
        );
    }
}
