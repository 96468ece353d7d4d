//! Pictures, films and speech as files: what they are, how they are encoded, and what the simulator shows. Pictures are
//! read, written and drawn here; films and sound are made by programs that are installed beside this one.
//!
//! Suggested reading order: [`error`], [`tools`], [`process`], [`picture`], [`draw`](mod@draw), [`probe`], [`film`],
//! [`frame`], [`join`], [`speech`].

mod blend;
pub mod draw;
pub mod error;
pub mod film;
pub mod frame;
pub mod join;
pub mod picture;
pub mod probe;
pub mod process;
pub mod speech;
pub mod tools;

pub use draw::{Palette, Sketch};
pub use error::Error;
pub use film::FilmSpec;
pub use picture::{Dimensions, Encoding, Picture};
pub use probe::{AudioStream, FrameRate, Probe, ProbeLimits, VideoStream};
pub use process::{Run, Scratch};
pub use speech::{Speech, SpeechFormat, SpeechSpec};
pub use tools::{Missing, Program, ToolPaths, Tools};
