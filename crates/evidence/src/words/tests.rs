use proptest::prelude::*;

use super::*;

#[test]
fn terms_are_reduced() {
    for (text, expected) in [
        ("The bridges of Dalen were opened", "bridg dalen open"),
        ("Opening the bridge; it opens", "open bridg open"),
        ("studies studied studying study", "study study study study"),
        ("stopped stopping stops", "stop stop stop"),
        ("making makes made", "mak mak mad"),
        ("boxes classes matches wishes", "box class match wish"),
        (
            "need speed thing string spring bus analysis",
            "need speed thing string spring bus analysis",
        ),
        ("GPT-4 cost 1,234.5 in 2024", "gpt 4 cost 1 234 5 2024"),
        ("Die Brücke der Stadt und das Wasser", "die brücke stadt wasser"),
        ("Le pont de la ville est très long", "pont vill long"),
        ("El puente de la ciudad y los trenes", "puent ciudad tren"),
        ("大桥通车", "大桥 桥通 通车"),
        ("桥 is 大桥", "桥 大桥"),
        ("ＦＵＬＬ ｗｉｄｔｈ ﬁne", "full width fin"),
        ("ce\u{301}leri soft\u{ad}ware", "céleri softwar"),
        ("हिन्दी भाषा", "हिन्दी भाषा"),
        ("the of and", ""),
        ("", ""),
    ] {
        assert_eq!(terms(text).join(" "), expected, "{text}");
    }
}

proptest! {
    #[test]
    fn terms_depend_on_no_case_and_no_marks(words in prop::collection::vec("[a-z]{1,9}", 0..8)) {
        let plain = words.join(" ");
        let other = words.join(" -- ").to_uppercase();
        prop_assert_eq!(terms(&plain), terms(&other));
    }

    #[test]
    fn any_text_has_terms_of_letters(text in "\\PC{0,60}") {
        let is_term = |term: &String| !term.is_empty() && term.chars().any(char::is_alphanumeric);
        prop_assert!(terms(&text).iter().all(is_term));
    }
}
