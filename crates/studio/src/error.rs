//! Why something is not made or not read.

use std::fmt;
use std::time::Duration;

use crate::tools::{FONT, FONT_PACKAGE, Program};

/// A failure. Its text says what is wrong with what was given, or what to do; it may be shown to a caller only where the
/// variant says so.
#[derive(Debug)]
pub enum Error {
    /// What was given is not what it has to be. The text is for whoever gave it: it goes on after "the file" or
    /// "the film", as in "is empty".
    Input(String),
    /// There is more of it than is taken. The text is as that of [`Error::Input`].
    TooLarge(String),
    /// A program is not installed.
    Missing(Program),
    /// The font of captions is not installed.
    NoFont,
    /// A program ended badly. The text is the end of what it wrote, for the log only.
    Failed(Program, String),
    /// A program was ended because it took longer than this.
    TooSlow(Program, Duration),
    /// What a program made is not what it was told to make. For the log only.
    Unfit(String),
    /// A file could not be read or written. For the log only.
    File(std::io::Error),
}

/// What the functions of this crate answer.
pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Input(what) | Error::TooLarge(what) => f.write_str(what),
            Error::Missing(program) => write!(
                f,
                "{} is not installed. Install it: apt-get install {}",
                program.as_str(),
                program.package()
            ),
            Error::NoFont => write!(
                f,
                "the font {FONT} is not installed. Install it: apt-get install {FONT_PACKAGE}"
            ),
            Error::Failed(program, detail) => write!(f, "{} failed: {detail}", program.as_str()),
            Error::TooSlow(program, limit) => {
                write!(f, "{} took longer than {} s", program.as_str(), limit.as_secs())
            }
            Error::Unfit(what) => write!(f, "what was made is wrong: {what}"),
            Error::File(error) => write!(f, "a file: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::File(error) => Some(error),
            _ => None,
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Error::File(error)
    }
}
