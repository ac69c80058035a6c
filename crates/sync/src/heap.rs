// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the C library's allocator give unused memory back to the system: malloc_trim(3).

/// Makes the allocator give memory that it holds unused back to the system.
///
/// It concerns the whole process; other threads that allocate may wait for a few milliseconds. No
/// effect where the C library has no such call, or another allocator is in use.
pub fn trim_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: takes no pointer, and may be called at any time from any thread.
    unsafe {
        libc::malloc_trim(0)
    };
}
