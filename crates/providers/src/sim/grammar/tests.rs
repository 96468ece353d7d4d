use super::*;

fn script(text: &str) -> (Script, String) {
    read(text).unwrap_or_else(|wrong| panic!("{text}: {wrong}"))
}

#[test]
fn every_part_is_read_in_any_order() {
    let text = "before [[sim refuse cut=7 error=overloaded tool=look_up:{\"a\": [[1, 2]], \"b\": \"]] x\"} tool=other \
                reason=8 pace=5 delay=50 tokens=20 size=640x480]] after";
    let (script, user_text) = script(text);
    let expected = Script {
        tokens: Some(20),
        delay: Duration::from_millis(50),
        pace: Duration::from_millis(5),
        reason: 8,
        tools: vec![
            ScriptedCall {
                name: "look_up".to_owned(),
                arguments: Some("{\"a\": [[1, 2]], \"b\": \"]] x\"}".to_owned()),
            },
            ScriptedCall {
                name: "other".to_owned(),
                arguments: None,
            },
        ],
        error: Some(ErrorCode::Overloaded),
        cut: Some(Cut::After(7)),
        refuse: true,
        size: Some((640, 480)),
    };
    assert_eq!(script, expected);
    assert_eq!(user_text, "before after");
}

#[test]
fn text_without_a_script_is_unchanged() {
    for text in [
        "",
        "hello",
        "[[simple]]",
        "[[",
        "[sim tokens=3]",
        "[[other tokens=3]]",
    ] {
        assert_eq!(script(text), (Script::default(), text.to_owned()), "{text}");
    }
}

#[test]
fn places_to_cut() {
    for (text, expected) in [
        ("[[sim cut=0]]", Cut::After(0)),
        ("[[sim cut=start]]", Cut::After(1)),
        ("[[sim cut=usage]]", Cut::BeforeUsage),
        ("[[sim\ncut=end ]]", Cut::BeforeEnd),
    ] {
        assert_eq!(script(text).0.cut, Some(expected), "{text}");
    }
    assert_eq!(script("[[sim]]"), (Script::default(), String::new()));
}

#[test]
fn invalid_parts_are_named_by_position_only() {
    for (text, place) in [
        ("[[sim tokens]]", 1),
        ("[[sim tokens=5 tokens=-1]]", 2),
        ("[[sim tokens=5 secret=1]]", 2),
        ("[[sim error=secret_error]]", 1),
        ("[[sim cut=secret]]", 1),
        ("[[sim refuse=secret]]", 1),
        ("[[sim size=640]]", 1),
        ("[[sim size=640x]]", 1),
        ("[[sim size=-1x5]]", 1),
        ("[[sim tool=]]", 1),
        ("[[sim tool=name:{secret]]", 1),
        ("[[sim delay=1", 1),
        ("[[sim delay=1 ", 2),
        ("[[sim delay=99999999999999999999]]", 1),
    ] {
        let wrong = read(text).expect_err(text);
        assert!(wrong.starts_with(&format!("Part {place} ")), "{text}: {wrong}");
        assert!(
            !wrong.contains("secret") && wrong.contains("tokens=N"),
            "{text}: {wrong}"
        );
    }
}

#[test]
fn every_error_code_can_be_requested() {
    for code in ErrorCode::ALL {
        let text = format!("[[sim error={}]]", code.as_str());
        assert_eq!(script(&text).0.error, Some(*code));
    }
}
