//! Bodies: a file in OpenAI's shape, and in Anthropic's for its clients.

use serde::Serialize;
use tollgate_edge::Family;
use tollgate_storage::{FilePurpose, KeptFile};
use tollgate_types::{Error, ErrorCode, FileId};
use utoipa::{IntoParams, ToSchema};

/// An upload, as a form (`multipart/form-data`). Its fields may stand in any order.
#[derive(Serialize, ToSchema)]
pub struct CreateFile {
    /// The file, of at most 512 MiB; for a batch 200 MiB.
    #[schema(value_type = String, format = Binary, content_media_type = "application/octet-stream")]
    file: Vec<u8>,
    /// `assistants`, `batch`, `fine-tune`, `vision`, `user_data` or `evals`. With `anthropic-version` it may be missing.
    purpose: Option<String>,
    /// `created_at`.
    #[serde(rename = "expires_after[anchor]")]
    anchor: Option<String>,
    /// With `anthropic-version`: for how long the file is kept.
    #[schema(minimum = 3_600, maximum = 7_776_000)]
    expires_in_seconds: Option<u64>,
    /// For how long the file is kept; without it until it is deleted, for a batch 30 days.
    #[serde(rename = "expires_after[seconds]")]
    #[schema(minimum = 3_600, maximum = 2_592_000)]
    seconds: Option<u64>,
}

/// A file.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum FileBody {
    /// As OpenAI's clients know it.
    Common(FileObject),
    /// As Anthropic's clients know it: to requests with `anthropic-version`.
    Messages(FileMetadata),
}

/// A file, as OpenAI's clients know it.
#[derive(Serialize, ToSchema)]
pub struct FileObject {
    /// Id.
    #[schema(value_type = String)]
    id: FileId,
    /// Always `file`.
    object: &'static str,
    /// How many it has.
    bytes: u64,
    /// Seconds since the epoch.
    created_at: i64,
    /// From when on it is not there any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<i64>,
    /// Its name.
    filename: String,
    /// What it is for.
    purpose: &'static str,
    /// Always `processed`.
    status: &'static str,
    /// With purpose `batch`: lines that are not blank.
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<u64>,
}

/// A file, as Anthropic's clients know it.
#[derive(Serialize, ToSchema)]
pub struct FileMetadata {
    /// Id.
    #[schema(value_type = String)]
    id: FileId,
    /// Always `file`.
    r#type: &'static str,
    /// Its name.
    filename: String,
    /// What it is, as its bytes begin.
    mime_type: String,
    /// How many bytes it has.
    size_bytes: u64,
    /// RFC 3339.
    created_at: String,
    /// Always true: its owner can have its bytes.
    downloadable: bool,
    /// From when on it is not there any more, RFC 3339.
    expires_at: Option<String>,
}

/// A page of files.
#[derive(Serialize, ToSchema)]
pub struct FileList {
    /// Always `list`.
    object: &'static str,
    /// Files.
    data: Vec<FileBody>,
    /// Id of the first one.
    first_id: Option<String>,
    /// Id of the last one.
    last_id: Option<String>,
    /// Whether there are more in this direction.
    has_more: bool,
    /// With `anthropic-version`: `page` of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_page: Option<String>,
}

/// A file was deleted.
#[derive(Serialize, ToSchema)]
pub struct DeletedFile {
    /// Id.
    id: String,
    /// Always `file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<&'static str>,
    /// Always true.
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted: Option<bool>,
    /// To requests with `anthropic-version`: `file_deleted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<&'static str>,
}

impl FileBody {
    /// A file as the clients of this family know it.
    pub(super) fn of(file: KeptFile, family: Family) -> Self {
        let seconds = |at: tollgate_types::Timestamp| at.as_micros().div_euclid(1_000_000);
        match family {
            Family::Messages => FileBody::Messages(FileMetadata {
                id: file.id,
                r#type: "file",
                filename: file.filename,
                mime_type: file.media_type,
                size_bytes: file.bytes,
                created_at: file.created_at.to_rfc3339(),
                downloadable: true,
                expires_at: file.expires_at.map(tollgate_types::Timestamp::to_rfc3339),
            }),
            _ => FileBody::Common(FileObject {
                id: file.id,
                object: "file",
                bytes: file.bytes,
                created_at: seconds(file.created_at),
                expires_at: file.expires_at.map(seconds),
                filename: file.filename,
                purpose: file.purpose.as_str(),
                status: "processed",
                lines: file.lines,
            }),
        }
    }

    fn id(&self) -> FileId {
        match self {
            FileBody::Common(file) => file.id,
            FileBody::Messages(file) => file.id,
        }
    }
}

impl FileList {
    /// A page.
    pub(super) fn of(files: Vec<KeptFile>, has_more: bool, family: Family) -> Self {
        let data: Vec<_> = files.into_iter().map(|file| FileBody::of(file, family)).collect();
        let id = |file: Option<&FileBody>| file.map(|file| file.id().to_string());
        let last_id = id(data.last());
        let next = last_id
            .as_deref()
            .filter(|_| has_more && family == Family::Messages);
        Self {
            object: "list",
            first_id: id(data.first()),
            next_page: next.map(|last| format!("{PAGE}{last}")),
            last_id,
            data,
            has_more,
        }
    }
}

impl DeletedFile {
    /// This one was.
    pub(super) fn of(id: String, family: Family) -> Self {
        let is_messages = family == Family::Messages;
        Self {
            id,
            object: (!is_messages).then_some("file"),
            deleted: (!is_messages).then_some(true),
            r#type: is_messages.then_some("file_deleted"),
        }
    }
}

/// Which files.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(
    dead_code,
    reason = "it is the description alone: what may be said depends on the family"
)]
pub struct FilesQuery {
    /// For this.
    purpose: Option<String>,
    /// Files on a page: 1 to 10000, 10000 when it is not said; with `anthropic-version` 1 to 1000, and 20.
    #[param(minimum = 1, maximum = 10_000)]
    limit: Option<u32>,
    /// `asc` or `desc`: the newest first, which is usual.
    order: Option<String>,
    /// The id of the last file of the page before.
    after: Option<String>,
    /// With `anthropic-version`: the same.
    after_id: Option<String>,
    /// With `anthropic-version`: the id of the first file of the page behind.
    before_id: Option<String>,
    /// With `anthropic-version`: `next_page` of the page before.
    page: Option<String>,
    /// With `anthropic-version`, as `ids[]`, and alone: these files, at most 100; what is none is left out.
    ids: Option<Vec<String>>,
}

/// Which files, understood.
pub(super) struct Page {
    pub(super) purpose: Option<FilePurpose>,
    pub(super) limit: u32,
    pub(super) is_ascending: bool,
    pub(super) after: Option<FileId>,
    /// The page ends before this one.
    pub(super) before: Option<FileId>,
    /// These files and no others.
    pub(super) ids: Vec<FileId>,
}

/// What a cursor begins with; the id of a file follows.
const PAGE: &str = "page_";
/// The most files that are asked for by their ids.
const MOST_IDS: usize = 100;

impl Page {
    /// Reads a query string.
    pub(super) fn read(pairs: Vec<(String, String)>, family: Family) -> Result<Self, Error> {
        let is_messages = family == Family::Messages;
        let (most, usual) = if is_messages {
            (1_000, 20)
        } else {
            (10_000, 10_000)
        };
        let mut page = Self {
            purpose: None,
            limit: usual,
            is_ascending: false,
            after: None,
            before: None,
            ids: Vec::new(),
        };
        let (mut by_ids, mut by_page) = (false, false);
        for (name, value) in pairs {
            match (name.as_str(), is_messages) {
                ("limit", _) => {
                    by_page = true;
                    let limit = value.parse().ok().filter(|limit| (1..=most).contains(limit));
                    page.limit = limit.ok_or_else(|| invalid("limit", &format!("is 1 to {most}")))?;
                }
                ("purpose", false) => {
                    let names = FilePurpose::ALL.map(FilePurpose::as_str).join("', '");
                    let purpose = FilePurpose::parse(&value);
                    let unknown = || invalid("purpose", &format!("is one of '{names}'"));
                    page.purpose = Some(purpose.ok_or_else(unknown)?);
                }
                ("order", false) if value == "asc" || value == "desc" => page.is_ascending = value == "asc",
                ("order", false) => return Err(invalid("order", "is 'asc' or 'desc'")),
                ("after", false) => page.after = Some(id("after", &value)?),
                ("after_id", true) => page.after = Some(id("after_id", &value)?),
                ("before_id", true) => page.before = Some(id("before_id", &value)?),
                ("page", true) => {
                    by_page = true;
                    let last = value.strip_prefix(PAGE).unwrap_or_default();
                    page.after = Some(
                        last.parse()
                            .map_err(|_| invalid("page", "is no page of this list"))?,
                    );
                }
                ("ids" | "ids[]", true) => {
                    by_ids = true;
                    page.ids.extend(value.parse::<FileId>());
                    page.ids.sort_unstable();
                    page.ids.dedup();
                    if page.ids.len() > MOST_IDS {
                        return Err(invalid("ids", "has more than 100 ids"));
                    }
                }
                ("beta", _) => {}
                _ => {
                    let message =
                        format!("There is no parameter '{name}' here. Check its spelling, or leave it out.");
                    return Err(Error::new(ErrorCode::UnknownParameter, message).with_param(name));
                }
            }
        }
        if by_ids && (by_page || page.after.is_some() || page.before.is_some()) {
            return Err(invalid("ids", "stands alone: leave out what says which page"));
        }
        if by_ids && page.ids.is_empty() {
            page.limit = 0;
        }
        match (page.after, page.before) {
            (Some(_), Some(_)) => Err(invalid("before_id", "cannot stand beside 'after_id'")),
            _ => Ok(page),
        }
    }
}

fn id(param: &str, value: &str) -> Result<FileId, Error> {
    value.parse().map_err(|_| invalid(param, "is the id of no file"))
}

fn invalid(param: &str, what: &str) -> Error {
    Error::new(ErrorCode::InvalidParameter, format!("'{param}' {what}.")).with_param(param)
}
