//! A gateway started as an operator would start it, on SQLite, whose simulator is the upstream. CPU
//! time includes every program that it has run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// File with the settings.
const SETTINGS: &str = "tollgate.toml";
/// Timeout of the start, until the gateway listens.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A separate gateway for one measurement.
pub(crate) struct Gateway {
    child: Child,
    address: String,
    key: String,
    program: PathBuf,
    folder: PathBuf,
}

impl Gateway {
    /// Starts this program with these additional settings.
    pub(crate) fn start(program: &Path, settings_besides: &str) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("tollgate-bench-own-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let settings = folder.join(SETTINGS);
        fs::write(
            &settings,
            format!(
                "[server]\nlisten = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\ndiscover = false\n[limits]\nrpm = 100000000\n\
                 {settings_besides}"
            ),
        )?;
        let output_path = folder.join("said.txt");
        let child = Command::new(program)
            .args(["serve", "--data"])
            .arg(folder.join("data"))
            .arg("--config")
            .arg(&settings)
            .env("TOLLGATE_LOG", "error")
            .stdout(fs::File::create(&output_path)?)
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let mut gateway = Self {
            child,
            address: String::new(),
            key: String::new(),
            program: program.to_owned(),
            folder,
        };
        let deadline = Instant::now() + TIMEOUT;
        while gateway.key.is_empty() {
            ensure!(Instant::now() < deadline, "the gateway did not start listening");
            ensure!(gateway.child.try_wait()?.is_none(), "the gateway exited");
            std::thread::sleep(Duration::from_millis(50));
            let text = fs::read_to_string(&output_path)?;
            gateway.address = text.lines().next().unwrap_or_default().to_owned();
            let key = text
                .split_whitespace()
                .find(|word| word.starts_with("sk-service-"));
            gateway.key = key.unwrap_or_default().to_owned();
        }
        let listed = gateway.run(&["accounts", "list"])?;
        let account = listed.split_whitespace().find(|word| word.starts_with("acct_"));
        gateway.grant(account.context("the account is missing")?)?;
        Ok(gateway)
    }

    /// Creates an account with enough credits, and returns a key of it.
    pub(crate) fn new_key(&self) -> anyhow::Result<String> {
        let field = |text: &str, name: &str| -> anyhow::Result<String> {
            let record: Value = serde_json::from_str(text)?;
            let value = record[name]
                .as_str()
                .with_context(|| format!("no {name} in {text}"))?;
            Ok(value.to_owned())
        };
        let account = field(&self.run(&["accounts", "create", "bench", "--json"])?, "id")?;
        self.grant(&account)?;
        let create = [
            "keys",
            "create",
            "--account",
            &account,
            "--name",
            "bench",
            "--json",
        ];
        field(&self.run(&create)?, "key")
    }

    fn grant(&self, account: &str) -> anyhow::Result<()> {
        self.run(&["credits", "grant", account, "1000000"]).map(|_| ())
    }

    /// Runs a command of the program, and returns its output.
    fn run(&self, words: &[&str]) -> anyhow::Result<String> {
        let output = Command::new(&self.program)
            .args(words)
            .arg("--config")
            .arg(self.folder.join(SETTINGS))
            .arg("--data")
            .arg(self.folder.join("data"))
            .output()?;
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Returns the address and port of the API.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the key of the first account.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Returns the CPU seconds of the gateway and of the programs that it has run to their end.
    pub(crate) fn cpu(&self) -> anyhow::Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let (_, fields) = text.rsplit_once(") ").context("the status file has no fields")?;
        let numbers = fields.split(' ').skip(11).take(4);
        let ticks: u64 = numbers.filter_map(|number| number.parse::<u64>().ok()).sum();
        // SAFETY: the call reads a constant of the system.
        let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        Ok(ticks as f64 / per_second.max(1) as f64)
    }

    /// Returns the resident memory now, in MiB.
    pub(crate) fn memory(&self) -> u64 {
        let pid = self.child.id() as crate::accounting::Pid;
        crate::accounting::memory(&[pid]).rss >> 20
    }

    /// Returns the resident memory now, in KiB.
    pub(crate) fn memory_kib(&self) -> u64 {
        let pid = self.child.id() as crate::accounting::Pid;
        crate::accounting::memory(&[pid]).rss >> 10
    }

    /// Returns the peak resident memory so far, in MiB.
    pub(crate) fn peak_memory(&self) -> anyhow::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|peak| peak.trim().strip_suffix(" kB"));
        let kib: u64 = kib.context("the peak memory is missing")?.trim().parse()?;
        Ok(kib >> 10)
    }

    /// Returns the folder with its data.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // The measurement owns the process, and its data is not needed afterwards.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A connection to the gateway.
pub(crate) struct Client {
    sender: SendRequest<Full<Bytes>>,
    key: String,
}

impl Client {
    /// Opens a connection.
    pub(crate) async fn connect(gateway: &Gateway) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(&gateway.address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self {
            sender,
            key: gateway.key.clone(),
        })
    }

    /// Sends a JSON body and returns the response.
    pub(crate) async fn send(&mut self, method: &str, path: &str, body: String) -> anyhow::Result<Value> {
        let bytes = self
            .send_as(method, path, "application/json", body.into())
            .await?;
        Ok(serde_json::from_slice(&bytes)?)
    }

    /// Sends a body of this type and returns the response.
    pub(crate) async fn send_as(
        &mut self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> anyhow::Result<Bytes> {
        let request = hyper::Request::builder()
            .method(method)
            .uri(path)
            .header("host", "127.0.0.1")
            .header("authorization", format!("Bearer {}", self.key))
            .header("content-type", content_type)
            .body(Full::new(body))?;
        self.sender.ready().await?;
        let answer = self.sender.send_request(request).await?;
        let status = answer.status();
        let bytes = answer.into_body().collect().await?.to_bytes();
        ensure!(status == 200, "{status}: {}", String::from_utf8_lossy(&bytes));
        Ok(bytes)
    }
}
