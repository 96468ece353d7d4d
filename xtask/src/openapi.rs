//! The committed API documents. They must match the output of the code, and must never lose or
//! narrow anything.
//!
//! Losses are computed relative to the last commit, so that a rewritten working file cannot hide
//! one.

mod operations;
mod schema;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

/// A document and the command that generates it.
struct Document {
    path: &'static str,
    arguments: &'static [&'static str],
}

const PUBLIC: Document = Document {
    path: "docs/openapi.json",
    arguments: &[],
};
const ADMIN: Document = Document {
    path: "docs/openapi-admin.json",
    arguments: &["--admin"],
};
const CONSOLE: Document = Document {
    path: "docs/openapi-console.json",
    arguments: &["--console"],
};

/// Options of `openapi check` and `openapi write`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// A previously generated document. Without it, the gateway is built and generates the
    /// documents.
    from: Option<PathBuf>,
    /// Whether documents are written even if they lose or narrow something.
    allow_breaking: bool,
}

impl Options {
    /// Parses the arguments after `openapi check` or `openapi write`.
    pub fn parse(words: &[&str]) -> anyhow::Result<Self> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--from" => options.from = Some(words.next().context("--from takes a file")?.into()),
                "--allow-breaking" => options.allow_breaking = true,
                _ => bail!("unknown option `{word}`"),
            }
        }
        Ok(options)
    }
}

/// Runs `openapi check`. Returns false if a document is stale or has lost something.
pub fn check(root: &Path, options: &Options) -> anyhow::Result<bool> {
    ensure!(!options.allow_breaking, "--allow-breaking is for `openapi write`");
    let source = Source::of(root, options)?;
    let mut fine = true;
    for document in source.documents() {
        fine &= check_one(root, document, &source)?;
    }
    Ok(fine)
}

fn check_one(root: &Path, document: &Document, source: &Source) -> anyhow::Result<bool> {
    let path = document.path;
    let generated = source.generate(root, document)?;
    let losses = losses(root, path, &generated)?;
    print_losses(&losses);
    let current = read_document(root, path)?.as_ref() == Some(&generated);
    if !current {
        println!("{path} is not what the code generates: run `cargo xtask openapi write` and commit it");
    }
    if current && losses.is_empty() {
        println!("{path} is up to date and compatible");
    }
    Ok(current && losses.is_empty())
}

/// Runs `openapi write`. Returns false if a document was not written because it would lose
/// something.
pub fn write(root: &Path, options: &Options) -> anyhow::Result<bool> {
    let source = Source::of(root, options)?;
    let mut fine = true;
    for document in source.documents() {
        fine &= write_one(root, document, &source, options.allow_breaking)?;
    }
    Ok(fine)
}

fn write_one(
    root: &Path,
    document: &Document,
    source: &Source,
    allow_breaking: bool,
) -> anyhow::Result<bool> {
    let path = document.path;
    let generated = source.generate(root, document)?;
    let losses = losses(root, path, &generated)?;
    print_losses(&losses);
    if !losses.is_empty() && !allow_breaking {
        println!("{path} not written: the API must stay compatible; --allow-breaking writes it anyway");
        return Ok(false);
    }
    let mut text = serde_json::to_string_pretty(&generated)?;
    text.push('\n');
    fs::write(root.join(path), text).with_context(|| format!("writing {path}"))?;
    println!("{path} written");
    Ok(true)
}

fn losses(root: &Path, path: &str, generated: &Value) -> anyhow::Result<Vec<String>> {
    let committed = last_committed(root, path)?;
    Ok(committed.map_or_else(Vec::new, |committed| operations::losses(&committed, generated)))
}

fn print_losses(losses: &[String]) {
    for loss in losses {
        println!("lost or narrowed: {loss}");
    }
}

/// The source of the generated documents.
enum Source {
    /// A previously generated document of the public API.
    File(PathBuf),
    /// The program of the current code, which generates all documents.
    Gateway(PathBuf),
}

impl Source {
    /// Returns the file of `--from`, or builds the gateway.
    fn of(root: &Path, options: &Options) -> anyhow::Result<Self> {
        match &options.from {
            Some(file) => Ok(Self::File(file.clone())),
            None => Ok(Self::Gateway(built_gateway(root)?)),
        }
    }

    fn documents(&self) -> &'static [&'static Document] {
        match self {
            Self::File(_) => &[&PUBLIC],
            Self::Gateway(_) => &[&PUBLIC, &ADMIN, &CONSOLE],
        }
    }

    fn generate(&self, root: &Path, document: &Document) -> anyhow::Result<Value> {
        let program = match self {
            Self::File(file) => {
                let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
                return parse(&text, &file.display().to_string());
            }
            Self::Gateway(program) => program,
        };
        let output = Command::new(program)
            .arg("openapi")
            .args(document.arguments)
            .current_dir(root)
            .output()
            .context("running tollgate openapi")?;
        ensure!(
            output.status.success(),
            "tollgate openapi failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        parse(
            &String::from_utf8_lossy(&output.stdout),
            "the output of tollgate openapi",
        )
    }
}

/// Builds the gateway and returns its path. The features are those of a build of all tests, so that
/// `make test` compiles each crate once.
fn built_gateway(root: &Path) -> anyhow::Result<PathBuf> {
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--workspace", "--bin", "tollgate"])
        .args(["--features", "tollgate-storage/conformance"])
        .current_dir(root)
        .status()
        .context("running cargo build")?;
    ensure!(status.success(), "cannot build tollgate");
    let folder = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(root.join(folder).join("debug/tollgate"))
}

/// Reads the working file; `None` if it does not exist.
fn read_document(root: &Path, path: &str) -> anyhow::Result<Option<Value>> {
    let file = root.join(path);
    if !file.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(file).with_context(|| format!("reading {path}"))?;
    parse(&text, path).map(Some)
}

/// Reads the document of the last commit; outside a Git checkout, the working file.
fn last_committed(root: &Path, path: &str) -> anyhow::Result<Option<Value>> {
    let git = |arguments: &[&str]| Command::new("git").args(arguments).current_dir(root).output();
    let in_checkout =
        git(&["rev-parse", "--verify", "--quiet", "HEAD"]).is_ok_and(|output| output.status.success());
    if !in_checkout {
        return read_document(root, path);
    }
    // `./` makes the path relative to this folder, which may be below the root of the checkout.
    let output = git(&["show", &format!("HEAD:./{path}")]).context("running git show")?;
    if !output.status.success() {
        return Ok(None);
    }
    parse(&String::from_utf8_lossy(&output.stdout), "the committed document").map(Some)
}

fn parse(text: &str, what: &str) -> anyhow::Result<Value> {
    let document: Value = serde_json::from_str(text).with_context(|| format!("{what} is not JSON"))?;
    ensure!(
        document["openapi"].is_string() && document["paths"].is_object(),
        "{what} is not an OpenAPI document"
    );
    Ok(document)
}
