//! Use cases of the Files API: list and delete.

use tollgate_storage::{FileFilter, FilePurpose, FileRecord};
use tollgate_types::{AccountId, Error, ErrorCode, FileId};

use super::storage::Files;
use super::wire::Page;
use crate::batches::{Batches, needs};

/// Returns the files of a page and whether more files follow.
pub(super) async fn list(
    files: &Files,
    account: AccountId,
    page: Page,
) -> Result<(Vec<FileRecord>, bool), Error> {
    if !page.ids.is_empty() || page.limit == 0 {
        return Ok((named(files, account, &page.ids).await?, false));
    }
    // The files before an id are listed in the opposite order, then reversed.
    let is_backwards = page.before.is_some();
    let filter = FileFilter {
        purpose: page.purpose,
        after: page.after.or(page.before),
        is_ascending: page.is_ascending != is_backwards,
    };
    let mut found = files.list(account, filter, page.limit.saturating_add(1)).await?;
    let max = usize::try_from(page.limit).unwrap_or(usize::MAX);
    let has_more = found.len() > max;
    found.truncate(max);
    if is_backwards {
        found.reverse();
    }
    Ok((found, has_more))
}

/// Returns those of the ids that the account owns, newest first.
async fn named(files: &Files, account: AccountId, ids: &[FileId]) -> Result<Vec<FileRecord>, Error> {
    let mut found = Vec::new();
    for id in ids.iter().rev() {
        found.extend(files.find(account, *id).await?);
    }
    Ok(found)
}

/// Deletes a file, unless an unfinished batch needs it.
pub(super) async fn delete(
    files: &Files,
    batches: &Batches,
    account: AccountId,
    id: &str,
) -> Result<(), Error> {
    let file = files.get(account, id, "file_id").await?;
    if file.purpose == FilePurpose::Batch && needs(batches, account, file.id).await? {
        let message = "An unfinished batch needs this file. Wait until the batch ends, or cancel it.";
        return Err(Error::new(ErrorCode::Conflict, message).with_param("file_id"));
    }
    match files.delete(account, file.id).await? {
        true => Ok(()),
        // A concurrent request has deleted it first.
        false => Err(Error::new(ErrorCode::NotFound, "No such file.").with_param("file_id")),
    }
}
