use super::decode;

fn utf_16(text: &str, order: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(order).collect()
}

#[test]
fn charsets_are_found() {
    let russian = "Паром ходит два раза в день, зимой и летом, при любой погоде.";
    let (koi8, ..) = encoding_rs::KOI8_R.encode(russian);
    let (cp1251, ..) = encoding_rs::WINDOWS_1251.encode(russian);
    let (sjis, ..) = encoding_rs::SHIFT_JIS.encode("フェリーは一日二回、海峡を渡ります。");
    let latin = b"Pr\xe9sident de la R\xe9publique fran\xe7aise";
    let french = "Président de la République française";
    let le = utf_16("Text: é", u16::to_le_bytes);
    let be = utf_16("Text: é", u16::to_be_bytes);
    for (bytes, declared, is_html, text) in [
        (russian.as_bytes(), None, true, russian),
        (russian.as_bytes(), Some("utf-8"), true, russian),
        (&koi8, Some("KOI8-R"), true, russian),
        (&cp1251, None, true, russian),
        (&sjis, None, true, "フェリーは一日二回、海峡を渡ります。"),
        (latin, None, true, french),
        (latin, Some("iso-8859-1"), true, french),
        (latin, Some("no-such-charset"), true, french),
        // Declarations that the bytes contradict.
        (russian.as_bytes(), Some("iso-8859-1"), true, russian),
        (latin, Some("utf-8"), true, french),
        (
            &[b"\xef\xbb\xbf", russian.as_bytes()].concat(),
            Some("koi8-r"),
            true,
            russian,
        ),
        (
            &[b"\xff\xfe", le.as_slice()].concat(),
            Some("utf-8"),
            true,
            "Text: é",
        ),
        (&[b"\xfe\xff", be.as_slice()].concat(), None, false, "Text: é"),
        (&le, Some("utf-16le"), true, "Text: é"),
        (&le, None, false, "Text: é"),
        (&be, None, false, "Text: é"),
        (
            b"<meta charset=utf-16>abc",
            None,
            true,
            "<meta charset=utf-16>abc",
        ),
        (b"a\xe9b", None, false, "aéb"),
        (b"", None, true, ""),
        (b"", Some("utf-16"), true, ""),
    ] {
        assert_eq!(decode(bytes, declared, is_html), text, "{declared:?} {is_html}");
    }
}

#[test]
fn pages_declare_their_charset() {
    for (head, text) in [
        (&b"<meta charset=windows-1251>\xcf\xe0"[..], "Па"),
        (
            b"<META name=x><meta http-equiv=Content-Type content='text/html; charset=windows-1251'>\xcf\xe0",
            "Па",
        ),
        (b"<meta charset = \"windows-1251\" />\xcf\xe0", "Па"),
    ] {
        assert!(decode(head, None, true).ends_with(text));
        assert!(
            !decode(head, None, false).ends_with(text),
            "only HTML declares a charset"
        );
        assert!(
            !decode(head, Some("windows-1252"), true).ends_with(text),
            "the response is stronger"
        );
    }
}

#[test]
fn damaged_texts_are_read() {
    let mut damaged = "Größe und Länge. ".repeat(20).into_bytes();
    damaged.insert(20, 0xff);
    let text = decode(&damaged, Some("utf-8"), true);
    assert!(text.contains("Länge") && text.contains('\u{fffd}'));
    let cut = &"Länge ä".as_bytes()[..8];
    assert_eq!(decode(cut, Some("utf-8"), true).chars().next(), Some('L'));
}
