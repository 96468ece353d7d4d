//! The files of the repository, read once. Tests build small trees.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Context;

/// Folders that contain only built, installed or stored files, and no source.
const SKIPPED: &[&str] = &[
    ".git",
    ".tools",
    ".venv",
    "__pycache__",
    "node_modules",
    "target",
    "tollgate-data",
];

/// Extensions of the files whose text the rules read.
const TEXT: &[&str] = &[
    "css", "html", "js", "json", "md", "mjs", "py", "rs", "sh", "sql", "toml", "ts", "tsx", "txt", "yaml",
    "yml",
];

/// A text file of the repository.
#[derive(Debug)]
pub struct File {
    /// Path from the repository's root, with `/` on every system.
    pub path: String,
    /// The whole text of the file.
    pub text: String,
}

impl File {
    /// Whether the file is Rust source.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether the file is Rust source of the product: neither tests nor development tools.
    pub fn is_product(&self) -> bool {
        // The conformance suite of the storage engines is beside the traits.
        let test = ["/tests.rs", "/tests/", "/conformance/"]
            .iter()
            .any(|part| self.path.contains(part));
        let development = self.path.starts_with("crates/testkit/");
        let source = self.path.starts_with("crates/") && self.path.contains("/src/");
        self.is_rust() && source && !test && !development
    }
}

/// All files of the repository.
#[derive(Debug, Default)]
pub struct Tree {
    /// The text files, in the order of their paths.
    pub files: Vec<File>,
    /// The paths of all files, text or not.
    pub paths: BTreeSet<String>,
}

impl Tree {
    /// Reads all files below the root, except built and installed ones.
    pub fn read(root: &Path) -> anyhow::Result<Self> {
        let mut tree = Self::default();
        tree.walk(root, "")?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    /// Returns the file at this path; `None` if it does not exist or is not text.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether a file or folder exists at this path.
    pub fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self.paths.contains(path)
            || self
                .paths
                .range(folder.clone()..)
                .next()
                .is_some_and(|next| next.starts_with(&folder))
    }

    fn walk(&mut self, folder: &Path, prefix: &str) -> anyhow::Result<()> {
        let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let path = if prefix.is_empty() {
                name.clone()
            } else {
                format!("{prefix}/{name}")
            };
            let kind = entry.file_type()?;
            if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
                self.walk(&entry.path(), &path)?;
            } else if kind.is_file() {
                self.add_file(&entry.path(), path, &name)?;
            }
        }
        Ok(())
    }

    fn add_file(&mut self, place: &Path, path: String, name: &str) -> anyhow::Result<()> {
        let ending = name.rsplit_once('.').map(|(_, ending)| ending);
        if name == "Makefile" || ending.is_some_and(|ending| TEXT.contains(&ending)) {
            let bytes = fs::read(place).with_context(|| format!("reading {path}"))?;
            self.files.push(File {
                path: path.clone(),
                text: String::from_utf8_lossy(&bytes).into_owned(),
            });
        }
        self.paths.insert(path);
        Ok(())
    }
}

#[cfg(test)]
impl Tree {
    /// Creates a tree of these paths and texts.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            tree.paths.insert((*path).to_owned());
            tree.files.push(File {
                path: (*path).to_owned(),
                text: (*text).to_owned(),
            });
        }
        tree
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_files_and_folders() {
        let tree = Tree::of(&[("docs/a.md", ""), ("docs-old.md", "")]);
        assert!(tree.has("docs") && tree.has("docs/a.md") && tree.has(""));
        assert!(!tree.has("doc") && !tree.has("docs/b.md"));
    }

    #[test]
    fn tests_and_tools_are_no_product() {
        for (path, expected) in [
            ("crates/edge/src/auth.rs", true),
            ("crates/edge/src/auth/tests.rs", false),
            ("crates/server/tests/api/main.rs", false),
            ("crates/storage/src/conformance/job.rs", false),
            ("crates/testkit/src/lib.rs", false),
            ("xtask/src/main.rs", false),
            ("crates/edge/README.md", false),
        ] {
            let file = File {
                path: path.to_owned(),
                text: String::new(),
            };
            assert_eq!(file.is_product(), expected, "{path}");
        }
    }
}
