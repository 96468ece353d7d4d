//! A separate S3 server for a test: the server of moto, which `scripts/s3-server.sh` installs.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "only tests use this: an error here fails the test"
)]

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

/// The bucket that exists on every server.
pub const BUCKET: &str = "media";

/// A server process that stores everything in memory. Dropping it kills the process.
#[derive(Debug)]
pub struct S3Server {
    port: u16,
    _process: Child,
    _reader: JoinSet<()>,
}

impl S3Server {
    /// Starts a server on a free port, waits until it accepts connections, and creates [`BUCKET`].
    ///
    /// # Panics
    /// If the server is not installed, or does not start.
    pub async fn start() -> Self {
        let program = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../.tools/s3-server/bin/moto_server"
        );
        assert!(
            Path::new(program).exists(),
            "scripts/s3-server.sh installs {program}"
        );
        let mut command = Command::new(program);
        command
            .args(["--host", "127.0.0.1", "--port", "0"])
            .env("PYTHONUNBUFFERED", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let port = loop {
            let line = lines.next_line().await.unwrap();
            let line = line.expect("the S3 server starts");
            if let Some((_, address)) = line.split_once("Running on http://127.0.0.1:") {
                break address.trim().parse().unwrap();
            }
        };
        // The server prints a line for each request, which would fill a pipe without a reader.
        let mut reader = JoinSet::new();
        reader.spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let server = Self {
            port,
            _process: process,
            _reader: reader,
        };
        let made = server.request("PUT", &format!("/{BUCKET}")).await;
        assert!(made.starts_with("HTTP/1.1 200"), "{made}");
        server
    }

    /// Returns the address of the server on loopback.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Returns the endpoint URL of the server.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Returns the number of multipart uploads that are neither completed nor aborted.
    pub async fn open_uploads(&self) -> usize {
        let answer = self.request("GET", &format!("/{BUCKET}?uploads")).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer.matches("<UploadId>").count()
    }

    /// Returns the keys of all objects.
    pub async fn keys(&self) -> Vec<String> {
        let answer = self.request("GET", &format!("/{BUCKET}?list-type=2")).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let keys = answer.split("<Key>").skip(1);
        keys.map(|rest| rest.split('<').next().unwrap().to_owned())
            .collect()
    }

    async fn request(&self, method: &str, path: &str) -> String {
        let mut connection = TcpStream::connect(self.address()).await.unwrap();
        // The server reads the region from the scope of the signature and verifies nothing.
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\nConnection: close\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=test/20261122/us-east-1/s3/aws4_request, \
             SignedHeaders=host, Signature=0\r\n\r\n",
            self.address()
        );
        connection.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.unwrap();
        answer
    }
}
