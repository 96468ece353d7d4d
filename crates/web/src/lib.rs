//! The files of the console and of the API reference: pages, scripts, styles, the icon and the
//! documents, compiled and compressed by the build script.

use std::io::{self, Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

/// A file of the console.
#[derive(Debug)]
pub struct Asset {
    /// Path on the server, such as `/console/assets/main-0123456789ab.js`.
    pub path: &'static str,
    /// Value of the `content-type` header.
    pub content_type: &'static str,
    /// Value of the `etag` header, with quotation marks. Both forms of the file have the same.
    pub etag: &'static str,
    /// Whether the path contains the hash of the content, so that caches may keep the file forever.
    pub is_immutable: bool,
    /// Content in gzip format, the only form that is embedded.
    pub gzip: &'static [u8],
}

/// A guide, an error page or data of the API reference.
#[derive(Debug)]
pub struct Document {
    /// Path below the path of the reference, such as `guides/keys.md`.
    pub path: &'static str,
    /// Value of the `content-type` header.
    pub content_type: &'static str,
    /// Value of the `etag` header, with quotation marks.
    pub etag: &'static str,
    /// Content in gzip format, the only form that is embedded.
    pub gzip: &'static [u8],
}

/// Page that routes its paths in the browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Console {
    /// Console of the accounts, on the public listener.
    Account,
    /// Console of the operators, on the admin listener.
    Operator,
    /// Reference of the public API, on the public listener at `/docs`.
    Reference,
    /// Reference of the admin API, on the admin listener at `/admin/docs`.
    OperatorReference,
}

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// Returns a page. It routes all paths below its own that are no asset and no document.
pub fn shell(console: Console) -> &'static Asset {
    match console {
        Console::Account => &ACCOUNT,
        Console::Operator => &OPERATOR,
        Console::Reference => &REFERENCE,
        Console::OperatorReference => &OPERATOR_REFERENCE,
    }
}

/// Returns the value of the `link` header of a page at a path, which is the page's own or below it.
/// Browsers then load the screen that the path names together with the page.
pub fn preload(console: Console, path: &str) -> &'static str {
    let page = match console {
        Console::Account => "account",
        Console::Operator => "operator",
        Console::Reference => "reference",
        Console::OperatorReference => "operator_reference",
    };
    let below = path.strip_prefix(shell(console).path).unwrap_or_default();
    let screen = below.split('/').nth(1).unwrap_or_default();
    let find = |wanted: &str| {
        let mut all = PRELOADS.iter();
        all.find(|(name, screen, _)| *name == page && *screen == wanted)
    };
    find(screen)
        .or_else(|| find(""))
        .map_or("", |(_, _, links)| *links)
}

/// Returns the asset at a path below `/console/assets/`; `None` if the path is unknown.
pub fn asset(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

/// Returns all assets, without the pages.
pub fn assets() -> &'static [Asset] {
    ASSETS
}

/// Returns the document at a path below the path of the reference; `None` if the path is unknown.
pub fn document(path: &str) -> Option<&'static Document> {
    DOCUMENTS.iter().find(|document| document.path == path)
}

/// Returns all documents.
pub fn documents() -> &'static [Document] {
    DOCUMENTS
}

/// Compresses a document that the server builds at its start.
///
/// # Errors
///
/// The encoder failed.
pub fn compress(content: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content)?;
    encoder.finish()
}

/// Decompresses a file or document for callers that do not accept gzip.
///
/// # Errors
///
/// The content has no gzip format.
pub fn decompress(gzip: &[u8]) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    GzDecoder::new(gzip).read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests;
