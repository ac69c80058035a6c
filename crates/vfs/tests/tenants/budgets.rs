// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the dentry cache stays within its bounds, and each tenant within its own: a flood
//! costs only the tenant that causes it. All tests count, and none measures time.

use crate::world::{negatives, root, world_with_negatives};
use openpath_abi::Errno;
use openpath_abi::fcntl::O_RDONLY;
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, Limits, Pressure, Reason, Reclaimed, Task, Tenant, TenantLimits, Vfs};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A task that works for `tenant`.
fn of(vfs: &Vfs, tenant: &Arc<Tenant>) -> Task {
    let task = root(vfs);
    task.set_tenant(tenant).expect("a tenant of this Vfs");
    task
}

fn limits(positive_max: u32, negative_max: u32) -> TenantLimits {
    TenantLimits::default()
        .positive_max(positive_max)
        .negative_max(negative_max)
}

/// Looks up absent names below `dir`.
fn miss(task: &Task, dir: &str, names: std::ops::Range<u32>) {
    for i in names {
        let path = format!("{dir}/no{i}");
        assert_eq!(task.stat(path.as_bytes()).err(), Some(Errno::ENOENT));
    }
}

/// Creates files `f0`.. in `dir`, and evicts them from the cache.
fn files(vfs: &Vfs, dir: &str, count: u32) {
    let task = root(vfs);
    task.mkdir(dir.as_bytes(), 0o755).expect("a directory");
    for i in 0..count {
        touch(&task, &format!("{dir}/f{i}"));
    }
    vfs.shrink(u32::MAX);
}

fn touch(task: &Task, path: &str) {
    let fd = task.creat(path.as_bytes(), 0o644).expect("a file");
    task.close(fd).expect("close");
}

fn look(task: &Task, path: &str) {
    task.stat(path.as_bytes()).expect("a file that exists");
}

/// The number of names that the task had to look up in the backend.
fn asked(task: &Task) -> u64 {
    task.reasons().of(Reason::Miss)
}

#[test]
fn absent_names_stay_within_the_budget_of_their_tenant() {
    let vfs = world_with_negatives();
    let tenant = vfs.tenant(limits(u32::MAX, 1000));
    let task = of(&vfs, &tenant);
    let before = vfs.usage().dentries;
    for round in 0..50 {
        miss(&task, "", round * 400..(round + 1) * 400);
        let stats = tenant.stats();
        assert!(stats.negative <= 1000, "{stats:?}");
        assert_eq!(
            u64::from(stats.negative) + stats.evicted_negative,
            u64::from((round + 1) * 400)
        );
        assert_eq!(vfs.usage().dentries - before, stats.negative);
    }
    let stats = tenant.stats();
    assert!(stats.negative >= 900, "eviction took too much: {stats:?}");
    assert_eq!((stats.positive, stats.evicted_positive), (0, 0));
    assert_eq!(stats.activity.misses, 20_000);
}

#[test]
fn existing_names_stay_within_the_budget_and_are_found_again() {
    let vfs = world_with_negatives();
    files(&vfs, "/d", 3000);
    let tenant = vfs.tenant(limits(500, 16));
    let task = of(&vfs, &tenant);
    for _ in 0..3 {
        for i in 0..3000 {
            look(&task, &format!("/d/f{i}"));
            assert!(tenant.stats().positive <= 500);
        }
    }
    let stats = tenant.stats();
    assert!(
        stats.evicted_positive >= 8000 && stats.negative == 0,
        "{stats:?}"
    );
    assert_eq!(vfs.root_tenant().stats().positive, 0, "shrink left entries");
}

#[test]
fn the_bytes_of_long_names_are_counted_and_returned() {
    let vfs = world_with_negatives();
    let tenant = vfs.tenant(limits(300, 300));
    let task = of(&vfs, &tenant);
    let long = |i: u32, len: usize| format!("/{i:0len$}");
    for i in 0..2000 {
        let name = long(i, 17 + i as usize % 230);
        assert!(task.stat(name.as_bytes()).is_err());
    }
    let stats = tenant.stats();
    let entries = u64::from(stats.negative);
    assert!(
        stats.negative <= 300 && stats.cached_bytes > entries * 160,
        "{stats:?}"
    );
    assert!(stats.cached_bytes < entries * (96 + 256), "{stats:?}");
    // Rename and exchange to names of other lengths.
    touch(&task, "/short");
    touch(&task, "/other");
    for len in [200, 20, 100, 3] {
        let name = long(0, len);
        task.rename(b"/short", name.as_bytes()).expect("rename");
        let exchange = openpath_abi::rename::RENAME_EXCHANGE;
        let cwd = openpath_abi::fcntl::AT_FDCWD;
        task.renameat2(cwd, name.as_bytes(), cwd, b"/other", exchange)
            .expect("exchange");
        task.rename(name.as_bytes(), b"/short").expect("rename");
    }
    task.unlink(b"/short").expect("unlink");
    task.unlink(b"/other").expect("unlink");
    vfs.collect();
    vfs.shrink(u32::MAX);
    let stats = tenant.stats();
    assert_eq!(
        (stats.positive, stats.negative, stats.cached_bytes),
        (0, 0, 0)
    );
}

#[test]
fn directories_with_children_stay_and_the_next_name_fails_with_enomem() {
    let vfs = world_with_negatives();
    let tenant = vfs.tenant(limits(64, 64));
    let task = of(&vfs, &tenant);
    let mut path = String::new();
    let refused = (0..200).find_map(|_| {
        path.push_str("/d");
        task.mkdir(path.as_bytes(), 0o755).err()
    });
    assert_eq!(refused, Some(Errno::ENOMEM));
    let stats = tenant.stats();
    assert!(stats.positive <= 64, "{stats:?}");
    // The failed call created nothing, and the successful ones did.
    let made = path.len() / 2 - 1;
    assert!(made >= 60, "{made}");
    let rich = root(&vfs);
    assert_eq!(rich.stat(path.as_bytes()).err(), Some(Errno::ENOENT));
    rich.mkdir(path.as_bytes(), 0o755)
        .expect("another tenant has no room");
    // Removing from the innermost directory out makes room again.
    for depth in (1..=made + 1).rev() {
        rich.rmdir(&path.as_bytes()[..2 * depth]).expect("rmdir");
    }
    task.mkdir(b"/e", 0o755)
        .expect("no room after the removals");
}

#[test]
fn open_files_keep_their_entries() {
    let vfs = world_with_negatives();
    files(&vfs, "/d", 500);
    let tenant = vfs.tenant(limits(100, 100));
    let task = of(&vfs, &tenant);
    let open: Vec<_> = (0..40)
        .map(|i| task.open(format!("/d/f{i}").as_bytes(), O_RDONLY, 0))
        .collect();
    for i in 40..500 {
        look(&task, &format!("/d/f{i}"));
    }
    let asked_before = asked(&task);
    for i in 0..40 {
        look(&task, &format!("/d/f{i}"));
    }
    assert_eq!(asked(&task), asked_before, "an open file was evicted");
    assert!(tenant.stats().positive <= 100);
    for fd in open {
        task.close(fd.expect("open")).expect("close");
    }
}

#[test]
fn a_tenant_with_all_names_in_use_fails_with_enomem() {
    let vfs = world_with_negatives();
    files(&vfs, "/d", 100);
    let tenant = vfs.tenant(limits(32, 32));
    let task = of(&vfs, &tenant);
    let open = |i: u32| task.open(format!("/d/f{i}").as_bytes(), O_RDONLY, 0);
    let refused = (0..100).find_map(|i| open(i).err());
    assert_eq!(refused, Some(Errno::ENOMEM));
    assert_eq!(tenant.stats().positive, 32);
    // Unlinked files make room when their last descriptor is closed.
    let rich = root(&vfs);
    for i in 0..10 {
        rich.unlink(format!("/d/f{i}").as_bytes()).expect("unlink");
    }
    for fd in 0..10 {
        task.close(fd).expect("close");
    }
    open(50).expect("no room after the last close");
}

#[test]
fn used_names_outlive_a_scan() {
    let vfs = world_with_negatives();
    files(&vfs, "/hot", 64);
    files(&vfs, "/d", 4000);
    let tenant = vfs.tenant(limits(256, 256));
    let (user, scanner) = (of(&vfs, &tenant), of(&vfs, &tenant));
    let use_all = || (0..64).for_each(|i| look(&user, &format!("/hot/f{i}")));
    use_all();
    use_all();
    let asked_before = asked(&user);
    for i in 0..4000 {
        look(&scanner, &format!("/d/f{i}"));
        if i % 32 == 0 {
            use_all();
        }
    }
    assert!(asked(&scanner) >= 4000);
    assert_eq!(asked(&user) - asked_before, 0, "used names were evicted");
}

#[test]
fn a_flood_leaves_another_tenant_alone() {
    let vfs = world_with_negatives();
    files(&vfs, "/d", 200);
    let (flooder, quiet) = (vfs.tenant(limits(100, 500)), vfs.tenant(limits(400, 100)));
    let (bad, good) = (of(&vfs, &flooder), of(&vfs, &quiet));
    let work = || {
        (0..200).for_each(|i| look(&good, &format!("/d/f{i}")));
        miss(&good, "/d", 0..80);
    };
    work();
    let before = quiet.stats();
    for round in 0..20 {
        miss(&bad, "/d", 1000 * (round + 1)..1000 * (round + 2));
        work();
    }
    let after = quiet.stats();
    assert_eq!(after.activity.misses, before.activity.misses);
    assert_eq!(after.activity.restarts, before.activity.restarts);
    assert_eq!(after.activity.hits - before.activity.hits, 20 * 200);
    assert_eq!(
        after.activity.negative_hits - before.activity.negative_hits,
        20 * 80
    );
    assert_eq!(
        (after.positive, after.negative),
        (before.positive, before.negative)
    );
    assert_eq!((after.evicted_positive, after.evicted_negative), (0, 0));
    assert!(flooder.stats().negative <= 500 && flooder.stats().evicted_negative > 19_000);
}

/// An instance with bounds of its own.
fn bounded(dentries_max: u32, negatives_max: u32) -> Vfs {
    let limits = Limits::default()
        .dentries_max(dentries_max)
        .negatives_max(negatives_max);
    let vfs = Vfs::builder().limits(limits).tuning(negatives());
    vfs.build(MemFs::new(MemOptions::default())).expect("a Vfs")
}

#[test]
fn the_global_bound_evicts_from_the_largest_tenant() {
    for vfs in [bounded(4096, 1000), bounded(1000, u32::MAX)] {
        let (flooder, quiet) = (
            vfs.tenant(limits(9999, 9999)),
            vfs.tenant(limits(9999, 9999)),
        );
        let (bad, good) = (of(&vfs, &flooder), of(&vfs, &quiet));
        miss(&good, "", 0..300);
        miss(&bad, "", 1000..9000);
        let asked_before = asked(&good);
        miss(&good, "", 0..300);
        assert_eq!(asked(&good), asked_before);
        assert_eq!(quiet.stats().evicted_negative, 0);
        let all = flooder.stats().negative + quiet.stats().negative;
        assert!(all <= 1000 && all > 800, "{all}");
    }
}

#[test]
fn entries_of_a_dropped_tenant_are_evicted_first() {
    let vfs = bounded(4096, 1000);
    let gone = vfs.tenant(TenantLimits::default());
    let number = gone.number();
    miss(&of(&vfs, &gone), "", 0..200);
    drop(gone);
    assert_eq!(vfs.tenants().len(), 1);
    let stays = vfs.tenant(TenantLimits::default());
    assert_ne!(
        stays.number(),
        number,
        "its number is reused while its entries are left"
    );
    let task = of(&vfs, &stays);
    miss(&task, "", 1000..1800);
    let all = vfs.usage().dentries;
    // Batches of 62 evict all that the old tenant left before anything else.
    miss(&task, "", 1800..1800 + 180);
    assert_eq!(stays.stats().evicted_negative, 0);
    assert!(vfs.usage().dentries <= all);
    miss(&task, "", 2000..2200);
    assert!(stays.stats().evicted_negative > 0);
    // Unused numbers are taken before those of dropped tenants are looked for.
    let again = (0..8).any(|_| vfs.tenant(TenantLimits::default()).number() == number);
    assert!(again, "the number of an empty tenant is not reused");
}

#[test]
fn numbers_of_dropped_tenants_are_reused() {
    let vfs = world_with_negatives();
    let many: Vec<_> = (0..100).map(|_| vfs.tenant(limits(9, 9))).collect();
    for _ in 0..10_000 {
        drop(vfs.tenant(limits(9, 9)));
    }
    let mut numbers: Vec<u32> = many.iter().map(|tenant| tenant.number()).collect();
    numbers.extend((0..100).map(|_| vfs.tenant(limits(9, 9)).number()));
    assert!(
        numbers.iter().all(|&number| number <= 4 * 101),
        "{numbers:?}"
    );
    assert_eq!(vfs.tenants().len(), 101);
    let stays: Vec<u32> = vfs.tenants().iter().map(|tenant| tenant.number()).collect();
    assert!(many.iter().all(|tenant| stays.contains(&tenant.number())));
}

#[test]
fn activity_is_counted_for_the_tenant_at_the_time() {
    let vfs = world_with_negatives();
    let (one, two) = (vfs.tenant(limits(9, 9)), vfs.tenant(limits(9, 9)));
    let task = root(&vfs);
    touch(&task, "/f");
    let work = |times: u64| (0..times).for_each(|_| look(&task, "/f"));
    work(5);
    task.set_tenant(&one).expect("a tenant of this Vfs");
    work(7);
    assert_eq!((one.stats().tasks, one.stats().activity.hits), (1, 7));
    task.set_tenant(&two).expect("a tenant of this Vfs");
    work(11);
    let other = world_with_negatives();
    let refused = task.set_tenant(&other.root_tenant());
    assert_eq!(refused, Err(Errno::EINVAL));
    work(2);
    assert_eq!((one.stats().tasks, one.stats().activity.hits), (0, 7));
    assert_eq!((two.stats().tasks, two.stats().activity.hits), (1, 13));
    drop(task);
    assert_eq!((two.stats().tasks, two.stats().activity.hits), (0, 13));
    assert_eq!(other.root_tenant().stats().activity.hits, 0);
}

#[test]
fn nothing_is_left_behind() {
    let vfs = bounded(1 << 20, 1 << 19);
    let base = vfs.usage();
    let task = vfs.task(Cred::root()).expect("a task");
    task.mkdir(b"/d", 0o755).expect("a directory");
    for turn in 0..20 {
        let tenant = vfs.tenant(limits(64, 64));
        task.set_tenant(&tenant).expect("a tenant of this Vfs");
        for i in 0..200 {
            let name = format!("/d/a-name-that-is-long-{turn}-{i}");
            touch(&task, &name);
            if i % 2 == 0 {
                task.rename(name.as_bytes(), b"/d/x").expect("rename");
                task.unlink(b"/d/x").expect("unlink");
            } else {
                task.unlink(name.as_bytes()).expect("unlink");
            }
        }
        miss(&task, "/d", 0..200);
        assert!(tenant.stats().positive <= 64 && tenant.stats().negative <= 64);
    }
    task.rmdir(b"/d").expect("rmdir");
    drop(task);
    vfs.collect();
    vfs.shrink(u32::MAX);
    vfs.collect();
    assert_eq!(vfs.usage(), base);
}

#[test]
fn memory_pressure_frees_names_and_memory_and_reports_it() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let levels = Arc::clone(&told);
    let vfs = Vfs::builder()
        .tuning(negatives())
        .on_pressure(move |level| levels.lock().expect("levels").push(level))
        .build(MemFs::new(MemOptions::default()))
        .expect("a Vfs");
    let task = root(&vfs);
    let shrinker = vfs.shrinker();
    let roots = shrinker.count();
    let long = |i: u32| format!("/a-name-of-more-than-sixteen-bytes-{i}");
    let fill = || {
        for i in 0..8000 {
            let path = long(i);
            assert!(task.stat(path.as_bytes()).is_err());
        }
    };
    fill();
    let one = vfs.pressure(Pressure::Low).evicted;
    assert!((900..1200).contains(&one), "{one}");
    let half = shrinker.pressure(Pressure::Medium).evicted;
    assert!((3000..4000).contains(&half), "{half}");
    let rest = shrinker.pressure(Pressure::Critical);
    assert_eq!((one + half + rest.evicted, shrinker.count()), (8000, roots));
    // Walks of other tests can keep memory for longer than a call under pressure waits.
    let trimmed = match rest.trimmed {
        0 => vfs.trim(Duration::from_secs(60)),
        some => some,
    };
    assert!(trimmed >= 6 * 1024, "{trimmed}");
    // Memory returned to the system reads as zeros and can be used again.
    fill();
    fill();
    assert_eq!(vfs.root_tenant().stats().negative, 8000);
    for i in 0..8000 {
        touch(&task, &long(i));
        look(&task, &long(i));
    }
    let all = [Pressure::Low, Pressure::Medium, Pressure::Critical];
    assert_eq!(*told.lock().expect("levels"), all);
    drop((task, vfs));
    assert_eq!(shrinker.pressure(Pressure::Critical), Reclaimed::default());
}

#[test]
fn walk_that_cannot_pin_its_end_is_no_hit() {
    let limits = Limits::default().pins_max(64);
    let tree = MemFs::new(MemOptions::default());
    let vfs = Vfs::builder().limits(limits).build(tree).expect("a Vfs");
    let task = root(&vfs);
    touch(&task, "/f");
    let hits = || vfs.root_tenant().stats().activity.hits;
    let before = hits();
    let mut opened = 0;
    let refused = loop {
        match task.open(b"/f", O_RDONLY, 0) {
            Ok(_) => opened += 1,
            Err(errno) => break errno,
        }
    };
    assert!(refused == Errno::ENOMEM && opened > 10, "{refused}");
    assert_eq!(task.stat(b"/f").err(), Some(Errno::ENOMEM));
    assert_eq!(hits() - before, opened);
}
