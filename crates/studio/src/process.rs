//! Running a program: without a shell, with an environment of its own, for so long and no longer, and never beyond the
//! future that waits for it.

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

/// How much of what a program complains is kept: its end.
const COMPLAINTS: usize = 4 << 10;
/// What a program may print.
const MOST_PRINTED: usize = 8 << 20;
/// What of the environment is passed on.
const ENVIRONMENT: [&str; 3] = ["PATH", "HOME", "LANG"];
/// How much kinder programs are than this one.
const NICENESS: &str = "5";
/// What is always said to ffmpeg: it asks nobody, and complains only of errors.
const OF_FFMPEG: [&str; 5] = ["-nostdin", "-y", "-hide_banner", "-loglevel", "error"];
/// The same for ffprobe.
const OF_FFPROBE: [&str; 3] = ["-hide_banner", "-loglevel", "error"];
/// What is said before each file that is read: nothing but files is opened.
const NO_NETWORK: [&str; 2] = ["-protocol_whitelist", "file,pipe"];

/// One run of a program.
#[derive(Clone, Debug)]
pub struct Run {
    program: Program,
    args: Vec<OsString>,
    input: Option<Bytes>,
    folder: Option<PathBuf>,
    limit: Duration,
}

impl Run {
    /// A run that may take this long, with the options that keep the program quiet and from asking.
    pub fn new(program: Program, limit: Duration) -> Self {
        let run = Self::bare(program, limit);
        match program {
            Program::Ffmpeg => run.args(OF_FFMPEG),
            Program::Ffprobe => run.args(OF_FFPROBE),
            Program::Espeak => run,
        }
    }

    /// A run without any option.
    pub(crate) fn bare(program: Program, limit: Duration) -> Self {
        Self {
            program,
            args: Vec::new(),
            input: None,
            folder: None,
            limit,
        }
    }

    /// With one argument more.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// With more arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// With the name of a file that is read or written. A relative one is never taken for an option.
    #[must_use]
    pub fn file(self, path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        match path.is_absolute() {
            true => self.arg(path),
            false => self.arg(Path::new(".").join(path)),
        }
    }

    /// With a file that ffmpeg or ffprobe reads. What it names is opened only if it is a file, too.
    #[must_use]
    pub fn source(self, path: impl AsRef<Path>) -> Self {
        self.args(NO_NETWORK).arg("-i").file(path)
    }

    /// With this to read from its standard input.
    #[must_use]
    pub fn input(mut self, input: Bytes) -> Self {
        self.input = Some(input);
        self
    }

    /// In this folder.
    #[must_use]
    pub fn inside(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }
}

impl Tools {
    /// Runs a program to its end and answers what it printed. It waits while too many others run; that is not counted.
    /// Dropping the future ends the program.
    pub async fn run(&self, run: Run) -> Result<Vec<u8>> {
        let mut command = self.command(&run)?;
        let _turn = self
            .running()
            .acquire()
            .await
            .map_err(|closed| Error::Failed(run.program, closed.to_string()))?;
        let mut child = command.spawn()?;
        let done = timeout(run.limit, attend(&mut child, run.input)).await;
        let Ok(done) = done else {
            child.kill().await?;
            return Err(Error::TooSlow(run.program, run.limit));
        };
        let (printed, complaints) = done?;
        let status = child.wait().await?;
        let complaints = String::from_utf8_lossy(&complaints).trim().to_owned();
        if !status.success() {
            return Err(Error::Failed(run.program, format!("{status}: {complaints}")));
        }
        if printed.len() > MOST_PRINTED {
            return Err(Error::Failed(run.program, "it printed too much".to_owned()));
        }
        if !complaints.is_empty() {
            tracing::debug!(program = run.program.as_str(), complaints, "a program complained");
        }
        Ok(printed)
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
        for name in ENVIRONMENT {
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

/// Feeds a program and listens to it until it closes what it writes to.
async fn attend(child: &mut Child, input: Option<Bytes>) -> Result<(Vec<u8>, Vec<u8>)> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        if let (Some(mut stdin), Some(input)) = (stdin, input) {
            // A program that reads no further has its reasons, which its status tells.
            let _ = stdin.write_all(&input).await;
            let _ = stdin.shutdown().await;
        }
    };
    let ((), printed, complaints) = tokio::join!(feed, beginning(stdout), end(stderr));
    Ok((printed?, complaints?))
}

/// What a program prints, and one byte more than it may; the rest is read and forgotten.
async fn beginning(printed: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>> {
    let mut kept = Vec::new();
    if let Some(mut printed) = printed {
        let most = MOST_PRINTED as u64 + 1;
        (&mut printed).take(most).read_to_end(&mut kept).await?;
        tokio::io::copy(&mut printed, &mut tokio::io::sink()).await?;
    }
    Ok(kept)
}

/// The end of what a program complains.
async fn end(complaints: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>> {
    let mut kept = Vec::new();
    if let Some(mut complaints) = complaints {
        while complaints.read_buf(&mut kept).await? > 0 {
            let surplus = kept.len().saturating_sub(COMPLAINTS);
            kept.drain(..surplus);
        }
    }
    Ok(kept)
}

/// A file that is not finished: beside the place where it will be, and removed unless it gets there.
#[derive(Debug)]
pub(crate) struct Unfinished {
    place: PathBuf,
    part: PathBuf,
}

impl Unfinished {
    /// What will be at this place. Nothing is written yet.
    pub(crate) fn at(place: &Path) -> Self {
        let mut part = place.as_os_str().to_owned();
        part.push(".part");
        Self {
            place: place.to_owned(),
            part: part.into(),
        }
    }

    /// Where it is written.
    pub(crate) fn part(&self) -> &Path {
        &self.part
    }

    /// Puts it where it belongs.
    pub(crate) fn finish(self) -> Result<()> {
        std::fs::rename(&self.part, &self.place)?;
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After it was finished there is nothing here.
        let _ = std::fs::remove_file(&self.part);
    }
}

#[cfg(test)]
mod tests;
