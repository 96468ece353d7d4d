//! Text of PDF documents.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_extract::{Document, Object, PlainTextOutput, output_doc_page};
use tollgate_evidence::text::MAX_SOURCE_CHARS;
use tollgate_upstream::ExtractError;

use crate::Draft;

/// Maximum number of pages that are read.
const MAX_PAGES: usize = 1_000;

pub(crate) fn draft(bytes: &[u8]) -> Result<Draft, ExtractError> {
    let mut document = Document::load_mem(bytes).map_err(|_| ExtractError::Malformed)?;
    // Many documents are encrypted with an empty password, which only forbids to print them.
    if document.is_encrypted() && document.decrypt("").is_err() {
        return Err(ExtractError::Encrypted);
    }
    let pages: Vec<u32> = document.get_pages().into_keys().take(MAX_PAGES).collect();
    let mut text = String::new();
    let mut is_read = pages.is_empty();
    for page in pages {
        // The parser of fonts and contents panics on documents that violate the format. Such a page
        // is left out.
        let read = catch_unwind(AssertUnwindSafe(|| page_text(&document, page)));
        if let Ok(Some(page)) = read {
            is_read = true;
            text.push_str(&page);
            text.push_str("\n\n");
        }
        // A character has at most four bytes.
        if text.len() >= MAX_SOURCE_CHARS * 4 {
            break;
        }
    }
    if !is_read {
        return Err(ExtractError::Malformed);
    }
    Ok(Draft {
        title: information(&document, b"Title").unwrap_or_default(),
        author: information(&document, b"Author"),
        text,
        ..Draft::default()
    })
}

fn page_text(document: &Document, page: u32) -> Option<String> {
    let mut text = String::new();
    let mut output = PlainTextOutput::new(&mut text);
    output_doc_page(document, &mut output, page).ok()?;
    Some(text)
}

/// Returns an entry of the document information dictionary.
fn information(document: &Document, name: &[u8]) -> Option<String> {
    let entry = document.trailer.get(b"Info").ok()?;
    let (_, dictionary) = document.dereference(entry).ok()?;
    let (_, value) = document
        .dereference(dictionary.as_dict().ok()?.get(name).ok()?)
        .ok()?;
    match value {
        Object::String(bytes, _) => Some(decoded(bytes)),
        _ => None,
    }
}

/// Decodes a text string: UTF-16 or UTF-8 with a byte order mark, else a code page whose letters
/// are those of Latin-1.
fn decoded(bytes: &[u8]) -> String {
    match encoding_rs::Encoding::for_bom(bytes) {
        Some((encoding, _)) => encoding.decode(bytes).0.into_owned(),
        None => encoding_rs::WINDOWS_1252.decode(bytes).0.into_owned(),
    }
}
