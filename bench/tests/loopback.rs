//! Tests of the tools as processes: the stub's answers satisfy the load tool, directly and through
//! the bare proxy, in every mode.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tollgate_bench::load::Report;
use tollgate_bench::payload::{Payload, Plan};

/// A server that ends with the test, and its printed address.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(program: &str, arguments: &[&str]) -> Server {
        let mut command = Command::new(program);
        let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        Server {
            child,
            address: line.trim().to_owned(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn load(address: &str, body: &Path, arguments: &[&str]) -> Report {
    let mut command = Command::new(env!("CARGO_BIN_EXE_load"));
    command.args(["--address", address, "--connections", "4", "--seconds", "0.2"]);
    let output = command.arg("--body").arg(body).args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn every_mode_gets_complete_answers_directly_and_through_the_bare_proxy() {
    let folder = Folder(std::env::temp_dir().join(format!("tollgate-bench-loopback-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0).unwrap();
    let write = |name: &str, payload: Payload| {
        let file = folder.0.join(name);
        std::fs::write(&file, payload.body("stub-model")).unwrap();
        file
    };
    let small = write("small.json", Payload::Small);
    let large = write("large.json", Payload::Large);
    let stream = write("stream.json", Payload::Stream(Plan::stream(7, 1)));

    let stub = Server::start(env!("CARGO_BIN_EXE_stub"), &["--listen", "127.0.0.1:0"]);
    let bare = ["--listen", "127.0.0.1:0", "--upstream", &stub.address];
    let bare = Server::start(env!("CARGO_BIN_EXE_bare"), &bare);
    for address in [&stub.address, &bare.address] {
        let warm = small.to_str().unwrap();
        let cases = [
            load(
                address,
                &small,
                &[
                    "--mode", "closed", "--bearer", "a", "--bearer", "b", "--warm", warm,
                ],
            ),
            load(address, &large, &["--mode", "closed"]),
            load(address, &stream, &["--mode", "closed", "--chunks", "7"]),
            load(address, &stream, &["--mode", "hold", "--chunks", "7"]),
        ];
        for report in &cases {
            assert!(report.ok > 0 && report.bad == 0, "{address}: {report:?}");
        }
        assert_eq!(cases[0].warm, 4);
        assert_eq!(cases[2].chunks, 7 * cases[2].ok);
        assert_eq!(cases[2].transit.count, cases[2].chunks);
        assert_eq!((cases[3].ok, cases[3].chunks), (4, 28));

        let open = load(address, &small, &["--mode", "open", "--rate", "100"]);
        assert_eq!((open.ok + open.missed, open.bad), (20, 0), "{open:?}");
    }

    // A stream with a missing chunk is a bad answer, and the report has the reason.
    let short = load(&stub.address, &stream, &["--mode", "closed", "--chunks", "8"]);
    assert_eq!(short.ok, 0);
    assert_eq!(short.first_bad.as_deref(), Some("7 content chunks of 8"));
}
