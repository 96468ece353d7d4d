//! Whether a statement of a report states an expected answer.

use tollgate_evidence::figures::{Figure, figures, unsupported};
use tollgate_evidence::words::terms;

/// Whether a statement states the answer: it has the answer's words in the same order, and all of
/// its figures. An answer that consists of measured figures or dates may also be worded
/// differently, such as "38 m" for "38 metres".
pub(super) fn states(statement: &str, answer: &str) -> bool {
    if !unsupported(answer, &[statement]).is_empty() {
        return false;
    }
    let (said, expected) = (terms(statement), terms(answer));
    let has_words = !expected.is_empty()
        && said
            .windows(expected.len())
            .any(|window| window == expected.as_slice());
    has_words || is_measured(answer)
}

/// Whether an answer has figures, and each of them is a date or has a unit.
fn is_measured(answer: &str) -> bool {
    let figures = figures(answer);
    let is_measured = |figure: &Figure| match figure {
        Figure::Number(number) => number.unit.is_some(),
        Figure::Date(_) => true,
        Figure::Code(_) | Figure::Name(_) => false,
    };
    !figures.is_empty() && figures.iter().all(is_measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_recognised_by_words_and_figures() {
        for (statement, answer, expected) in [
            ("The tower is 38 metres high.", "38 metres", true),
            ("The tower is 38 m high.", "38 metres", true),
            ("The tower is 39 metres high.", "38 metres", false),
            ("It carried 912,600 people.", "912,600", true),
            ("It carried 912,601 people.", "912,600", false),
            ("It opened in 1900.", "about 900", false),
            ("The college has 900 students.", "about 900", true),
            ("Dr. Henrik Saal has led it since.", "Dr Henrik Saal", true),
            ("Henrik leads it, and Saal left.", "Henrik Saal", false),
            ("The clock shows TWENTY past four.", "twenty past four", true),
            ("Approved on March 6, 2025.", "6 March 2025", true),
            ("Approved on March 7, 2025.", "6 March 2025", false),
        ] {
            assert_eq!(states(statement, answer), expected, "{statement} {answer}");
        }
    }
}
