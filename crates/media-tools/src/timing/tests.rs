use crate::speech::{SpeechFormat, SpeechSpec};

use super::*;

#[test]
fn texts_are_split_into_words() {
    for (text, words) in [
        ("", vec![]),
        (" – a  b – c !", vec!["–", "a", "b –", "c !"]),
        ("\"It's 5 a.m.\"", vec!["\"It's", "5", "a.m.\""]),
        (
            "每天早上，港口都醒来了。好",
            vec!["每天早上，", "港口都醒来了。", "好"],
        ),
    ] {
        assert_eq!(tokens(text), words, "{text}");
    }
}

#[test]
fn time_is_divided_by_letters_and_marks() {
    let whole = Duration::from_secs(4);
    let words = spread("Good morning, harbour. It is five.", whole);
    assert_eq!(words.len(), 6);
    assert_eq!((words[0].from, words[5].to), (Duration::ZERO, whole));
    for pair in words.windows(2) {
        assert!(
            pair[0].from < pair[0].to && pair[0].to <= pair[1].from,
            "{pair:?}"
        );
    }
    let pause = |place: usize| words[place + 1].from - words[place].to;
    assert!(pause(2) > pause(1) && pause(1) > pause(0) && pause(0).is_zero());
    assert_eq!(spread("", whole), []);
    assert_eq!(spread("–", whole)[0].to, whole);
}

/// The timed words are those of the text, do not overlap, and start and end with the audible part
/// of the file.
#[tokio::test]
async fn words_are_timed_by_audio() {
    let tools = Tools::find();
    let texts = [
        (
            "en-us",
            "Every morning, the harbour wakes up. One of the fishermen said: it's $3.50!",
        ),
        (
            "de",
            "Jeden Morgen erwacht der Hafen. Das kostet 3,50 € – oder etwa nicht?",
        ),
        (
            "fr-fr+f3",
            "Chaque matin, le port s'éveille. Il n'y a pas d'amis.",
        ),
        ("cmn", "每天早上，港口都醒来了。"),
    ];
    for (voice, text) in texts {
        for speed in [0.4, 1.0, 1.3, 3.0] {
            let spec = SpeechSpec {
                voice: voice.to_owned(),
                speed,
                ..SpeechSpec::new(SpeechFormat::Wav)
            };
            let (speech, words) = tools.speak_timed(text, &spec).await.unwrap();
            let spoken: Vec<String> = words.iter().map(|word| word.text.clone()).collect();
            assert_eq!(spoken, tokens(text));
            assert!(words.iter().all(|word| word.to <= speech.duration));
            for pair in words.windows(2) {
                assert!(
                    pair[0].from <= pair[0].to && pair[0].to <= pair[1].from,
                    "{voice} {speed}: {pair:?}"
                );
            }
            // The times of the first and the last word match the audible part of the file.
            let scratch = Scratch::make().unwrap();
            let path = scratch.file("speech.wav");
            std::fs::write(&path, &speech.bytes).unwrap();
            let (first, last) = tools.silence_bounds(&path).await.unwrap();
            let apart = first
                .abs_diff(words[0].from)
                .max(last.abs_diff(words[words.len() - 1].to));
            assert!(apart < Duration::from_millis(90), "{voice} {speed}: {apart:?}");
        }
    }
}

#[tokio::test]
async fn pauses_separate_words() {
    // The silence after a sentence contains no word.
    let text = "One. Three hundred and four. Five.";
    let spec = SpeechSpec::new(SpeechFormat::Wav);
    let (speech, words) = Tools::find().speak_timed(text, &spec).await.unwrap();
    let data = speech.bytes.windows(4).position(|four| four == b"data").unwrap();
    let samples = speech.bytes.slice(data + 8..);
    let loudness = |from: Duration, to: Duration| {
        let at = |moment: Duration| (moment.as_secs_f64() * 24_000.0) as usize * 2;
        mean_of_each(&samples[at(from)..at(to).min(samples.len())], 1_000_000)[0]
    };
    let pauses = [(0, 1), (4, 5)].map(|(one, next)| (words[one].to, words[next].from));
    for (from, to) in pauses {
        assert!(to - from > Duration::from_millis(250), "{from:?} {to:?}");
        assert!(loudness(from, to) < VOICE_THRESHOLD * 2);
    }
    for word in &words {
        assert!(loudness(word.from, word.to) > VOICE_THRESHOLD * 5, "{word:?}");
    }
}

#[test]
fn mismatched_takes_give_no_timing() {
    let words = tokens("one two");
    let loud = [0, 20].repeat(WINDOW * 4);
    let quiet = [0, 0].repeat(WINDOW * 4);
    assert_eq!(listen(&words, &[loud.clone(), loud.clone()]), None);
    assert_eq!(
        listen(&words, &[loud.clone(), loud.clone(), quiet[2..].to_vec()]),
        None
    );
    assert_eq!(
        listen(&words, &[quiet.clone(), quiet.clone(), quiet.clone()]),
        None
    );
    // The takes identify the third of four words, but there are two.
    assert_eq!(listen(&words, &[loud.clone(), loud.clone(), quiet.clone()]), None);
    let heard = listen(&words, &[loud.clone(), loud.clone(), loud.clone()]).unwrap();
    assert_eq!(
        (heard.len(), heard[1].to),
        (
            2,
            Duration::from_secs_f64(4.0 * WINDOW as f64 / SPOKEN_RATE as f64)
        )
    );
}

#[tokio::test]
async fn surrounding_silence_is_found() {
    let (tools, scratch) = (Tools::find(), Scratch::make().unwrap());
    let path = scratch.file("sound.wav");
    for (graph, from, to) in [
        ("sine=f=300:d=1,adelay=700:all=1,apad=pad_dur=0.5", 700, 1_700),
        ("sine=f=300:d=1", 0, 1_000),
        ("anullsrc=r=48000,atrim=duration=2", 0, 2_000),
    ] {
        let run = Run::new(Program::Ffmpeg, TIMEOUT)
            .args(["-f", "lavfi", "-i", graph])
            .file(&path);
        tools.run(run).await.unwrap();
        let (first, last) = tools.silence_bounds(&path).await.unwrap();
        let near = |found: Duration, millis| {
            found.abs_diff(Duration::from_millis(millis)) <= Duration::from_millis(20)
        };
        assert!(near(first, from) && near(last, to), "{graph}: {first:?} {last:?}");
    }
}
