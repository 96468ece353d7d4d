//! Documents that the pages of the API reference show: the guides and error pages of `docs/` as
//! Markdown, an index of the guides, and the sample responses.

use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::files::Files;

/// Folder of the guides, from the root of the repository.
pub const FOLDER: &str = "docs";

/// Sample responses by operation id, which `scripts/record-samples.py` writes.
pub const SAMPLES: &str = "crates/server/assets/documentation/samples.json";

const MARKDOWN: &str = "text/markdown; charset=utf-8";
const JSON: &str = "application/json";

/// Guides that only describe the source code.
const OMITTED: &[&str] = &[
    "adding-a-backend",
    "adding-a-format",
    "adding-a-provider",
    "adding-an-endpoint",
    "decisions",
    "performance",
];

/// Adds all documents. Paths are below the path of the reference.
pub fn add_all(root: &Path, files: &mut Files) -> anyhow::Result<()> {
    let mut index = Vec::new();
    for (folder, target) in [
        ("", "guides/"),
        ("operations/", "guides/operations-"),
        ("errors/", "errors/"),
    ] {
        for (name, text) in markdown_files(&root.join(FOLDER).join(folder))? {
            if folder.is_empty() && OMITTED.contains(&name.as_str()) {
                continue;
            }
            // The codes of errors are names of files in lower case, so nothing else can be README.
            let name = name.replace("README", "index");
            files.add_document(&format!("{target}{name}.md"), MARKDOWN, text.as_bytes())?;
            if target.starts_with("guides/") {
                let name = format!("{}{name}", target.trim_start_matches("guides/"));
                index.push(index_entry(&name, &text));
            }
        }
    }
    let index = format!("[{}]", index.join(","));
    files.add_document("guides.json", JSON, index.as_bytes())?;
    let samples = fs::read(root.join(SAMPLES)).with_context(|| format!("reading {SAMPLES}"))?;
    files.add_document("samples.json", JSON, &samples)
}

/// Returns the names without extension and the texts of the Markdown files of a folder, sorted.
fn markdown_files(folder: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let is_markdown = path.extension().is_some_and(|extension| extension == "md");
        if let (true, Some(name)) = (is_markdown, path.file_stem()) {
            let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            found.push((name.to_string_lossy().into_owned(), text));
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the name, the title and the headings of a guide as JSON.
fn index_entry(name: &str, text: &str) -> String {
    let mut is_code = false;
    let mut title = None;
    let mut headings = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        let Some(heading) = line.get(level..).and_then(|rest| rest.strip_prefix(' ')) else {
            continue;
        };
        match title {
            None if level == 1 => title = Some(heading),
            _ if (1..=4).contains(&level) => headings.push(quoted(&heading.replace('`', ""))),
            _ => {}
        }
    }
    format!(
        "{{\"name\":{},\"title\":{},\"headings\":[{}]}}",
        quoted(name),
        quoted(&title.unwrap_or(name).replace('`', "")),
        headings.join(",")
    )
}

/// Returns a text as a JSON string. The texts have no control characters.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.trim().replace('\\', "\\\\").replace('"', "\\\""))
}
