//! The command `tollgate extract` of the built binary, behind the pool of the gateway.

#![expect(clippy::unwrap_used, reason = "shared test helpers panic on failure")]

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use tempfile::TempDir;
use tollgate_providers::{Extractor, ExtractorSettings};
use tollgate_types::Date;
use tollgate_upstream::{ExtractError, ExtractedPage, PageExtractor, PageHead};

const BINARY: &str = env!("CARGO_BIN_EXE_tollgate");

/// A pool of one process, whose id and environment are in files.
struct Fixture {
    extractor: Extractor,
    folder: TempDir,
}

impl Fixture {
    fn new(time_limit: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display();
        // The shell becomes the binary, under the same id.
        let script =
            format!("cat /proc/$$/environ > {path}/environ; echo $$ > {path}/pid; exec {BINARY} extract");
        let extractor = Extractor::new(ExtractorSettings {
            arguments: vec!["-c".into(), script.into()],
            processes: 1,
            time_limit,
            ..ExtractorSettings::of("/bin/sh")
        });
        Self { extractor, folder }
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(file)).unwrap_or_default()
    }

    fn pid(&self) -> String {
        self.read("pid").trim().to_owned()
    }

    /// Returns a file of the process in `/proc`.
    fn proc(&self, file: &str) -> String {
        std::fs::read_to_string(PathBuf::from("/proc").join(self.pid()).join(file)).unwrap_or_default()
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.pid()]).status().unwrap();
        assert!(status.success());
    }

    async fn text(&self, html: &str) -> Result<String, ExtractError> {
        let page = self.page("text/html", html.as_bytes().to_vec()).await;
        page.map(|page| page.text)
    }

    async fn page(&self, media_type: &str, bytes: Vec<u8>) -> Result<ExtractedPage, ExtractError> {
        self.extractor.extract(&head(media_type), &bytes.into()).await
    }
}

fn head(media_type: &str) -> PageHead {
    PageHead {
        url: "https://example.com/".to_owned(),
        media_type: media_type.to_owned(),
        charset: None,
        today: Date::new(2026, 11, 29).unwrap(),
    }
}

const LIMIT: Duration = Duration::from_mins(1);

#[tokio::test]
async fn pages_are_extracted_with_few_rights() {
    let fixture = Fixture::new(LIMIT);
    assert_eq!(fixture.pid(), "", "no process starts before the first page");
    for number in 0..3 {
        let text = fixture
            .text(&format!("<p>Page {number}<div hidden>no</div>"))
            .await;
        assert_eq!(text, Ok(format!("Page {number}")));
    }
    let unsupported = fixture.page("image/png", b"\x89PNG".to_vec()).await;
    assert_eq!(unsupported, Err(ExtractError::UnsupportedType));
    assert_eq!(fixture.read("environ"), "", "the environment is empty");
    let limits = fixture.proc("limits");
    let limit = |name: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace()
            .take(2)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(limit("Max address space"), ["536870912", "536870912"]);
    assert_eq!(limit("Max open files"), ["3", "3"]);
    assert_eq!(limit("Max core file size"), ["0", "0"]);
}

#[tokio::test]
async fn processes_end_with_the_pool_and_with_their_input() {
    let fixture = Fixture::new(LIMIT);
    fixture.text("<p>Text").await.unwrap();
    let Fixture { extractor, folder } = fixture;
    drop(extractor);
    let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
    let has_ended = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", pid.trim())).unwrap_or_default();
        status.is_empty() || status.contains("State:\tZ")
    };
    while !has_ended() {
        tokio::task::yield_now().await;
    }

    let mut command = Command::new(BINARY);
    command
        .arg("extract")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let mut greeting = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut greeting).unwrap();
    assert!(greeting.ends_with(env!("CARGO_PKG_VERSION").as_bytes()));
}

#[tokio::test]
async fn killed_processes_are_replaced() {
    let fixture = Fixture::new(LIMIT);
    assert!(fixture.text("<p>One").await.is_ok());
    let first = fixture.pid();
    fixture.signal("-KILL");
    while fixture.proc("status").contains("State:\tR") || fixture.proc("status").contains("State:\tS") {
        tokio::task::yield_now().await;
    }
    assert_eq!(
        fixture.text("<p>Two").await,
        Ok("Two".to_owned()),
        "killed while idle"
    );
    assert_ne!(fixture.pid(), first);

    let fixture = Arc::new(fixture);
    let large = "<div>word ".repeat(1 << 20);
    let task_fixture = fixture.clone();
    let page = tokio::task::JoinSet::from_iter([async move { task_fixture.text(&large).await }]);
    let has_page = || {
        let io = fixture.proc("io");
        let read = io.lines().find_map(|line| line.strip_prefix("rchar: "));
        read.is_some_and(|bytes| bytes.parse::<u64>().unwrap() > 10 << 20)
    };
    while !has_page() {
        tokio::task::yield_now().await;
    }
    fixture.signal("-KILL");
    assert_eq!(
        page.join_all().await,
        [Err(ExtractError::TooComplex)],
        "killed during a page"
    );
    assert_eq!(fixture.text("<p>Three").await, Ok("Three".to_owned()));
}

#[tokio::test]
async fn processes_that_do_not_reply_are_replaced() {
    let fixture = Fixture::new(Duration::from_secs(3));
    assert!(fixture.text("<p>One").await.is_ok());
    let first = fixture.pid();
    fixture.signal("-STOP");
    assert_eq!(fixture.text("<p>Two").await, Err(ExtractError::TimedOut));
    assert_eq!(fixture.text("<p>Three").await, Ok("Three".to_owned()));
    assert_ne!(fixture.pid(), first);
}

/// Returns a document whose page of 700 MiB is compressed to less than 1 MiB.
fn bomb() -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    let block = vec![b' '; 1 << 20];
    (0..700).for_each(|_| encoder.write_all(&block).unwrap());
    let packed = encoder.finish().unwrap();
    assert!(packed.len() < 1 << 20);
    let mut bytes = b"%PDF-1.4\n".to_vec();
    let mut places = Vec::new();
    let mut object = |content: &[u8]| {
        places.push(bytes.len());
        bytes.extend(format!("{} 0 obj\n", places.len()).as_bytes());
        bytes.extend(content);
        bytes.extend(b"\nendobj\n");
    };
    object(b"<< /Type /Catalog /Pages 2 0 R >>");
    object(b"<< /Type /Pages /Kids [3 0 R] /Count 1 /MediaBox [0 0 600 800] >>");
    object(b"<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>");
    let head = format!("<< /Length {} /Filter /FlateDecode >>\nstream\n", packed.len());
    object(&[head.as_bytes(), &packed, b"\nendstream"].concat());
    let start = bytes.len();
    bytes.extend(b"xref\n0 5\n0000000000 65535 f \n");
    for place in places {
        bytes.extend(format!("{place:010} 00000 n \n").as_bytes());
    }
    let end = format!("trailer\n<< /Size 5 /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n");
    bytes.extend(end.as_bytes());
    bytes
}

#[tokio::test]
async fn memory_is_limited() {
    let fixture = Fixture::new(LIMIT);
    assert_eq!(
        fixture.page("application/pdf", bomb()).await,
        Err(ExtractError::TooComplex)
    );
    assert_eq!(fixture.text("<p>Text").await, Ok("Text".to_owned()));
    // The longest pages need less than the limit.
    let longest = 10 << 20;
    for unit in ["&amp;", "<a href=x>word</a>"] {
        let page = fixture
            .text(&format!("<p>First{}", unit.repeat(longest / unit.len())))
            .await;
        assert!(page.unwrap().contains("First"), "{unit}");
    }
}

#[tokio::test]
async fn pages_are_extracted_concurrently() {
    let extractor = Extractor::new(ExtractorSettings {
        processes: 2,
        time_limit: LIMIT,
        ..ExtractorSettings::of(BINARY)
    });
    let pages = (0..20).map(|number| {
        let extractor = &extractor;
        async move {
            let page = Bytes::from(format!("<p>Page {number}"));
            let extracted = extractor.extract(&head("text/html"), &page).await;
            assert_eq!(extracted.unwrap().text, format!("Page {number}"));
        }
    });
    futures_util::future::join_all(pages).await;
}
