// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements an array of zero-valid items in reserved address space, with memory only where it was
//! touched.
//!
//! # States
//! Reserved (no memory) -> touched (zero page) -> reserved again ([`Region::release`]). An item is
//! valid in all of them.
//!
//! # Guarantees
//! G1. `at` is total: any index yields an item of this region (indices wrap at the capacity, a
//!     power of two).
//! G2. An item never moves and is not dropped before the region is.
//!
//! # Limits
//! The capacity is fixed when the region is made; only the touched part costs memory.

use crate::zero_valid::ZeroValid;
use core::ptr::NonNull;

/// An array of `T` that never moves, in lazily committed memory.
pub struct Region<T: ZeroValid> {
    base: NonNull<T>,
    mask: u32,
    #[cfg(loom)]
    _items: std::boxed::Box<[T]>,
}

// SAFETY: a region only hands out `&T`, and `ZeroValid` requires `T: Send + Sync`.
unsafe impl<T: ZeroValid> Send for Region<T> {}
// SAFETY: as above.
unsafe impl<T: ZeroValid> Sync for Region<T> {}

/// The system refused to reserve address space for a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSpace;

impl core::fmt::Display for NoSpace {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the system refused to reserve address space")
    }
}

impl std::error::Error for NoSpace {}

/// The size from which huge pages are requested; a smaller instance stays small.
#[cfg(not(loom))]
const HUGE_FROM: usize = 2 << 20;

impl<T: ZeroValid> Region<T> {
    /// Reserves room for `capacity` items, rounded up to a power of two (at least 64).
    ///
    /// # Errors
    /// [`NoSpace`] where the system refuses.
    #[cfg(not(loom))]
    pub fn new(capacity: u32) -> Result<Self, NoSpace> {
        const {
            assert!(
                align_of::<T>() <= 4096,
                "an item is aligned to a page at most"
            );
        };
        let capacity = capacity
            .max(64)
            .checked_next_power_of_two()
            .ok_or(NoSpace)?;
        let bytes = (capacity as usize)
            .checked_mul(size_of::<T>())
            .ok_or(NoSpace)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh anonymous mapping; no existing memory is touched.
        let p = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            )
        };
        if p == libc::MAP_FAILED {
            return Err(NoSpace);
        }
        if bytes > HUGE_FROM {
            // SAFETY: the range lies within the mapping just made; the call is only advice.
            unsafe {
                libc::madvise(
                    p.byte_add(HUGE_FROM),
                    bytes - HUGE_FROM,
                    libc::MADV_HUGEPAGE,
                )
            };
        }
        let base = NonNull::new(p.cast::<T>()).ok_or(NoSpace)?;
        Ok(Self {
            base,
            mask: capacity - 1,
        })
    }

    /// As without loom, but every item is constructed, since loom's atomics are not zero-valid.
    ///
    /// # Errors
    /// None.
    #[cfg(loom)]
    pub fn new(capacity: u32) -> Result<Self, NoSpace> {
        let capacity = capacity.max(4).next_power_of_two();
        let mut items: std::boxed::Box<[T]> = (0..capacity).map(|_| T::default()).collect();
        let base = NonNull::new(items.as_mut_ptr()).ok_or(NoSpace)?;
        Ok(Self {
            base,
            mask: capacity - 1,
            _items: items,
        })
    }

    /// The item at `index`, which wraps at the capacity.
    #[inline(always)]
    pub fn at(&self, index: u32) -> &T {
        // SAFETY: the masked index is below the capacity; the mapping lives as long as `self`; its
        // memory is either what was stored there or zero, both valid by `ZeroValid`, and only
        // reached through shared references.
        unsafe { self.base.add((index & self.mask) as usize).as_ref() }
    }

    /// The index below the capacity that names the same item as `index`.
    #[inline(always)]
    pub(crate) fn wrap(&self, index: u32) -> u32 {
        index & self.mask
    }

    /// How many items the region has.
    pub fn capacity(&self) -> u32 {
        self.mask.wrapping_add(1)
    }

    /// The address range, for tests that write-protect it.
    pub fn span(&self) -> (usize, usize) {
        (
            self.base.as_ptr() as usize,
            (self.mask as usize + 1) * size_of::<T>(),
        )
    }

    /// Gives the memory of the items `first..first + count` back to the system. They read as zero
    /// from then on, or are unchanged if the system refuses: locked memory, or pages of more than
    /// 4096 bytes.
    ///
    /// Only whole pages inside the range are given back. The caller ensures that nothing relies on
    /// their contents.
    #[cfg(not(loom))]
    pub fn release(&self, first: u32, count: u32) {
        let (lo, hi) = (
            first.min(self.mask + 1) as usize,
            (first as usize + count as usize).min(self.mask as usize + 1),
        );
        let start = (self.base.as_ptr() as usize + lo * size_of::<T>()).next_multiple_of(4096);
        let end = (self.base.as_ptr() as usize + hi * size_of::<T>()) & !4095;
        if start < end {
            // SAFETY: whole pages within our own private anonymous mapping; zero is a valid value
            // of every item there, and items are only reached as shared atomics.
            unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED) };
        }
    }

    /// Loom has nothing to give back.
    #[cfg(loom)]
    pub fn release(&self, _first: u32, _count: u32) {}
}

#[cfg(not(loom))]
impl<T: ZeroValid> Drop for Region<T> {
    fn drop(&mut self) {
        let (start, bytes) = self.span();
        // SAFETY: exactly the mapping made in `new`; no reference outlives `self`.
        unsafe { libc::munmap(start as *mut libc::c_void, bytes) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::word::Word;

    #[test]
    fn indices_wrap_and_items_start_at_zero() {
        let r = Region::<Word>::new(100).unwrap();
        assert_eq!(r.capacity(), 128);
        assert_eq!(r.at(5).get(), 0);
        r.at(5).set(7);
        assert_eq!(r.at(5 + 128).get(), 7);
    }

    #[test]
    fn released_pages_read_as_zero_again() {
        let r = Region::<Word>::new(4096).unwrap();
        r.at(1000).set(1);
        r.at(4095).set(2);
        r.release(512, 1024);
        assert_eq!(r.at(1000).get(), 0);
        assert_eq!(r.at(4095).get(), 2);
    }
}
