//! `/v1/files`: uploads on both storage engines, in OpenAI's and Anthropic's formats, and the use
//! of files in requests.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::gateway::{Storage, eventually};

use crate::scene::{CHAT, Scene, assert_any_error, assert_error, files_in};

pub const FILES: &str = "/v1/files";
const BOUNDARY: &str = "7f83b1657ff1fc53";
const PDF: &[u8] = b"%PDF-1.7 of a letter";
/// Header of clients that use Anthropic's format.
const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

/// Configuration of a model that accepts documents.
const READING: &str = r#"
[models."acme/reading"]
targets = ["northwind/reading-v1"]
prices = { input = "1", output = "1" }
limits = { context_window = 200000, max_output_tokens = 4096 }
input = ["text", "image", "file"]
"#;

/// A field of a form: name, filename, content.
pub type Field<'f> = (&'f str, Option<&'f str>, &'f [u8]);

/// Builds an upload request with these form fields.
pub fn form(fields: &[Field<'_>]) -> Request {
    let mut body = Vec::new();
    for (name, filename, content) in fields {
        let filename =
            filename.map(|name| format!("; filename=\"{name}\"\r\nContent-Type: application/octet-stream"));
        let head = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"{}\r\n\r\n",
            filename.unwrap_or_default()
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
    let form = format!("multipart/form-data; boundary={BOUNDARY}");
    Request::post(FILES, body).header("content-type", form)
}

impl Scene {
    async fn upload(&self, fields: &[Field<'_>]) -> Response {
        self.client().send(&form(fields).key(&self.key.secret)).await
    }

    /// Uploads a file and returns its id.
    pub async fn file(&self, name: &str, content: &[u8], purpose: &str) -> String {
        let fields: [Field<'_>; 2] = [
            ("purpose", None, purpose.as_bytes()),
            ("file", Some(name), content),
        ];
        let response = self.upload(&fields).await;
        assert_eq!(response.status, 200, "{}", response.text());
        response.json()["id"].as_str().unwrap().to_owned()
    }

    pub async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Response {
        let mut request = Request::new(method, path).key(&self.key.secret);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        self.client().send(&request).await
    }

    /// Counts the objects in the media folder.
    pub fn objects(&self) -> usize {
        fn count(folder: &std::path::Path) -> usize {
            let Ok(entries) = std::fs::read_dir(folder) else {
                return 0;
            };
            let count_one = |entry: std::io::Result<std::fs::DirEntry>| {
                let path = entry.unwrap().path();
                if path.is_dir() { count(&path) } else { 1 }
            };
            entries.map(count_one).sum()
        }
        count(&self.gateway.data().join("media"))
    }
}

fn ids(list: &Value) -> Vec<&str> {
    let data = list["data"].as_array().unwrap();
    data.iter().map(|file| file["id"].as_str().unwrap()).collect()
}

async fn on_both_engines<F: Future<Output = ()>>(test: impl Fn(Scene) -> F) {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        test(Scene::start_on(storage, READING).await).await;
    }
}

#[tokio::test]
async fn a_file_is_stored_listed_fetched_and_deleted() {
    on_both_engines(async |scene| {
        let before = scene.objects();
        // The file may precede its purpose.
        let fields: [Field<'_>; 4] = [
            ("file", Some("letter.pdf"), PDF),
            ("purpose", None, b"user_data"),
            ("expires_after[anchor]", None, b"created_at"),
            ("expires_after[seconds]", None, b"3600"),
        ];
        let response = scene.upload(&fields).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let file = response.json();
        let (id, created) = (file["id"].as_str().unwrap(), file["created_at"].as_i64().unwrap());
        assert!(id.starts_with("file-"));
        let expected = json!({"id": id, "object": "file", "bytes": PDF.len(), "created_at": created,
            "expires_at": created + 3600, "filename": "letter.pdf", "purpose": "user_data", "status": "processed"});
        assert_eq!(file, expected);
        let path = format!("{FILES}/{id}");
        assert_eq!(scene.ask("GET", &path, &[]).await.json(), expected);
        let list = scene.ask("GET", FILES, &[]).await.json();
        assert_eq!(
            list,
            json!({"object": "list", "data": [expected], "first_id": id, "last_id": id, "has_more": false})
        );
        assert_eq!(scene.objects(), before + 1);

        let content = scene.ask("GET", &format!("{path}/content"), &[]).await;
        assert_eq!((content.status, content.body()), (200, PDF.to_vec()));
        for (name, value) in [
            ("content-type", "application/pdf"),
            ("content-disposition", "attachment; filename=\"letter.pdf\""),
            ("x-content-type-options", "nosniff"),
            ("content-length", "20"),
        ] {
            assert_eq!(content.header(name), Some(value), "{name}");
        }
        let range = [("range", "bytes=1-3")];
        let part = scene.ask("GET", &format!("{path}/content"), &range).await;
        assert_eq!((part.status, part.body()), (206, b"PDF".to_vec()));
        assert_eq!(part.header("content-range"), Some("bytes 1-3/20"));
        let behind = [("range", "bytes=20-")];
        let part = scene.ask("GET", &format!("{path}/content"), &behind).await;
        assert_eq!(part.status, 416);

        let deleted = scene.ask("DELETE", &path, &[]).await.json();
        assert_eq!(deleted, json!({"id": id, "object": "file", "deleted": true}));
        for (method, path) in [
            ("GET", path.clone()),
            ("DELETE", path.clone()),
            ("GET", format!("{path}/content")),
        ] {
            let response = scene.ask(method, &path, &[]).await;
            assert_error(method, &response, "not_found", Some("file_id"));
        }
        assert_eq!(scene.ask("GET", FILES, &[]).await.json()["data"], json!([]));
        scene.nothing_happened().await;
        scene.finish().await;
    })
    .await;
}

#[tokio::test]
async fn anthropic_clients_get_files_in_their_format() {
    let scene = Scene::start().await;
    let fields: [Field<'_>; 1] = [("file", Some("notes.txt"), b"plain words")];
    let request = form(&fields).key(&scene.key.secret);
    let request = request
        .header(VERSION.0, VERSION.1)
        .header("anthropic-beta", "files-api-2025-04-14");
    let file = scene.client().send(&request).await.json();
    let id = file["id"].as_str().unwrap().to_owned();
    let created = file["created_at"].as_str().unwrap();
    let expected = json!({"id": id, "type": "file", "filename": "notes.txt", "mime_type": "text/plain", "size_bytes": 11,
        "created_at": created, "downloadable": true, "expires_at": null});
    assert_eq!(file, expected);
    let path = format!("{FILES}/{id}");
    let ask = async |method: &str, path: &str| scene.ask(method, path, &[VERSION]).await;
    assert_eq!(ask("GET", &format!("{path}?beta=true")).await.json(), expected);
    let content = ask("GET", &format!("{path}/content?beta=true")).await;
    assert_eq!(content.body(), b"plain words");
    // Both formats show the same files.
    let common = scene.ask("GET", &path, &[]).await.json();
    assert_eq!(
        (&common["object"], &common["purpose"]),
        (&json!("file"), &json!("user_data"))
    );

    for (seconds, status) in [("3599", 400), ("3600", 200), ("7776000", 200), ("7776001", 400)] {
        let fields: [Field<'_>; 2] = [
            ("file", Some(""), b"x"),
            ("expires_in_seconds", None, seconds.as_bytes()),
        ];
        let request = form(&fields).key(&scene.key.secret).header(VERSION.0, VERSION.1);
        let response = scene.client().send(&request).await;
        assert_eq!(response.status, status, "{seconds}: {}", response.text());
        if status == 200 {
            let file = response.json();
            assert_eq!(file["filename"], "unnamed");
            let path = format!("{FILES}/{}", file["id"].as_str().unwrap());
            assert_eq!(ask("DELETE", &path).await.status, 200);
        }
    }
    let mut all = vec![id];
    for number in 0..3 {
        all.insert(0, scene.file(&format!("{number}.txt"), b"x", "user_data").await);
    }
    let page = ask("GET", &format!("{FILES}?beta=true&limit=2")).await.json();
    assert_eq!(
        (ids(&page), &page["has_more"]),
        (vec![&*all[0], &*all[1]], &json!(true))
    );
    assert_eq!(
        (&page["first_id"], &page["last_id"]),
        (&json!(all[0]), &json!(all[1]))
    );
    let page = ask("GET", &format!("{FILES}?limit=2&after_id={}", all[1]))
        .await
        .json();
    assert_eq!(
        (ids(&page), &page["has_more"]),
        (vec![&*all[2], &*all[3]], &json!(false))
    );
    let page = ask("GET", &format!("{FILES}?limit=2&before_id={}", all[3]))
        .await
        .json();
    assert_eq!(
        (ids(&page), &page["has_more"]),
        (vec![&*all[1], &*all[2]], &json!(true))
    );

    let page = ask("GET", &format!("{FILES}?limit=3")).await.json();
    let next = page["next_page"].as_str().unwrap();
    let page = ask("GET", &format!("{FILES}?limit=3&page={next}")).await.json();
    assert_eq!((ids(&page), &page["next_page"]), (vec![&*all[3]], &Value::Null));
    let named = format!("{FILES}?ids[]={}&ids[]=file-none&ids[]={}", all[3], all[1]);
    assert_eq!(ids(&ask("GET", &named).await.json()), [&*all[1], &all[3]]);
    assert_eq!(
        ask("GET", &format!("{FILES}?ids[]=x")).await.json()["data"],
        json!([])
    );

    let deleted = ask("DELETE", &format!("{FILES}/{}", all[0])).await.json();
    assert_eq!(deleted, json!({"id": all[0], "type": "file_deleted"}));
    let missing = ask("GET", &format!("{FILES}/{}", all[0])).await;
    let error = missing.json();
    assert_eq!(
        (missing.status, &error["type"], &error["error"]["type"]),
        (404, &json!("error"), &json!("not_found_error"))
    );
    for (query, param) in [
        ("limit=1001", "limit"),
        ("limit=0", "limit"),
        ("order=asc", "order"),
        ("after_id=file-1", "after_id"),
        ("page=2", "page"),
        ("ids[]=x&limit=2", "ids"),
    ] {
        let response = ask("GET", &format!("{FILES}?{query}")).await;
        assert_eq!(
            (response.status, &response.json()["error"]["param"]),
            (400, &json!(param)),
            "{query}"
        );
    }
    scene.finish().await;
}

#[tokio::test]
async fn lists_are_paged_in_both_orders() {
    let scene = Scene::start().await;
    let mut all = Vec::new();
    for (number, purpose) in ["batch", "user_data", "batch", "vision"].into_iter().enumerate() {
        all.push(
            scene
                .file(&format!("{number}.jsonl"), b"{}\n\n{}\r\n{}", purpose)
                .await,
        );
    }
    let list = async |query: &str| scene.ask("GET", &format!("{FILES}?{query}"), &[]).await.json();
    assert_eq!(ids(&list("").await), [&*all[3], &all[2], &all[1], &all[0]]);
    let page = list("order=asc&limit=3").await;
    assert_eq!(
        (ids(&page), &page["has_more"]),
        (vec![&*all[0], &*all[1], &*all[2]], &json!(true))
    );
    let page = list(&format!("order=asc&limit=3&after={}", all[2])).await;
    assert_eq!((ids(&page), &page["has_more"]), (vec![&*all[3]], &json!(false)));
    let batches = list("purpose=batch").await;
    assert_eq!(ids(&batches), [&*all[2], &all[0]]);
    assert_eq!(batches["data"][0]["lines"], 3);
    assert_eq!(
        batches["data"][0]["expires_at"].as_i64().unwrap()
            - batches["data"][0]["created_at"].as_i64().unwrap(),
        30 * 24 * 3600
    );
    assert_eq!(list("limit=10000&purpose=batch_output").await["data"], json!([]));
    for (query, code, param) in [
        ("limit=10001", "invalid_parameter", "limit"),
        ("limit=0", "invalid_parameter", "limit"),
        ("order=up", "invalid_parameter", "order"),
        ("purpose=fun", "invalid_parameter", "purpose"),
        ("after=x", "invalid_parameter", "after"),
        ("before=x", "unknown_parameter", "before"),
        ("after_id=x", "unknown_parameter", "after_id"),
    ] {
        let response = scene.ask("GET", &format!("{FILES}?{query}"), &[]).await;
        assert_error(query, &response, code, Some(param));
    }
    scene.finish().await;
}

#[tokio::test]
async fn invalid_uploads_are_refused_and_leave_no_object() {
    let scene = Scene::start_with("[limits]\nrpm = 1000\n").await;
    let file: Field<'_> = ("file", Some("a.txt"), b"words");
    let purpose: Field<'_> = ("purpose", None, b"user_data");
    let anchor: Field<'_> = ("expires_after[anchor]", None, b"created_at");
    let long = "x".repeat(256);
    for (what, fields, code, param) in [
        ("no file", vec![purpose], "missing_required_parameter", "file"),
        ("no purpose", vec![file], "missing_required_parameter", "purpose"),
        (
            "an empty file",
            vec![purpose, ("file", Some("a"), b"")],
            "invalid_parameter",
            "file",
        ),
        (
            "no name",
            vec![purpose, ("file", Some(""), b"a")],
            "invalid_parameter",
            "file",
        ),
        (
            "a long name",
            vec![purpose, ("file", Some(&long), b"a")],
            "invalid_parameter",
            "file",
        ),
        (
            "a text as the file",
            vec![purpose, ("file", None, b"a")],
            "invalid_parameter",
            "file",
        ),
        (
            "two files",
            vec![purpose, file, file],
            "invalid_parameter",
            "file",
        ),
        (
            "two purposes",
            vec![purpose, file, purpose],
            "invalid_parameter",
            "purpose",
        ),
        (
            "an unknown purpose",
            vec![file, ("purpose", None, b"fun")],
            "invalid_parameter",
            "purpose",
        ),
        (
            "an output",
            vec![file, ("purpose", None, b"batch_output")],
            "invalid_parameter",
            "purpose",
        ),
        (
            "a file as purpose",
            vec![file, ("purpose", Some("p"), b"batch")],
            "invalid_parameter",
            "purpose",
        ),
        (
            "another field",
            vec![purpose, file, ("model", None, b"m")],
            "unknown_parameter",
            "model",
        ),
        (
            "an end without a time",
            vec![purpose, file, anchor],
            "missing_required_parameter",
            "expires_after.seconds",
        ),
        (
            "a time without a beginning",
            vec![purpose, file, ("expires_after[seconds]", None, b"3600")],
            "missing_required_parameter",
            "expires_after.anchor",
        ),
        (
            "another beginning",
            vec![purpose, file, ("expires_after[anchor]", None, b"last_active_at")],
            "invalid_parameter",
            "expires_after.anchor",
        ),
        (
            "too short",
            vec![purpose, file, anchor, ("expires_after[seconds]", None, b"3599")],
            "invalid_parameter",
            "expires_after.seconds",
        ),
        (
            "too long",
            vec![
                purpose,
                file,
                anchor,
                ("expires_after[seconds]", None, b"2592001"),
            ],
            "invalid_parameter",
            "expires_after.seconds",
        ),
    ] {
        let response = scene.upload(&fields).await;
        assert_error(what, &response, code, Some(param));
    }
    let request = Request::post(FILES, "{}").key(&scene.key.secret);
    let response = scene
        .client()
        .send(&request.header("content-type", "application/json"))
        .await;
    assert_error("no form", &response, "unsupported_media_type", None);
    let mut cut = form(&[purpose, file]).bytes();
    cut.truncate(cut.len() - 12);
    let head = form(&[purpose, file]).head_bytes().len();
    let cut = Request::post(FILES, &cut[head..]).key(&scene.key.secret);
    let cut = cut.header(
        "content-type",
        format!("multipart/form-data; boundary={BOUNDARY}"),
    );
    let response = scene.client().send(&cut).await;
    assert_error("broken off", &response, "invalid_parameter", None);
    assert_eq!(scene.objects(), 0, "no sent bytes are stored");
    assert_eq!(scene.ask("GET", FILES, &[]).await.json()["data"], json!([]));

    for seconds in ["3600", "2592000"] {
        let expiry: Field<'_> = ("expires_after[seconds]", None, seconds.as_bytes());
        assert_eq!(scene.upload(&[purpose, file, anchor, expiry]).await.status, 200);
    }
    scene.finish().await;
}

#[tokio::test]
async fn files_of_other_accounts_are_not_found() {
    let scene = Scene::start_with(READING).await;
    let mine = scene.file("letter.pdf", PDF, "user_data").await;
    let other = scene.gateway.account().await;
    scene.gateway.grant(&other, "10").await;
    let key = scene.gateway.key(&other).await;
    let never = format!("file-{}", "0".repeat(32));
    for (method, path) in [("GET", ""), ("DELETE", ""), ("GET", "/content")] {
        let mut answers = Vec::new();
        for id in [&mine, &never] {
            let request = Request::new(method, &format!("{FILES}/{id}{path}")).key(&key.secret);
            let response = scene.client().send(&request).await;
            answers.push((response.status, response.json()["error"].clone()));
        }
        assert_eq!(answers[0], answers[1]);
        assert_eq!(answers[0].0, 404);
    }
    let list = scene.client().send(&Request::get(FILES).key(&key.secret)).await;
    assert_eq!(list.json()["data"], json!([]));
    let body = naming(&mine);
    let response = scene.client().post_json(CHAT, &key.secret, &body).await;
    assert_error(
        "named",
        &response,
        "not_found",
        Some("messages[0].content[1].file.file_id"),
    );
    assert_eq!(scene.upstream.request_count(), 0);
    for headers in [&[][..], &[VERSION]] {
        let mut request = Request::get(FILES);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        assert_eq!(scene.client().send(&request).await.status, 401);
    }
    scene.finish().await;
}

/// Builds a chat request that references a file.
fn naming(id: &str) -> Value {
    json!({"model": "acme/reading", "max_tokens": 100, "messages": [{"role": "user", "content": [
        {"type": "text", "text": "look"}, {"type": "file", "file": {"file_id": id}}
    ]}]})
}

#[tokio::test]
async fn requests_can_reference_files_until_their_deletion() {
    on_both_engines(async |scene| {
        let id = scene.file("letter.pdf", PDF, "user_data").await;
        let response = scene.chat(&naming(&id)).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let sent = scene
            .upstream
            .requests()
            .pop()
            .unwrap()
            .json()
            .unwrap()
            .to_string();
        assert!(
            sent.contains("JVBERi0xLjcgb2YgYSBsZXR0ZXI=") && !sent.contains(&id),
            "{sent}"
        );
        assert_eq!(
            scene.ask("DELETE", &format!("{FILES}/{id}"), &[]).await.status,
            200
        );
        let response = scene.chat(&naming(&id)).await;
        assert_error(
            "deleted",
            &response,
            "not_found",
            Some("messages[0].content[1].file.file_id"),
        );
        scene.settled().await;
        scene.finish().await;
    })
    .await;
}

#[tokio::test]
async fn the_number_of_files_per_account_is_limited() {
    let scene = Scene::start_with("[limits]\nfiles = 2\n").await;
    let first = scene.file("1.txt", b"1", "user_data").await;
    scene.file("2.txt", b"2", "user_data").await;
    let fields: [Field<'_>; 2] = [("purpose", None, b"user_data"), ("file", Some("3.txt"), b"3")];
    let response = scene.upload(&fields).await;
    assert_error("a third", &response, "parameter_out_of_range", Some("file"));
    assert_eq!(scene.objects(), 2);
    assert_eq!(
        scene.ask("DELETE", &format!("{FILES}/{first}"), &[]).await.status,
        200
    );
    scene.file("3.txt", b"3", "user_data").await;
    scene.finish().await;
}

/// The request announces its length, so that an oversized upload is refused before it is sent.
#[tokio::test]
async fn oversized_uploads_are_refused_before_they_are_read() {
    let scene = Scene::start().await;
    let max_length = (512 << 20) + (64 << 10);
    for (length, status) in [(max_length + 1, 413), (max_length, 400)] {
        let mut connection = scene.client().connect().await;
        let head = format!(
            "POST {FILES} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {}\r\ncontent-length: {length}\r\n\
             content-type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n--{BOUNDARY}\r\nContent-Disposition: form-data; \
             name=\"purpose\"\r\n\r\nfun\r\n--{BOUNDARY}\r\n",
            scene.key.secret
        );
        connection.write(head.as_bytes()).await.unwrap();
        let response = connection.read().await;
        assert_any_error("too much", &response);
        assert_eq!(response.status, status, "{}", response.text());
    }
    scene.finish().await;
}

/// Memory does not grow with the file, neither during the upload nor during the download.
#[tokio::test]
async fn a_large_file_is_never_in_memory() {
    const CHUNKS: usize = 96;
    let scene = Scene::start().await;
    let small = scene.file("small.bin", b"\0", "user_data").await;
    let before = scene.gateway.peak_memory();
    let chunk = vec![0xa5_u8; 1 << 20];
    let head = format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nuser_data\r\n\
         --{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"large.bin\"\r\n\r\n"
    );
    let end = format!("\r\n--{BOUNDARY}--\r\n");
    let length = head.len() + CHUNKS * chunk.len() + end.len();
    let mut connection = scene.client().connect().await;
    let start = format!(
        "POST {FILES} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {}\r\ncontent-length: {length}\r\n\
         content-type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n{head}",
        scene.key.secret
    );
    connection.write(start.as_bytes()).await.unwrap();
    for _ in 0..CHUNKS {
        connection.write(&chunk).await.unwrap();
    }
    connection.write(end.as_bytes()).await.unwrap();
    let response = connection.read().await;
    assert_eq!(response.status, 200, "{}", response.text());
    let file = response.json();
    assert_eq!(file["bytes"], CHUNKS << 20);
    let path = format!("{FILES}/{}/content", file["id"].as_str().unwrap());
    let content = scene.ask("GET", &path, &[]).await;
    assert_eq!(content.chunks.iter().map(Vec::len).sum::<usize>(), CHUNKS << 20);
    assert!(content.body().iter().all(|byte| *byte == 0xa5));
    let grown = scene.gateway.peak_memory().saturating_sub(before);
    assert!(grown < 24 << 20, "{grown} bytes more");
    assert_eq!(
        scene
            .ask("GET", &format!("{FILES}/{small}/content"), &[])
            .await
            .body(),
        b"\0"
    );
    scene.finish().await;
}

#[tokio::test]
async fn an_aborted_upload_leaves_no_object() {
    let scene = Scene::start().await;
    let whole = form(&[
        ("file", Some("a.bin"), &vec![7; 1 << 20]),
        ("purpose", None, b"user_data"),
    ]);
    let whole = whole.key(&scene.key.secret).bytes();
    let mut connection = scene.client().connect().await;
    connection.write(&whole[..whole.len() / 2]).await.unwrap();
    eventually("the bytes arrive", async || scene.objects() > 0).await;
    connection.reset();
    eventually("the bytes are deleted", async || scene.objects() == 0).await;
    assert_eq!(scene.ask("GET", FILES, &[]).await.json()["data"], json!([]));
    scene.finish().await;
}

/// Uploaded and generated files are encrypted at rest, and so are file names.
#[tokio::test]
async fn files_are_encrypted_on_the_disk() {
    let scene = Scene::start().await;
    let (name, canary) = ("canary-named.txt", "a canary that sings in the file. ");
    let content = canary.repeat(9_000);
    let id = scene.file(name, content.as_bytes(), "user_data").await;
    let request =
        json!({"model": "sim/image", "prompt": "a cat", "sync": true, "response_format": "b64_json"});
    let made = scene.post("/v1/images/generations", &request).await;
    assert_eq!(made.status, 200, "{}", made.text());
    let written: Vec<_> = files_in(&scene.gateway.data())
        .map(|path| {
            let bytes = std::fs::read(&path).unwrap();
            (path, bytes)
        })
        .collect();
    assert!(
        written
            .iter()
            .any(|(path, bytes)| path.to_string_lossy().contains("/media/") && bytes.len() > content.len())
    );
    for secret in [name.as_bytes(), canary.as_bytes(), b"\x89PNG\r\n"] {
        for (path, bytes) in &written {
            let is_found = bytes.windows(secret.len()).any(|part| part == secret);
            assert!(!is_found, "{}", path.display());
        }
    }
    let shown = scene.ask("GET", &format!("{FILES}/{id}"), &[]).await.json();
    assert_eq!(
        (&shown["filename"], &shown["bytes"]),
        (&json!(name), &json!(content.len()))
    );
    let path = format!("{FILES}/{id}/content");
    assert_eq!(scene.ask("GET", &path, &[]).await.text(), content);
    let part = scene.ask("GET", &path, &[("range", "bytes=65530-65540")]).await;
    assert_eq!(
        (part.status, part.text()),
        (206, content[65_530..=65_540].to_owned())
    );
    scene.finish().await;
}
