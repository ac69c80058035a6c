// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits the memory of a WebAssembly guest: the bytes of all its memories and tables together.
//!
//! A granted growth that fails afterwards stays counted, because wasmtime also reports failures of
//! growths that were not granted.

use wasmtime::ResourceLimiter;

/// The size of a table's element in this process, in bytes.
const ELEMENT: usize = size_of::<usize>();
/// The most elements of all tables.
const ELEMENTS_MAX: usize = 16 << 20;

/// What the guest has, and may have.
#[derive(Debug)]
pub(super) struct Limits {
    bytes: usize,
    bytes_max: usize,
    elements: usize,
}

impl Limits {
    /// Limits bytes to the value of the option; tables are limited without the option too.
    pub(super) fn new(memory: Option<u64>) -> Limits {
        let bytes_max = memory.map_or(usize::MAX, |memory| {
            usize::try_from(memory).unwrap_or(usize::MAX)
        });
        Limits {
            bytes: 0,
            bytes_max,
            elements: 0,
        }
    }

    /// Counts this growth if it is within the limits; returns whether it is.
    fn grant(&mut self, bytes: usize, elements: usize) -> bool {
        let all = self.bytes.saturating_add(bytes);
        let entries = self.elements.saturating_add(elements);
        let granted = all <= self.bytes_max && entries <= ELEMENTS_MAX;
        if granted {
            (self.bytes, self.elements) = (all, entries);
        }
        granted
    }
}

impl ResourceLimiter for Limits {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let beyond = maximum.is_some_and(|maximum| desired > maximum);
        Ok(!beyond && self.grant(desired.saturating_sub(current), 0))
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let beyond = maximum.is_some_and(|maximum| desired > maximum);
        let more = desired.saturating_sub(current);
        Ok(!beyond && self.grant(more.saturating_mul(ELEMENT), more))
    }

    fn instances(&self) -> usize {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::{ELEMENT, ELEMENTS_MAX, Limits};
    use wasmtime::ResourceLimiter as _;

    #[test]
    fn memories_and_tables_are_counted_together() {
        let mut limits = Limits::new(Some(1000));
        assert!(limits.memory_growing(0, 600, None).unwrap());
        assert!(!limits.memory_growing(0, 401, None).unwrap());
        assert!(limits.table_growing(0, 400 / ELEMENT, None).unwrap());
        assert!(!limits.memory_growing(600, 601, None).unwrap());
        assert!(!limits.table_growing(50, 51, None).unwrap());
    }

    #[test]
    fn growth_beyond_the_guests_own_maximum_is_not_counted() {
        let mut limits = Limits::new(Some(1000));
        assert!(!limits.memory_growing(0, 600, Some(500)).unwrap());
        // Wasmtime also reports a failure without a grant.
        limits.memory_grow_failed(wasmtime::Error::msg("")).unwrap();
        assert!(limits.memory_growing(0, 1000, Some(1000)).unwrap());
        limits.memory_grow_failed(wasmtime::Error::msg("")).unwrap();
        assert!(!limits.memory_growing(0, 1, None).unwrap());
    }

    #[test]
    fn tables_are_limited_without_the_option() {
        let mut limits = Limits::new(None);
        assert!(limits.table_growing(0, ELEMENTS_MAX, None).unwrap());
        assert!(!limits.table_growing(0, 1, None).unwrap());
    }
}
