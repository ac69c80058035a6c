// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a pool of pages zeroes a page before its reuse, and returns dropped pages to the
//! system while others are in use.

use super::*;

/// How many of these pages are in memory.
fn resident(pages: &[usize]) -> usize {
    let is_resident = |at: &&usize| {
        let mut byte = 0_u8;
        // SAFETY: asks about one page, whatever is mapped there; the answer is one byte.
        let got = unsafe { libc::mincore(**at as *mut libc::c_void, PAGE_SIZE, &raw mut byte) };
        got == 0 && byte & 1 != 0
    };
    pages.iter().filter(is_resident).count()
}

fn address(page: &Page) -> usize {
    page.0.as_ptr().addr()
}

#[test]
fn reused_page_is_zeroed() {
    let pool = Pages::default();
    let mut first = pool.page(&[1; PAGE_SIZE], 0).expect("a page");
    first[7] = 9;
    let at = address(&first);
    drop(first);
    let again = pool.page(b"xy", 100).expect("a page");
    assert_eq!(address(&again), at, "the warm one");
    assert_eq!(again[100..102], *b"xy");
    assert_eq!(again.iter().filter(|b| **b != 0).count(), 2);
}

#[test]
fn dropped_pages_return_to_the_system_beside_used_ones() {
    let pool = Pages::default();
    let make = |n: usize| pool.page(&n.to_le_bytes(), 0).expect("a page");
    let all: Vec<Page> = (0..5000).map(make).collect();
    let (keep, gone): (Vec<_>, Vec<_>) = all
        .into_iter()
        .enumerate()
        .partition(|(n, _)| n.is_multiple_of(2));
    let places: Vec<usize> = gone.iter().map(|(_, page)| address(page)).collect();
    assert_eq!(resident(&places), 2500);
    drop(gone);
    assert!(resident(&places) <= 1250, "{}", resident(&places));
    assert!(pool.warm() <= 1250);
    pool.cool();
    assert_eq!((resident(&places), pool.warm()), (0, 0));
    for (n, page) in &keep {
        assert_eq!(page[..8], n.to_le_bytes());
    }
    let again: Vec<Page> = (0..2500).map(make).collect();
    assert!(keep.iter().all(|(n, page)| page[..8] == n.to_le_bytes()));
    drop((keep, again));
    assert!(pool.warm() <= WARM_MIN);
    assert!(pool.0.state.lock().open.len() <= WARM_MIN / KEPT_MIN + 1);
    assert_eq!(Arc::strong_count(&pool.0), 1);
    pool.cool();
    assert_eq!((pool.warm(), pool.0.state.lock().open.len()), (0, 0));
}

#[test]
fn pages_that_come_and_go_stay_warm() {
    let pool = Pages::default();
    for count in [1, 16, 200] {
        let make = |_| pool.page(b"a", 0).expect("a page");
        let all: Vec<Page> = (0..count).map(make).collect();
        let places: Vec<usize> = all.iter().map(address).collect();
        drop(all);
        assert_eq!((resident(&places), pool.warm()), (count, count));
        let again: Vec<Page> = (0..count).map(make).collect();
        let mut same: Vec<usize> = again.iter().map(address).collect();
        same.sort_unstable();
        assert_eq!(same, places);
    }
    pool.cool();
    assert_eq!((pool.warm(), pool.0.state.lock().open.len()), (0, 0));
}

#[test]
fn pages_outlive_their_pool() {
    let pool = Pages::default();
    let make = |_| pool.page(b"a", 0).expect("a page");
    let pages: Vec<Page> = (0..1000).map(make).collect();
    let weak = Arc::downgrade(&pool.0);
    drop(pool);
    assert!(pages.iter().all(|page| page[0] == b'a'));
    drop(pages);
    assert!(weak.upgrade().is_none());
}

#[test]
fn threads_share_a_pool() {
    let pool = Pages::default();
    let work = |seed: u8| {
        let mut held = Vec::new();
        let mut random = u64::from(seed);
        for _ in 0..20_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            if random >> 62 == 0 || held.len() > 1500 {
                let len = held.len();
                held.truncate(len - len / 3);
            } else {
                let page = pool.page(&[seed], 3).expect("a page");
                assert_eq!(
                    page.iter().map(|b| usize::from(*b)).sum::<usize>(),
                    seed.into()
                );
                held.push(page);
            }
            if let Some(page) = held.last_mut() {
                page.fill(seed);
            }
        }
    };
    std::thread::scope(|s| {
        for seed in 1..4 {
            s.spawn(move || work(seed));
        }
    });
    assert_eq!(Arc::strong_count(&pool.0), 1);
}
