//! Captions: words with the times at which they are spoken, in groups, and written as SubRip, as WebVTT, and as ASS, which is
//! drawn into films.

use std::fmt::Write;
use std::time::Duration;

use crate::picture::Dimensions;
use crate::tools::FONT;

/// A pause of this length ends a caption.
const PAUSE: Duration = Duration::from_millis(500);
/// How long a caption is still read after its last word.
const LINGER: Duration = Duration::from_millis(400);
/// The most words of a line.
const MOST_WORDS: u32 = 12;
/// How wide a letter is, in sizes of the font: on average with some room, and for scripts whose letters are squares.
const LETTER: f64 = 0.68;
const SQUARE: f64 = 1.0;
/// The word that is spoken, in the order blue, green, red.
const SPOKEN: &str = "&H33D6FF&";
/// The others.
const UNSPOKEN: &str = "&HFFFFFF&";
/// A character that is not seen (WORD JOINER). Behind a backslash it keeps the two from being a command.
const UNSEEN: char = '\u{2060}';

/// A word, or what else stands between blanks, and when it is spoken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// As it is written, with its punctuation.
    pub text: String,
    /// When it begins.
    pub from: Duration,
    /// When it ends.
    pub to: Duration,
}

/// Words that are seen together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caption {
    /// When it is first seen.
    pub from: Duration,
    /// When it is gone.
    pub to: Duration,
    /// In the order in which they are spoken.
    pub words: Vec<Word>,
}

impl Caption {
    /// A caption of one text, whose words have no times.
    pub fn of(text: &str, from: Duration, to: Duration) -> Self {
        let text = text.to_owned();
        Self {
            from,
            to,
            words: vec![Word { text, from, to }],
        }
    }

    /// What is said, in one line: an empty one would end it, and an arrow would begin another.
    fn line(&self) -> String {
        let words = self.words.iter().flat_map(|word| word.text.split_whitespace());
        words.collect::<Vec<&str>>().join(" ").replace("-->", "->")
    }
}

/// How captions look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CaptionStyle {
    /// White with an outline; the word that is spoken is yellow.
    Karaoke,
    /// White with an outline.
    Plain,
    /// White on a dark box.
    Boxed,
}

impl CaptionStyle {
    /// Every style.
    pub const ALL: [CaptionStyle; 3] = [CaptionStyle::Karaoke, CaptionStyle::Plain, CaptionStyle::Boxed];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            CaptionStyle::Karaoke => "karaoke",
            CaptionStyle::Plain => "plain",
            CaptionStyle::Boxed => "boxed",
        }
    }

    /// The style of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|style| style.as_str() == name)
    }
}

/// Where captions stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CaptionPosition {
    /// Below what players show above.
    Top,
    /// In the middle.
    Middle,
    /// Above what players show below.
    Bottom,
}

impl CaptionPosition {
    /// Every position.
    pub const ALL: [CaptionPosition; 3] = [
        CaptionPosition::Top,
        CaptionPosition::Middle,
        CaptionPosition::Bottom,
    ];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            CaptionPosition::Top => "top",
            CaptionPosition::Middle => "middle",
            CaptionPosition::Bottom => "bottom",
        }
    }

    /// The position of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|position| position.as_str() == name)
    }

    /// As ASS counts: as on a keypad.
    const fn alignment(self) -> u8 {
        match self {
            CaptionPosition::Top => 8,
            CaptionPosition::Middle => 5,
            CaptionPosition::Bottom => 2,
        }
    }

    /// Pixels to the edge. Players of upright films show much of their own there.
    fn margin(self, size: Dimensions) -> u32 {
        let percent = match (self, size.height > size.width) {
            (CaptionPosition::Top, true) => 12,
            (CaptionPosition::Bottom, true) => 22,
            _ => 8,
        };
        size.height * percent / 100
    }
}

/// Captions of at most so many words, 1 to 12. Sentences and pauses end them, and the words of a sentence are divided
/// evenly. Each is seen until a little after its last word, or until the next one.
pub fn group(words: &[Word], per_line: u32) -> Vec<Caption> {
    let per_line = per_line.clamp(1, MOST_WORDS) as usize;
    let is_break = |one: &Word, next: &Word| ends_sentence(&one.text) || next.from >= one.to + PAUSE;
    let mut captions: Vec<Caption> = Vec::new();
    for phrase in words.chunk_by(|one, next| !is_break(one, next)) {
        let lines = phrase.len().div_ceil(per_line);
        let mut rest = phrase;
        for line in (1..=lines).rev() {
            let (words, after) = rest.split_at(rest.len().div_ceil(line));
            rest = after;
            if let (Some(first), Some(last)) = (words.first(), words.last()) {
                captions.push(Caption {
                    from: first.from,
                    to: last.to + LINGER,
                    words: words.to_vec(),
                });
            }
        }
    }
    let starts: Vec<Duration> = captions.iter().skip(1).map(|caption| caption.from).collect();
    for (caption, next) in captions.iter_mut().zip(starts) {
        caption.to = caption.to.min(next);
    }
    captions
}

/// Whether a sentence, or a part of one that is read by itself, ends here.
pub(crate) fn ends_sentence(word: &str) -> bool {
    let bare = word.trim_end_matches(['"', '\'', ')', ']', '”', '’', '»', '“', '」', '』']);
    bare.ends_with([
        '.', '!', '?', '…', ':', ';', '。', '！', '？', '：', '；', '।', '؟',
    ])
}

/// As SubRip has them.
pub fn srt(captions: &[Caption]) -> String {
    let mut text = String::new();
    for (number, caption) in (1..).zip(captions) {
        let (from, to) = (time(caption.from, ','), time(caption.to, ','));
        // A text takes everything that is written.
        let _ = write!(text, "{number}\n{from} --> {to}\n{}\n\n", caption.line());
    }
    text
}

/// As browsers read them (WebVTT).
pub fn vtt(captions: &[Caption]) -> String {
    let mut text = "WEBVTT\n\n".to_owned();
    for caption in captions {
        let (from, to) = (time(caption.from, '.'), time(caption.to, '.'));
        let said = caption.line().replace('&', "&amp;").replace('<', "&lt;");
        let _ = write!(text, "{from} --> {to}\n{said}\n\n");
    }
    text
}

/// `01:02:03,004`.
fn time(moment: Duration, point: char) -> String {
    let millis = (moment.as_nanos() + 500_000) / 1_000_000;
    let (hours, minutes) = (millis / 3_600_000, millis / 60_000 % 60);
    let (seconds, rest) = (millis / 1_000 % 60, millis % 1_000);
    format!("{hours:02}:{minutes:02}:{seconds:02}{point}{rest:03}")
}

/// As libass draws them into a film of this size (Advanced SubStation Alpha). Whatever the words are, they are seen and are
/// no commands.
pub fn ass(captions: &[Caption], style: CaptionStyle, position: CaptionPosition, size: Dimensions) -> String {
    let letters = font_size(size);
    let (border, outline, shadow) = match style {
        // One box for all lines, as far beyond them as their shadow.
        CaptionStyle::Boxed => (4, 0, letters * 2 / 9),
        _ => (1, letters.div_ceil(11), 0),
    };
    let (side, edge) = (size.width * 7 / 100, position.margin(size));
    let alignment = position.alignment();
    let Dimensions { width, height } = size;
    let mut text = format!(
        "[Script Info]\nScriptType: v4.00+\nPlayResX: {width}\nPlayResY: {height}\nWrapStyle: 0\n\
         ScaledBorderAndShadow: yes\n\n[V4+ Styles]\nFormat: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, \
         OutlineColour, BackColour, Bold, Italic, Underline, StrikeOut, ScaleX, ScaleY, Spacing, Angle, BorderStyle, \
         Outline, Shadow, Alignment, MarginL, MarginR, MarginV, Encoding\n\
         Style: Caption,{FONT},{letters},&H00FFFFFF,&H00FFFFFF,&H00000000,&H60000000,-1,0,0,0,100,100,0,0,{border},\
         {outline},{shadow},{alignment},{side},{side},{edge},1\n\n[Events]\n\
         Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n"
    );
    for caption in captions {
        let words: Vec<String> = caption.words.iter().map(|word| escaped(&word.text)).collect();
        let smaller = smaller(&caption.words, letters, width - 2 * side);
        for (spoken, from, to) in looks(caption, style) {
            let (from, to) = (centis(from), centis(to));
            if from >= to {
                continue;
            }
            let line: Vec<String> = words
                .iter()
                .enumerate()
                .map(|(place, word)| match Some(place) == spoken {
                    true => format!("{{\\c{SPOKEN}}}{word}{{\\c{UNSPOKEN}}}"),
                    false => word.clone(),
                })
                .collect();
            let (from, to) = (clock(from), clock(to));
            let _ = writeln!(
                text,
                "Dialogue: 0,{from},{to},Caption,,0,0,0,,{smaller}{}",
                line.join(" ")
            );
        }
    }
    text
}

/// How a caption looks when: which of its words is lit, and from when until when.
fn looks(caption: &Caption, style: CaptionStyle) -> Vec<(Option<usize>, Duration, Duration)> {
    if style != CaptionStyle::Karaoke || caption.words.is_empty() {
        return vec![(None, caption.from, caption.to)];
    }
    let starts = caption.words.iter().skip(1).map(|word| word.from);
    let ends = starts.chain([caption.to]).map(|end| end.min(caption.to));
    let mut looks = Vec::new();
    let mut begun = caption.from;
    for (place, end) in ends.enumerate() {
        looks.push((Some(place), begun, end));
        begun = begun.max(end);
    }
    looks
}

/// How high letters are: readable on a telephone, and about three words are as wide as an upright film.
fn font_size(size: Dimensions) -> u32 {
    let Dimensions { width, height } = size;
    (width.min(height) * 15 / 200).max(8)
}

/// The command that makes letters smaller when a word is wider than the film; else nothing.
fn smaller(words: &[Word], letters: u32, room: u32) -> String {
    let width = |letter| match is_square(letter) {
        true => SQUARE,
        false => LETTER,
    };
    let words = words.iter().map(|word| word.text.chars().map(width).sum::<f64>());
    let wide = words.fold(0.0, f64::max) * f64::from(letters);
    match wide > f64::from(room) {
        true => format!(
            "{{\\fs{}}}",
            (f64::from(letters) * f64::from(room) / wide).max(4.0) as u32
        ),
        false => String::new(),
    }
}

/// Whether a letter is of a script whose letters are squares, and which has no blanks.
pub(crate) const fn is_square(letter: char) -> bool {
    matches!(letter as u32, 0x2E80..=0xA4CF | 0xF900..=0xFAFF | 0xFE30..=0xFE4F | 0xFF00..=0xFF60 | 0x2_0000..=0x3_FFFF)
}

/// A text that is no command, in one line.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.split_whitespace().collect::<Vec<&str>>().join(" ").chars() {
        match letter {
            '\\' => escaped.extend(['\\', UNSEEN]),
            '{' | '}' => escaped.extend(['\\', letter]),
            letter if letter.is_control() => {}
            letter => escaped.push(letter),
        }
    }
    escaped
}

fn centis(moment: Duration) -> u128 {
    (moment.as_millis() + 5) / 10
}

/// `1:02:03.45`.
fn clock(centis: u128) -> String {
    let (hours, minutes) = (centis / 360_000, centis / 6_000 % 60);
    let (seconds, rest) = (centis / 100 % 60, centis % 100);
    format!("{hours}:{minutes:02}:{seconds:02}.{rest:02}")
}

#[cfg(test)]
mod tests;
