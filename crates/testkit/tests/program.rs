//! `fake-upstream` as a program: its output and its answers.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_fake-upstream");

/// A child process, killed when the value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn it_prints_its_address_and_echoes() {
    let mut child = Command::new(PROGRAM)
        .args(["--echo", "--api-key", "sesame"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let _running = Running(child);
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let address = line
        .trim()
        .strip_prefix("http://")
        .unwrap()
        .strip_suffix("/v1")
        .unwrap();

    let body = r#"{"model":"m","messages":[{"role":"user","content":"Hi there"}]}"#;
    let ask = |key: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        let length = body.len();
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: upstream\r\nauthorization: Bearer {key}\r\n\
             content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    };
    let response = ask("sesame");
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert!(response.contains(r#""content":"Hi there""#), "{response}");
    assert!(ask("other").starts_with("HTTP/1.1 401"));
}

#[test]
fn it_explains_itself() {
    let run = |arguments: &[&str]| Command::new(PROGRAM).args(arguments).output().unwrap();
    let help = run(&["--help"]);
    assert!(help.status.success());
    assert!(String::from_utf8_lossy(&help.stdout).contains("--echo"));
    for wrong in [&["--port"][..], &["--port", "many"], &["--nothing"]] {
        let refused = run(wrong);
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}");
        assert!(!refused.stderr.is_empty(), "{wrong:?}");
    }
}
