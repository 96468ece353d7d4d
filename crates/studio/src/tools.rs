//! The programs that films and speech are made with, and the font of captions: where they are, which version, and which of
//! them are missing.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OnceCell, Semaphore};

use crate::error::{Error, Result};
use crate::process::Run;

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(20);

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    /// Encodes films and sound.
    Ffmpeg,
    /// Says what is in a file.
    Ffprobe,
    /// Speaks.
    Espeak,
}

impl Program {
    /// Every program.
    pub const ALL: [Program; 3] = [Program::Ffmpeg, Program::Ffprobe, Program::Espeak];

    /// What it is called on the path.
    pub const fn as_str(self) -> &'static str {
        match self {
            Program::Ffmpeg => "ffmpeg",
            Program::Ffprobe => "ffprobe",
            Program::Espeak => "espeak-ng",
        }
    }

    /// The Debian package that has it.
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

/// What the font of captions is called.
pub const FONT: &str = "DejaVu Sans";
/// Its file.
const FONT_FILE: &str = "DejaVuSans-Bold.ttf";
/// Where systems keep it.
const FONT_FOLDERS: [&str; 6] = [
    "/usr/share/fonts/truetype/dejavu",
    "/usr/share/fonts/dejavu-sans-fonts",
    "/usr/share/fonts/dejavu",
    "/usr/share/fonts/TTF",
    "/usr/local/share/fonts/dejavu",
    "/usr/local/share/fonts",
];
/// The Debian package that has it.
pub(crate) const FONT_PACKAGE: &str = "fonts-dejavu-core";

/// Where programs are that are not to be looked for.
#[derive(Clone, Debug, Default)]
pub struct ToolPaths {
    /// The file of ffmpeg.
    pub ffmpeg: Option<PathBuf>,
    /// The file of ffprobe.
    pub ffprobe: Option<PathBuf>,
    /// The file of espeak-ng.
    pub espeak: Option<PathBuf>,
    /// The file of DejaVu Sans, bold.
    pub font: Option<PathBuf>,
    /// How many programs run at once; as many as there are cores when it is not said. At least one does.
    pub at_once: Option<usize>,
}

/// A program that is not there, or the font.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// What it is called.
    pub name: &'static str,
    /// The Debian package that has it.
    pub package: &'static str,
}

/// One sentence for the operator about all that is missing.
pub fn how_to_install(missing: &[Missing]) -> String {
    let mut packages: Vec<&str> = missing.iter().map(|one| one.package).collect();
    packages.dedup();
    format!("apt-get install {}", packages.join(" "))
}

/// The programs of this machine. Clones share the limit on how many run at once.
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
    /// By which others are made kinder to whatever else runs here.
    nice: Option<PathBuf>,
    running: Semaphore,
    versions: OnceCell<Vec<(Program, String)>>,
}

impl Tools {
    /// Looks for the programs on the path, and for the font where systems keep it. Nothing is started.
    pub fn find() -> Self {
        Self::at(&ToolPaths::default())
    }

    /// Those that are named, and the others as [`find`](Self::find) has them. Nothing is started.
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
                running: Semaphore::new(paths.at_once.unwrap_or(cores).max(1)),
                versions: OnceCell::new(),
            }),
        }
    }

    /// Those that are not there.
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

    /// Whether a program is there.
    pub fn has(&self, program: Program) -> bool {
        self.path(program).is_ok()
    }

    /// Whether films can be made.
    pub fn can_film(&self) -> bool {
        self.has(Program::Ffmpeg) && self.has(Program::Ffprobe)
    }

    /// Whether texts can be spoken.
    pub fn can_speak(&self) -> bool {
        self.has(Program::Espeak) && self.has(Program::Ffmpeg)
    }

    /// Whether films can have captions.
    pub fn can_caption(&self) -> bool {
        self.can_film() && self.inner.font.is_some()
    }

    /// What each program that is there says of its version. They are asked once.
    pub async fn versions(&self) -> &[(Program, String)] {
        let asked = self.inner.versions.get_or_init(|| async {
            let mut versions = Vec::new();
            for program in Program::ALL.into_iter().filter(|program| self.has(*program)) {
                let run = Run::bare(program, PATIENCE).arg(program.version_option());
                let said = match self.run(run).await {
                    Ok(said) => first_line(&said),
                    Err(error) => error.to_string(),
                };
                versions.push((program, said));
            }
            versions
        });
        asked.await
    }

    /// Refuses when one of these programs is not there: `Missing` of the first.
    pub fn need(&self, programs: &[Program]) -> Result<()> {
        programs
            .iter()
            .try_for_each(|program| self.path(*program).map(drop))
    }

    /// Where a program is; `Missing` when it is not.
    pub(crate) fn path(&self, program: Program) -> Result<&Path> {
        let path = match program {
            Program::Ffmpeg => &self.inner.ffmpeg,
            Program::Ffprobe => &self.inner.ffprobe,
            Program::Espeak => &self.inner.espeak,
        };
        path.as_deref().ok_or(Error::Missing(program))
    }

    /// Where the font is; `NoFont` when it is not.
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

fn first_line(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
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
