//! Transcripts as subtitles.

use std::fmt::Write;

use tollgate_upstream::Segment;

/// As SubRip has them.
pub(super) fn srt(segments: &[Segment]) -> String {
    let mut text = String::new();
    for (number, segment) in (1..).zip(segments) {
        let (start, end) = (time(segment.start, ','), time(segment.end, ','));
        // A text takes everything that is written.
        let _ = write!(text, "{number}\n{start} --> {end}\n{}\n\n", line(&segment.text));
    }
    text
}

/// As browsers read them (WebVTT).
pub(super) fn vtt(segments: &[Segment]) -> String {
    let mut text = "WEBVTT\n\n".to_owned();
    for segment in segments {
        let (start, end) = (time(segment.start, '.'), time(segment.end, '.'));
        let said = line(&segment.text).replace('&', "&amp;").replace('<', "&lt;");
        let _ = write!(text, "{start} --> {end}\n{said}\n\n");
    }
    text
}

/// `01:02:03,004`.
fn time(seconds: f64, point: char) -> String {
    let millis = (seconds.max(0.0) * 1_000.0).round() as u64;
    let (hours, minutes) = (millis / 3_600_000, millis / 60_000 % 60);
    let (seconds, rest) = (millis / 1_000 % 60, millis % 1_000);
    format!("{hours:02}:{minutes:02}:{seconds:02}{point}{rest:03}")
}

/// What is said, in one line: an empty one would end it, and an arrow would begin another.
fn line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace("-->", "->")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments() -> [Segment; 2] {
        let segment = |start, end, text: &str| Segment {
            start,
            end,
            text: text.to_owned(),
            ..Segment::default()
        };
        [
            segment(0.0, 1.2345, " Tom & <b>Jerry</b>\n\nrun --> away "),
            segment(3_723.004_6, 90_000.0, "ü"),
        ]
    }

    #[test]
    fn subrip_is_written() {
        assert_eq!(
            srt(&segments()),
            "1\n00:00:00,000 --> 00:00:01,235\nTom & <b>Jerry</b> run -> away\n\n\
             2\n01:02:03,005 --> 25:00:00,000\nü\n\n"
        );
        assert_eq!(srt(&[]), "");
    }

    #[test]
    fn webvtt_is_written() {
        assert_eq!(
            vtt(&segments()),
            "WEBVTT\n\n00:00:00.000 --> 00:00:01.235\nTom &amp; &lt;b>Jerry&lt;/b> run -> away\n\n\
             01:02:03.005 --> 25:00:00.000\nü\n\n"
        );
        assert_eq!(vtt(&[]), "WEBVTT\n\n");
    }
}
