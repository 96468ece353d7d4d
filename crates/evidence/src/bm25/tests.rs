use super::*;

#[test]
fn texts_are_ranked() {
    let texts = [
        "The bridge of Dalen opened in 1987.",
        "Ferries and trains.",
        "A bridge is a bridge: bridges cross rivers.",
        "The bridge of Dalen opened in 1987.",
        "",
        "大桥于一九八七年通车。",
    ];
    let index = Bm25::new(texts);
    for (query, limit, expected) in [
        ("Dalen bridge", 9, &[0, 3, 2][..]),
        ("bridges", 9, &[2, 0, 3]),
        ("bridge bridge bridge", 1, &[2]),
        ("大桥通车", 9, &[5]),
        ("trains", 9, &[1]),
        ("the of", 9, &[]),
        ("unknown", 9, &[]),
        ("bridge", 0, &[]),
    ] {
        let ranked = index.rank(query, limit);
        assert!(ranked.iter().all(|(_, score)| *score > 0.0));
        let numbers: Vec<usize> = ranked.into_iter().map(|(number, _)| number).collect();
        assert_eq!(numbers, expected, "{query}");
    }
    assert!(Bm25::new([""; 0]).rank("bridge", 9).is_empty());
    assert!(Bm25::new(["", ""]).rank("bridge", 9).is_empty());
}

#[test]
fn scores_match_manual_calculation() {
    let index = Bm25::new(["cat dog", "cat"]);
    let score = index.rank("dog", 9)[0].1;
    let length = 2.0 / 1.5;
    let expected = 2.0_f32.ln() * 2.2 / (1.0 + 1.2 * (0.25 + 0.75 * length));
    assert!((score - expected).abs() < 1e-6, "{score} {expected}");
}
