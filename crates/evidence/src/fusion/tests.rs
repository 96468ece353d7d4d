use super::*;

#[test]
fn rankings_are_fused() {
    for (rankings, weights, expected) in [
        (vec![], &[][..], ""),
        (vec!["abc"], &[], "abc"),
        // The key that both rankings contain is first.
        (vec!["abc", "dbe"], &[], "badce"),
        (vec!["ab", "ba"], &[], "ab"),
        (vec!["ab", "ba"], &[1.0, 2.0], "ba"),
        (vec!["ab", "cd"], &[0.5], "cdab"),
        // Repetitions do not count.
        (vec!["abbbb", "ca"], &[], "acb"),
    ] {
        let rankings: Vec<Vec<char>> = rankings.iter().map(|keys| keys.chars().collect()).collect();
        let fused: String = fuse(&rankings, weights).into_iter().map(|(key, _)| key).collect();
        assert_eq!(fused, expected, "{rankings:?}");
    }
    let fused = fuse(&[vec!["a"], vec!["b", "a"]], &[1.0, 3.0]);
    let score = fused[0].1;
    assert_eq!(fused[0].0, "a");
    assert!((score - (1.0 / 61.0 + 3.0 / 62.0)).abs() < 1e-6, "{score}");
}
