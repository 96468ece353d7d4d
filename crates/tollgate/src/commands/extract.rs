//! The command `tollgate extract`: the process in which the gateway reads web pages.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use super::program;
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
    if limit(libc::RLIMIT_AS).map_err(unlimited)? > MAX_MEMORY_BYTES {
        set_limit(libc::RLIMIT_AS, MAX_MEMORY_BYTES).map_err(unlimited)?;
        return Err(restart());
    }
    set_limit(libc::RLIMIT_CORE, 0).map_err(unlimited)?;
    set_limit(libc::RLIMIT_NOFILE, MAX_FILES).map_err(unlimited)?;
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

fn unlimited(error: io::Error) -> Failure {
    Failure::failed(format!("cannot limit the process: {error}"))
}

/// Executes this program again in this process, under its limits. The allocator reserves more
/// address space at its start than the limit permits, and adapts to the limit only then. Returns
/// only if that fails.
fn restart() -> Failure {
    let Some(program) = program() else {
        return Failure::failed("the path of this program is unknown");
    };
    let error = Command::new(program).arg("extract").exec();
    Failure::failed(format!("cannot execute this program again: {error}"))
}

/// Number of a resource, as the system's functions name it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
type Resource = libc::c_int;

/// Returns the limit of a resource of this process.
#[expect(unsafe_code, reason = "a system call that only writes to its argument")]
fn limit(resource: Resource) -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    match unsafe { libc::getrlimit(resource, &raw mut limit) } {
        0 => Ok(limit.rlim_cur),
        _ => Err(io::Error::last_os_error()),
    }
}

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
