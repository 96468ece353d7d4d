//! Tools for image, video and audio files: detection, encoding, and the simulator's output. This
//! crate reads, writes and draws images and synthesizes music itself. External programs process
//! video and audio files and synthesize speech.
//!
//! Suggested reading order: [`error`], [`tools`], [`process`], [`scratch`], [`image`], [`memory`],
//! [`draw`](mod@draw), [`probe`], [`video`], [`frame`], [`join`], [`speech`]; then the modules that
//! assemble videos: [`captions`], [`timing`], [`scene`], [`music`], [`cut`], [`inspect`].

mod blend;
pub mod captions;
pub mod cut;
pub mod draw;
pub mod error;
pub mod frame;
pub mod image;
pub mod inspect;
pub mod join;
pub mod memory;
pub mod music;
pub mod probe;
pub mod process;
pub mod scene;
pub mod scratch;
pub mod speech;
pub mod timing;
pub mod tools;
pub mod video;

pub use self::image::{Dimensions, Encoding, Image};
pub use captions::{Caption, CaptionPosition, CaptionStyle, Word};
pub use cut::{AudioClip, CutScene, CutSpec, Music, Transition};
pub use draw::{Palette, Sketch};
pub use error::Error;
pub use inspect::{CutExpected, Inspection};
pub use music::Mood;
pub use probe::{AudioStream, FrameRate, Probe, ProbeLimits, VideoStream};
pub use process::Run;
pub use scene::{Motion, SceneSpec};
pub use scratch::Scratch;
pub use speech::{Speech, SpeechFormat, SpeechSpec};
pub use tools::{Missing, Program, ToolPaths, Tools, how_to_install};
pub use video::VideoSpec;
