// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds weak references to a list, and drops those whose object is gone, so that the list does not
//! grow for ever.

use std::sync::Weak;

/// Adds `new` to `list`, which drops dead references when it would have to grow: a look at all of
/// them is paid for by those that came since the last one. [`sweep`] frees their memory sooner.
pub(crate) fn remember<T: ?Sized>(list: &mut Vec<Weak<T>>, new: Weak<T>) {
    if list.len() == list.capacity() {
        list.retain(|other| other.strong_count() != 0);
        list.reserve(list.len() + 1);
    }
    list.push(new);
}

/// Drops dead references, and frees their memory.
pub(crate) fn sweep<T: ?Sized>(list: &mut Vec<Weak<T>>) {
    list.retain(|other| other.strong_count() != 0);
    list.shrink_to_fit();
}

#[cfg(test)]
mod tests {
    use super::remember;
    use std::sync::Arc;

    #[test]
    fn those_that_stay_are_kept_and_those_that_go_take_no_more() {
        let kept: Vec<Arc<u32>> = (0..100).map(Arc::new).collect();
        let mut list = Vec::new();
        for stays in &kept {
            for _ in 0..100 {
                remember(&mut list, Arc::downgrade(&Arc::new(1000)));
            }
            remember(&mut list, Arc::downgrade(stays));
        }
        let alive: Vec<u32> = list.iter().filter_map(|w| Some(*w.upgrade()?)).collect();
        assert_eq!(alive, (0..100).collect::<Vec<_>>());
        assert!(list.capacity() <= 4 * 100, "{}", list.capacity());
    }
}
