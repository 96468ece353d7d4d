use tollgate_types::Date;

use super::fixture::{Fixture, paths, read};

#[tokio::test]
async fn documents_are_read_by_their_urls() {
    let fixture = Fixture::new(&[
        ("a b.txt", "Rules\n\nNo swimming."),
        (
            "list.jsonl",
            "{\"text\":\"one\"}\n{\"text\":\"two\",\"author\":\"Ann\",\"date\":\"2020-01-02\"}",
        ),
        ("web.md", "---\nurl: https://example.org/p?q=1\n---\nlinked"),
    ]);
    let corpus = fixture.built().await;
    for (url, text) in [
        ("corpus://handbook/a%20b.txt", Some("Rules\n\nNo swimming.")),
        ("corpus://handbook/a b.txt", Some("Rules\n\nNo swimming.")),
        ("corpus://handbook/%61%20b%2Etxt", Some("Rules\n\nNo swimming.")),
        ("corpus://handbook/list.jsonl/1", Some("one")),
        ("corpus://handbook/list.jsonl/2", Some("two")),
        ("corpus://handbook/list.jsonl", None),
        ("https://example.org/p?q=1", Some("linked")),
        ("corpus://handbook/web.md", None),
        ("corpus://other/a%20b.txt", None),
        ("https://example.org/", None),
        ("", None),
    ] {
        let document = read(&corpus, url).await;
        assert_eq!(
            document.as_ref().map(|document| document.text.as_str()),
            text,
            "{url}"
        );
    }
    let document = read(&corpus, "corpus://handbook/list.jsonl/2").await.unwrap();
    assert_eq!(
        (document.title.as_str(), document.author.as_deref()),
        ("list", Some("Ann"))
    );
    assert_eq!(document.date, Date::new(2020, 1, 2));
}

#[tokio::test]
async fn prefixed_urls_with_queries_are_read() {
    let content = "---\nurl: https://docs.example.com/a?b=%2F#c\n---\nstated";
    let fixture = Fixture::with_prefix(
        "https://docs.example.com",
        &[("x.md", content), ("y z.md", "own")],
    );
    let corpus = fixture.built().await;
    for (url, text) in [
        ("https://docs.example.com/a?b=%2F#c", "stated"),
        ("https://docs.example.com/y%20z.md", "own"),
    ] {
        assert_eq!(read(&corpus, url).await.unwrap().text, text);
    }
}

#[tokio::test]
async fn paths_outside_the_folder_are_not_read() {
    let fixture = Fixture::new(&[("a/b.md", "inside")]);
    let outside = fixture.documents.parent().unwrap().join("secret.txt");
    std::fs::write(&outside, "outside").unwrap();
    let corpus = fixture.built().await;
    for path in [
        "../secret.txt",
        "..%2Fsecret.txt",
        "%2e%2e/secret.txt",
        "%2e%2e%2fsecret.txt",
        "%252e%252e%252fsecret.txt",
        "a/../../secret.txt",
        "..\\secret.txt",
        "a/b.md%00.txt",
        "../../etc/passwd",
        "/etc/passwd",
        "%2Fetc%2Fpasswd",
        "a/./b.md",
        "a//b.md",
        "a/../a/b.md",
        "A/B.md",
    ] {
        assert_eq!(
            read(&corpus, &format!("corpus://handbook/{path}")).await,
            None,
            "{path}"
        );
    }
    for url in [
        format!("file://{}", outside.display()),
        outside.display().to_string(),
    ] {
        assert_eq!(read(&corpus, &url).await, None, "{url}");
    }
    assert_eq!(
        read(&corpus, "corpus://handbook/a/b.md").await.unwrap().text,
        "inside"
    );
}

/// The text is restored from its passages, without gaps.
#[tokio::test]
async fn long_texts_are_read_whole() {
    let paragraphs: Vec<String> = (0..400)
        .map(|number| format!("Paragraph {number} has   unusual spaces.\n  It has two lines of text.\t"))
        .collect();
    let text = paragraphs.join("\n\n\n");
    let fixture = Fixture::new(&[("a.txt", &text), ("b.txt", &"語".repeat(50_000))]);
    let corpus = fixture.built().await;
    assert!(corpus.status().passages > 20);
    assert_eq!(
        read(&corpus, "corpus://handbook/a.txt").await.unwrap().text,
        text.trim()
    );
    assert_eq!(
        read(&corpus, "corpus://handbook/b.txt").await.unwrap().text.len(),
        150_000
    );
    assert_eq!(paths(&corpus, "paragraph 399").await, ["a.txt"]);
}
