//! An upload: the parts of its form in any order, the file's bytes kept before it is known what they are for.

use std::time::Duration;

use bytes::Bytes;
use tollgate_edge::{Family, Part, Upload};
use tollgate_storage::{Account, FilePurpose, KeptFile};
use tollgate_types::{AccountId, Error, ErrorCode};

use super::shelf::{Files, Label, Loose, Pieces, too_large};

/// The most bytes of a file.
pub(super) const MOST_BYTES: u64 = 512 << 20;
/// The most bytes of the requests of a batch.
pub(super) const MOST_BATCH_BYTES: u64 = 200 << 20;
/// A form is larger than its file: what stands around it, and its other fields.
pub(super) const MOST_FORM: usize = (512 << 20) + (64 << 10);
/// The longest name of a file, in bytes.
const MOST_NAME: usize = 255;
/// The longest text of any other field.
const MOST_TEXT: usize = 100;
/// How long a file may say that it is kept.
const KEPT: std::ops::RangeInclusive<u64> = 3_600..=2_592_000;
/// The same, as Anthropic's clients say it.
const KEPT_IN_SECONDS: std::ops::RangeInclusive<u64> = 3_600..=7_776_000;
/// How long requests of a batch are kept that say nothing.
const BATCH_KEPT: Duration = Duration::from_hours(30 * 24);

/// What a form has said so far.
#[derive(Default)]
struct Said {
    /// Whether it is a form of Anthropic's clients: they say no purpose, and need not say a name.
    is_messages: bool,
    filename: Option<String>,
    purpose: Option<FilePurpose>,
    anchor: Option<()>,
    seconds: Option<u64>,
}

impl Pieces for Part<'_> {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        self.piece().await
    }
}

/// Keeps the file of a form, as the clients of a family send it.
pub(super) async fn receive<const LIMIT: usize>(
    files: &Files,
    owner: &Account,
    mut form: Upload<LIMIT>,
    family: Family,
) -> Result<KeptFile, Error> {
    let (account, most) = (owner.id, files.most(&owner.limits));
    files.check_room(account, most).await?;
    let mut said = Said {
        is_messages: family == Family::Messages,
        ..Said::default()
    };
    let mut loose = None;
    let read = read(files, account, &mut form, &mut said, &mut loose).await;
    let label = read.and_then(|()| label(said, loose.as_ref()));
    match (label, loose) {
        (Ok(label), Some(loose)) => files.label(loose, label, most).await,
        (Ok(_), None) => {
            let message = "'file' is missing: send the file as a form field of that name.";
            Err(Error::new(ErrorCode::MissingRequiredParameter, message).with_param("file"))
        }
        (Err(error), loose) => {
            if let Some(loose) = loose {
                files.discard(loose).await;
            }
            Err(error)
        }
    }
}

async fn read<const LIMIT: usize>(
    files: &Files,
    account: AccountId,
    form: &mut Upload<LIMIT>,
    said: &mut Said,
    loose: &mut Option<Loose>,
) -> Result<(), Error> {
    while let Some(mut part) = form.next().await? {
        match part.name().to_owned().as_str() {
            "file" => {
                once("file", loose.is_none())?;
                said.filename = Some(match part.filename() {
                    None | Some("") if said.is_messages => "unnamed".to_owned(),
                    filename => name(filename)?,
                });
                let declared = part.content_type().map(str::to_owned);
                let most = most(said.purpose);
                *loose = Some(
                    files
                        .receive(account, &mut part, declared.as_deref(), most)
                        .await?,
                );
            }
            "purpose" => {
                once("purpose", said.purpose.is_none())?;
                let text = text(&mut part, "purpose").await?;
                said.purpose = Some(purpose(&text)?);
            }
            "expires_after[anchor]" => {
                once("expires_after.anchor", said.anchor.is_none())?;
                let text = text(&mut part, "expires_after.anchor").await?;
                if text != "created_at" {
                    return Err(invalid("expires_after.anchor", "is 'created_at'"));
                }
                said.anchor = Some(());
            }
            "expires_after[seconds]" => {
                once("expires_after.seconds", said.seconds.is_none())?;
                let text = text(&mut part, "expires_after.seconds").await?;
                let seconds = text.parse().ok().filter(|seconds| KEPT.contains(seconds));
                said.seconds =
                    Some(seconds.ok_or_else(|| invalid("expires_after.seconds", "is 3600 to 2592000"))?);
            }
            "expires_in_seconds" if said.is_messages => {
                once("expires_in_seconds", said.seconds.is_none())?;
                let text = text(&mut part, "expires_in_seconds").await?;
                let seconds = text
                    .parse()
                    .ok()
                    .filter(|seconds| KEPT_IN_SECONDS.contains(seconds));
                let seconds = seconds.ok_or_else(|| invalid("expires_in_seconds", "is 3600 to 7776000"))?;
                (said.anchor, said.seconds) = (Some(()), Some(seconds));
            }
            other => {
                let shown: String = other.chars().take(60).collect();
                let message = format!("There is no field '{shown}' in this form. Leave it out.");
                return Err(Error::new(ErrorCode::UnknownParameter, message).with_param(shown));
            }
        }
    }
    Ok(())
}

/// What the form says of its file, once all of it was read.
fn label(said: Said, loose: Option<&Loose>) -> Result<Label, Error> {
    let purpose = said
        .purpose
        .or(said.is_messages.then_some(FilePurpose::UserData))
        .ok_or_else(|| missing("purpose", "what the file is for, such as 'user_data' or 'batch'"))?;
    match (said.anchor, said.seconds) {
        (Some(()), None) => return Err(missing("expires_after.seconds", "for how long the file is kept")),
        (None, Some(_)) => return Err(missing("expires_after.anchor", "'created_at'")),
        _ => {}
    }
    if let Some(loose) = loose {
        if loose.bytes == 0 {
            return Err(invalid("file", "is empty"));
        }
        if loose.bytes > most(Some(purpose)) {
            return Err(too_large(most(Some(purpose))));
        }
    }
    let usual_time = (purpose == FilePurpose::Batch).then_some(BATCH_KEPT);
    Ok(Label {
        filename: said.filename.unwrap_or_default(),
        purpose,
        expires_after: said.seconds.map(Duration::from_secs).or(usual_time),
    })
}

fn most(purpose: Option<FilePurpose>) -> u64 {
    match purpose {
        Some(FilePurpose::Batch) => MOST_BATCH_BYTES,
        _ => MOST_BYTES,
    }
}

async fn text(part: &mut Part<'_>, param: &str) -> Result<String, Error> {
    if part.filename().is_some() {
        return Err(invalid(param, "is no file"));
    }
    let text = part.text(MOST_TEXT).await?;
    text.ok_or_else(|| invalid(param, "is too long, or no text"))
}

/// The name without folders, which some senders put before it.
fn name(said: Option<&str>) -> Result<String, Error> {
    let said = said.ok_or_else(|| invalid("file", "must be sent as a file, with a name"))?;
    let name = said.rsplit(['/', '\\']).next().unwrap_or_default();
    match name {
        "" | "." | ".." => Err(invalid("file", "has no name")),
        _ if name.len() > MOST_NAME => Err(invalid("file", "has a name of more than 255 bytes")),
        _ if name.chars().any(char::is_control) => Err(invalid("file", "has control characters in its name")),
        _ => Ok(name.to_owned()),
    }
}

/// The purpose of this name, if files can be uploaded for it.
fn purpose(text: &str) -> Result<FilePurpose, Error> {
    let purpose = FilePurpose::parse(text).filter(|purpose| *purpose != FilePurpose::BatchOutput);
    purpose.ok_or_else(|| {
        let names = FilePurpose::ALL.map(FilePurpose::as_str).join("', '");
        let names = names.trim_end_matches("', 'batch_output");
        invalid("purpose", &format!("is one of '{names}'"))
    })
}

fn once(param: &str, is_first: bool) -> Result<(), Error> {
    match is_first {
        true => Ok(()),
        false => Err(invalid(param, "stands in the form twice")),
    }
}

fn missing(param: &str, what: &str) -> Error {
    let message = format!("'{param}' is missing: say {what}.");
    Error::new(ErrorCode::MissingRequiredParameter, message).with_param(param)
}

fn invalid(param: &str, what: &str) -> Error {
    Error::new(ErrorCode::InvalidParameter, format!("'{param}' {what}.")).with_param(param)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_names_alone() {
        for (said, expected) in [
            ("a.jsonl", Some("a.jsonl")),
            ("C:\\up\\a b.pdf", Some("a b.pdf")),
            ("../../etc/passwd", Some("passwd")),
            ("für.txt", Some("für.txt")),
            ("", None),
            ("folder/", None),
            ("..", None),
            ("a\nb", None),
        ] {
            assert_eq!(name(Some(said)).ok().as_deref(), expected, "{said}");
        }
        assert!(name(None).is_err());
        assert!(name(Some(&"x".repeat(255))).is_ok());
        assert!(name(Some(&"x".repeat(256))).is_err());
    }

    #[test]
    fn nobody_uploads_what_came_of_a_batch() {
        assert_eq!(purpose("user_data").unwrap(), FilePurpose::UserData);
        for text in ["batch_output", "", "Batch"] {
            let error = purpose(text).unwrap_err();
            assert_eq!(error.param.as_deref(), Some("purpose"));
            assert!(error.message.ends_with("'evals'."), "{}", error.message);
        }
    }
}
