//! The example of the documentation: a real report over the built-in corpus.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{QUESTION, Scene, minimal};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/research-example.md");
/// Maximum length of a line, in characters.
const WIDTH: usize = 100;

/// Writes the page if the environment variable `WRITE_DOCS` is set; otherwise compares it.
#[tokio::test]
async fn the_example_of_the_documentation_is_current() {
    let scene = Scene::start().await;
    let body = minimal(json!({"reasoning_effort": "low"}));
    let id = scene.research(&body).await;
    let job = scene.researched(&id).await;
    scene.assert_cited(&id, &job["result"]).await;
    let page = page(&job);
    if std::env::var_os("WRITE_DOCS").is_some() {
        std::fs::write(PAGE, &page).unwrap();
    }
    let written = std::fs::read_to_string(PAGE).unwrap();
    assert!(
        written == page,
        "docs/research-example.md is not current: run this test with WRITE_DOCS=1\n{page}"
    );
    assert!(scene.finish().await.clean);
}

fn page(job: &Value) -> String {
    let result = &job["result"];
    let stats = &result["stats"];
    let mut page = String::from("# A report with its citations\n\n");
    let intro = "This is a complete report of `sim/research` over the built-in corpus `demo`, whose documents are \
                 about fictional islands. A test makes the report anew and compares it with this page. The request \
                 ([research.md](research.md)):";
    wrap(&mut page, intro);
    let _ = write!(
        page,
        "\n```json\n{{\n  \"model\": \"sim/research\",\n  \"query\": \"{QUESTION}\",\n  \"reasoning_effort\": \"low\"\n}}\n```\n\n"
    );
    let count = |name: &str| stats[name].as_u64().unwrap();
    let facts = format!(
        "Statements: {}, of them verified: {}. Searches: {}, pages: {}, notes: {}. Cost: {} credits.",
        count("claims"),
        count("verified"),
        count("searches"),
        count("pages"),
        count("notes"),
        job["cost"].as_str().unwrap()
    );
    wrap(&mut page, &facts);
    page.push_str("\n## Report\n\n");
    for block in result["report"].as_str().unwrap().split("\n\n") {
        match block.strip_prefix("## ") {
            Some(title) => {
                let _ = writeln!(page, "> **{title}**\n>");
            }
            None => {
                let mut text = String::new();
                wrap(&mut text, block);
                text.lines().for_each(|line| {
                    let _ = writeln!(page, "> {line}");
                });
                page.push_str(">\n");
            }
        }
    }
    page.truncate(page.trim_end_matches(['>', '\n']).len());
    page.push_str("\n\n## Citations\n\n");
    wrap(
        &mut page,
        "Each quote is the text of its source from `start` to `end`, in characters: \
         `GET /v1/research/{job_id}/sources/{source_id}?start=…&end=…` returns it.",
    );
    page.push_str("\n| citation | source | quote | start | end |\n|---|---|---|---|---|\n");
    for citation in result["citations"].as_array().unwrap() {
        let _ = writeln!(
            page,
            "| {} | {}: {} ({}) | {} | {} | {} |",
            citation["id"],
            citation["source_id"].as_str().unwrap(),
            citation["title"].as_str().unwrap(),
            citation["date"].as_str().unwrap_or("no date"),
            citation["quote"]
                .as_str()
                .unwrap()
                .replace('|', "\\|")
                .replace('\n', " "),
            citation["start"],
            citation["end"],
        );
    }
    page
}

/// Appends a text as lines of at most [`WIDTH`] characters, without the two of a quotation.
fn wrap(page: &mut String, text: &str) {
    let mut length = 0;
    for word in text.split_whitespace() {
        let word_length = word.chars().count();
        if length > 0 && length + 1 + word_length > WIDTH - 2 {
            page.push('\n');
            length = 0;
        } else if length > 0 {
            page.push(' ');
            length += 1;
        }
        page.push_str(word);
        length += word_length;
    }
    page.push('\n');
}
