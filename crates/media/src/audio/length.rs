//! How long a recording is, as far as the gateway knows: ffprobe reads it, where that is installed.

use std::time::Duration;

use bytes::Bytes;
use tollgate_studio::{Error as Fault, Probe, ProbeLimits, Program, Scratch, Tools};
use tollgate_types::{Error, RequestId};

use crate::read::invalid;

/// The longest recording.
const LONGEST: Duration = Duration::from_secs(24 * 3_600);
/// How much longer a recording cannot be: 8 kbit/s, in microseconds for a byte.
const MICROS_PER_BYTE: u64 = 1_000;

/// How long a recording is; nothing where that cannot be found out here. What is no recording is refused.
pub(super) async fn of(tools: &Tools, request: RequestId, audio: &Bytes) -> Result<Option<Duration>, Error> {
    if !tools.has(Program::Ffprobe) {
        return Ok(None);
    }
    match probe(tools, audio).await {
        Ok(probe) => match probe.audio {
            Some(sound) if !sound.duration.is_zero() => Ok(Some(sound.duration)),
            Some(_) => Ok(Some(probe.duration)),
            None => Err(invalid("file", "has no sound")),
        },
        Err(Fault::Input(what) | Fault::TooLarge(what)) => Err(invalid("file", &what)),
        Err(error) => {
            tracing::warn!(request.id = %request, %error, "cannot look how long a recording is");
            Ok(None)
        }
    }
}

async fn probe(tools: &Tools, audio: &Bytes) -> Result<Probe, Fault> {
    let scratch = Scratch::make()?;
    let place = scratch.file("recording");
    tokio::fs::write(&place, audio).await?;
    let limits = ProbeLimits {
        longest: LONGEST,
        ..ProbeLimits::default()
    };
    tools.probe_within(&place, limits).await
}

/// The most microseconds that so many bytes can be.
pub(super) fn most_micros(bytes: usize) -> u64 {
    (bytes as u64).saturating_mul(MICROS_PER_BYTE)
}
