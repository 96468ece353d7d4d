//! Memory of audio that no model has transcribed yet, limited per session and per process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tollgate_types::{Error, ErrorCode};

/// Maximum size of the audio of one session, in bytes: almost six minutes of PCM.
const MAX_SESSION_BYTES: usize = 16 << 20;

/// Memory of the audio of all sessions of a process.
#[derive(Debug)]
pub struct AudioMemory {
    used: AtomicUsize,
    max_bytes: usize,
}

impl AudioMemory {
    /// Creates a limit of `max_bytes` for all sessions together.
    pub const fn new(max_bytes: usize) -> Self {
        Self {
            used: AtomicUsize::new(0),
            max_bytes,
        }
    }
}

/// Memory of the audio of one session.
pub(crate) struct SessionMemory {
    process: Arc<AudioMemory>,
    used: AtomicUsize,
}

impl SessionMemory {
    pub(crate) fn new(process: Arc<AudioMemory>) -> Arc<Self> {
        Arc::new(Self {
            process,
            used: AtomicUsize::new(0),
        })
    }

    /// Refuses audio that exceeds the limit of the session or of the process. `param` is the path
    /// of the audio in its event.
    pub(crate) fn check(&self, bytes: usize, param: &str) -> Result<(), Error> {
        if self.used.load(Ordering::Acquire).saturating_add(bytes) > MAX_SESSION_BYTES {
            let message = "The session has 16 MiB of audio that no response has read. Request a \
                           response, or delete items.";
            return Err(Error::new(ErrorCode::RequestTooLarge, message).with_param(param));
        }
        let process = &self.process;
        if process.used.load(Ordering::Acquire).saturating_add(bytes) > process.max_bytes {
            let message = "The gateway buffers too much audio at the moment. Retry shortly.";
            return Err(Error::new(ErrorCode::Overloaded, message));
        }
        Ok(())
    }

    /// Counts audio of this size until the share is dropped.
    pub(crate) fn share(self: &Arc<Self>, bytes: usize) -> MemoryShare {
        let mut share = MemoryShare {
            session: self.clone(),
            bytes: 0,
        };
        share.set(bytes);
        share
    }
}

/// Audio of a session that is counted until this value is dropped.
pub(crate) struct MemoryShare {
    session: Arc<SessionMemory>,
    bytes: usize,
}

impl MemoryShare {
    /// Changes the size of the audio.
    pub(crate) fn set(&mut self, bytes: usize) {
        for used in [&self.session.used, &self.session.process.used] {
            match bytes.checked_sub(self.bytes) {
                Some(more) => used.fetch_add(more, Ordering::AcqRel),
                None => used.fetch_sub(self.bytes - bytes, Ordering::AcqRel),
            };
        }
        self.bytes = bytes;
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audio_is_limited_per_session_and_per_process() {
        let process = Arc::new(AudioMemory::new(MAX_SESSION_BYTES + 10));
        let (one, other) = (
            SessionMemory::new(process.clone()),
            SessionMemory::new(process.clone()),
        );
        let code = |checked: Result<(), Error>| checked.err().map(|error| error.code);
        assert_eq!(code(one.check(MAX_SESSION_BYTES, "audio")), None);
        let mut share = one.share(MAX_SESSION_BYTES);
        assert_eq!(code(one.check(1, "audio")), Some(ErrorCode::RequestTooLarge));
        assert_eq!(code(other.check(10, "audio")), None);
        assert_eq!(code(other.check(11, "audio")), Some(ErrorCode::Overloaded));
        share.set(1);
        assert_eq!(code(other.check(MAX_SESSION_BYTES, "audio")), None);
        drop(share);
        assert_eq!(process.used.load(Ordering::Acquire), 0);
    }
}
