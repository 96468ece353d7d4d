//! Request and response schemas of `/v1/files`, in OpenAI's and in Anthropic's shape.

use serde::Serialize;
use tollgate_edge::ClientDialect;
use tollgate_storage::{FilePurpose, FileRecord};
use tollgate_types::{Error, ErrorCode, FileId};
use utoipa::{IntoParams, ToSchema};

/// Multipart form (`multipart/form-data`) that uploads a file. The fields may come in any order.
#[derive(Serialize, ToSchema)]
pub struct CreateFile {
    /// Content of the file, at most 512 MiB; with purpose `batch` at most 200 MiB.
    #[schema(value_type = String, format = Binary, content_media_type = "application/octet-stream")]
    file: Vec<u8>,
    /// Intended use: `assistants`, `batch`, `fine-tune`, `vision`, `user_data` or `evals`.
    /// Required, except with the `anthropic-version` header, where the default is `user_data`.
    purpose: Option<String>,
    /// Start of the retention time. Always `created_at`; required with `expires_after[seconds]`.
    #[serde(rename = "expires_after[anchor]")]
    anchor: Option<String>,
    /// Retention time in seconds. Only with the `anthropic-version` header.
    #[schema(minimum = 3_600, maximum = 7_776_000)]
    expires_in_seconds: Option<u64>,
    /// Retention time in seconds. Without it the file does not expire; a `batch` file expires after
    /// 30 days.
    #[serde(rename = "expires_after[seconds]")]
    #[schema(minimum = 3_600, maximum = 2_592_000)]
    seconds: Option<u64>,
}

/// A file object. Requests with the `anthropic-version` header receive Anthropic's shape.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum FileBody {
    /// A file in the shape of OpenAI's Files API.
    Common(FileObject),
    /// A file in the shape of Anthropic's Files API, for requests with the `anthropic-version`
    /// header.
    Messages(FileMetadata),
}

/// A file in the shape of OpenAI's Files API.
#[derive(Serialize, ToSchema)]
pub struct FileObject {
    /// Id of the file, to use in requests.
    #[schema(value_type = String)]
    id: FileId,
    /// Always `file`.
    object: &'static str,
    /// Size of the file in bytes.
    bytes: u64,
    /// Creation time, in seconds since the Unix epoch.
    created_at: i64,
    /// Expiry time, in seconds since the Unix epoch. Absent if the file does not expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<i64>,
    /// File name as uploaded, without folders.
    filename: String,
    /// Intended use of the file, such as `batch` or `user_data`.
    purpose: &'static str,
    /// Always `processed`.
    status: &'static str,
    /// Number of lines that are not blank. Only with purpose `batch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<u64>,
}

/// A file in the shape of Anthropic's Files API.
#[derive(Serialize, ToSchema)]
pub struct FileMetadata {
    /// Id of the file, to use in requests.
    #[schema(value_type = String)]
    id: FileId,
    /// Always `file`.
    r#type: &'static str,
    /// File name as uploaded, without folders.
    filename: String,
    /// Media type, detected from the content of the file. A text file has the `text/` type that its
    /// upload declared, or `text/plain`.
    mime_type: String,
    /// Size of the file in bytes.
    size_bytes: u64,
    /// Creation time in RFC 3339 format.
    created_at: String,
    /// Whether the content can be downloaded. Always true.
    downloadable: bool,
    /// Expiry time in RFC 3339 format; null if the file does not expire.
    expires_at: Option<String>,
}

/// One page of the list of files.
#[derive(Serialize, ToSchema)]
pub struct FileList {
    /// Always `list`.
    object: &'static str,
    /// The files of this page.
    data: Vec<FileBody>,
    /// Id of the first file of this page.
    first_id: Option<String>,
    /// Id of the last file of this page.
    last_id: Option<String>,
    /// Whether more files follow in the direction of the listing.
    has_more: bool,
    /// Value of `page` for the next page, if there is one. Only with the `anthropic-version`
    /// header.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_page: Option<String>,
}

/// Confirmation that a file was deleted.
#[derive(Serialize, ToSchema)]
pub struct DeletedFile {
    /// Id of the deleted file.
    id: String,
    /// Always `file`. Absent with the `anthropic-version` header.
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<&'static str>,
    /// Always true. Absent with the `anthropic-version` header.
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted: Option<bool>,
    /// Always `file_deleted`. Only with the `anthropic-version` header.
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<&'static str>,
}

impl FileBody {
    /// Returns the file in the shape of the client dialect.
    pub(super) fn of(file: FileRecord, dialect: ClientDialect) -> Self {
        let seconds = |at: tollgate_types::Timestamp| at.as_micros().div_euclid(1_000_000);
        match dialect {
            ClientDialect::Messages => FileBody::Messages(FileMetadata {
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
    /// Returns a page in the shape of the client dialect.
    pub(super) fn of(files: Vec<FileRecord>, has_more: bool, dialect: ClientDialect) -> Self {
        let data: Vec<_> = files
            .into_iter()
            .map(|file| FileBody::of(file, dialect))
            .collect();
        let id = |file: Option<&FileBody>| file.map(|file| file.id().to_string());
        let last_id = id(data.last());
        let next = last_id
            .as_deref()
            .filter(|_| has_more && dialect == ClientDialect::Messages);
        Self {
            object: "list",
            first_id: id(data.first()),
            next_page: next.map(|last| format!("{CURSOR_PREFIX}{last}")),
            last_id,
            data,
            has_more,
        }
    }
}

impl DeletedFile {
    /// Returns the confirmation in the shape of the client dialect.
    pub(super) fn of(id: String, dialect: ClientDialect) -> Self {
        let is_messages = dialect == ClientDialect::Messages;
        Self {
            id,
            object: (!is_messages).then_some("file"),
            deleted: (!is_messages).then_some(true),
            r#type: is_messages.then_some("file_deleted"),
        }
    }
}

/// Query parameters of the list of files.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(
    dead_code,
    reason = "only describes the parameters: the allowed ones depend on the client dialect"
)]
pub struct FilesQuery {
    /// Return only files with this purpose. Not allowed with the `anthropic-version` header.
    purpose: Option<String>,
    /// Number of files per page: 1 to 10,000, default 10,000. With the `anthropic-version` header:
    /// 1 to 1,000, default 20.
    #[param(minimum = 1, maximum = 10_000)]
    limit: Option<u32>,
    /// Sort order by creation time: `asc` or `desc`. Default: `desc` (newest first). Not allowed
    /// with the `anthropic-version` header.
    order: Option<String>,
    /// Return files that come after the file with this id. Not allowed with the `anthropic-version`
    /// header.
    after: Option<String>,
    /// Return files that come after the file with this id. Only with the `anthropic-version`
    /// header.
    after_id: Option<String>,
    /// Return files that come before the file with this id. Only with the `anthropic-version`
    /// header.
    before_id: Option<String>,
    /// Cursor from `next_page` of the previous page. Only with the `anthropic-version` header.
    page: Option<String>,
    /// Return only the files with these ids (`ids[]`), at most 100; unknown ids are skipped. Cannot
    /// be combined with paging. Only with the `anthropic-version` header.
    ids: Option<Vec<String>>,
}

/// Parsed query parameters of the list of files.
pub(super) struct Page {
    pub(super) purpose: Option<FilePurpose>,
    pub(super) limit: u32,
    pub(super) is_ascending: bool,
    pub(super) after: Option<FileId>,
    /// The page contains files that come before this one.
    pub(super) before: Option<FileId>,
    /// If not empty, the page contains only these files.
    pub(super) ids: Vec<FileId>,
}

/// Prefix of a cursor; the id of a file follows.
const CURSOR_PREFIX: &str = "page_";
/// Maximum number of ids in `ids[]`.
const MAX_IDS: usize = 100;

impl Page {
    /// Parses and validates a query string.
    pub(super) fn read(pairs: Vec<(String, String)>, dialect: ClientDialect) -> Result<Self, Error> {
        let is_messages = dialect == ClientDialect::Messages;
        let (max_limit, default_limit) = if is_messages {
            (1_000, 20)
        } else {
            (10_000, 10_000)
        };
        let mut page = Self {
            purpose: None,
            limit: default_limit,
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
                    let limit = value.parse().ok().filter(|limit| (1..=max_limit).contains(limit));
                    let what = format!("must be an integer from 1 to {max_limit}");
                    page.limit = limit.ok_or_else(|| invalid("limit", &what))?;
                }
                ("purpose", false) => {
                    let names = FilePurpose::ALL.map(FilePurpose::as_str).join("', '");
                    let purpose = FilePurpose::parse(&value);
                    let unknown = || invalid("purpose", &format!("must be one of '{names}'"));
                    page.purpose = Some(purpose.ok_or_else(unknown)?);
                }
                ("order", false) if value == "asc" || value == "desc" => page.is_ascending = value == "asc",
                ("order", false) => return Err(invalid("order", "must be 'asc' or 'desc'")),
                ("after", false) => page.after = Some(id("after", &value)?),
                ("after_id", true) => page.after = Some(id("after_id", &value)?),
                ("before_id", true) => page.before = Some(id("before_id", &value)?),
                ("page", true) => {
                    by_page = true;
                    let last = value.strip_prefix(CURSOR_PREFIX).unwrap_or_default();
                    page.after = Some(
                        last.parse()
                            .map_err(|_| invalid("page", "is not a cursor of this list"))?,
                    );
                }
                ("ids" | "ids[]", true) => {
                    by_ids = true;
                    page.ids.extend(value.parse::<FileId>());
                    page.ids.sort_unstable();
                    page.ids.dedup();
                    if page.ids.len() > MAX_IDS {
                        return Err(invalid("ids", "must have at most 100 ids"));
                    }
                }
                ("beta", _) => {}
                _ => return Err(Error::unknown_parameter(name)),
            }
        }
        if by_ids && (by_page || page.after.is_some() || page.before.is_some()) {
            return Err(invalid(
                "ids",
                "cannot be combined with 'limit', 'page', 'after_id' or 'before_id'",
            ));
        }
        if by_ids && page.ids.is_empty() {
            page.limit = 0;
        }
        match (page.after, page.before) {
            (Some(_), Some(_)) => Err(invalid("before_id", "cannot be combined with 'after_id'")),
            _ => Ok(page),
        }
    }
}

fn id(param: &str, value: &str) -> Result<FileId, Error> {
    value
        .parse()
        .map_err(|_| invalid(param, "is not the id of a file"))
}

fn invalid(param: &str, what: &str) -> Error {
    Error::new(ErrorCode::InvalidParameter, format!("'{param}' {what}.")).with_param(param)
}
