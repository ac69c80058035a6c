// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system's allocator, as far as it can be asked to give memory back.

/// Gives memory back to the system that the allocator holds and nobody uses.
///
/// Of the whole process; other threads that ask for memory may wait for a few milliseconds. It does
/// nothing where the C library has no such call, or another allocator is used.
pub fn trim_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: takes no pointer, and may be called at any time from any thread.
    unsafe {
        libc::malloc_trim(0)
    };
}
