//! The manifest of an index: the files in it, and the settings that it was built with.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::CorpusError;
use crate::scan::Skipped;

/// Version of the schema, the analyzer and the formats of files. Other versions are rebuilt.
pub(crate) const FORMAT: u32 = 1;
/// Name of the manifest in the folder of an index.
pub(crate) const FILE_NAME: &str = "manifest.json";

/// The manifest of an index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub format: u32,
    /// Prefix of the URLs in the index.
    pub prefix: String,
    /// Sorted by path.
    pub files: Vec<FileState>,
    pub documents: u64,
    pub passages: u64,
    pub skipped: Skipped,
    /// Time of the build, in microseconds since the Unix epoch.
    pub built_at_micros: i64,
}

/// A file as it was indexed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileState {
    pub path: String,
    pub size: u64,
    pub modified_ns: u64,
    /// SHA-256 in hexadecimal digits; empty if the file could not be read.
    pub sha256: String,
}

impl Manifest {
    /// Reads the manifest of the index in `folder`.
    pub fn read(folder: &Path) -> Result<Self, CorpusError> {
        let path = folder.join(FILE_NAME);
        let bytes = std::fs::read(&path).map_err(CorpusError::io(&path))?;
        serde_json::from_slice(&bytes)
            .map_err(|error| CorpusError::Index(format!("{}: {error}", path.display())))
    }

    /// Writes the manifest so that a crash leaves the old one or the new one.
    pub fn write(&self, folder: &Path) -> Result<(), CorpusError> {
        let partial = folder.join("manifest.partial");
        let bytes = serde_json::to_vec(self).map_err(|error| CorpusError::Index(error.to_string()))?;
        let write = || {
            let mut file = File::create(&partial)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            std::fs::rename(&partial, folder.join(FILE_NAME))?;
            File::open(folder)?.sync_all()
        };
        write().map_err(CorpusError::io(folder))
    }
}
