//! The allocator of the program, and the return of memory that only a start needs.

/// Global allocator, in place of the system allocator because model calls make many small,
/// short-lived allocations. Built without huge pages (`no_thp`), which grow the process from 6 MB
/// to 22 MB.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[expect(
    unsafe_code,
    reason = "a function of the linked allocator, which its crate does not declare"
)]
unsafe extern "C" {
    /// Frees unused memory of this thread (mimalloc, `mi_collect`). With `force`, returns it to the
    /// system immediately.
    safe fn mi_collect(force: bool);
}

/// Returns free memory of this thread to the system.
pub fn release_heap() {
    mi_collect(true);
}

/// Returns memory that only the start needed to the system. The allocator itself returns free
/// memory only while it is used, and the kernel drops code only when memory is short, so both would
/// stay with an idle process.
pub fn release_unused() {
    release_heap();
    release_code();
}

/// Drops the pages of this program's code. The kernel maps a page again when it runs, from its
/// cache of the file. Without Linux's list of mappings, nothing is dropped.
fn release_code() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let own = release_code as fn() as usize;
    let Some(code) = maps.lines().find_map(|line| code_with(own, line)) else {
        return;
    };
    #[cfg(target_os = "linux")]
    #[expect(
        unsafe_code,
        reason = "the mapping is code in a file, which nothing writes: dropped pages are read again unchanged"
    )]
    // A failure leaves the pages where they are.
    let _ = unsafe { libc::madvise(code.start as *mut libc::c_void, code.len(), libc::MADV_DONTNEED) };
}

/// Returns the addresses of a line of `/proc/self/maps`, if it is code of a file that contains this
/// address and is not writable.
fn code_with(address: usize, line: &str) -> Option<std::ops::Range<usize>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    let range = number(start)?..number(end)?;
    let is_code = words.next() == Some("r-xp");
    let has_file = words.nth(3).is_some_and(|path| path.starts_with('/'));
    (is_code && has_file && range.contains(&address)).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_code_is_found_and_runs_after_its_release() {
        let line = "55d000-55f000 r-xp 01280000 fe:00 1234                       /usr/bin/tollgate";
        assert_eq!(code_with(0x55_d000, line), Some(0x55_d000..0x55_f000));
        assert_eq!(code_with(0x55_efff, line), Some(0x55_d000..0x55_f000));
        assert_eq!(code_with(0x55_f000, line), None);
        assert_eq!(code_with(0x55_d000, &line.replace("r-xp", "rwxp")), None);
        assert_eq!(code_with(0x55_d000, &line.replace("r-xp", "r--p")), None);
        assert_eq!(code_with(0x55_d000, "55d000-55f000 r-xp 0 00:00 0 [vdso]"), None);
        for text in ["", "55d000", "55d000-55f000", "x-y r-xp 0 0 0 /a"] {
            assert_eq!(code_with(0x55_d000, text), None, "{text}");
        }
        release_unused();
        release_unused();
        assert_eq!(code_with(0x55_d000, line), Some(0x55_d000..0x55_f000));
    }
}
