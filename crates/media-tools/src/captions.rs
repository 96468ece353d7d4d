//! Captions: groups of timed words, written as SubRip, as WebVTT, and as ASS for burning into
//! videos.

use std::fmt::Write;
use std::time::Duration;

use crate::image::Dimensions;
use crate::tools::FONT;

/// Minimum duration of a pause that ends a caption.
const PAUSE: Duration = Duration::from_millis(500);
/// Time for which a caption stays visible after its last word.
const LINGER: Duration = Duration::from_millis(400);
/// Maximum number of words of a line.
const MAX_WORDS: u32 = 12;
/// Average width of a letter with a margin, in font sizes.
const LETTER_WIDTH: f64 = 0.68;
/// Width of a letter of a script with square letters, in font sizes.
const SQUARE_LETTER_WIDTH: f64 = 1.0;
/// Color of the word being spoken, in the ASS order blue, green, red.
const SPOKEN: &str = "&H33D6FF&";
/// Color of the other words, in the same order.
const UNSPOKEN: &str = "&HFFFFFF&";
/// An invisible character (WORD JOINER). After a backslash, it prevents libass from reading an ASS
/// command.
const UNSEEN: char = '\u{2060}';

/// A word (text between blanks) and the time at which it is spoken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The word with its punctuation.
    pub text: String,
    /// Start time, from the start of the audio.
    pub from: Duration,
    /// End time, from the start of the audio.
    pub to: Duration,
}

/// Words that are shown together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caption {
    /// Time at which the caption appears.
    pub from: Duration,
    /// Time at which the caption disappears.
    pub to: Duration,
    /// Words in spoken order.
    pub words: Vec<Word>,
}

impl Caption {
    /// Creates a caption of one text without word timestamps.
    pub fn of(text: &str, from: Duration, to: Duration) -> Self {
        let text = text.to_owned();
        Self {
            from,
            to,
            words: vec![Word { text, from, to }],
        }
    }

    /// Returns the text in one line. Replaces the arrow `-->`, because an arrow or an empty line
    /// would break the subtitle format.
    fn line(&self) -> String {
        let words = self.words.iter().flat_map(|word| word.text.split_whitespace());
        words.collect::<Vec<&str>>().join(" ").replace("-->", "->")
    }
}

/// Style in which captions are burned into a video.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CaptionStyle {
    /// White letters with an outline. The word that is being spoken is yellow.
    Karaoke,
    /// White letters with an outline.
    Plain,
    /// White letters on a dark box.
    Boxed,
}

impl CaptionStyle {
    /// All styles, in declaration order.
    pub const ALL: [CaptionStyle; 3] = [CaptionStyle::Karaoke, CaptionStyle::Plain, CaptionStyle::Boxed];

    /// Returns the name of the style in requests.
    pub const fn as_str(self) -> &'static str {
        match self {
            CaptionStyle::Karaoke => "karaoke",
            CaptionStyle::Plain => "plain",
            CaptionStyle::Boxed => "boxed",
        }
    }

    /// Parses a style name; `None` if it is unknown.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|style| style.as_str() == name)
    }
}

/// Vertical position of captions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CaptionPosition {
    /// Near the top, below the players' controls.
    Top,
    /// Centered vertically in the frame.
    Middle,
    /// Near the bottom, above the players' controls.
    Bottom,
}

impl CaptionPosition {
    /// All positions, from top to bottom.
    pub const ALL: [CaptionPosition; 3] = [
        CaptionPosition::Top,
        CaptionPosition::Middle,
        CaptionPosition::Bottom,
    ];

    /// Returns the name of the position in requests.
    pub const fn as_str(self) -> &'static str {
        match self {
            CaptionPosition::Top => "top",
            CaptionPosition::Middle => "middle",
            CaptionPosition::Bottom => "bottom",
        }
    }

    /// Parses a position name; `None` if it is unknown.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|position| position.as_str() == name)
    }

    /// Returns the ASS alignment, numbered as on a numeric keypad.
    const fn alignment(self) -> u8 {
        match self {
            CaptionPosition::Top => 8,
            CaptionPosition::Middle => 5,
            CaptionPosition::Bottom => 2,
        }
    }

    /// Returns the distance to the edge in pixels. The distances at the top and the bottom are
    /// larger in portrait videos, because players show controls over the edges of portrait videos.
    fn margin(self, size: Dimensions) -> u32 {
        let percent = match (self, size.height > size.width) {
            (CaptionPosition::Top, true) => 12,
            (CaptionPosition::Bottom, true) => 22,
            _ => 8,
        };
        size.height * percent / 100
    }
}

/// Groups words into captions of at most `per_line` (1 to 12) words. Sentences and pauses end a
/// caption, and long sentences are divided evenly. A caption stays visible for 400 ms after its
/// last word, or until the next caption appears.
pub fn group(words: &[Word], per_line: u32) -> Vec<Caption> {
    let per_line = per_line.clamp(1, MAX_WORDS) as usize;
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

/// Whether the word ends a sentence or a clause.
pub(crate) fn ends_sentence(word: &str) -> bool {
    let bare = word.trim_end_matches(['"', '\'', ')', ']', '”', '’', '»', '“', '」', '』']);
    bare.ends_with([
        '.', '!', '?', '…', ':', ';', '。', '！', '？', '：', '；', '।', '؟',
    ])
}

/// Returns captions in SubRip format.
pub fn srt(captions: &[Caption]) -> String {
    let mut text = String::new();
    for (number, caption) in (1..).zip(captions) {
        let (from, to) = (time(caption.from, ','), time(caption.to, ','));
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{number}\n{from} --> {to}\n{}\n\n", caption.line());
    }
    text
}

/// Returns captions in WebVTT format.
pub fn vtt(captions: &[Caption]) -> String {
    let mut text = "WEBVTT\n\n".to_owned();
    for caption in captions {
        let (from, to) = (time(caption.from, '.'), time(caption.to, '.'));
        let escaped_line = caption.line().replace('&', "&amp;").replace('<', "&lt;");
        let _ = write!(text, "{from} --> {to}\n{escaped_line}\n\n");
    }
    text
}

/// Formats a time as `01:02:03,004`, with `point` before the milliseconds.
fn time(moment: Duration, point: char) -> String {
    let millis = (moment.as_nanos() + 500_000) / 1_000_000;
    let (hours, minutes) = (millis / 3_600_000, millis / 60_000 % 60);
    let (seconds, rest) = (millis / 1_000 % 60, millis % 1_000);
    format!("{hours:02}:{minutes:02}:{seconds:02}{point}{rest:03}")
}

/// Returns captions in ASS format (Advanced SubStation Alpha), for libass and a video of this size.
/// Words are escaped, so that libass never executes them as commands.
pub fn ass(captions: &[Caption], style: CaptionStyle, position: CaptionPosition, size: Dimensions) -> String {
    let letters = font_size(size);
    let (border, outline, shadow) = match style {
        // libass draws one box for all lines. The shadow size is the padding of the box.
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

/// Returns the appearances of a caption in their order: the highlighted word, start and end.
fn looks(caption: &Caption, style: CaptionStyle) -> Vec<(Option<usize>, Duration, Duration)> {
    if style != CaptionStyle::Karaoke || caption.words.is_empty() {
        return vec![(None, caption.from, caption.to)];
    }
    let starts = caption.words.iter().skip(1).map(|word| word.from);
    let ends = starts.chain([caption.to]).map(|end| end.min(caption.to));
    let mut looks = Vec::new();
    let mut started = caption.from;
    for (place, end) in ends.enumerate() {
        looks.push((Some(place), started, end));
        started = started.max(end);
    }
    looks
}

/// Returns the font size in pixels: 7.5 % of the shorter side, at least 8. The text is readable on
/// a phone, and about three words fill the width of a portrait video.
fn font_size(size: Dimensions) -> u32 {
    let Dimensions { width, height } = size;
    (width.min(height) * 15 / 200).max(8)
}

/// Returns the ASS command that shrinks the font if a word is wider than the available width;
/// otherwise an empty string.
fn smaller(words: &[Word], letters: u32, available_width: u32) -> String {
    let width = |letter| match is_square(letter) {
        true => SQUARE_LETTER_WIDTH,
        false => LETTER_WIDTH,
    };
    let words = words.iter().map(|word| word.text.chars().map(width).sum::<f64>());
    let wide = words.fold(0.0, f64::max) * f64::from(letters);
    match wide > f64::from(available_width) {
        true => format!(
            "{{\\fs{}}}",
            (f64::from(letters) * f64::from(available_width) / wide).max(4.0) as u32
        ),
        false => String::new(),
    }
}

/// Whether the character belongs to a script with square letters and without blanks.
pub(crate) const fn is_square(letter: char) -> bool {
    matches!(letter as u32, 0x2E80..=0xA4CF | 0xF900..=0xFAFF | 0xFE30..=0xFE4F | 0xFF00..=0xFF60 | 0x2_0000..=0x3_FFFF)
}

/// Returns the text in one line, with ASS commands escaped.
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

/// Formats a time in hundredths of a second as `1:02:03.45`.
fn clock(centis: u128) -> String {
    let (hours, minutes) = (centis / 360_000, centis / 6_000 % 60);
    let (seconds, rest) = (centis / 100 % 60, centis % 100);
    format!("{hours}:{minutes:02}:{seconds:02}.{rest:02}")
}

#[cfg(test)]
mod tests;
