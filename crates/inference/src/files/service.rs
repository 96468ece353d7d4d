//! The use cases: list, find, delete.

use tollgate_storage::{FileFilter, FilePurpose, KeptFile};
use tollgate_types::{AccountId, Error, ErrorCode, FileId};

use super::shelf::Files;
use super::wire::Page;
use crate::batches::{Batches, needs};

/// The files of a page, and whether there are more.
pub(super) async fn list(
    files: &Files,
    account: AccountId,
    page: Page,
) -> Result<(Vec<KeptFile>, bool), Error> {
    if !page.ids.is_empty() || page.limit == 0 {
        return Ok((named(files, account, &page.ids).await?, false));
    }
    // What stands before a file is what is behind it, the other way round.
    let is_backwards = page.before.is_some();
    let filter = FileFilter {
        purpose: page.purpose,
        after: page.after.or(page.before),
        is_ascending: page.is_ascending != is_backwards,
    };
    let mut found = files.list(account, filter, page.limit.saturating_add(1)).await?;
    let most = usize::try_from(page.limit).unwrap_or(usize::MAX);
    let has_more = found.len() > most;
    found.truncate(most);
    if is_backwards {
        found.reverse();
    }
    Ok((found, has_more))
}

/// Those of these files that the account has, the newest first.
async fn named(files: &Files, account: AccountId, ids: &[FileId]) -> Result<Vec<KeptFile>, Error> {
    let mut found = Vec::new();
    for id in ids.iter().rev() {
        found.extend(files.find(account, *id).await?);
    }
    Ok(found)
}

/// Deletes a file.
pub(super) async fn delete(
    files: &Files,
    batches: &Batches,
    account: AccountId,
    id: &str,
) -> Result<(), Error> {
    let file = files.get(account, id, "file_id").await?;
    if file.purpose == FilePurpose::Batch && needs(batches, account, file.id).await? {
        let message = "A batch that has not ended needs this file. Wait for its end, or cancel it.";
        return Err(Error::new(ErrorCode::Conflict, message).with_param("file_id"));
    }
    match files.delete(account, file.id).await? {
        true => Ok(()),
        // Somebody else has been quicker.
        false => Err(Error::new(ErrorCode::NotFound, "There is no such file.").with_param("file_id")),
    }
}
