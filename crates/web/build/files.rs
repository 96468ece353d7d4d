//! Written files: their hashed names, their compressed forms, and the generated table.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

/// Path under which the server offers the files.
const ASSETS: &str = "/console/assets";

/// Number of hexadecimal digits of the SHA-256 hash in a file name.
const HASH_DIGITS: usize = 12;

/// The files of the console.
pub struct Files {
    out: PathBuf,
    assets: Vec<String>,
    pages: Vec<String>,
    preloads: Vec<String>,
    documents: Vec<String>,
}

impl Files {
    /// Creates an empty set that is written into the folder `out`.
    pub fn new(out: PathBuf) -> Self {
        Self {
            out,
            assets: Vec::new(),
            pages: Vec::new(),
            preloads: Vec::new(),
            documents: Vec::new(),
        }
    }

    /// Adds a file whose name contains the hash of its content. Returns its path on the server.
    pub fn add_hashed(&mut self, name: &str, extension: &str, content: &[u8]) -> anyhow::Result<String> {
        let hash = hash(content);
        let url = format!("{ASSETS}/{name}-{hash}.{extension}");
        let entry = self.write(&format!("{name}.{extension}"), &url, &hash, content, true)?;
        self.assets.push(entry);
        Ok(url)
    }

    /// Adds an HTML page, whose path on the server is `url`.
    pub fn add_page(&mut self, name: &str, url: &str, html: &str) -> anyhow::Result<()> {
        let content = html.as_bytes();
        let entry = self.write(&format!("{name}.html"), url, &hash(content), content, false)?;
        self.pages
            .push(format!("static {}: Asset = {entry};", name.to_uppercase()));
        Ok(())
    }

    /// Adds the value of the `link` header of a page at a path below the page's own.
    pub fn add_preload(&mut self, page: &str, path: &str, links: &str) {
        self.preloads.push(format!("({page:?}, {path:?}, {links:?})"));
    }

    /// Adds a document. Only its compressed form is embedded.
    pub fn add_document(&mut self, path: &str, content_type: &str, content: &[u8]) -> anyhow::Result<()> {
        let zipped = self.out.join(format!("{}.gz", path.replace('/', "_")));
        write_gzip(&zipped, content)?;
        self.documents.push(format!(
            "Document {{ path: {path:?}, content_type: {content_type:?}, etag: {:?}, \
             gzip: include_bytes!({zipped:?}) }}",
            format!("\"{}\"", hash(content))
        ));
        Ok(())
    }

    /// Writes `assets.rs`, which `src/lib.rs` includes.
    pub fn write_table(mut self) -> anyhow::Result<()> {
        self.assets.sort();
        let mut table = String::new();
        writeln!(table, "static ASSETS: &[Asset] = &[")?;
        for asset in &self.assets {
            writeln!(table, "    {asset},")?;
        }
        writeln!(table, "];\n{}", self.pages.join("\n"))?;
        writeln!(
            table,
            "static PRELOADS: &[(&str, &str, &str)] = &[{}];",
            self.preloads.join(",")
        )?;
        writeln!(
            table,
            "static DOCUMENTS: &[Document] = &[{}];",
            self.documents.join(",")
        )?;
        fs::write(self.out.join("assets.rs"), table).context("writing assets.rs")
    }

    fn write(
        &self,
        file: &str,
        url: &str,
        hash: &str,
        content: &[u8],
        is_immutable: bool,
    ) -> anyhow::Result<String> {
        let zipped = self.out.join(format!("{file}.gz"));
        write_gzip(&zipped, content)?;
        let content_type = match file.rsplit_once('.').map(|(_, extension)| extension) {
            Some("css") => "text/css; charset=utf-8",
            Some("html") => "text/html; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "text/javascript; charset=utf-8",
        };
        Ok(format!(
            "Asset {{ path: {url:?}, content_type: {content_type:?}, etag: {:?}, is_immutable: {is_immutable}, \
             gzip: include_bytes!({zipped:?}) }}",
            format!("\"{hash}\"")
        ))
    }
}

fn write_gzip(place: &Path, content: &[u8]) -> anyhow::Result<()> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content)?;
    fs::write(place, encoder.finish()?).with_context(|| format!("writing {}", place.display()))
}

fn hash(content: &[u8]) -> String {
    let mut hash = String::new();
    for byte in Sha256::digest(content).iter().take(HASH_DIGITS / 2) {
        hash.push_str(&format!("{byte:02x}"));
    }
    hash
}
