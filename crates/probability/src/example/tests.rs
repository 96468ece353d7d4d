use super::*;

fn example(kind: AnswerKind, probabilities: &[f64], truth: Truth) -> Example {
    Example {
        kind,
        probabilities: probabilities.to_vec(),
        truth,
        abstain: None,
        confidence: None,
        group: None,
    }
}

#[test]
fn invalid_examples_are_named() {
    use AnswerKind::{Choice, Noul};
    let right = Truth::Option(0);
    for (bad, is_bad) in [
        (example(Noul, &[0.3, 0.7], right.clone()), false),
        (example(Noul, &[0.3, 0.7], Truth::Option(1)), false),
        (example(Noul, &[0.3, 0.7], Truth::Option(2)), true),
        (example(Noul, &[0.3, 0.3, 0.4], right.clone()), true),
        (example(Choice, &[1.0], right.clone()), true),
        (example(Choice, &[0.3, 0.3, 0.41], right.clone()), false),
        (example(Choice, &[0.3, 0.3, 0.43], right.clone()), true),
        (example(Choice, &[1.2, -0.2], right.clone()), true),
        (example(Choice, &[f64::NAN, 1.0], right.clone()), true),
        (example(Choice, &[0.5, 0.5], Truth::Soft(vec![0.2, 0.8])), false),
        (example(Choice, &[0.5, 0.5], Truth::Soft(vec![1.0])), true),
        (example(Choice, &[0.5, 0.5], Truth::Soft(vec![0.2, 0.2])), true),
        (
            Example {
                confidence: Some(1.1),
                ..example(Choice, &[0.5, 0.5], right.clone())
            },
            true,
        ),
        (
            Example {
                abstain: Some((-0.1, true)),
                ..example(Choice, &[0.5, 0.5], right.clone())
            },
            true,
        ),
    ] {
        let good = example(Noul, &[1.0, 0.0], Truth::Option(0));
        let found = checked(&[good, bad.clone()]);
        assert_eq!(
            found.err().map(|error| error.place),
            is_bad.then_some(1),
            "{bad:?}"
        );
    }
}

#[test]
fn missing_confidence_is_derived() {
    use AnswerKind::{Choice, Noul, Score};
    for (kind, probabilities, expected) in [
        (Noul, vec![0.09, 0.91], 0.82),
        (Choice, vec![0.25; 4], 0.0),
        (Score, vec![0.0, 1.0, 0.0], 1.0),
    ] {
        let known = checked(&[example(kind, &probabilities, Truth::Option(0))]).unwrap();
        assert!((known[0].confidence - expected).abs() < 1e-9, "{kind:?}");
    }
    let soft = checked(&[example(Choice, &[0.6, 0.4], Truth::Soft(vec![0.3, 0.7]))]).unwrap();
    assert_eq!(
        (soft[0].right(), soft[0].is_right(), soft[0].predicted()),
        (0.3, false, 0.6)
    );
}

#[test]
fn an_example_is_a_line_of_json() {
    let line = r#"{"type":"noul","probabilities":[0.9,0.1],"truth":0}"#;
    let read: Example = serde_json::from_str(line).unwrap();
    assert_eq!(read, example(AnswerKind::Noul, &[0.9, 0.1], Truth::Option(0)));
    assert_eq!(serde_json::to_string(&read).unwrap(), line);
    let soft = r#"{"type":"score","probabilities":[0.9,0.1],"truth":[0.5,0.5],"abstain":[0.1,false],"confidence":0.5,"group":"a"}"#;
    let read: Example = serde_json::from_str(soft).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), soft);
}
