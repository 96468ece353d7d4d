//! Errors of the media tools.

use std::fmt;
use std::time::Duration;

use crate::tools::{FONT, FONT_PACKAGE, Program};

/// Error of a media tool. Its text describes what is wrong or what to do. Show the text to a caller
/// only if the variant allows it.
#[derive(Debug)]
pub enum Error {
    /// The input is invalid. The text is for the caller and follows "the file" or "the video", as
    /// in "is empty".
    Input(String),
    /// The input exceeds a limit. The text is for the caller, in the form of [`Error::Input`].
    TooLarge(String),
    /// The program is not installed.
    Missing(Program),
    /// The caption font is not installed.
    NoFont,
    /// The program failed, or its standard output is too long or malformed. The text has the
    /// reason, such as the exit status and the end of the error output, and is for the log only.
    Failed(Program, String),
    /// The program was stopped after this timeout.
    TooSlow(Program, Duration),
    /// The output of a program does not match the request, or an internal operation such as
    /// encoding an image failed. The text is for the log only.
    UnexpectedOutput(String),
    /// Reading or writing a file failed. The text is for the log only.
    File(std::io::Error),
}

/// Result of the functions of this crate.
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
            Error::UnexpectedOutput(what) => write!(f, "unexpected output: {what}"),
            Error::File(error) => write!(f, "file error: {error}"),
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
