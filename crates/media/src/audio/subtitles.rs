//! Converts transcript segments to subtitle files.

use std::time::Duration;

use tollgate_media_tools::captions::{self, Caption};
use tollgate_upstream::Segment;

/// Returns the segments in SubRip format.
pub(super) fn srt(segments: &[Segment]) -> String {
    captions::srt(&captions(segments))
}

/// Returns the segments in WebVTT format.
pub(super) fn vtt(segments: &[Segment]) -> String {
    captions::vtt(&captions(segments))
}

fn captions(segments: &[Segment]) -> Vec<Caption> {
    let moment = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let captions = segments.iter();
    captions
        .map(|one| Caption::of(&one.text, moment(one.start), moment(one.end)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_keep_their_times() {
        let segment = |start, end, text: &str| Segment {
            start,
            end,
            text: text.to_owned(),
            ..Segment::default()
        };
        let segments = [
            segment(-0.1, 1.2345, " Tom & <b>Jerry</b>\n\nrun --> away "),
            segment(3_723.004_6, 90_000.0, "ü"),
        ];
        assert_eq!(
            srt(&segments),
            "1\n00:00:00,000 --> 00:00:01,235\nTom & <b>Jerry</b> run -> away\n\n\
             2\n01:02:03,005 --> 25:00:00,000\nü\n\n"
        );
        assert_eq!(
            vtt(&segments),
            "WEBVTT\n\n00:00:00.000 --> 00:00:01.235\nTom &amp; &lt;b>Jerry&lt;/b> run -> away\n\n\
             01:02:03.005 --> 25:00:00.000\nü\n\n"
        );
        assert_eq!((srt(&[]), vtt(&[])), (String::new(), "WEBVTT\n\n".to_owned()));
    }
}
