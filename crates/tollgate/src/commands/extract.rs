//! The command `tollgate extract`: the process in which the gateway reads web pages.

use std::io;
use std::time::Duration;

use crate::failure::{Exit, Failure};
use crate::memory;

/// Maximum address space of the process, in bytes.
const MAX_MEMORY_BYTES: u64 = 512 << 20;
/// Maximum number of open files: only standard input, output and error.
const MAX_FILES: u64 = 3;
/// Maximum time of one page. The gateway kills the process earlier, unless it has died.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Runs `tollgate extract`. Parsers of pages read hostile content, so the process first limits its
/// memory and its files. It ends with its input.
pub fn extract() -> Result<Exit, Failure> {
    let limits = [
        (libc::RLIMIT_AS, MAX_MEMORY_BYTES),
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_NOFILE, MAX_FILES),
    ];
    for (resource, limit) in limits {
        set_limit(resource, limit)
            .map_err(|error| Failure::failed(format!("cannot limit resource {resource}: {error}")))?;
    }
    let served = tollgate_extract::serve(
        io::stdin().lock(),
        io::stdout().lock(),
        TIME_LIMIT,
        memory::release_heap,
    );
    match served {
        Ok(()) => Ok(Exit::Fine),
        // The gateway died while a page was read.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Fine),
        Err(error) => Err(Failure::failed(format!("cannot read or write a frame: {error}"))),
    }
}

/// Number of a resource, as the system's functions name it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
type Resource = libc::c_int;

/// Limits a resource of this process and of its children.
#[expect(unsafe_code, reason = "a system call that only reads its argument")]
fn set_limit(resource: Resource, limit: u64) -> io::Result<()> {
    let limit = libc::rlimit {
        rlim_cur: limit,
        rlim_max: limit,
    };
    match unsafe { libc::setrlimit(resource, &raw const limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
