//! PDF documents, written by the test.

use std::fmt::Write;

use tollgate_upstream::ExtractError;

use super::extracted;

/// Writes a document of these objects. The first object is the catalog.
fn document(objects: &[String], trailer: &str) -> Vec<u8> {
    let mut text = "%PDF-1.4\n".to_owned();
    let mut places = Vec::new();
    for (number, object) in (1..).zip(objects) {
        places.push(text.len());
        write!(text, "{number} 0 obj\n{object}\nendobj\n").unwrap();
    }
    let start = text.len();
    write!(text, "xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).unwrap();
    for place in places {
        writeln!(text, "{place:010} 00000 n ").unwrap();
    }
    let size = objects.len() + 1;
    write!(
        text,
        "trailer\n<< /Size {size} /Root 1 0 R {trailer} >>\nstartxref\n{start}\n%%EOF\n"
    )
    .unwrap();
    text.into_bytes()
}

fn stream(content: &str) -> String {
    format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len())
}

const FONT: &str = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>";

/// Returns a document with one page of these lines.
fn lines(lines: &[&str], trailer: &str, more: &[&str]) -> Vec<u8> {
    let shown: String = lines
        .iter()
        .map(|line| format!("({line}) Tj 0 -20 Td "))
        .collect();
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R] /Count 1 /MediaBox [0 0 600 800] >>".to_owned(),
        "<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>".to_owned(),
        stream(&format!("BT /F1 12 Tf 50 700 Td {shown}ET")),
        FONT.to_owned(),
    ];
    objects.extend(more.iter().map(|object| (*object).to_owned()));
    document(&objects, trailer)
}

#[test]
fn text_and_title_are_read() {
    let bytes = lines(
        &["The ferry carries 120 cars.", "It was built in 1998."],
        "/Info 6 0 R",
        &["<< /Title (Ferries) /Author <FEFF0041006E006E> >>"],
    );
    for media_type in ["application/pdf", "application/octet-stream", "text/html", ""] {
        let page = extracted(media_type, &bytes).unwrap();
        assert!(page.text.contains("The ferry carries 120 cars."), "{}", page.text);
        assert!(page.text.contains("It was built in 1998."), "{}", page.text);
        assert_eq!(
            (page.title.as_str(), page.author.as_deref()),
            ("Ferries", Some("Ann"))
        );
    }
}

#[test]
fn broken_documents_are_refused() {
    let good = lines(&["Text of the page."], "", &[]);
    for end in [9, 60, 200, good.len() - 60] {
        assert!(extracted("application/pdf", &good[..end]).is_err(), "{end}");
    }
    let encrypted = lines(
        &["Text of the page."],
        "/Encrypt 6 0 R /ID [<00> <00>]",
        &[
            "<< /Filter /Standard /V 2 /R 3 /Length 128 /P -4 /O (aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa) /U (bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb) >>",
        ],
    );
    assert_eq!(
        extracted("application/pdf", encrypted),
        Err(ExtractError::Encrypted)
    );
    assert_eq!(
        extracted("application/pdf", lines(&[], "", &[])),
        Err(ExtractError::NoText)
    );
}

#[test]
fn loops_in_the_page_tree_end() {
    let kids = |kids: &str| {
        document(
            &[
                "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
                format!("<< /Type /Pages /Kids [{kids}] /Count 100000 /MediaBox [0 0 600 800] >>"),
                "<< /Type /Pages /Parent 2 0 R /Kids [2 0 R] /Count 100000 >>".to_owned(),
            ],
            "",
        )
    };
    for tree in ["2 0 R", "3 0 R", &"3 0 R ".repeat(1_000)] {
        assert!(extracted("application/pdf", kids(tree)).is_err(), "{tree:.20}");
    }
}

#[test]
fn only_the_first_pages_are_read() {
    let shown = stream("BT /F1 12 Tf 50 700 Td (Page of text.) Tj ET");
    let kids: String = (0..1_200).map(|_| "3 0 R ").collect();
    let bytes = document(
        &[
            "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
            format!("<< /Type /Pages /Kids [{kids}] /Count 1200 /MediaBox [0 0 600 800] >>"),
            "<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>"
                .to_owned(),
            shown,
            FONT.to_owned(),
        ],
        "",
    );
    let page = extracted("application/pdf", bytes).unwrap();
    assert!(page.text.matches("Page of text.").count() <= 1_000);
}
