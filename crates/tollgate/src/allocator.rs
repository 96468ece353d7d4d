//! The allocator of the program.

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

/// Returns freed memory to the system. The allocator itself does so while it is used, so the memory
/// that a start needs would stay with an idle process.
pub fn release_unused() {
    mi_collect(true);
}
