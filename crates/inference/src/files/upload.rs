//! Multipart uploads. The parts may come in any order, so the file is stored before its purpose is
//! known.

use std::time::Duration;

use bytes::Bytes;
use tollgate_edge::{ClientDialect, Part, Upload};
use tollgate_storage::{Account, FilePurpose, FileRecord};
use tollgate_types::{AccountId, Error, ErrorCode};

use super::storage::{ChunkSource, Files, Label, UnclaimedBlob, too_large};

/// Maximum size of a file: 512 MiB.
pub(super) const MAX_FILE_BYTES: u64 = 512 << 20;
/// Maximum size of a batch input file: 200 MiB.
pub(super) const MAX_BATCH_INPUT_BYTES: u64 = 200 << 20;
/// Maximum size of a multipart body: the largest file plus 64 KiB for boundaries and other fields.
pub(super) const MAX_FORM_BYTES: usize = (512 << 20) + (64 << 10);
/// Maximum length of a file name, in bytes.
const MAX_NAME_BYTES: usize = 255;
/// Maximum length of any other form field, in bytes.
const MAX_TEXT_BYTES: usize = 100;
/// Allowed values of `expires_after[seconds]`: 1 hour to 30 days.
const RETENTION_SECONDS: std::ops::RangeInclusive<u64> = 3_600..=2_592_000;
/// Allowed values of Anthropic's `expires_in_seconds`: 1 hour to 90 days.
const MESSAGES_RETENTION_SECONDS: std::ops::RangeInclusive<u64> = 3_600..=7_776_000;
/// Default retention of batch input files.
const BATCH_INPUT_RETENTION: Duration = Duration::from_hours(30 * 24);

/// Form fields that have been read so far.
#[derive(Default)]
struct UploadFields {
    /// Whether the form follows Anthropic's Files API, which has no `purpose` and an optional file
    /// name.
    is_messages: bool,
    filename: Option<String>,
    purpose: Option<FilePurpose>,
    anchor: Option<()>,
    seconds: Option<u64>,
}

impl ChunkSource for Part<'_> {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        self.chunk().await
    }
}

/// Stores the file of a form. `dialect` determines whether the form follows OpenAI's or Anthropic's
/// Files API.
pub(super) async fn receive<const LIMIT: usize>(
    files: &Files,
    owner: &Account,
    mut form: Upload<LIMIT>,
    dialect: ClientDialect,
) -> Result<FileRecord, Error> {
    let (account, limit) = (owner.id, files.limit(&owner.limits));
    files.check_quota(account, limit).await?;
    let mut sent = UploadFields {
        is_messages: dialect == ClientDialect::Messages,
        ..UploadFields::default()
    };
    let mut unclaimed = None;
    let read = read(files, account, &mut form, &mut sent, &mut unclaimed).await;
    let label = read.and_then(|()| label(sent, unclaimed.as_ref()));
    match (label, unclaimed) {
        (Ok(label), Some(unclaimed)) => files.label(unclaimed, label, limit).await,
        (Ok(_), None) => {
            let message = "'file' is missing. Send the file as a form field with this name.";
            Err(Error::new(ErrorCode::MissingRequiredParameter, message).with_param("file"))
        }
        (Err(error), unclaimed) => {
            if let Some(unclaimed) = unclaimed {
                files.discard(unclaimed).await;
            }
            Err(error)
        }
    }
}

async fn read<const LIMIT: usize>(
    files: &Files,
    account: AccountId,
    form: &mut Upload<LIMIT>,
    sent: &mut UploadFields,
    unclaimed: &mut Option<UnclaimedBlob>,
) -> Result<(), Error> {
    while let Some(mut part) = form.next().await? {
        match part.name().to_owned().as_str() {
            "file" => {
                once("file", unclaimed.is_none())?;
                sent.filename = Some(match part.filename() {
                    None | Some("") if sent.is_messages => "unnamed".to_owned(),
                    filename => name(filename)?,
                });
                let declared = part.content_type().map(str::to_owned);
                let limit = limit(sent.purpose);
                *unclaimed = Some(
                    files
                        .receive(account, &mut part, declared.as_deref(), limit)
                        .await?,
                );
            }
            "purpose" => {
                once("purpose", sent.purpose.is_none())?;
                let text = text(&mut part, "purpose").await?;
                sent.purpose = Some(purpose(&text)?);
            }
            "expires_after[anchor]" => {
                once("expires_after.anchor", sent.anchor.is_none())?;
                let text = text(&mut part, "expires_after.anchor").await?;
                if text != "created_at" {
                    return Err(invalid("expires_after.anchor", "must be 'created_at'"));
                }
                sent.anchor = Some(());
            }
            "expires_after[seconds]" => {
                once("expires_after.seconds", sent.seconds.is_none())?;
                let text = text(&mut part, "expires_after.seconds").await?;
                let seconds = text
                    .parse()
                    .ok()
                    .filter(|seconds| RETENTION_SECONDS.contains(seconds));
                let what = "must be an integer from 3600 to 2592000";
                sent.seconds = Some(seconds.ok_or_else(|| invalid("expires_after.seconds", what))?);
            }
            "expires_in_seconds" if sent.is_messages => {
                once("expires_in_seconds", sent.seconds.is_none())?;
                let text = text(&mut part, "expires_in_seconds").await?;
                let seconds = text
                    .parse()
                    .ok()
                    .filter(|seconds| MESSAGES_RETENTION_SECONDS.contains(seconds));
                let what = "must be an integer from 3600 to 7776000";
                let seconds = seconds.ok_or_else(|| invalid("expires_in_seconds", what))?;
                (sent.anchor, sent.seconds) = (Some(()), Some(seconds));
            }
            other => {
                let shown: String = other.chars().take(60).collect();
                return Err(Error::unknown_parameter(shown));
            }
        }
    }
    Ok(())
}

/// Validates the fields after the whole form has been read, and returns the label of the file.
fn label(sent: UploadFields, unclaimed: Option<&UnclaimedBlob>) -> Result<Label, Error> {
    let purpose = sent
        .purpose
        .or(sent.is_messages.then_some(FilePurpose::UserData))
        .ok_or_else(|| missing("purpose", "the purpose, such as 'user_data' or 'batch'"))?;
    match (sent.anchor, sent.seconds) {
        (Some(()), None) => return Err(missing("expires_after.seconds", "the retention time in seconds")),
        (None, Some(_)) => return Err(missing("expires_after.anchor", "'created_at'")),
        _ => {}
    }
    if let Some(unclaimed) = unclaimed {
        if unclaimed.bytes == 0 {
            return Err(invalid("file", "is empty"));
        }
        if unclaimed.bytes > limit(Some(purpose)) {
            return Err(too_large(limit(Some(purpose))));
        }
    }
    let default_retention = (purpose == FilePurpose::Batch).then_some(BATCH_INPUT_RETENTION);
    Ok(Label {
        filename: sent.filename.unwrap_or_default(),
        purpose,
        expires_after: sent.seconds.map(Duration::from_secs).or(default_retention),
    })
}

fn limit(purpose: Option<FilePurpose>) -> u64 {
    match purpose {
        Some(FilePurpose::Batch) => MAX_BATCH_INPUT_BYTES,
        _ => MAX_FILE_BYTES,
    }
}

async fn text(part: &mut Part<'_>, param: &str) -> Result<String, Error> {
    if part.filename().is_some() {
        return Err(invalid(param, "must be a text field, not a file"));
    }
    let text = part.text(MAX_TEXT_BYTES).await?;
    text.ok_or_else(|| invalid(param, "must be UTF-8 text of at most 100 bytes"))
}

/// Returns the base name of a file name, because some clients send a path.
fn name(sent: Option<&str>) -> Result<String, Error> {
    let sent = sent.ok_or_else(|| invalid("file", "must be sent as a file with a name"))?;
    let name = sent.rsplit(['/', '\\']).next().unwrap_or_default();
    match name {
        "" | "." | ".." => Err(invalid("file", "has no name")),
        _ if name.len() > MAX_NAME_BYTES => Err(invalid("file", "has a name of more than 255 bytes")),
        _ if name.chars().any(char::is_control) => Err(invalid("file", "has control characters in its name")),
        _ => Ok(name.to_owned()),
    }
}

/// Parses a purpose. Rejects `batch_output`, which clients cannot upload.
fn purpose(text: &str) -> Result<FilePurpose, Error> {
    let purpose = FilePurpose::parse(text).filter(|purpose| *purpose != FilePurpose::BatchOutput);
    purpose.ok_or_else(|| {
        let names = FilePurpose::ALL.map(FilePurpose::as_str).join("', '");
        let names = names.trim_end_matches("', 'batch_output");
        invalid("purpose", &format!("must be one of '{names}'"))
    })
}

fn once(param: &str, is_first: bool) -> Result<(), Error> {
    match is_first {
        true => Ok(()),
        false => Err(invalid(param, "occurs twice in the form")),
    }
}

fn missing(param: &str, what: &str) -> Error {
    let message = format!("'{param}' is missing. Send {what}.");
    Error::new(ErrorCode::MissingRequiredParameter, message).with_param(param)
}

fn invalid(param: &str, what: &str) -> Error {
    Error::new(ErrorCode::InvalidParameter, format!("'{param}' {what}.")).with_param(param)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_have_no_folders() {
        for (sent, expected) in [
            ("a.jsonl", Some("a.jsonl")),
            ("C:\\up\\a b.pdf", Some("a b.pdf")),
            ("../../etc/passwd", Some("passwd")),
            ("für.txt", Some("für.txt")),
            ("", None),
            ("folder/", None),
            ("..", None),
            ("a\nb", None),
        ] {
            assert_eq!(name(Some(sent)).ok().as_deref(), expected, "{sent}");
        }
        assert!(name(None).is_err());
        assert!(name(Some(&"x".repeat(255))).is_ok());
        assert!(name(Some(&"x".repeat(256))).is_err());
    }

    #[test]
    fn batch_outputs_cannot_be_uploaded() {
        assert_eq!(purpose("user_data").unwrap(), FilePurpose::UserData);
        for text in ["batch_output", "", "Batch"] {
            let error = purpose(text).unwrap_err();
            assert_eq!(error.param.as_deref(), Some("purpose"));
            assert!(error.message.ends_with("'evals'."), "{}", error.message);
        }
    }
}
