//! The installed programs for video and speech, and the caption font: paths, versions, and missing
//! programs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OnceCell, Semaphore};

use crate::error::{Error, Result};
use crate::process::Run;

/// Timeout of a version query.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A program that this crate runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    /// ffmpeg, which encodes video and audio.
    Ffmpeg,
    /// ffprobe, which reads the properties of a file.
    Ffprobe,
    /// espeak-ng, which synthesizes speech.
    Espeak,
}

impl Program {
    /// All programs, in the order in which they are reported.
    pub const ALL: [Program; 3] = [Program::Ffmpeg, Program::Ffprobe, Program::Espeak];

    /// Returns the name of the executable.
    pub const fn as_str(self) -> &'static str {
        match self {
            Program::Ffmpeg => "ffmpeg",
            Program::Ffprobe => "ffprobe",
            Program::Espeak => "espeak-ng",
        }
    }

    /// Returns the Debian package that contains the program.
    pub const fn package(self) -> &'static str {
        match self {
            Program::Ffmpeg | Program::Ffprobe => "ffmpeg",
            Program::Espeak => "espeak-ng",
        }
    }

    const fn version_option(self) -> &'static str {
        match self {
            Program::Ffmpeg | Program::Ffprobe => "-version",
            Program::Espeak => "--version",
        }
    }
}

/// Name of the caption font.
pub const FONT: &str = "DejaVu Sans";
/// Name of the font's file.
const FONT_FILE: &str = "DejaVuSans-Bold.ttf";
/// Folders in which the font is searched.
const FONT_FOLDERS: [&str; 6] = [
    "/usr/share/fonts/truetype/dejavu",
    "/usr/share/fonts/dejavu-sans-fonts",
    "/usr/share/fonts/dejavu",
    "/usr/share/fonts/TTF",
    "/usr/local/share/fonts/dejavu",
    "/usr/local/share/fonts",
];
/// Debian package of the font.
pub(crate) const FONT_PACKAGE: &str = "fonts-dejavu-core";

/// Configured paths of programs and font. Paths that are `None` are searched for.
#[derive(Clone, Debug, Default)]
pub struct ToolPaths {
    /// Path of the ffmpeg executable.
    pub ffmpeg: Option<PathBuf>,
    /// Path of the ffprobe executable.
    pub ffprobe: Option<PathBuf>,
    /// Path of the espeak-ng executable.
    pub espeak: Option<PathBuf>,
    /// Path of the bold DejaVu Sans font.
    pub font: Option<PathBuf>,
    /// Maximum number of programs that run concurrently, at least 1. Defaults to the number of
    /// cores.
    pub max_concurrent: Option<usize>,
}

/// A program or font that is not installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Name of the program or font.
    pub name: &'static str,
    /// Debian package that contains the program or font.
    pub package: &'static str,
}

/// Returns the command that installs all missing packages.
pub fn how_to_install(missing: &[Missing]) -> String {
    let mut packages: Vec<&str> = missing.iter().map(|one| one.package).collect();
    packages.dedup();
    format!("apt-get install {}", packages.join(" "))
}

/// The programs and the font of this machine. Clones share the limit of concurrent runs.
#[derive(Clone, Debug)]
pub struct Tools {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    ffmpeg: Option<PathBuf>,
    ffprobe: Option<PathBuf>,
    espeak: Option<PathBuf>,
    font: Option<PathBuf>,
    /// Path of the `nice` command, which lowers the priority of programs.
    nice: Option<PathBuf>,
    running: Semaphore,
    versions: OnceCell<Vec<(Program, String)>>,
}

impl Tools {
    /// Searches for the programs in `PATH` and for the font in its common folders. Starts no
    /// program.
    pub fn find() -> Self {
        Self::at(&ToolPaths::default())
    }

    /// Uses the configured paths, and searches for the others like [`find`](Self::find). A
    /// configured path without an executable program or a font file counts as not installed. Starts
    /// no program.
    pub fn at(paths: &ToolPaths) -> Self {
        let named = |path: &Option<PathBuf>, program: Program| match path {
            Some(path) => is_program(path).then(|| path.clone()),
            None => on_path(program.as_str()),
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            inner: Arc::new(Inner {
                ffmpeg: named(&paths.ffmpeg, Program::Ffmpeg),
                ffprobe: named(&paths.ffprobe, Program::Ffprobe),
                espeak: named(&paths.espeak, Program::Espeak),
                font: match &paths.font {
                    Some(path) => path.is_file().then(|| path.clone()),
                    None => FONT_FOLDERS
                        .iter()
                        .map(|folder| Path::new(folder).join(FONT_FILE))
                        .find(|path| path.is_file()),
                },
                nice: on_path("nice"),
                running: Semaphore::new(paths.max_concurrent.unwrap_or(cores).max(1)),
                versions: OnceCell::new(),
            }),
        }
    }

    /// Returns the programs and the font that are not installed.
    pub fn missing(&self) -> Vec<Missing> {
        let programs = Program::ALL.into_iter().filter(|program| !self.has(*program));
        let programs = programs.map(|program| Missing {
            name: program.as_str(),
            package: program.package(),
        });
        let font = self.inner.font.is_none().then_some(Missing {
            name: FONT,
            package: FONT_PACKAGE,
        });
        programs.chain(font).collect()
    }

    /// Whether the program is installed.
    pub fn has(&self, program: Program) -> bool {
        self.path(program).is_ok()
    }

    /// Whether ffmpeg and ffprobe are installed, which videos need.
    pub fn can_render(&self) -> bool {
        self.has(Program::Ffmpeg) && self.has(Program::Ffprobe)
    }

    /// Whether espeak-ng and ffmpeg are installed, which speech needs.
    pub fn can_speak(&self) -> bool {
        self.has(Program::Espeak) && self.has(Program::Ffmpeg)
    }

    /// Whether videos can have captions, which also need the font.
    pub fn can_caption(&self) -> bool {
        self.can_render() && self.inner.font.is_some()
    }

    /// Returns the first line of each installed program's version output, or the error if the query
    /// failed. The programs are queried once.
    pub async fn versions(&self) -> &[(Program, String)] {
        let detected = self.inner.versions.get_or_init(|| async {
            let mut versions = Vec::new();
            for program in Program::ALL.into_iter().filter(|program| self.has(*program)) {
                let run = Run::bare(program, TIMEOUT).arg(program.version_option());
                let version_output = match self.run(run).await {
                    Ok(version_output) => first_line(&version_output),
                    Err(error) => error.to_string(),
                };
                versions.push((program, version_output));
            }
            versions
        });
        detected.await
    }

    /// Checks that the programs are installed. Returns [`Error::Missing`] with the first missing
    /// program.
    pub fn need(&self, programs: &[Program]) -> Result<()> {
        programs
            .iter()
            .try_for_each(|program| self.path(*program).map(drop))
    }

    /// Returns the path of a program, or [`Error::Missing`] if it is not installed.
    pub(crate) fn path(&self, program: Program) -> Result<&Path> {
        let path = match program {
            Program::Ffmpeg => &self.inner.ffmpeg,
            Program::Ffprobe => &self.inner.ffprobe,
            Program::Espeak => &self.inner.espeak,
        };
        path.as_deref().ok_or(Error::Missing(program))
    }

    /// Returns the path of the font, or [`Error::NoFont`] if it is not installed.
    pub(crate) fn font(&self) -> Result<&Path> {
        self.inner.font.as_deref().ok_or(Error::NoFont)
    }

    pub(crate) fn nice(&self) -> Option<&Path> {
        self.inner.nice.as_deref()
    }

    pub(crate) fn running(&self) -> &Semaphore {
        &self.inner.running
    }
}

fn first_line(version_output: &[u8]) -> String {
    let text = String::from_utf8_lossy(version_output);
    text.lines().next().unwrap_or_default().trim().to_owned()
}

fn on_path(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let candidates = std::env::split_paths(&folders).map(|folder| folder.join(name.as_ref()));
    candidates
        .filter(|path| path.is_absolute())
        .find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let metadata = std::fs::metadata(path);
    metadata.is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests;
