//! The built binary with a separate data directory and a clean environment.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;

/// Timeout of each wait, generous for busy machines.
const TIMEOUT: Duration = Duration::from_secs(120);

pub struct Installation {
    directory: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

/// The result of a finished command.
#[derive(Debug)]
pub struct Ended {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Installation {
    pub fn new() -> Self {
        let variables = [
            ("TOLLGATE_SERVER__DISCOVER", "false"),
            ("TOLLGATE_SERVER__LISTEN", "127.0.0.1:0"),
            ("TOLLGATE_SERVER__ADMIN", "127.0.0.1:0"),
            ("TOLLGATE_TIMEOUTS__DRAIN_DELAY_MS", "0"),
        ];
        Self {
            directory: tempfile::tempdir().unwrap(),
            variables: variables
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        }
    }

    /// Returns the installation with one more environment variable.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Writes a file beside the data directory and returns its path.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Returns the log of the servers.
    pub fn log(&self) -> String {
        read(&self.directory.path().join("serve.log"))
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(tollgate_api_tests::BINARY);
        command
            .args(words)
            .current_dir(self.directory.path())
            .env_clear()
            .stdin(Stdio::null());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command on the data directory and waits for its end.
    pub fn run(&self, words: &[&str]) -> Ended {
        let data = self.data();
        let output = self.command(words).arg("--data").arg(&data).output().unwrap();
        Ended {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs a command that must succeed, and returns its stdout.
    pub fn fine(&self, words: &[&str]) -> String {
        let ended = self.run(words);
        assert_eq!(ended.code, 0, "{words:?}: {ended:?}");
        ended.stdout
    }

    /// Runs a command with `--json`, which must succeed.
    pub fn json(&self, words: &[&str]) -> Value {
        let words: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
        let stdout = self.fine(&words);
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{words:?}: {error}: {stdout}"))
    }

    /// Starts a server and waits until it prints its address.
    pub fn serve(&self) -> Server {
        let mut command = self.command(&["serve", "--data"]);
        let log = self.write("serve.log", "");
        let stderr = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
        let mut child = command
            .arg(self.data())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            while stdout.read_line(&mut line).is_ok_and(|count| count > 0) {
                let _ = sender.send(std::mem::take(&mut line));
            }
        });
        let mut server = Server {
            child: Some(child),
            lines,
            address: String::new(),
        };
        let first = server.lines.recv_timeout(TIMEOUT);
        let first = first.unwrap_or_else(|_| panic!("the server did not start: {}", read(&log)));
        server.address = first.trim().to_owned();
        server
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Sends a request to any address and reads the whole response, head and body.
pub fn ask(address: &str, method: &str, path: &str, key: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// A running server, which is killed when dropped.
pub struct Server {
    child: Option<Child>,
    lines: mpsc::Receiver<String>,
    pub address: String,
}

impl Server {
    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Returns the output after the address, up to and including the line that contains `end`.
    pub fn banner_until(&self, end: &str) -> String {
        let mut banner = String::new();
        while !banner.contains(end) {
            banner += &self
                .lines
                .recv_timeout(TIMEOUT)
                .unwrap_or_else(|_| panic!("no {end:?} in {banner}"));
        }
        banner
    }

    /// Sends a request with a key and reads the whole response, head and body.
    pub fn ask(&self, method: &str, path: &str, key: &str, body: &str) -> String {
        ask(&self.address, method, path, key, body)
    }

    /// Sends SIGTERM and waits for the end. Returns the exit code.
    pub fn stop(mut self) -> i32 {
        let mut child = self.child.take().unwrap();
        let pid = child.id().to_string();
        assert!(
            Command::new("/bin/sh")
                .args(["-c", &format!("kill -TERM {pid}")])
                .status()
                .unwrap()
                .success()
        );
        let (sender, ended) = mpsc::channel();
        std::thread::spawn(move || sender.send(child.wait().unwrap()));
        ended
            .recv_timeout(TIMEOUT)
            .expect("the server did not stop")
            .code()
            .expect("the server was killed")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
