//! Errors of corpora.

use std::fmt;
use std::path::{Path, PathBuf};

use tollgate_upstream::UpstreamError;

/// Error of opening, building or searching a corpus.
#[derive(Debug)]
pub enum CorpusError {
    /// The name is not 1 to 64 characters of `a`–`z`, `0`–`9`, `-` and `_`, or starts with a sign.
    Name(String),
    /// The URL prefix is not an HTTP URL.
    UrlPrefix(String),
    /// A file or folder cannot be read or written.
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The index is damaged, or the search library failed.
    Index(String),
    /// Another task or process is building the index of this corpus.
    Busy,
    /// The progress callback stopped the build. The old index is unchanged.
    Stopped,
    /// No index was built yet.
    NotBuilt,
}

impl CorpusError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

impl fmt::Display for CorpusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(
                f,
                "invalid corpus name '{name}': use 1 to 64 of a-z, 0-9, '-' and '_', and begin with a \
                 letter or digit"
            ),
            Self::UrlPrefix(prefix) => {
                write!(
                    f,
                    "invalid url_prefix '{prefix}': it must begin with http:// or https:// and a host"
                )
            }
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Index(detail) => write!(f, "index of the corpus: {detail}"),
            Self::Busy => f.write_str("the index of the corpus is being built; try again later"),
            Self::Stopped => f.write_str("the build of the index was stopped"),
            Self::NotBuilt => f.write_str("the corpus has no index yet; rebuild it"),
        }
    }
}

impl std::error::Error for CorpusError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<tantivy::TantivyError> for CorpusError {
    fn from(error: tantivy::TantivyError) -> Self {
        Self::Index(error.to_string())
    }
}

impl From<CorpusError> for UpstreamError {
    fn from(error: CorpusError) -> Self {
        match error {
            CorpusError::NotBuilt => Self::connect(error.to_string()),
            _ => Self::protocol(error.to_string()),
        }
    }
}
