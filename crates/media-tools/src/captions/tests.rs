use super::*;

const SIZE: Dimensions = Dimensions::new(320, 568);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns words of 300 ms each, 50 ms apart. `|` is a pause of 600 ms.
fn words(text: &str) -> Vec<Word> {
    let mut at = 0;
    let mut words = Vec::new();
    for word in text.split_whitespace() {
        if word == "|" {
            at += 600;
            continue;
        }
        words.push(Word {
            text: word.to_owned(),
            from: millis(at),
            to: millis(at + 300),
        });
        at += 350;
    }
    words
}

#[test]
fn words_are_grouped_by_sentence_and_pause() {
    for (text, per_line, lines) in [
        ("", 3, vec![]),
        ("one", 3, vec!["one"]),
        ("a b c d", 3, vec!["a b", "c d"]),
        ("a b c d e", 3, vec!["a b c", "d e"]),
        ("a b. c d e", 3, vec!["a b.", "c d e"]),
        ("he said “go!” and c", 4, vec!["he said “go!”", "and c"]),
        ("a b | c d", 4, vec!["a b", "c d"]),
        ("a, b", 1, vec!["a,", "b"]),
        ("a b", 0, vec!["a", "b"]),
        (
            "a b c d e f g h i j k l m",
            99,
            vec!["a b c d e f g", "h i j k l m"],
        ),
    ] {
        let captions = group(&words(text), per_line);
        let found: Vec<String> = captions.iter().map(Caption::line).collect();
        assert_eq!(found, lines, "{text}");
        for pair in captions.windows(2) {
            assert!(pair[0].from < pair[0].to && pair[0].to <= pair[1].from);
        }
    }
}

#[test]
fn captions_end_before_the_next_one() {
    let captions = group(&words("a b. c | d"), 3);
    let spans: Vec<(Duration, Duration)> = captions.iter().map(|one| (one.from, one.to)).collect();
    let expected = [
        // The next caption starts 50 ms after the last word.
        (millis(0), millis(700)),
        (millis(700), millis(1_400)),
        (millis(1_650), millis(2_350)),
    ];
    assert_eq!(spans, expected);
}

#[test]
fn names_are_read_back() {
    for style in CaptionStyle::ALL {
        assert_eq!(CaptionStyle::parse(style.as_str()), Some(style));
    }
    for position in CaptionPosition::ALL {
        assert_eq!(CaptionPosition::parse(position.as_str()), Some(position));
    }
    assert_eq!(
        (CaptionStyle::parse("Plain"), CaptionPosition::parse("")),
        (None, None)
    );
}

#[test]
fn subtitles_are_written() {
    let captions = [
        Caption::of(
            " Tom & <b>Jerry</b>\n\nrun --> away ",
            Duration::ZERO,
            Duration::from_micros(1_234_500),
        ),
        Caption::of("ü", millis(3_723_005), Duration::from_secs(90_000)),
    ];
    assert_eq!(
        srt(&captions),
        "1\n00:00:00,000 --> 00:00:01,235\nTom & <b>Jerry</b> run -> away\n\n\
         2\n01:02:03,005 --> 25:00:00,000\nü\n\n"
    );
    assert_eq!(
        vtt(&captions),
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.235\nTom &amp; &lt;b>Jerry&lt;/b> run -> away\n\n\
         01:02:03.005 --> 25:00:00.000\nü\n\n"
    );
    assert_eq!((srt(&[]), vtt(&[])), (String::new(), "WEBVTT\n\n".to_owned()));
}

fn events(captions: &[Caption], style: CaptionStyle) -> Vec<String> {
    let text = ass(captions, style, CaptionPosition::Bottom, SIZE);
    let events = text.lines().filter(|line| line.starts_with("Dialogue: "));
    events.map(str::to_owned).collect()
}

#[test]
fn spoken_words_are_highlighted() {
    let captions = group(&words("Good morning. | Harbour"), 3);
    assert_eq!(
        events(&captions, CaptionStyle::Karaoke),
        [
            "Dialogue: 0,0:00:00.00,0:00:00.35,Caption,,0,0,0,,{\\c&H33D6FF&}Good{\\c&HFFFFFF&} morning.",
            "Dialogue: 0,0:00:00.35,0:00:01.05,Caption,,0,0,0,,Good {\\c&H33D6FF&}morning.{\\c&HFFFFFF&}",
            "Dialogue: 0,0:00:01.30,0:00:02.00,Caption,,0,0,0,,{\\c&H33D6FF&}Harbour{\\c&HFFFFFF&}",
        ]
    );
    assert_eq!(
        events(&captions, CaptionStyle::Plain),
        [
            "Dialogue: 0,0:00:00.00,0:00:01.05,Caption,,0,0,0,,Good morning.",
            "Dialogue: 0,0:00:01.30,0:00:02.00,Caption,,0,0,0,,Harbour",
        ]
    );
}

#[test]
fn texts_are_escaped() {
    let text = "{\\fs200}\\N\u{7}\r\nDialogue: 0,0:00:00.00,9:00:00.00,Caption,,0,0,0,,x \\{\\an8\\}";
    let captions = [Caption::of(text, Duration::ZERO, millis(500))];
    let events = events(&captions, CaptionStyle::Plain);
    let [event] = events.as_slice() else {
        panic!("{events:?}");
    };
    let (_, escaped_line) = event.split_once(",,0,0,0,,").unwrap();
    // The word is too wide for the video, so its only command sets the font size.
    let (command, escaped_line) = escaped_line.split_once('}').unwrap();
    assert!(command.starts_with("{\\fs"), "{command}");
    let letters: Vec<char> = escaped_line.chars().collect();
    for (place, letter) in letters.iter().enumerate() {
        match letter {
            '{' | '}' => assert_eq!(letters[place - 1], '\\'),
            '\\' => assert!(['{', '}', UNSEEN].contains(&letters[place + 1])),
            letter => assert!(!letter.is_control()),
        }
    }
}

#[test]
fn words_that_are_too_wide_are_smaller() {
    for (word, is_smaller) in [
        ("harbour", false),
        ("Donaudampfschifffahrtsgesellschaft", true),
        ("港口每天早上", false),
        ("港口每天早上港口每天早上港口", true),
    ] {
        let captions = [Caption::of(word, Duration::ZERO, millis(500))];
        let event = events(&captions, CaptionStyle::Plain).concat();
        assert_eq!(event.contains("{\\fs"), is_smaller, "{event}");
    }
}

#[test]
fn captions_avoid_player_controls() {
    let captions = [Caption::of("a", Duration::ZERO, millis(500))];
    let style = |position, size| {
        let text = ass(&captions, CaptionStyle::Plain, position, size);
        let line = text.lines().find(|line| line.starts_with("Style: ")).unwrap();
        let fields: Vec<String> = line.split(',').map(str::to_owned).collect();
        (fields[18].clone(), fields[21].clone())
    };
    let (upright, wide) = (Dimensions::new(1_080, 1_920), Dimensions::new(1_920, 1_080));
    for (position, size, alignment, margin) in [
        (CaptionPosition::Bottom, upright, "2", "422"),
        (CaptionPosition::Top, upright, "8", "230"),
        (CaptionPosition::Middle, upright, "5", "153"),
        (CaptionPosition::Bottom, wide, "2", "86"),
    ] {
        let expected = (alignment.to_owned(), margin.to_owned());
        assert_eq!(style(position, size), expected, "{position:?}");
    }
}
