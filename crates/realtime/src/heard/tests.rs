use proptest::prelude::*;

use super::*;

fn timed(words: &[(&str, f64, f64)]) -> Vec<TimedWord> {
    words
        .iter()
        .map(|(word, start, end)| ((*word).to_owned(), *start, *end))
        .collect()
}

#[track_caller]
fn check(heard: &Heard, cases: &[(u64, &str)]) {
    for (played_ms, expected) in cases {
        assert_eq!(heard.heard_text(played_ms * 1_000), *expected, "{played_ms} ms");
    }
}

#[test]
fn words_are_estimated_by_their_letters() {
    let mut heard = Heard::default();
    heard.add("One, two — three!", 1_100_000, None);
    heard.add(" Fourth", 600_000, None);
    assert_eq!(
        (heard.text(), heard.total_us()),
        ("One, two — three! Fourth", 1_700_000)
    );
    check(
        &heard,
        &[
            (0, ""),
            (149, ""),
            (150, "One,"),
            (449, "One,"),
            (450, "One, two"),
            (600, "One, two —"),
            (849, "One, two —"),
            (850, "One, two — three!"),
            (1_399, "One, two — three!"),
            (1_400, "One, two — three! Fourth"),
            (9_000, "One, two — three! Fourth"),
        ],
    );
}

#[test]
fn times_of_the_model_win() {
    let mut heard = Heard::default();
    let words = timed(&[("It", 0.0, 0.2), ("'s", 0.2, 0.3), (" late", 0.8, 1.2)]);
    heard.add("It's late.", 1_500_000, Some(&words));
    let end = [
        (99, ""),
        (100, "It's"),
        (999, "It's"),
        (1_000, "It's late."),
        (1_500, "It's late."),
    ];
    check(&heard, &end);
    // Words that the text lacks: estimated.
    let mut heard = Heard::default();
    heard.add("aa bb", 1_000_000, Some(&timed(&[("cc", 0.0, 0.1)])));
    check(&heard, &[(249, ""), (250, "aa"), (750, "aa bb")]);
}

#[test]
fn incomplete_audio_has_not_all_words() {
    let mut heard = Heard::default();
    heard.extend(10_000);
    heard.begin("twelve chars or so");
    heard.extend(500_000);
    check(&heard, &[(510, "twelve"), (9_000, "twelve")]);
    heard.extend(400_000);
    check(&heard, &[(910, "twelve chars or")]);
    heard.end(None);
    check(&heard, &[(909, "twelve chars or so")]);
    assert_eq!(heard.total_us(), 910_000);
}

#[test]
fn playback_runs_in_real_time_and_pauses_without_audio() {
    let mut playback = Playback::default();
    assert_eq!(
        (playback.played_us(5_000), playback.is_playing(5_000)),
        (0, false)
    );
    playback.deliver(1_000, 300);
    playback.deliver(1_100, 300);
    for (now_us, played_us, is_playing) in [
        (1_000, 0, true),
        (1_100, 100, true),
        (1_599, 599, true),
        (1_600, 600, false),
        (2_000, 600, false),
    ] {
        assert_eq!(playback.played_us(now_us), played_us, "{now_us}");
        assert_eq!(playback.is_playing(now_us), is_playing, "{now_us}");
    }
    playback.deliver(2_000, 100);
    assert_eq!((playback.played_us(2_050), playback.played_us(9_000)), (650, 700));
    assert_eq!(playback.delivered_us(), 700);
}

proptest! {
    #[test]
    fn heard_text_grows_to_the_transcript(
        chunks in prop::collection::vec(("[ a-zé,.!—]{0,30}", 0_u64..3_000_000), 0..6),
        step in 1_u64..200_000,
    ) {
        let mut heard = Heard::default();
        for (text, duration_us) in &chunks {
            heard.add(text, *duration_us, None);
        }
        let total = heard.total_us();
        let mut before = 0;
        for played_us in (0..=total).step_by(usize::try_from(step).unwrap()) {
            let text = heard.heard_text(played_us);
            prop_assert!(heard.text().starts_with(text) && text.len() >= before);
            before = text.len();
        }
        prop_assert_eq!(heard.heard_text(total), heard.text());
    }

    #[test]
    fn playback_never_exceeds_the_delivery(
        deliveries in prop::collection::vec((0_u64..1_000_000, 0_u64..1_000_000), 0..20),
    ) {
        let (mut playback, mut now, mut before) = (Playback::default(), 0, 0);
        for (pause, duration) in deliveries {
            now += pause;
            prop_assert!(playback.played_us(now) >= before);
            playback.deliver(now, duration);
            before = playback.played_us(now);
            prop_assert!(before <= playback.delivered_us());
        }
    }
}
