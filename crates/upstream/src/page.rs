//! Web pages of research: the fetch of a page by an untrusted URL, the extraction of its text, and
//! both together.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tollgate_types::{AccountId, Date};

use crate::fetch::FetchError;
use crate::search::SearchDocument;

/// Maximum size of a page, in bytes.
pub const MAX_PAGE_BYTES: u64 = 10 << 20;
/// Maximum size of a PDF document, in bytes.
pub const MAX_PDF_BYTES: u64 = 20 << 20;

/// First frame of an extraction process. Both sides must be of the same version.
pub const EXTRACT_GREETING: &str = concat!("tollgate extract ", env!("CARGO_PKG_VERSION"));

/// Media types other than `text/*` and `*+json` from which text can be extracted. The empty type
/// and those of unknown files are included: the content decides.
const PAGE_TYPES: [&str; 9] = [
    "",
    "application/json",
    "application/ld+json",
    "application/markdown",
    "application/octet-stream",
    "application/pdf",
    "application/x-pdf",
    "application/xhtml+xml",
    "binary/octet-stream",
];

/// Text types without readable text.
const CODE_TYPES: [&str; 4] = ["text/css", "text/javascript", "text/ecmascript", "text/calendar"];

/// Whether text can be extracted from content of a media type, in lower case and without
/// parameters.
pub fn is_page_type(media_type: &str) -> bool {
    let is_text = media_type.starts_with("text/") && !CODE_TYPES.contains(&media_type);
    is_text || media_type.ends_with("+json") || PAGE_TYPES.contains(&media_type)
}

/// Whether a media type is PDF.
pub fn is_pdf_type(media_type: &str) -> bool {
    matches!(media_type, "application/pdf" | "application/x-pdf")
}

/// Response to the fetch of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedPage {
    /// HTTP status of the last response.
    pub status: u16,
    /// URL after redirects.
    pub final_url: String,
    /// Declared media type in lower case, without parameters; empty if it is not declared.
    pub media_type: String,
    /// Charset that the server declares, in any case.
    pub charset: Option<String>,
    /// Value of the `ETag` header.
    pub etag: Option<String>,
    /// Value of the `Last-Modified` header. It is no publication date.
    pub last_modified: Option<String>,
    /// Content without its transfer compression; empty unless the status is 200.
    pub bytes: Bytes,
}

/// Port for fetching pages by untrusted URLs. Dropping the future cancels the fetch.
#[async_trait]
pub trait PageFetcher: Send + Sync {
    /// Fetches a page. The number of concurrent fetches of an account is limited.
    async fn fetch(&self, account: Option<AccountId>, url: &str) -> Result<FetchedPage, PageSkipped>;
}

/// Description of the content from which text is extracted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageHead {
    /// URL of the page, to resolve its references.
    pub url: String,
    /// Declared media type in lower case, without parameters; empty if it is not declared.
    pub media_type: String,
    /// Charset that the server declares, in any case.
    pub charset: Option<String>,
    /// Current date: no page was published later.
    pub today: Date,
}

/// Text and metadata of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtractedPage {
    /// Title, as plain text; empty if the page has none.
    pub title: String,
    /// Author, if the page states one.
    pub author: Option<String>,
    /// Publication date, if the page states one.
    pub date: Option<Date>,
    /// Language, as a BCP 47 tag.
    pub language: Option<String>,
    /// Canonical URL on the same host, if the page states one.
    pub canonical_url: Option<String>,
    /// Visible text without markup, in NFC.
    pub text: String,
    /// Whether the text was cut at its maximum length.
    pub is_truncated: bool,
    /// Whether elements with text were dropped because readers cannot see them.
    pub has_hidden_text: bool,
}

/// Reason why no text could be extracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExtractError {
    /// The content is binary, or of a type without readable text.
    UnsupportedType,
    /// The content has no visible text.
    NoText,
    /// The document is encrypted.
    Encrypted,
    /// The document violates its format.
    Malformed,
    /// The extraction needed more memory than allowed.
    TooComplex,
    /// The extraction exceeded its time limit.
    TimedOut,
    /// The extraction process cannot be started.
    Unavailable,
}

impl fmt::Display for ExtractError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ExtractError::UnsupportedType => "has an unsupported media type",
            ExtractError::NoText => "has no text",
            ExtractError::Encrypted => "is encrypted",
            ExtractError::Malformed => "is malformed",
            ExtractError::TooComplex => "is too complex",
            ExtractError::TimedOut => "took too long to read",
            ExtractError::Unavailable => "was not read: the extraction is not available",
        })
    }
}

impl std::error::Error for ExtractError {}

/// Port for extracting the text of a page. Content is untrusted: the implementation isolates the
/// parsers. Dropping the future ends the extraction.
#[async_trait]
pub trait PageExtractor: Send + Sync {
    /// Extracts the visible text of a page.
    async fn extract(&self, head: &PageHead, bytes: &Bytes) -> Result<ExtractedPage, ExtractError>;
}

/// Reason why a page was skipped. The text reveals nothing about networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageSkipped {
    /// The page could not be fetched.
    Fetch(FetchError),
    /// The server returned another status than 200.
    Status(u16),
    /// The site's robots.txt disallows the page.
    Disallowed,
    /// The site's robots.txt cannot be read, so that its rules are unknown.
    UnknownRules,
    /// No text could be extracted.
    Extract(ExtractError),
}

impl PageSkipped {
    /// Returns the name of the reason in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            PageSkipped::Fetch(FetchError::NotAnAddress) => "not_an_address",
            PageSkipped::Fetch(FetchError::Unreachable) => "unreachable",
            PageSkipped::Fetch(FetchError::TooLarge) => "too_large",
            PageSkipped::Fetch(FetchError::TooSlow) => "too_slow",
            PageSkipped::Fetch(FetchError::WrongType)
            | PageSkipped::Extract(ExtractError::UnsupportedType) => "wrong_type",
            PageSkipped::Fetch(FetchError::Busy) => "busy",
            PageSkipped::Status(_) => "status",
            PageSkipped::Disallowed | PageSkipped::UnknownRules => "robots",
            PageSkipped::Extract(ExtractError::NoText) => "no_text",
            PageSkipped::Extract(ExtractError::Encrypted) => "encrypted",
            PageSkipped::Extract(ExtractError::Malformed) => "malformed",
            PageSkipped::Extract(ExtractError::TooComplex) => "too_complex",
            PageSkipped::Extract(ExtractError::TimedOut) => "extraction_timeout",
            PageSkipped::Extract(ExtractError::Unavailable) => "extraction_unavailable",
        }
    }
}

impl fmt::Display for PageSkipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PageSkipped::Fetch(error) => error.fmt(f),
            PageSkipped::Status(status) => write!(f, "returned status {status}"),
            PageSkipped::Disallowed => f.write_str("is disallowed by robots.txt"),
            PageSkipped::UnknownRules => f.write_str("has a robots.txt that cannot be read"),
            PageSkipped::Extract(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PageSkipped {}

impl From<FetchError> for PageSkipped {
    fn from(error: FetchError) -> Self {
        Self::Fetch(error)
    }
}

impl From<ExtractError> for PageSkipped {
    fn from(error: ExtractError) -> Self {
        Self::Extract(error)
    }
}

/// A page that was fetched and read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebPage {
    /// Text and metadata. The URL is the one after redirects.
    pub document: SearchDocument,
    /// Language, as a BCP 47 tag.
    pub language: Option<String>,
    /// Canonical URL on the same host, if the page states one.
    pub canonical_url: Option<String>,
    /// Value of the `ETag` header.
    pub etag: Option<String>,
    /// Value of the `Last-Modified` header. It is no publication date.
    pub last_modified: Option<String>,
    /// Whether the text was cut at its maximum length.
    pub is_truncated: bool,
    /// Whether elements with text were dropped because readers cannot see them.
    pub has_hidden_text: bool,
}

/// Port for reading web pages. Dropping the future cancels the work.
#[async_trait]
pub trait PageReader: Send + Sync {
    /// Fetches a page by an untrusted URL and extracts its text. The number of concurrent fetches
    /// of an account is limited.
    async fn read(&self, account: Option<AccountId>, url: &str) -> Result<WebPage, PageSkipped>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_without_readable_text_are_not_fetched() {
        for (media_type, expected) in [
            ("", true),
            ("text/html", true),
            ("text/plain", true),
            ("text/markdown", true),
            ("application/pdf", true),
            ("application/problem+json", true),
            ("application/octet-stream", true),
            ("text/css", false),
            ("image/png", false),
            ("image/svg+xml", false),
            ("video/mp4", false),
            ("application/zip", false),
            ("application/javascript", false),
        ] {
            assert_eq!(is_page_type(media_type), expected, "{media_type}");
        }
    }

    #[test]
    fn reasons_hide_the_network() {
        for (skipped, text) in [
            (PageSkipped::Fetch(FetchError::Unreachable), "cannot be fetched"),
            (PageSkipped::Status(404), "returned status 404"),
            (PageSkipped::Extract(ExtractError::NoText), "has no text"),
            (PageSkipped::Disallowed, "is disallowed by robots.txt"),
        ] {
            assert_eq!(skipped.to_string(), text);
        }
    }
}
