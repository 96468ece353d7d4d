use proptest::prelude::*;

use super::*;

fn is_allowed(url: &str) -> bool {
    matches!(url, "https://good.example/a" | "https://good.example/b_(c)")
}

fn check(markdown: &str, expected: &str) {
    assert_eq!(sanitize_section(markdown, &is_allowed), expected, "{markdown}");
}

#[test]
fn text_and_allowed_links_are_unchanged() {
    for text in [
        "Plain text with *emphasis*, a list:\n\n- one\n- two [1]\n\n> a quotation",
        "See [the source](https://good.example/a) and https://good.example/a.",
        "### Heading\n\n#### Lower heading\n\ntext",
        "Use `a < b` and ``x ` ![i](u) <b>`` here.",
        "```rust\nlet a = \"<b>\"; // ![x](http://evil.example)\n# no heading\n```",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "Price: 3 > 2 & 5 \\* 4; a footnote.[1] Really!",
        "在这里 [1]。",
    ] {
        check(text, text);
    }
}

#[test]
fn markup_is_removed() {
    for (markdown, expected) in [
        ("a ![x](https://evil.example/p.png?d=1) b", "a b"),
        ("a ![x](https://good.example/a) b", "a b"),
        ("![x][ref] b", "b"),
        ("see [text](https://evil.example) here", "see text here"),
        ("see [text](javascript:alert(1)) here", "see text here"),
        ("see [text](/relative \"title\") here", "see text here"),
        ("see [text](<https://evil.example/a b>) here", "see text here"),
        (
            "[![x](https://evil.example/i)](https://good.example/a)",
            "[ ](https://good.example/a)",
        ),
        (
            "[a [b](https://evil.example) c](https://good.example/a)",
            "[a b c](https://good.example/a)",
        ),
        (
            "[c](https://good.example/b_(c))",
            "[c](https://good.example/b_%28c%29)",
        ),
        ("a <https://evil.example> b", "a b"),
        ("a <https://good.example/a> b", "a https://good.example/a b"),
        ("a https://evil.example/x?y=1. B", "a . B"),
        ("a www.evil.example b", "a b"),
        ("a ftp://evil.example b", "a b"),
        ("a <b>bold</b> <img src=x onerror=alert(1)> c", "a bold c"),
        ("a <img\nsrc=\"https://evil.example/>\"> c", "a c"),
        ("a <!-- comment\n\nmore --> b", "a b"),
        ("a <script>alert(1)</script> b", "a b"),
        ("1 < 2, a <- b", "1 &lt; 2, a &lt;- b"),
        ("a <b", "a &lt;b"),
        ("[ref]: https://evil.example \"t\"", "\\[ref]: \"t\""),
        ("> [ref]:\n> //evil.example", "> \\[ref]:\n> //evil.example"),
        (
            "# One\n\n## Two\n\n#### Four",
            "### One\n\n#### Two\n\n###### Four",
        ),
        ("> # One\n\n- ## Two", "> ### One\n\n- #### Two"),
        ("One\n===\n\ntext", "One\n\ntext"),
        ("One\n---\ntext", "One\n\n---\ntext"),
        ("a\u{202e}b\u{0}c\u{200b}d", "abcd"),
        ("`unclosed <b>x</b>", "\\`unclosed x"),
        ("`two\nlines` <b>x</b>", "\\`two\nlines\\` x"),
        ("\\`a <b>x</b> `", "\\`a x \\`"),
        ("- list\n  ```\n  code <b>\n  ```", "- list\n```\ncode <b>\n```"),
        ("```\nunclosed", "```\nunclosed\n```"),
        ("> ```\n> <b>x</b>\n> ```", "> \\`\\`\\`\n> x\n> \\`\\`\\`"),
        ("ht<b>tps://evil.example c", "ht c"),
        ("https<b>://evil.example", "https : //evil.example"),
        ("| `a | <b>` |", "| \\`a | \\` |"),
        ("https://good.example/a`x`", "https://good.example/a`x`"),
        ("\\<b> \\![x](u) \\[y](u)", "&lt;b> \\!x \\[y] (u)"),
        ("!<b>[x](https://evil.example)", "! x"),
        ("a ![x", "a x"),
        ("[x] (https://evil.example)", "[x] ()"),
    ] {
        check(markdown, expected);
    }
}

#[test]
fn hostile_text_takes_bounded_time() {
    for part in [
        "[", "![", "](", "<a ", "<!--", "`", "[a](", "``` \n", "[[x](u)", "<script>", "a://", "![x](", "# ",
        "> ",
    ] {
        let text = sanitize_section(&part.repeat(20_000), &is_allowed);
        assert!(!text.contains('<') && !text.contains("!["), "{part}");
    }
}

/// Returns the text outside fenced code, with `x` for each code span, by a simple reading of
/// Markdown.
fn outside_code(text: &str) -> String {
    let mut output = String::new();
    let mut fence: Option<String> = None;
    for line in text.split('\n') {
        let run: String = line.chars().take_while(|&c| c == '`' || c == '~').collect();
        match &fence {
            Some(open)
                if line.trim_end() == run && run.len() >= open.len() && run.starts_with(&open[..1]) =>
            {
                fence = None
            }
            Some(_) => {}
            None if run.len() >= 3 && !line[run.len()..].contains('`') => fence = Some(run),
            None => {
                let mut rest = line;
                while let Some(start) = rest.find('`') {
                    let length = rest[start..].bytes().take_while(|&byte| byte == b'`').count();
                    let slashes = rest[..start]
                        .bytes()
                        .rev()
                        .take_while(|&byte| byte == b'\\')
                        .count();
                    if slashes % 2 == 1 {
                        output.push_str(&rest[..=start]);
                        rest = &rest[start + 1..];
                        continue;
                    }
                    output.push_str(&rest[..start]);
                    output.push('x');
                    let inner = &rest[start + length..];
                    let mut at = 0;
                    loop {
                        let found = inner[at..].find('`').expect("every span is closed") + at;
                        let run = inner[found..].bytes().take_while(|&byte| byte == b'`').count();
                        at = found + run;
                        if run == length {
                            break;
                        }
                    }
                    rest = &inner[at..];
                }
                output.push_str(rest);
                output.push('\n');
            }
        }
    }
    output
}

fn markdown() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "a",
        " ",
        "\n",
        "\n\n",
        "`",
        "``",
        "```",
        "~~~",
        "\\",
        "!",
        "[",
        "]",
        "(",
        ")",
        "<",
        ">",
        "<b>",
        "<img src=x>",
        "<!--",
        "-->",
        "http",
        "https://",
        "://",
        "evil.example",
        "https://good.example/a",
        "www.",
        "![x](",
        "](u)",
        "[ref]: ",
        "# ",
        "## ",
        "===",
        "---",
        "> ",
        "- ",
        "1. ",
        "    ",
        "&lt;",
        "\"",
        "'",
        "é",
        "\u{200b}",
        "\u{301}",
        "javascript:",
        "<https://evil.example>",
        "<https://good.example/a>",
        "=",
        "|",
    ]);
    prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn output_is_harmless(text in markdown()) {
        let output = sanitize_section(&text, &is_allowed);
        let plain = outside_code(&output);
        prop_assert!(!plain.contains('<'), "{:?}", output);
        prop_assert!(!plain.contains("!["), "{:?}", output);
        let mut rest = plain.as_str();
        while let Some(at) = rest.find("://") {
            let is_good = rest[..at].ends_with("https") && rest[at..].starts_with("://good.example/a");
            prop_assert!(is_good, "{:?}", output);
            rest = &rest[at + 3..];
        }
        for (at, _) in plain.match_indices("www.") {
            // Otherwise, it is the end of a word.
            prop_assert!(plain[..at].ends_with(char::is_alphanumeric), "{:?}", output);
        }
        for (_, after) in plain.match_indices("](").map(|(at, _)| plain.split_at(at + 2)) {
            prop_assert!(after.starts_with("https://good.example/"), "{:?}", output);
        }
        for line in plain.lines() {
            let line = blocks::content(line);
            prop_assert!(!line.starts_with("# ") && !line.starts_with("## "), "{:?}", output);
        }
    }
}
