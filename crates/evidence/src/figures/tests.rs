use proptest::prelude::*;

use super::*;

fn check(claim: &str, quotes: &[&str], missing: &[&str]) {
    assert_eq!(unsupported(claim, quotes), missing, "{claim} / {quotes:?}");
}

#[test]
fn equal_figures_are_supported() {
    for (claim, quote) in [
        ("Output grew by about 12 %.", "Output grew by 11.8 per cent."),
        ("Output grew 12 percent", "a rise of 11.8 % over the year"),
        ("Das Wachstum lag bei 11,8 Prozent.", "growth was 11.8%"),
        ("1.2 million people live there", "a population of 1,200,000"),
        ("1.2 million people live there", "a population of 1,234,567"),
        ("1,234,567 inhabitants", "1 234\u{a0}567 / 1.234.567 Einwohner"),
        ("It cost $5.3 billion", "The price was US$5.3bn"),
        (
            "It cost 5 million euros",
            "Kosten von 5 Mio. oder 5 Millionen Euro",
        ),
        ("£5m was spent", "a budget of 5 million pounds"),
        ("about 1,000 visitors", "1,043 visitors came"),
        ("The bridge is 324.5 metres long", "a length of 324.5 m."),
        ("A 324-metre bridge", "The bridge measures 324 m"),
        ("12 km/h", "a speed of 12 kilometres per hour"),
        ("an area of 30 km²", "30 square kilometers"),
        ("It opened on 3 May 2024.", "opened May 3, 2024"),
        ("It opened on 3 May 2024.", "2024-05-03: opening"),
        ("It opened on 3 May 2024.", "Eröffnung am 3. Mai 2024"),
        (
            "It opened on 3 May 2024.",
            "In 2024, the opening took place on 3 May.",
        ),
        ("It opened in May 2024.", "opened on 03.05.2024"),
        ("It opened on 3 May 2024.", "opened on 03/05/2024"),
        ("It opened in 2024.", "opened May 3, 2024"),
        ("它于2024年5月3日开放", "opened May 3, 2024"),
        ("两国贸易额达到3.5亿元", "trade of 350,000,000 yuan"),
        ("Two companies merged", "2 companies merged"),
        ("3 companies merged", "three companies merged"),
        ("10–15 % of users", "between 10 % and 15 % of users"),
        (
            "The paper \"Attention is all you need\" appeared",
            "In “Attention Is All You Need”, the authors",
        ),
        ("GPT4 has 3 modes", "The three modes of gpt4"),
        ("a low of -5 °C", "temperatures of −5 degrees Celsius"),
        ("sales fell by 5 %", "sales: -5 %"),
        ("the 2nd of 7 parts", "part 2 of 7"),
        ("No figures at all", ""),
    ] {
        check(claim, &[quote], &[]);
    }
}

#[test]
fn other_figures_are_missing() {
    for (claim, quote, missing) in [
        ("Output grew by 13 %.", "Output grew by 11.8 per cent.", "13 %"),
        ("Output grew by 12.1 %.", "Output grew by 12 per cent.", "12.1 %"),
        ("Output grew by 12 %.", "Output grew by 12 tonnes.", "12 %"),
        ("1.3 million people", "a population of 1,200,000", "1.3 million"),
        ("1,234,567 inhabitants", "1.2 million inhabitants", "1,234,567"),
        ("It cost $5 billion", "It cost €5 billion", "$5 billion"),
        ("It cost 5 million", "It cost 5 billion", "5 million"),
        ("324 km long", "324 metres long", "324 km"),
        ("opened on 3 May 2024", "opened on 4 May 2024", "3 May 2024"),
        ("opened on 3 May 2024", "opened on 3 May 2023", "3 May 2024"),
        ("opened on 3 May 2024", "opened in May 2024", "3 May 2024"),
        ("opened in 1987", "opened in 1989", "1987"),
        ("a low of -5 °C", "a high of 5 °C", "5 °C"),
        ("\"Dalen\" is the name", "The name is Dale", "Dalen"),
        ("version 1.2.3", "version 1.2.4", "1.2.3"),
        ("0 cases", "0.4 cases", "0"),
        ("about 1,000 visitors", "1,400 visitors came", "1,000"),
        ("three companies", "two companies", "three"),
    ] {
        check(claim, &[quote], &[missing]);
    }
    check(
        "In 2019 it sold 3 t and in 2020 4 t",
        &["2019: 3 t"],
        &["2020", "4 t"],
    );
    check("3 km in 5 h", &["3 km", "5 hours"], &[]);
    check("3 km", &[], &["3 km"]);
}

#[test]
fn figures_are_recognized() {
    let found = figures("On 3 May 2024, “Dalen” sold 1.5 million t for €3bn, about 12 % more; see B52.");
    let texts: Vec<&str> = found.iter().map(Figure::text).collect();
    assert_eq!(
        texts,
        ["3 May 2024", "1.5 million t", "€3bn", "12 %", "B52", "Dalen"]
    );
    let Figure::Number(number) = &found[1] else {
        panic!("{found:?}");
    };
    assert_eq!((number.unit, number.is_approximate), (Some("t"), false));
    assert_eq!(
        number.values,
        [Value {
            amount: 1.5e6,
            step: 1e5
        }]
    );
    assert!(matches!(&found[3], Figure::Number(number) if number.is_approximate));
}

#[test]
fn long_claims_take_bounded_time() {
    let claim = "7.5 ".repeat(50_000);
    assert_eq!(unsupported(&claim, &[&claim]).len(), 50_000 - MAX_FIGURES);
}

proptest! {
    #[test]
    fn a_text_supports_itself(text in "[0-9a-zA-Z .,%$€\"“”/年月日-]{0,60}|\\PC{0,40}") {
        let missing = unsupported(&text, &[&text]);
        prop_assert!(missing.is_empty(), "{:?}", missing);
    }
}
