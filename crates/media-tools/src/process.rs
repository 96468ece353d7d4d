//! Runs programs without a shell, with a minimal environment and a timeout. Dropping the future
//! ends the program.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::error::{Error, Result};
use crate::tools::{Program, Tools};

/// Maximum size of the retained error output, in bytes. The end of the output is retained.
const MAX_STDERR_BYTES: usize = 4 << 10;
/// Maximum size of the standard output, in bytes.
const MAX_STDOUT_BYTES: usize = 8 << 20;
/// Environment variables that are passed to programs.
const PASSED_ENV: [&str; 3] = ["PATH", "HOME", "LANG"];
/// Niceness that the `nice` command adds to programs.
const NICENESS: &str = "5";
/// Arguments of every ffmpeg run: ffmpeg shows no prompts, overwrites output files and logs only
/// errors.
const FFMPEG_ARGS: [&str; 5] = ["-nostdin", "-y", "-hide_banner", "-loglevel", "error"];
/// Arguments of every ffprobe run: ffprobe logs only errors.
const FFPROBE_ARGS: [&str; 3] = ["-hide_banner", "-loglevel", "error"];
/// Arguments before each input file: ffmpeg opens only files and pipes.
const FILE_PROTOCOL_ARGS: [&str; 2] = ["-protocol_whitelist", "file,pipe"];

/// One run of a program: arguments, standard input, working directory and timeout.
#[derive(Clone, Debug)]
pub struct Run {
    program: Program,
    args: Vec<OsString>,
    input: Option<Bytes>,
    folder: Option<PathBuf>,
    limit: Duration,
}

impl Run {
    /// Creates a run with a timeout and with the default arguments of the program.
    pub fn new(program: Program, limit: Duration) -> Self {
        let run = Self::bare(program, limit);
        match program {
            Program::Ffmpeg => run.args(FFMPEG_ARGS),
            Program::Ffprobe => run.args(FFPROBE_ARGS),
            Program::Espeak => run,
        }
    }

    /// Creates a run without default arguments.
    pub(crate) fn bare(program: Program, limit: Duration) -> Self {
        Self {
            program,
            args: Vec::new(),
            input: None,
            folder: None,
            limit,
        }
    }

    /// Appends an argument to the command line.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Appends several arguments to the command line.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Adds the path of an input or output file. The program never parses a relative path as an
    /// option.
    #[must_use]
    pub fn file(self, path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        match path.is_absolute() {
            true => self.arg(path),
            false => self.arg(Path::new(".").join(path)),
        }
    }

    /// Adds an input file of ffmpeg or ffprobe. References in the file are followed only if they
    /// lead to files.
    #[must_use]
    pub fn source(self, path: impl AsRef<Path>) -> Self {
        self.args(FILE_PROTOCOL_ARGS).arg("-i").file(path)
    }

    /// Sets the data for the standard input.
    #[must_use]
    pub fn input(mut self, input: Bytes) -> Self {
        self.input = Some(input);
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn inside(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }
}

impl Tools {
    /// Runs a program to its end and returns its standard output. The timeout does not include the
    /// wait for a free slot. Dropping the future ends the program. Returns [`Error::Failed`] if the
    /// program fails or writes more than 8 MiB, and [`Error::TooSlow`] after the timeout.
    pub async fn run(&self, run: Run) -> Result<Vec<u8>> {
        let mut command = self.command(&run)?;
        let _turn = self
            .running()
            .acquire()
            .await
            .map_err(|closed| Error::Failed(run.program, closed.to_string()))?;
        let mut child = command.spawn()?;
        let done = timeout(run.limit, communicate(&mut child, run.input)).await;
        let Ok(done) = done else {
            child.kill().await?;
            return Err(Error::TooSlow(run.program, run.limit));
        };
        let (output, error_output) = done?;
        let status = child.wait().await?;
        let error_output = String::from_utf8_lossy(&error_output).trim().to_owned();
        if !status.success() {
            return Err(Error::Failed(run.program, format!("{status}: {error_output}")));
        }
        if output.len() > MAX_STDOUT_BYTES {
            return Err(Error::Failed(run.program, "the output is too long".to_owned()));
        }
        if !error_output.is_empty() {
            tracing::debug!(
                program = run.program.as_str(),
                error_output,
                "a program printed warnings"
            );
        }
        Ok(output)
    }

    fn command(&self, run: &Run) -> Result<Command> {
        let path = self.path(run.program)?;
        let mut command = match self.nice() {
            Some(nice) => {
                let mut command = Command::new(nice);
                command.args(["-n", NICENESS]).arg(path);
                command
            }
            None => Command::new(path),
        };
        command.args(&run.args).env_clear();
        for name in PASSED_ENV {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        if let Some(folder) = &run.folder {
            command.current_dir(folder);
        }
        let input = match run.input {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        };
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        Ok(command)
    }
}

/// Writes the input and reads both outputs until the program closes them.
async fn communicate(child: &mut Child, input: Option<Bytes>) -> Result<(Vec<u8>, Vec<u8>)> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        if let (Some(mut stdin), Some(input)) = (stdin, input) {
            // If a program stops reading its input, its exit status shows the reason.
            let _ = stdin.write_all(&input).await;
            let _ = stdin.shutdown().await;
        }
    };
    let ((), output, error_output) = tokio::join!(feed, read_bounded(stdout), end(stderr));
    Ok((output?, error_output?))
}

/// Reads the standard output up to one byte beyond the limit, and discards the rest.
async fn read_bounded(output: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>> {
    let mut tail = Vec::new();
    if let Some(mut output) = output {
        let max = MAX_STDOUT_BYTES as u64 + 1;
        (&mut output).take(max).read_to_end(&mut tail).await?;
        tokio::io::copy(&mut output, &mut tokio::io::sink()).await?;
    }
    Ok(tail)
}

/// Returns the last [`MAX_STDERR_BYTES`] bytes of the error output.
async fn end(error_output: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>> {
    let mut tail = Vec::new();
    if let Some(mut error_output) = error_output {
        while error_output.read_buf(&mut tail).await? > 0 {
            let surplus = tail.len().saturating_sub(MAX_STDERR_BYTES);
            tail.drain(..surplus);
        }
    }
    Ok(tail)
}

/// An unfinished file next to its final path. It is removed on drop unless it was finished.
#[derive(Debug)]
pub(crate) struct PartialFile {
    path: PathBuf,
    part: PathBuf,
}

impl PartialFile {
    /// Creates an unfinished file for this final path, and writes nothing yet.
    pub(crate) fn at(path: &Path) -> Self {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        Self {
            path: path.to_owned(),
            part: part.into(),
        }
    }

    /// Returns the path of the unfinished file.
    pub(crate) fn part(&self) -> &Path {
        &self.part
    }

    /// Renames the file to its final path.
    pub(crate) fn finish(self) -> Result<()> {
        std::fs::rename(&self.part, &self.path)?;
        Ok(())
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // After `finish`, the unfinished file no longer exists.
        let _ = std::fs::remove_file(&self.part);
    }
}

#[cfg(test)]
mod tests;
