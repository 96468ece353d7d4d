//! Pictures, films and speech as files: what they are, how they are encoded, and what the simulator shows. Pictures are
//! read, written and drawn here; films and sound are made by programs that are installed beside this one.
//!
//! Suggested reading order: [`error`], [`tools`], [`process`], [`scratch`], [`picture`], [`draw`](mod@draw), [`probe`],
//! [`film`], [`frame`], [`join`], [`speech`]; then what films are cut with: [`captions`], [`timing`], [`scene`], [`music`],
//! [`cut`], [`inspect`].

mod blend;
pub mod captions;
pub mod cut;
pub mod draw;
pub mod error;
pub mod film;
pub mod frame;
pub mod inspect;
pub mod join;
pub mod music;
pub mod picture;
pub mod probe;
pub mod process;
pub mod scene;
pub mod scratch;
pub mod speech;
pub mod timing;
pub mod tools;

pub use captions::{Caption, CaptionPosition, CaptionStyle, Word};
pub use cut::{CutScene, CutSpec, Music, Sound, Transition};
pub use draw::{Palette, Sketch};
pub use error::Error;
pub use film::FilmSpec;
pub use inspect::{CutExpected, Inspection};
pub use music::Mood;
pub use picture::{Dimensions, Encoding, Picture};
pub use probe::{AudioStream, FrameRate, Probe, ProbeLimits, VideoStream};
pub use process::Run;
pub use scene::{Motion, SceneSpec};
pub use scratch::Scratch;
pub use speech::{Speech, SpeechFormat, SpeechSpec};
pub use tools::{Missing, Program, ToolPaths, Tools, how_to_install};
