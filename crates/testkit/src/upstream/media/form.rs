//! Multipart forms with files, parsed strictly.

use bytes::Bytes;

/// A field or file of a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormPart {
    /// The `name` of the part.
    pub name: String,
    /// The `filename` of a file part.
    pub file_name: Option<String>,
    /// The declared media type.
    pub content_type: Option<String>,
    /// The content of the part.
    pub body: Bytes,
}

impl FormPart {
    /// Returns the content as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Returns the parts of a form with this `content-type`; `None` when the form is malformed.
pub(in crate::upstream) fn parts(content_type: &str, body: &Bytes) -> Option<Vec<FormPart>> {
    let boundary = content_type.strip_prefix("multipart/form-data; boundary=")?;
    let first = format!("--{boundary}\r\n");
    let next = format!("\r\n--{boundary}");
    let mut rest = body.slice(body.starts_with(first.as_bytes()).then_some(first.len())?..);
    let mut parts = Vec::new();
    loop {
        let end = find(&rest, next.as_bytes())?;
        parts.push(part(&rest.slice(..end))?);
        let after = rest.slice(end + next.len()..);
        if &after[..] == b"--\r\n" {
            return Some(parts);
        }
        rest = after.slice(after.starts_with(b"\r\n").then_some(2)?..);
    }
}

fn part(bytes: &Bytes) -> Option<FormPart> {
    let head_end = find(bytes, b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..head_end]).ok()?;
    let mut part = FormPart {
        name: String::new(),
        file_name: None,
        content_type: None,
        body: bytes.slice(head_end + 4..),
    };
    for line in head.split("\r\n") {
        let (header, value) = line.split_once(": ")?;
        match header.to_ascii_lowercase().as_str() {
            "content-disposition" => {
                let mut fields = value.strip_prefix("form-data; ")?.split("; ");
                part.name = quoted(fields.next()?, "name")?;
                part.file_name = fields.next().and_then(|field| quoted(field, "filename"));
            }
            "content-type" => part.content_type = Some(value.to_owned()),
            _ => return None,
        }
    }
    Some(part)
}

fn quoted(field: &str, name: &str) -> Option<String> {
    let value = field.strip_prefix(name)?.strip_prefix("=\"")?.strip_suffix('"')?;
    Some(value.to_owned())
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
