//! A reliability diagram (calibration plot): accuracy against predicted probability, as one
//! self-contained SVG. Its gray and blue are readable on white and on black.

use std::fmt::Write;

use crate::judge::{Bin, Interval};

/// Width and height of the image, in pixels. The plot is a square with sides of [`PLOT`] pixels;
/// its upper left corner is at [`LEFT`], [`TOP`].
const SIZE: (f64, f64) = (560.0, 600.0);
const LEFT: f64 = 70.0;
const TOP: f64 = 70.0;
const PLOT: f64 = 440.0;
/// Minimum width of a bar, in pixels.
const NARROW: f64 = 6.0;

/// Returns the diagram of these bins as an SVG document. The expected calibration error, if given,
/// is printed below the title.
pub fn reliability(title: &str, bins: &[Bin], ece: Option<Interval>) -> String {
    let mut svg = String::new();
    let (width, height) = SIZE;
    // Writing to a `String` cannot fail.
    let _ = write!(
        svg,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" font-family="system-ui, 'DejaVu Sans', sans-serif" font-size="13" fill="#7a7a7a">
<title>{title}</title>
<text x="{middle}" y="28" text-anchor="middle" font-size="17" font-weight="600">{title}</text>
"##,
        title = escaped(title),
        middle = LEFT + PLOT / 2.0,
    );
    let examples: usize = bins.iter().map(|bin| bin.examples).sum();
    let figure = ece.map_or(String::new(), |ece| {
        format!("ECE {:.3} (95 %: {:.3} to {:.3}), ", ece.value, ece.low, ece.high)
    });
    let _ = writeln!(
        svg,
        r#"<text x="{}" y="50" text-anchor="middle">{figure}{examples} answers</text>"#,
        LEFT + PLOT / 2.0
    );
    axes(&mut svg);
    bars(&mut svg, bins);
    svg.push_str("</svg>\n");
    svg
}

fn across(share: f64) -> f64 {
    LEFT + PLOT * share.clamp(0.0, 1.0)
}

fn down(share: f64) -> f64 {
    TOP + PLOT * (1.0 - share.clamp(0.0, 1.0))
}

fn axes(svg: &mut String) {
    for tenth in (0..=10).step_by(2) {
        let share = f64::from(tenth) / 10.0;
        let (x, y) = (across(share), down(share));
        let _ = write!(
            svg,
            r##"<path d="M{LEFT} {y:.1}H{right}M{x:.1} {TOP}V{bottom}" stroke="#7a7a7a" stroke-opacity="0.25"/>
<text x="{x:.1}" y="{under}" text-anchor="middle">{share:.1}</text>
<text x="{beside}" y="{middle:.1}" text-anchor="end">{share:.1}</text>
"##,
            right = LEFT + PLOT,
            bottom = TOP + PLOT,
            under = TOP + PLOT + 20.0,
            beside = LEFT - 8.0,
            middle = y + 4.5,
        );
    }
    let _ = write!(
        svg,
        r##"<path d="M{LEFT} {bottom}L{right} {TOP}" stroke="#7a7a7a" stroke-width="1.5" stroke-dasharray="6 4"/>
<text x="{middle}" y="{label}" text-anchor="middle">reported probability</text>
<text x="{middle}" y="{note}" text-anchor="middle" font-size="11">numbers: answers in the bin; the dashed line is perfect calibration</text>
<text transform="translate(22 {half}) rotate(-90)" text-anchor="middle">share of right answers</text>
"##,
        bottom = TOP + PLOT,
        right = LEFT + PLOT,
        middle = LEFT + PLOT / 2.0,
        label = TOP + PLOT + 44.0,
        note = TOP + PLOT + 66.0,
        half = TOP + PLOT / 2.0,
    );
}

/// Draws a bar for each bin, up to the middle between the predictions of neighboring bins, with a
/// point at the bin's accuracy and the number of answers.
fn bars(svg: &mut String, bins: &[Bin]) {
    for (place, bin) in bins.iter().enumerate() {
        let edge = |other: Option<&Bin>, end: f64| {
            other.map_or(end, |other| f64::midpoint(other.predicted, bin.predicted))
        };
        let before = place.checked_sub(1).and_then(|place| bins.get(place));
        let half = (bin.predicted - edge(before, bin.predicted))
            .max(edge(bins.get(place + 1), bin.predicted) - bin.predicted);
        let from = across(edge(before, bin.predicted - half)) + 1.0;
        let to = across(edge(bins.get(place + 1), bin.predicted + half)) - 1.0;
        let (x, y, wide) = (across(bin.predicted), down(bin.right), (to - from).max(NARROW));
        let from = from.min(x - 1.0).max(LEFT);
        // Rotates the number of answers if the bar is too narrow for it.
        let turned = if wide < 30.0 {
            format!(r#" transform="rotate(-90 {x:.1} {y:.1}) translate(9 4)""#)
        } else {
            String::new()
        };
        let anchor = if wide < 30.0 { "start" } else { "middle" };
        let above = if wide < 30.0 { y } else { y - 9.0 };
        let _ = write!(
            svg,
            r##"<rect x="{from:.1}" y="{y:.1}" width="{wide:.1}" height="{high:.1}" fill="#3b82f6" fill-opacity="0.35"/>
<circle cx="{x:.1}" cy="{y:.1}" r="4" fill="#3b82f6"/>
<text x="{x:.1}" y="{above:.1}" text-anchor="{anchor}" font-size="11"{turned}>{examples}</text>
"##,
            high = TOP + PLOT - y,
            examples = bin.examples,
        );
    }
}

/// Escapes text for XML. Replaces characters that XML does not allow by spaces.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            // XML does not allow these characters, even in escaped form.
            other if other.is_control() || matches!(other, '\u{fffe}' | '\u{ffff}') => safe.push(' '),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests;
