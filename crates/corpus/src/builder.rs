//! Builds an index in a new folder.

use std::ops::ControlFlow;
use std::path::Path;

use tantivy::{IndexWriter, TantivyDocument};

use crate::corpus::Progress;
use crate::document::parse;
use crate::error::CorpusError;
use crate::manifest::{FORMAT, FileState, Manifest};
use crate::scan::{Found, Skipped, hash, read};
use crate::schema::{self, Fields};

/// Memory for passages that are not on disk yet, in bytes.
const MEMORY_BYTES: usize = 64 << 20;

/// Called after each file. `Break` stops the build.
pub(crate) type OnProgress<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

/// Builds an index in an empty folder and writes its manifest last. One thread reads files, one
/// other adds passages, and others merge parts of the index.
pub(crate) fn build(
    folder: &Path,
    prefix: &str,
    found: &[Found],
    skipped: Skipped,
    built_at_micros: i64,
    on_progress: OnProgress<'_>,
) -> Result<Manifest, CorpusError> {
    let (index, fields) = schema::create(Some(folder))?;
    let mut writer: IndexWriter<TantivyDocument> = index.writer_with_num_threads(1, MEMORY_BYTES)?;
    let mut manifest = Manifest {
        format: FORMAT,
        prefix: prefix.to_owned(),
        files: Vec::with_capacity(found.len()),
        documents: 0,
        passages: 0,
        skipped,
        built_at_micros,
    };
    for (done, file) in (1_u64..).zip(found) {
        let state = add_file(&writer, fields, file, &mut manifest)?;
        manifest.files.push(state);
        let progress = Progress {
            files: done,
            total_files: found.len() as u64,
            documents: manifest.documents,
        };
        if on_progress(progress).is_break() {
            return Err(CorpusError::Stopped);
        }
    }
    writer.commit()?;
    writer.wait_merging_threads()?;
    manifest.write(folder)?;
    Ok(manifest)
}

fn add_file(
    writer: &IndexWriter<TantivyDocument>,
    fields: Fields,
    file: &Found,
    manifest: &mut Manifest,
) -> Result<FileState, CorpusError> {
    let mut state = FileState {
        path: file.relative.clone(),
        size: file.size,
        modified_ns: file.modified_ns,
        sha256: String::new(),
    };
    let Some(content) = read(file) else {
        manifest.skipped.unreadable += 1;
        return Ok(state);
    };
    state.sha256 = hash(&content);
    let Some(parsed) = parse(&file.relative, file.format, &content) else {
        manifest.skipped.binary += 1;
        return Ok(state);
    };
    manifest.skipped.malformed += parsed.malformed;
    for document in &parsed.documents {
        for entry in schema::entries(fields, &manifest.prefix, manifest.documents, document) {
            writer.add_document(entry)?;
            manifest.passages += 1;
        }
        manifest.documents += 1;
    }
    Ok(state)
}
