use super::*;

#[test]
fn dates_are_parsed() {
    let today = Date::new(2025, 11, 5).unwrap();
    for (text, expected) in [
        ("2025-11-03", "2025-11-03"),
        ("2025-11-03T23:59:59+02:00", "2025-11-03"),
        ("2025-11-03 10:00", "2025-11-03"),
        ("2025/11/3", "2025-11-03"),
        ("20251103", "2025-11-03"),
        ("Mon, 03 Nov 2025 10:00:00 GMT", "2025-11-03"),
        ("Nov 3, 2025", "2025-11-03"),
        ("Sept. 3rd, 2025", "2025-09-03"),
        ("3 November 2025", "2025-11-03"),
        ("the 3rd of May, 2024", "2024-05-03"),
        ("Updated: Nov 3, 2025 at 10:15", "2025-11-03"),
        ("03-Nov-2025", "2025-11-03"),
        ("11/03/2025", "2025-11-03"),
        ("13/11/2024", "2024-11-13"),
        ("3.11.2025", "2025-11-03"),
        ("3. März 2025", "2025-03-03"),
        ("3 août 2024", "2024-08-03"),
        ("1er mai 2024", "2024-05-01"),
        ("3 de mayo de 2024", "2024-05-03"),
        ("2025年11月3日", "2025-11-03"),
        ("２０２５年１１月３日", "2025-11-03"),
        ("May 2024", "2024-05-01"),
        ("Nov 3", "2025-11-03"),
        ("Dec 24", "2024-12-24"),
        ("3 days ago", "2025-11-02"),
        ("1 hour ago", "2025-11-05"),
        ("a week ago", "2025-10-29"),
        ("2 months ago", "2025-09-05"),
        ("1 year ago", "2024-11-05"),
        ("vor 3 Tagen", "2025-11-02"),
        ("il y a 3 jours", "2025-11-02"),
        ("hace 2 semanas", "2025-10-22"),
        ("3天前", "2025-11-02"),
        ("yesterday", "2025-11-04"),
        ("Gestern, 10:15 Uhr", "2025-11-04"),
        ("Today", "2025-11-05"),
    ] {
        let date = parse_date(text, today).map(|date| date.to_string());
        assert_eq!(date.as_deref(), Some(expected), "{text}");
    }
    let leap = Date::new(2024, 3, 31).unwrap();
    assert_eq!(parse_date("1 month ago", leap), Date::new(2024, 2, 29));
}

#[test]
fn other_texts_have_no_date() {
    let today = Date::new(2025, 11, 5).unwrap();
    for text in [
        "",
        "2025",
        "2025-02-30",
        "2025-13-01",
        "31 April 2025",
        "32/13/2025",
        "you may 3",
        "version 1.2.3",
        "3 days",
        "99999999999999999999 days ago",
        "12345678",
    ] {
        assert_eq!(parse_date(text, today), None, "{text}");
    }
    assert_eq!(
        parse_date(&format!("{} 2025-11-03", "x ".repeat(500_000)), today),
        None
    );
}
