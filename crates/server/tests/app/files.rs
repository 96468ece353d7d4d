//! Uploaded files that requests refer to by id, in every format.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use tollgate_storage::{FileError, FileSource, NoFiles, StorageError, StorageErrorKind, StoredFile};
use tollgate_types::AccountId;

use crate::app::{Answer, MODELS, Scene, Tenant};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nabc";
const PNG_DATA: &str = "iVBORw0KGgphYmM=";
const PDF: &[u8] = b"%PDF-1.7";
const PDF_DATA: &str = "JVBERi0xLjc=";

/// Files of accounts, in memory. A read of the id `file-broken` fails.
#[derive(Default)]
struct MemoryFiles(Mutex<HashMap<(AccountId, &'static str), StoredFile>>);

impl MemoryFiles {
    fn put(&self, owner: &Tenant, id: &'static str, media_type: &str, filename: &str, bytes: &[u8]) {
        let file = StoredFile {
            bytes: bytes.to_vec(),
            media_type: media_type.to_owned(),
            filename: filename.to_owned(),
        };
        self.0.lock().unwrap().insert((owner.id, id), file);
    }
}

#[async_trait]
impl FileSource for MemoryFiles {
    async fn read(&self, account: AccountId, id: &str, max_bytes: u64) -> Result<StoredFile, FileError> {
        if id == "file-broken" {
            let error = StorageError::new(StorageErrorKind::Unavailable, "no disk");
            return Err(FileError::Storage(error));
        }
        let files = self.0.lock().unwrap();
        let mut found = files
            .iter()
            .filter(|((owner, name), _)| *owner == account && *name == id);
        let (_, file) = found.next().ok_or(FileError::NotFound)?;
        match file.bytes.len() as u64 > max_bytes {
            true => Err(FileError::TooLarge),
            false => Ok(file.clone()),
        }
    }
}

async fn scene() -> (Scene, Tenant) {
    let memory_files = Arc::new(MemoryFiles::default());
    let scene = Scene::new(memory_files.clone(), |_| {}).await;
    let (owner, other) = (scene.tenant(1_000).await, scene.tenant(1_000).await);
    memory_files.put(&owner, "file-pic", "image/png", "a.png", PNG);
    memory_files.put(&owner, "file-pdf", "application/pdf", "a.pdf", PDF);
    memory_files.put(&owner, "file-text", "text/plain", "a.txt", b"plain words");
    memory_files.put(&owner, "file-video", "video/mp4", "a.mp4", b"....ftyp");
    memory_files.put(&owner, "file-zip", "application/zip", "a.zip", b"PK");
    memory_files.put(
        &owner,
        "file-large",
        "application/pdf",
        "l.pdf",
        &vec![b'x'; (20 << 20) + 1],
    );
    memory_files.put(&other, "file-theirs", "application/pdf", "t.pdf", PDF);
    (scene, owner)
}

/// Builds a request with a document or an image in one format: path, body, and the parameter that
/// contains the id.
fn naming(format: usize, model: &str, id: &str, is_image: bool) -> Option<(String, Value, &'static str)> {
    let kind = if is_image { "image" } else { "document" };
    Some(match (format, is_image) {
        (0, true) => return None,
        (0, false) => (
            "/v1/chat/completions".to_owned(),
            json!({"model": model, "max_tokens": 100, "messages": [{"role": "user", "content": [
                {"type": "text", "text": "look"}, {"type": "file", "file": {"file_id": id}}
            ]}]}),
            "messages[0].content[1].file.file_id",
        ),
        (1, _) => (
            "/v1/messages".to_owned(),
            json!({"model": model, "max_tokens": 100, "messages": [{"role": "user", "content": [
                {"type": "text", "text": "look"}, {"type": kind, "source": {"type": "file", "file_id": id}}
            ]}]}),
            "messages[0].content[1].source.file_id",
        ),
        (2, _) => {
            let kind = if is_image { "input_image" } else { "input_file" };
            (
                "/v1/responses".to_owned(),
                json!({"model": model, "max_output_tokens": 100, "input": [{"role": "user", "content": [
                    {"type": "input_text", "text": "look"}, {"type": kind, "file_id": id}
                ]}]}),
                "input[0].content[1].file_id",
            )
        }
        _ => {
            let mime_type = if is_image { "image/png" } else { "application/pdf" };
            let uri = format!("https://gateway.example/v1beta/files/{id}");
            (
                format!("/v1beta/models/{model}:generateContent"),
                json!({"contents": [{"role": "user", "parts": [
                    {"text": "look"}, {"fileData": {"mimeType": mime_type, "fileUri": uri}}
                ]}], "generationConfig": {"maxOutputTokens": 100}}),
                "contents[0].parts[1].fileData.fileUri",
            )
        }
    })
}

fn assert_error(answer: &Answer, status: u16, code: &str, param: &str) {
    let error = &answer.body["error"];
    let found = (answer.status, error["code"].as_str(), error["param"].as_str());
    assert_eq!(found, (status, Some(code), Some(param)), "{}", answer.text);
}

#[tokio::test]
async fn every_format_names_files_for_every_provider() {
    let (scene, owner) = scene().await;
    for model in MODELS {
        for format in 0..4 {
            for (id, data, is_image) in [("file-pdf", PDF_DATA, false), ("file-pic", PNG_DATA, true)] {
                let Some((path, body, _)) = naming(format, model, id, is_image) else {
                    continue;
                };
                let answer = scene.post(&owner, &path, &body).await;
                let way = format!("{path} to {model}");
                assert_eq!(answer.status, 200, "{way}: {}", answer.text);
                let sent = scene.sent().unwrap().to_string();
                assert!(sent.contains(data), "{way}: {sent}");
                assert!(!sent.contains(id), "no provider receives an id: {way}: {sent}");
            }
        }
    }
}

#[tokio::test]
async fn missing_files_and_files_of_other_accounts_read_the_same() {
    let (scene, owner) = scene().await;
    let before = scene.balance(&owner).await;
    for model in MODELS {
        for format in 0..4 {
            let said = ["file-none", "file-theirs"].map(|id| naming(format, model, id, false).unwrap());
            let mut texts = Vec::new();
            for (path, body, param) in said {
                let answer = scene.post(&owner, &path, &body).await;
                assert_error(&answer, 404, "not_found", param);
                texts.push(answer.body["error"]["message"].clone());
            }
            assert_eq!(texts[0], texts[1]);
        }
    }
    assert_eq!(scene.sent(), None, "nothing was sent");
    assert_eq!(scene.balance(&owner).await, before);
}

#[tokio::test]
async fn a_service_without_files_has_none() {
    let scene = Scene::new(Arc::new(NoFiles), |_| {}).await;
    let tenant = scene.tenant(1_000).await;
    for format in 0..4 {
        let (path, body, param) = naming(format, MODELS[0], "file-pdf", false).unwrap();
        assert_error(&scene.post(&tenant, &path, &body).await, 404, "not_found", param);
    }
    assert_eq!(scene.sent(), None);
}

#[tokio::test]
async fn what_a_file_is_decides_whether_it_can_be_sent() {
    let (scene, owner) = scene().await;
    let (messages, responses) = (MODELS[1], MODELS[2]);
    // The type of each file differs from that of the part, is unknown or is not accepted by the
    // provider, or the file is too large.
    for (id, is_image, model) in [
        ("file-pdf", true, messages),
        ("file-pic", false, messages),
        ("file-video", false, messages),
        ("file-zip", false, messages),
        ("file-large", false, messages),
    ] {
        let (path, body, param) = naming(1, model, id, is_image).unwrap();
        let answer = scene.post(&owner, &path, &body).await;
        assert_error(&answer, 400, "invalid_parameter", param);
    }
    let (path, body, _) = naming(1, responses, "file-text", false).unwrap();
    let answer = scene.post(&owner, &path, &body).await;
    assert_error(&answer, 400, "unsupported_parameter", "messages[0].content[1]");
    assert_eq!(scene.sent(), None);
    for model in [MODELS[0], messages, MODELS[3]] {
        let (path, body, _) = naming(1, model, "file-text", false).unwrap();
        assert_eq!(scene.post(&owner, &path, &body).await.status, 200, "{model}");
    }
    let (path, body, _) = naming(1, messages, "file-broken", false).unwrap();
    let answer = scene.post(&owner, &path, &body).await;
    assert_eq!(answer.status, 503, "{}", answer.text);
}

#[tokio::test]
async fn the_bytes_of_a_file_are_held_for_and_who_cannot_pay_reads_none() {
    let memory_files = Arc::new(MemoryFiles::default());
    let scene = Scene::new(memory_files.clone(), |_| {}).await;
    let poor = scene.tenant(1).await;
    // One credit pays for a million tokens of this model. The estimate with this file exceeds one
    // credit.
    memory_files.put(
        &poor,
        "file-big",
        "application/pdf",
        "b.pdf",
        &vec![b'x'; 1 << 20],
    );
    memory_files.put(
        &poor,
        "file-small",
        "application/pdf",
        "s.pdf",
        &vec![b'x'; 1 << 18],
    );
    let (path, body, _) = naming(1, MODELS[1], "file-big", false).unwrap();
    let answer = scene.post(&poor, &path, &body).await;
    assert_eq!(
        (answer.status, answer.body["error"]["code"].as_str()),
        (402, Some("insufficient_credits"))
    );
    assert_eq!(scene.sent(), None);
    let (path, body, _) = naming(1, MODELS[1], "file-small", false).unwrap();
    assert_eq!(scene.post(&poor, &path, &body).await.status, 200);
    let broke = scene.tenant(0).await;
    let (path, body, _) = naming(1, MODELS[1], "file-none", false).unwrap();
    assert_eq!(
        scene.post(&broke, &path, &body).await.status,
        402,
        "the balance is checked before the file"
    );
}

#[tokio::test]
async fn a_request_names_up_to_sixteen() {
    let (scene, owner) = scene().await;
    for (count, status) in [(16, 200), (17, 400)] {
        let part = json!({"type": "file", "file": {"file_id": "file-pdf"}});
        let parts = vec![part; count];
        let body =
            json!({"model": MODELS[0], "max_tokens": 9, "messages": [{"role": "user", "content": parts}]});
        let answer = scene.post(&owner, "/v1/chat/completions", &body).await;
        assert_eq!(answer.status, status, "{}", answer.text);
        if status == 400 {
            assert_error(
                &answer,
                400,
                "invalid_parameter",
                "messages[0].content[16].file.file_id",
            );
        }
    }
}

#[tokio::test]
async fn results_of_tools_may_name_files() {
    let (scene, owner) = scene().await;
    let result = |id: &str| {
        json!({"contents": [
            {"role": "user", "parts": [{"text": "look"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "see", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "see", "response": {"result": "here"}, "parts": [
                {"fileData": {"mimeType": "image/png", "fileUri": format!("files/{id}")}}
            ]}}]}
        ], "tools": [{"functionDeclarations": [{"name": "see"}]}]})
    };
    let path = format!("/v1beta/models/{}:generateContent", MODELS[1]);
    let answer = scene.post(&owner, &path, &result("file-pic")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let sent = scene.sent().unwrap();
    assert_eq!(
        sent["messages"][2]["content"][0]["content"][1]["source"]["data"],
        PNG_DATA
    );
    let answer = scene.post(&owner, &path, &result("file-none")).await;
    let param = "contents[2].parts[0].functionResponse.parts[0].fileData.fileUri";
    assert_error(&answer, 404, "not_found", param);
}

#[tokio::test]
async fn counting_reads_files_too() {
    let (scene, owner) = scene().await;
    for (format, count_path) in [
        (1, "/v1/messages/count_tokens".to_owned()),
        (2, "/v1/responses/input_tokens".to_owned()),
        (3, format!("/v1beta/models/{}:countTokens", MODELS[1])),
    ] {
        let (_, body, param) = naming(format, MODELS[1], "file-none", false).unwrap();
        assert_error(
            &scene.post(&owner, &count_path, &body).await,
            404,
            "not_found",
            param,
        );
        for (id, written) in [("file-pdf", PDF_DATA), ("file-text", "plain words")] {
            let (_, body, _) = naming(format, MODELS[1], id, false).unwrap();
            let answer = scene.post(&owner, &count_path, &body).await;
            let number = answer.body.get("input_tokens").or(answer.body.get("totalTokens"));
            // The provider receives the bytes and never the id. It counts the bytes.
            let sent = scene.upstream.requests().pop().unwrap();
            assert_eq!(number, Some(&json!(sent.body.len())), "{}", answer.text);
            let sent = String::from_utf8(sent.body.to_vec()).unwrap();
            assert!(sent.contains(written) && !sent.contains(id), "{sent}");
        }
    }
}
