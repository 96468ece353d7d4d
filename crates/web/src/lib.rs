//! The files of the console: pages, scripts, styles and the icon, compiled and compressed by the
//! build script.

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
    /// Uncompressed content, for callers that do not accept gzip.
    pub bytes: &'static [u8],
    /// Content in gzip format.
    pub gzip: &'static [u8],
}

/// Console that a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Console {
    /// Console of the accounts, on the public listener.
    Account,
    /// Console of the operators, on the admin listener.
    Operator,
}

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// Returns the page of a console. The page routes all paths below `/console` that are no asset.
pub fn shell(console: Console) -> &'static Asset {
    match console {
        Console::Account => &ACCOUNT,
        Console::Operator => &OPERATOR,
    }
}

/// Returns the asset at a path below `/console/assets/`; `None` if the path is unknown.
pub fn asset(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}

/// Returns all assets, without the pages.
pub fn assets() -> &'static [Asset] {
    ASSETS
}

#[cfg(test)]
mod tests;
