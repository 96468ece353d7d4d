//! Features about images, audio and documents.

use serde_json::{Value, json};

use super::{Feature, turns};

const PNG: &str = "iVBORw0KGgo=";
const PDF: &str = "JVBERi0xLjcK";
const WAV: &str = "UklGRiQAAABXQVZF";
const ADDRESS: &str = "https://example.com/it";

/// Content of every image that the gateway fetches or reads from an uploaded file.
pub const IMAGE: &str = "data:image/png;base64,iVBORw0KGgo=";
/// Content of every document that the gateway fetches or reads from an uploaded file.
pub const DOCUMENT: &str = "data:application/pdf;base64,JVBERi0xLjcK";

/// Returns the members for a part in a user turn, after a text.
fn part(chat: Value, messages: Value, responses: Value, contents: Value) -> [Value; 5] {
    let turn = |content: &str, text: Value, part: Value| match part {
        Value::Null => Value::Null,
        part => json!([{"role": "user", content: [text, part]}]),
    };
    let text = json!({"type": "text", "text": "Hello."});
    turns(
        turn("content", text.clone(), chat),
        turn("content", text, messages),
        turn(
            "content",
            json!({"type": "input_text", "text": "Hello."}),
            responses,
        ),
        turn("parts", json!({"text": "Hello."}), contents),
    )
}

fn blob(mime_type: &str, data: &str) -> Value {
    json!({"inlineData": {"mimeType": mime_type, "data": data}})
}

fn image() -> [Value; 5] {
    part(
        json!({"type": "image_url", "image_url": {"url": IMAGE}}),
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}),
        json!({"type": "input_image", "image_url": IMAGE}),
        blob("image/png", PNG),
    )
}

pub fn all() -> Vec<Feature> {
    let nothing = Value::Null;
    vec![
        Feature::new("an image", PNG, image()),
        Feature::new(
            "an image by URL",
            "",
            part(
                json!({"type": "image_url", "image_url": {"url": ADDRESS}}),
                json!({"type": "image", "source": {"type": "url", "url": ADDRESS}}),
                json!({"type": "input_image", "image_url": ADDRESS}),
                json!({"fileData": {"fileUri": ADDRESS, "mimeType": "image/png"}}),
            ),
        ),
        Feature::new(
            "image detail",
            "low",
            part(
                json!({"type": "image_url", "image_url": {"url": IMAGE, "detail": "low"}}),
                nothing.clone(),
                json!({"type": "input_image", "image_url": IMAGE, "detail": "low"}),
                nothing.clone(),
            ),
        )
        .over(image()),
        Feature::new(
            "a PDF",
            PDF,
            part(
                json!({"type": "file", "file": {"file_data": DOCUMENT, "filename": "a.pdf"}}),
                json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}}),
                json!({"type": "input_file", "file_data": DOCUMENT, "filename": "a.pdf"}),
                blob("application/pdf", PDF),
            ),
        ),
        Feature::new(
            "a PDF by URL",
            "",
            part(
                nothing.clone(),
                json!({"type": "document", "source": {"type": "url", "url": ADDRESS}}),
                json!({"type": "input_file", "file_url": ADDRESS}),
                nothing.clone(),
            ),
        ),
        Feature::new(
            "an uploaded image",
            PNG,
            part(
                nothing.clone(),
                json!({"type": "image", "source": {"type": "file", "file_id": "file-1"}}),
                json!({"type": "input_image", "file_id": "file-1"}),
                json!({"fileData": {"fileUri": "files/file-1", "mimeType": "image/png"}}),
            ),
        ),
        Feature::new(
            "an uploaded PDF",
            PDF,
            part(
                json!({"type": "file", "file": {"file_id": "file-1"}}),
                json!({"type": "document", "source": {"type": "file", "file_id": "file-1"}}),
                json!({"type": "input_file", "file_id": "file-1"}),
                json!({"fileData": {"fileUri": "files/file-1", "mimeType": "application/pdf"}}),
            ),
        ),
        Feature::new(
            "a plain-text document",
            "",
            part(
                nothing.clone(),
                json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "A tale."}}),
                nothing.clone(),
                blob("text/plain", "QSB0YWxlLg=="),
            ),
        ),
        Feature::new(
            "audio",
            WAV,
            part(
                json!({"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}}),
                nothing.clone(),
                json!({"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}}),
                blob("audio/wav", WAV),
            ),
        ),
        Feature::new(
            "a video",
            "AAAAIGZ0eXA=",
            part(
                nothing.clone(),
                nothing.clone(),
                nothing,
                blob("video/mp4", "AAAAIGZ0eXA="),
            ),
        ),
    ]
}
