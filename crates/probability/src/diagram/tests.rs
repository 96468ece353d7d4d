use super::*;

fn bin(predicted: f64, right: f64, examples: usize) -> Bin {
    Bin {
        predicted,
        right,
        examples,
    }
}

#[test]
fn a_diagram_is_one_safe_file() {
    let ece = Interval {
        value: 0.0421,
        low: 0.01,
        high: 0.0675,
    };
    let bins = [bin(0.55, 0.5, 123), bin(0.7, 0.72, 77), bin(1.0, 0.0, 4_567)];
    let svg = reliability("<b>\"sim & co\"</b>\u{0}", &bins, Some(ece));
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("&lt;b&gt;&quot;sim &amp; co&quot;&lt;/b&gt; </text>") && !svg.contains("<b>"));
    for text in [
        ">123<",
        ">77<",
        ">4567<",
        "ECE 0.042 (95 %: 0.010 to 0.068)",
        "4767 answers",
    ] {
        assert!(svg.contains(text), "{text}");
    }
    assert_eq!(
        (svg.matches("<circle").count(), svg.matches("<rect").count()),
        (3, 3)
    );
    for outside in [
        "http://www.w3.org/2000/svg",
        "href",
        "url(",
        "<script",
        "NaN",
        "inf",
    ] {
        assert_eq!(svg.contains(outside), outside.starts_with("http"), "{outside}");
    }
}

#[test]
fn empty_diagrams_are_valid() {
    for bins in [
        vec![],
        vec![bin(0.5, 0.5, 1)],
        vec![bin(0.0, 1.0, 1), bin(0.0, 0.0, 1)],
    ] {
        let svg = reliability("", &bins, None);
        assert_eq!(svg.matches("<circle").count(), bins.len());
        assert!(!svg.contains("NaN") && !svg.contains("width=\"-"), "{svg}");
    }
}
