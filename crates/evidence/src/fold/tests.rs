use proptest::prelude::*;

use super::*;

#[test]
fn texts_are_folded() {
    for (text, expected) in [
        ("  The\n\tDALEN  bridge ", "the dalen bridge"),
        ("“a” ‘b’ «c» d’e ´f", "'a' 'b' 'c' d'e 'f"),
        ("1987–1993 — a−b", "1987-1993 - a-b"),
        ("ﬁne ½ km² Ｆｕｌｌ", "fine 1⁄2 km2 full"),
        ("e\u{301} É E\u{200b}\u{301}", "é é é"),
        ("ΣΊΣΥΦΟΣ Σίσυφος", "σίσυφοσ σίσυφοσ"),
        ("ｶﾞｽ 한\u{1112}\u{1161}\u{11ab}", "ガス 한한"),
        ("so\u{ad}ft\u{feff}", "soft"),
        ("", ""),
    ] {
        assert_eq!(fold(text), expected, "{text}");
        assert_eq!(Folded::new(text).text, expected, "{text}");
    }
}

proptest! {
    #[test]
    fn aligned_parts_fold_alone(text in "(\\PC|[ \\n\u{ad}\u{200b}\u{300}-\u{305}\u{1100}-\u{11ff}ﬁ¨´½]){1,40}", a in 0_usize..60, b in 0_usize..60) {
        let folded = Folded::new(&text);
        let (start, end) = (a.min(b), a.max(b).min(folded.chars.len()));
        if folded.is_aligned(start, end) && folded.chars[start] != ' ' && folded.chars[end - 1] != ' ' {
            let (from, to) = folded.original(start, end).unwrap();
            let original: String = text.chars().skip(from).take(to - from).collect();
            let part: String = folded.chars[start..end].iter().collect();
            prop_assert_eq!(fold(&original), part);
        }
    }
}
