//! Duration of a recording, which ffprobe measures if it is installed.

use std::time::Duration;

use bytes::Bytes;
use tollgate_edge::members::invalid;
use tollgate_media_tools::{Error as Fault, Probe, ProbeLimits, Program, Scratch, Tools};
use tollgate_types::{Error, RequestId};

/// Maximum duration of a recording: 24 hours.
const MAX_DURATION: Duration = Duration::from_secs(24 * 3_600);
/// Maximum duration of one byte of a recording, in microseconds. It corresponds to a bit rate of 8
/// kbit/s.
const MICROS_PER_BYTE: u64 = 1_000;

/// Returns the duration of a recording, or `None` if ffprobe is not installed or fails. Returns an
/// error if the file is not a recording or is longer than [`MAX_DURATION`].
pub(super) async fn of(tools: &Tools, request: RequestId, audio: &Bytes) -> Result<Option<Duration>, Error> {
    if !tools.has(Program::Ffprobe) {
        return Ok(None);
    }
    match probe(tools, audio).await {
        Ok(probe) => match probe.audio {
            Some(audio_stream) if !audio_stream.duration.is_zero() => Ok(Some(audio_stream.duration)),
            Some(_) => Ok(Some(probe.duration)),
            None => Err(invalid("file", "has no audio track")),
        },
        Err(Fault::Input(what) | Fault::TooLarge(what)) => Err(invalid("file", &what)),
        Err(error) => {
            tracing::warn!(request.id = %request, %error, "cannot measure the duration of a recording");
            Ok(None)
        }
    }
}

async fn probe(tools: &Tools, audio: &Bytes) -> Result<Probe, Fault> {
    let scratch = Scratch::make()?;
    let place = scratch.file("recording");
    tokio::fs::write(&place, audio).await?;
    let limits = ProbeLimits {
        max_duration: MAX_DURATION,
        ..ProbeLimits::default()
    };
    tools.probe_within(&place, limits).await
}

/// Returns the maximum duration of a recording of `bytes` bytes, in microseconds.
pub(super) fn max_micros(bytes: usize) -> u64 {
    (bytes as u64).saturating_mul(MICROS_PER_BYTE)
}
