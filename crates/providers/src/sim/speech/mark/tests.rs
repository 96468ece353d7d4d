use proptest::prelude::*;

use super::*;

/// Returns samples of noise, whose lowest bits are random.
fn noise(count: usize, seed: u64) -> Vec<i16> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 48) as i16
    };
    (0..count).map(|_| next()).collect()
}

/// Returns an utterance with this number of complete frames of the text.
fn utterance(text: &str, frames: usize) -> Vec<i16> {
    let mut samples = noise(frames * frame_samples(text), 7);
    write(&mut samples, text);
    samples
}

fn frame_samples(text: &str) -> usize {
    SYNC_BITS + 8 * (HEADER_BYTES + text.len() + CRC_BYTES)
}

#[test]
fn utterances_are_read_in_their_order() {
    /// Utterances with their numbers of frames, and the texts that are read.
    type Case = (&'static [(&'static str, usize)], &'static [&'static str]);
    let cases: [Case; 6] = [
        (&[("one", 1)], &["one"]),
        (&[("one", 40)], &["one"]),
        (&[("one", 3), ("two", 3)], &["one", "two"]),
        (&[("one", 3), ("one", 3)], &["one", "one"]),
        (&[("one", 1), ("one", 1), ("one", 1)], &["one", "one", "one"]),
        (&[("one", 2), ("two", 2), ("one", 2)], &["one", "two", "one"]),
    ];
    for (spoken, texts) in cases {
        for gap in [0, 1, 7, 1_000] {
            let mut samples = vec![0; gap];
            for (text, frames) in spoken {
                samples.extend(utterance(text, *frames));
                samples.extend(vec![0; gap]);
            }
            assert_eq!(read(&samples), texts, "{spoken:?} {gap}");
        }
    }
}

#[test]
fn a_lost_start_or_middle_leaves_one_text() {
    let (text, whole) = ("Good morning.", utterance("Good morning.", 9));
    let length = frame_samples(text);
    assert_eq!(read(&whole[3 * length + 5..]), [text], "no start");
    assert_eq!(read(&whole[..4 * length - 5]), [text], "no end");
    let mut damaged = whole;
    damaged.drain(2 * length + 9..5 * length + 40);
    assert_eq!(read(&damaged), [text], "no middle");
    assert!(read(&damaged[2..length]).is_empty(), "no complete frame");
}

#[test]
fn short_audio_is_extended_and_long_texts_are_not_written() {
    let mut samples = vec![100; 10];
    write(&mut samples, "hello");
    assert_eq!(samples.len(), frame_samples("hello"));
    assert_eq!(read(&samples), ["hello"]);
    assert!(samples[10..].iter().all(|sample| matches!(sample, 0 | 1)));
    let mut samples = vec![100; 10];
    write(&mut samples, &"x".repeat(usize::from(MAX_NUMBER) + 1));
    assert_eq!(samples, [100; 10]);
}

#[test]
fn extreme_samples_change_by_one() {
    let before = [i16::MIN, i16::MAX, -1, 0, 1].repeat(100);
    let mut samples = before.clone();
    write(&mut samples, "hello");
    let changes = before.iter().zip(&samples).map(|(a, b)| a.abs_diff(*b));
    assert_eq!(changes.max(), Some(1));
    assert_eq!(read(&samples), ["hello"]);
}

/// A frame inside a text is not read when the frame around it is cut.
#[test]
fn a_text_cannot_contain_a_frame() {
    let runs: Vec<String> = ["\u{7F}\u{10FFFF}", "\u{10FFFF}", "\u{7F}", "\u{3FFFF}\u{3F}"]
        .map(|run| run.repeat(50))
        .into();
    for text in runs {
        let whole = utterance(&text, 1);
        assert!(after_sync(&whole[SYNC_BITS..]).is_none(), "{text:?}");
    }
}

#[test]
fn false_frames_are_read_in_linear_time() {
    let false_frame = frame(1, MAX_NUMBER, "");
    let bits = false_frame
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1));
    let samples: Vec<i16> = bits.map(i16::from).collect();
    assert!(read(&samples.repeat(20_000)).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_at_any_offset(
        text in prop_oneof![".{1,40}", "\\PC{1,3000}", "[a-z ]{1,10000}"],
        before in 0..500_usize,
        after in 0..500_usize,
        frames in 1..4_usize,
    ) {
        let samples = [vec![0; before], utterance(&text, frames), vec![0; after]].concat();
        prop_assert_eq!(read(&samples), [text]);
    }

    #[test]
    fn no_cut_and_no_damage_gives_a_wrong_text(
        texts in prop::collection::vec(".{1,60}", 1..4),
        seed in any::<u64>(),
        from in 0.0..1.0_f64,
        to in 0.0..1.0_f64,
        flips in prop::collection::vec(0.0..1.0_f64, 0..40),
    ) {
        let mut samples = Vec::new();
        for text in &texts {
            samples.extend(utterance(text, 2));
            samples.extend(noise(50, seed));
        }
        let place = |part: f64| (part * samples.len() as f64) as usize;
        let (from, to) = (place(from.min(to)), place(from.max(to)));
        let flips: Vec<usize> = flips.into_iter().map(place).collect();
        for flip in flips {
            samples[flip] ^= 1;
        }
        let mut expected = texts.iter();
        for text in read(&samples[from..to]) {
            prop_assert!(texts.contains(&text), "{:?}", text);
            // A damaged utterance can be missing, but the order is the order of the utterances.
            prop_assert!(expected.any(|one| *one == text), "{:?}", text);
        }
    }

    #[test]
    fn noise_has_no_text(seed in any::<u64>()) {
        prop_assert!(read(&noise(20_000, seed)).is_empty());
    }
}
