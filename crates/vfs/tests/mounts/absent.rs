// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests rules of absent names: they hide names from lookups, listings and changes in their mount,
//! and nowhere else.

use crate::world::*;
use openpath_abi::fcntl::*;
use openpath_abi::rename::RENAME_EXCHANGE;
use openpath_abi::resolve::RESOLVE_CACHED;
use openpath_abi::{AtFlags, Errno, OFlags, OpenHow, UmountFlags};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// A tree mounted on `/m`, and again without rules on `/bare`; the task is in `/`.
fn tree(rules: AbsentRulesBuilder) -> (Vfs, Task) {
    let vfs = world();
    let task = root(&vfs);
    task.dir("/m", 0o755, (0, 0));
    task.dir("/bare", 0o755, (0, 0));
    task.mount(
        MemFs::new(MemOptions::default()),
        b"/m",
        MountFlags::default(),
    )
    .expect("a mount");
    for dir in ["/m/etc", "/m/pub", "/m/pub/etc", "/m/vault"] {
        task.dir(dir, 0o755, (0, 0));
    }
    for file in [
        "/m/etc/shadow",
        "/m/etc/passwd",
        "/m/pub/etc/shadow",
        "/m/pub/key.pem",
        "/m/vault/gold",
        "/m/plain",
    ] {
        task.data(file, b"x");
    }
    task.bind(b"/m", b"/bare").expect("a bind");
    task.set_absent(b"/m", Some(rules.build().expect("rules")))
        .expect("rules");
    (vfs, task)
}

fn rules() -> AbsentRulesBuilder {
    let rules = AbsentRules::builder().glob(b"*.pem").path(b"etc/shadow");
    rules.glob(b"vault")
}

/// The names in a directory, read a few at a time.
fn names(task: &Task, path: &str) -> Vec<String> {
    let fd = task.get(path, "RD|DIR");
    let mut all = Vec::new();
    loop {
        let some = task.getdents64(fd, 64).expect("a listing");
        if some.is_empty() {
            break;
        }
        all.extend(
            some.into_iter()
                .map(|e| String::from_utf8_lossy(&e.name).into_owned()),
        );
    }
    task.close(fd).expect("a file");
    all.retain(|name| name != "." && name != "..");
    all.sort();
    all
}

fn open(task: &Task, path: &str, flags: OFlags) -> Result<(), Errno> {
    let why = task.explain(&ExplainOp::Openat {
        dirfd: AT_FDCWD,
        path: path.as_bytes(),
        flags,
        mode: 0o600.into(),
    });
    let done = task.shut(task.open(
        path.as_bytes(),
        OFlags::from_bits_retain(flags.bits()),
        0o600,
    ));
    assert_eq!(why.result, done, "{why}");
    done
}

#[test]
fn an_absent_name_is_not_found_cached_or_not() {
    let (vfs, task) = tree(rules());
    let cached = OpenHow {
        flags: 0,
        mode: 0,
        resolve: RESOLVE_CACHED,
    };
    for path in [
        "/m/pub/key.pem",
        "/m/etc/shadow",
        "/m/vault",
        "/m/vault/gold",
        "/m/vault/",
        "/m/none.pem",
        "/m/pub/../vault/gold",
    ] {
        // Caches everything but the absent names.
        let _warm = task.stat(path.as_bytes());
        let entries = vfs.usage().dentries;
        for _ in 0..3 {
            assert_eq!(task.stat(path.as_bytes()), Err(Errno::ENOENT), "{path}");
            assert_eq!(open(&task, path, O_RDONLY), Err(Errno::ENOENT), "{path}");
            let how = task.openat2(AT_FDCWD, path.as_bytes(), &cached);
            assert_eq!(how, Err(Errno::ENOENT), "{path}");
        }
        assert_eq!(vfs.usage().dentries, entries, "{path}");
    }
    for path in ["/m/pub/etc/shadow", "/m/etc/passwd", "/m/plain"] {
        assert_eq!(open(&task, path, O_RDONLY), Ok(()), "{path}");
        let before = task.reasons();
        let fd = task.openat2(AT_FDCWD, path.as_bytes(), &cached);
        task.shut(fd).expect("a cached file");
        assert_eq!(task.reasons(), before, "{path}");
    }
    let long = format!("/m/{}.pem", "n".repeat(300));
    assert_eq!(task.stat(long.as_bytes()), Err(Errno::ENAMETOOLONG));
    let why = task.explain(&ExplainOp::Stat {
        dirfd: AT_FDCWD,
        path: b"/m/vault/gold",
        at_flags: AtFlags::empty(),
    });
    assert_eq!(why.refused_by(), Some(Check::AbsentRule), "{why}");
}

#[test]
fn an_absent_name_is_neither_created_nor_removed() {
    for (deny, builder) in [
        (Errno::EACCES, rules()),
        (Errno::EPERM, rules().deny(Errno::EPERM)),
    ] {
        let (_vfs, task) = tree(builder);
        let no = Err(deny);
        for path in ["/m/pub/key.pem", "/m/none.pem", "/m/etc/shadow", "/m/vault"] {
            let name = path.as_bytes();
            assert_eq!(open(&task, path, O_RDWR | O_CREAT), no, "{path}");
            assert_eq!(open(&task, path, O_CREAT | O_EXCL), no, "{path}");
            assert_eq!(task.mkdir(name, 0o755), no);
            assert_eq!(task.mknod(name, 0o644, 0), no);
            assert_eq!(task.symlink(b"x", name), no);
            assert_eq!(task.link(b"/m/plain", name), no);
            assert_eq!(task.rename(b"/m/plain", name), no);

            let none = Err(Errno::ENOENT);
            assert_eq!(task.unlink(name), none);
            assert_eq!(task.rmdir(name), none);
            assert_eq!(task.rename(name, b"/m/else"), none);
            let (here, plain) = (AT_FDCWD, b"/m/plain");
            let swap = task.renameat2(here, plain, here, name, RENAME_EXCHANGE);
            assert_eq!(swap, none);
            assert_eq!(task.chmod(name, 0o777), none);
        }
        assert_eq!(task.stat(b"/bare/none.pem"), Err(Errno::ENOENT));
        assert!(task.stat(b"/bare/vault/gold").is_ok());
        let fd = task.get("/m", "RW|TMPFILE");
        let linked = task.linkat(fd, b"", AT_FDCWD, b"/m/x.pem", AT_EMPTY_PATH);
        assert_eq!(linked, no);
    }
}

#[test]
fn listings_omit_absent_names() {
    let (_vfs, task) = tree(rules());
    assert_eq!(names(&task, "/m"), ["etc", "plain", "pub"]);
    assert_eq!(names(&task, "/m/etc"), ["passwd"]);
    assert_eq!(names(&task, "/m/pub"), ["etc"]);
    assert_eq!(names(&task, "/m/pub/etc"), ["shadow"]);
    assert_eq!(names(&task, "/bare/etc"), ["passwd", "shadow"]);
    assert_eq!(names(&task, "/bare"), ["etc", "plain", "pub", "vault"]);
}

#[test]
fn rules_belong_to_a_mount_and_are_copied_with_it() {
    let (_vfs, task) = tree(rules());
    for dir in ["/copy", "/part", "/all"] {
        task.dir(dir, 0o755, (0, 0));
    }
    task.bind(b"/m", b"/copy").expect("a bind");
    task.bind(b"/m/etc", b"/part").expect("a bind");
    task.bind_tree(b"/m", b"/all").expect("a bind");
    let none = Err(Errno::ENOENT);
    for path in ["/copy/etc/shadow", "/part/shadow", "/all/vault/gold"] {
        assert_eq!(task.stat(path.as_bytes()).map(drop), none, "{path}");
    }
    assert_eq!(names(&task, "/part"), ["passwd"]);
    assert_eq!(
        open(&task, "/part/shadow", O_CREAT | O_RDWR),
        Err(Errno::EACCES)
    );
    // A change of the mount's flags keeps the rules.
    task.remount_bind(b"/m", MountFlags::NO_DEV)
        .expect("a remount");
    assert_eq!(task.stat(b"/m/vault").map(drop), none);
    // Each copy has its own rules from now on.
    task.set_absent(b"/m", None).expect("no rules");
    assert!(task.stat(b"/m/vault/gold").is_ok() && task.stat(b"/m/etc/shadow").is_ok());
    assert_eq!(task.stat(b"/part/shadow").map(drop), none);
    task.umount(b"/copy", UmountFlags::empty()).expect("umount");
    task.umount(b"/part", UmountFlags::empty()).expect("umount");
    // Paths of rules begin at the root of their mount.
    let only = AbsentRules::builder().path(b"shadow").build();
    task.bind(b"/m/etc", b"/part").expect("a bind");
    task.set_absent(b"/part", only.ok()).expect("rules");
    assert_eq!(task.stat(b"/part/shadow").map(drop), none);
    assert!(task.stat(b"/m/etc/shadow").is_ok());
    assert_eq!(task.set_absent(b"/m/etc", None), Err(Errno::EINVAL));
    assert_eq!(task.set_absent(b"/nowhere", None), Err(Errno::ENOENT));
}

#[test]
fn open_files_stay_open_under_new_rules() {
    let (_vfs, task) = tree(AbsentRules::builder().glob(b"nothing"));
    let file = task.get("/m/vault/gold", "RD");
    let dir = task.get("/m/vault", "RD|DIR");
    task.chdir(b"/m/vault").expect("chdir");
    task.set_absent(b"/m", rules().build().ok()).expect("rules");
    let mut byte = [0];
    assert_eq!(task.read(file, &mut byte), Ok(1));
    assert!(task.fstatat(dir, b"gold", AtFlags::empty()).is_ok());
    assert!(task.stat(b"gold").is_ok());
    assert!(task.stat(b"../plain").is_ok());
    assert_eq!(task.stat(b"../vault/gold"), Err(Errno::ENOENT));
    assert_eq!(task.stat(b"../etc/shadow"), Err(Errno::ENOENT));
    assert_eq!(
        task.fstatat(dir, b"x.pem", AtFlags::empty()),
        Err(Errno::ENOENT)
    );
}

#[test]
fn a_rule_applies_to_the_directory_now_at_its_path() {
    let (_vfs, task) = tree(rules());
    let passed = |path: &str| task.stat(path.as_bytes()).is_ok();
    let rename = |old: &str, new: &str| task.rename(old.as_bytes(), new.as_bytes());
    assert!(passed("/m/pub/etc/shadow") && !passed("/m/etc/shadow"));
    // By a mount without rules.
    rename("/bare/etc", "/bare/old").expect("a rename");
    assert!(passed("/m/old/shadow"));
    assert_eq!(rename("/m/pub/etc", "/m/etc"), Err(Errno::EXDEV));
    rename("/bare/pub/etc", "/bare/etc").expect("a rename");
    assert!(!passed("/m/etc/shadow"));
    assert_eq!(task.unlink(b"/m/etc/shadow"), Err(Errno::ENOENT));
    // A directory that is not empty in the backend is not removed.
    assert_eq!(task.rmdir(b"/m/etc"), Err(Errno::ENOTEMPTY));
    rename("/bare/etc", "/bare/pub/etc").expect("a rename");
    assert!(passed("/m/pub/etc/shadow"));
}

#[test]
fn no_directory_moves_where_rules_would_hide_more_or_less_of_it() {
    let (_vfs, task) = tree(rules().stay(b"pub/etc/passwd"));
    for path in ["/m/etc/deep", "/m/pub/deep", "/m/other", "/m/other/etc"] {
        task.dir(path, 0o755, (0, 0));
    }
    let rename = |old: &str, new: &str| task.rename(old.as_bytes(), new.as_bytes());
    let swap = |old: &str, new: &str| {
        let (old, new) = (old.as_bytes(), new.as_bytes());
        task.renameat2(AT_FDCWD, old, AT_FDCWD, new, RENAME_EXCHANGE)
    };
    for (old, new) in [
        ("/m/etc", "/m/old"),
        ("/m/etc", "/m/other/etc2"),
        ("/m/etc", "/m/other/etc"),
        ("/m/pub", "/m/public"),
        ("/m/pub/etc", "/m/pub/old"),
    ] {
        assert_eq!(rename(old, new), Err(Errno::EXDEV), "{old} {new}");
    }
    for (old, new) in [("/m/etc", "/m/other"), ("/m/other", "/m/pub")] {
        assert_eq!(swap(old, new), Err(Errno::EXDEV), "{old} {new}");
    }
    assert_eq!(task.stat(b"/m/etc/shadow"), Err(Errno::ENOENT));
    for (old, new) in [
        ("/m/etc/passwd", "/m/passwd"),
        ("/m/etc/deep", "/m/deep"),
        ("/m/pub/deep", "/m/other/deep"),
        ("/m/other", "/m/another"),
    ] {
        assert_eq!(rename(old, new), Ok(()), "{old} {new}");
    }
    // No name moves to a path where it could not be created.
    assert_eq!(
        task.open(b"/m/etc/shadow", O_CREAT | O_WRONLY, 0o600),
        Err(Errno::EACCES)
    );
    rename("/bare/etc", "/bare/gone").expect("a rename");
    task.dir("/m/made", 0o755, (0, 0));
    task.data("/m/made/shadow", b"x");
    assert_eq!(rename("/m/made", "/m/etc"), Err(Errno::EXDEV));
    assert_eq!(task.stat(b"/m/made/shadow").map(|stat| stat.size), Ok(1));
    // A mount without rules moves any name.
    assert_eq!(rename("/bare/pub/etc", "/bare/pub/old"), Ok(()));
}

#[test]
fn a_path_with_a_rule_is_neither_removed_nor_renamed_nor_replaced() {
    let (_vfs, task) = tree(rules().stay(b"etc/passwd").stay(b"pub/etc").stay(b"plain"));
    let exchange = |old: &str, new: &str| {
        let (old, new) = (old.as_bytes(), new.as_bytes());
        task.renameat2(AT_FDCWD, old, AT_FDCWD, new, RENAME_EXCHANGE)
    };
    task.data("/m/new", b"new");
    task.dir("/m/empty", 0o755, (0, 0));
    task.unlink(b"/bare/pub/etc/shadow").expect("no rule");
    for name in ["/m/etc/passwd", "/m/plain"] {
        assert_eq!(task.unlink(name.as_bytes()), Err(Errno::EBUSY), "{name}");
        assert_eq!(
            task.rename(name.as_bytes(), b"/m/other"),
            Err(Errno::EBUSY),
            "{name}"
        );
        assert_eq!(
            task.rename(b"/m/new", name.as_bytes()),
            Err(Errno::EBUSY),
            "{name}"
        );
        assert_eq!(exchange("/m/new", name), Err(Errno::EBUSY), "{name}");
        assert_eq!(exchange(name, "/m/new"), Err(Errno::EBUSY), "{name}");
    }
    assert_eq!(task.rmdir(b"/m/pub/etc"), Err(Errno::EBUSY));
    assert_eq!(task.rename(b"/m/pub/etc", b"/m/other"), Err(Errno::EBUSY));
    assert_eq!(task.rename(b"/m/empty", b"/m/pub/etc"), Err(Errno::EBUSY));
    assert_eq!(exchange("/m/empty", "/m/pub/etc"), Err(Errno::EBUSY));
    // The same names in other places are free, and a removed path can be created again.
    task.data("/m/pub/etc/passwd", b"x");
    assert_eq!(task.rename(b"/m/pub/etc/passwd", b"/m/empty/plain"), Ok(()));
    assert_eq!(task.unlink(b"/m/empty/plain"), Ok(()));
    task.unlink(b"/bare/plain").expect("no rule");
    assert_eq!(task.rename(b"/m/new", b"/m/plain"), Ok(()));
}

#[test]
fn walks_through_mounts_without_rules_stay_fast() {
    let (_vfs, task) = tree(rules().glob(b"\xff*"));
    task.mount(
        MemFs::new(MemOptions::default()),
        b"/m/pub/etc",
        MountFlags::default(),
    )
    .expect("a mount");
    task.data("/m/pub/etc/a.pem", b"");
    let lane = |path: &str| {
        let warm = open(&task, path, O_RDONLY).and_then(|()| open(&task, path, O_RDONLY));
        assert_eq!(warm, Ok(()), "{path}");
        let dirfd = AT_FDCWD;
        let path = path.as_bytes();
        let at_flags = 0;
        let why = task.explain(&ExplainOp::Stat {
            dirfd,
            path,
            at_flags: AtFlags::from_bits_retain(at_flags),
        });
        why.fast.map(|fast| fast.lane)
    };
    assert_eq!(lane("/m/pub/etc/a.pem"), Some(Lane::LockFree));
    assert_eq!(lane("/m/pub/etc/../../plain"), Some(Lane::LockFree));
    assert_eq!(lane("/bare/pub/key.pem"), Some(Lane::Plain));
    task.chdir(b"/m/pub/etc").expect("chdir");
    assert_eq!(lane("a.pem"), Some(Lane::Plain));
    task.chdir(b"/m").expect("chdir");
    assert_eq!(lane("plain"), Some(Lane::LockFree));
    assert_eq!(task.mkdir(b"\xff\xfe", 0o755), Err(Errno::EACCES));
    assert_eq!(task.mkdir(b"\xfe", 0o755), Ok(()));
    task.set_absent(b"/m", None).expect("no rules");
    assert_eq!(lane("plain"), Some(Lane::Plain));
}

#[test]
fn new_rules_override_the_path_cache() {
    let (_vfs, task) = tree(AbsentRules::builder().glob(b"nothing"));
    task.set_absent(b"/m", None).expect("no rules");
    let deep = "/m/a-long-directory/another-long-directory/vault";
    for (at, _) in deep.match_indices('/').skip(2) {
        task.dir(&deep[..at], 0o755, (0, 0));
    }
    task.data(deep, b"");
    task.chdir(b"/m").expect("chdir");
    let path = &deep[3..];
    for _ in 0..4 {
        assert_eq!(open(&task, path, O_RDONLY), Ok(()));
    }
    task.set_absent(b".", rules().build().ok()).expect("rules");
    assert_eq!(open(&task, path, O_RDONLY), Err(Errno::ENOENT));
    task.set_absent(b".", None).expect("no rules");
    assert_eq!(open(&task, path, O_RDONLY), Ok(()));
}

#[test]
fn a_name_absent_at_both_ends_of_a_move_is_never_found() {
    let rules = AbsentRules::builder().glob(b"*.pem").glob(b"**/shadow");
    let (vfs, task) = tree(rules);
    task.rename(b"/m/pub/etc", b"/m/pub/here")
        .expect("a rename");
    task.rename(b"/m/etc", b"/m/old").expect("a rename");
    let over = AtomicBool::new(false);
    let paths = ["/m/etc/shadow", "/m/pub/here/shadow", "/m/pub/key.pem"];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mover = root(&vfs);
            for _ in 0..20_000 {
                mover.rename(b"/m/pub/here", b"/m/etc").expect("there");
                mover
                    .rename(b"/m/etc", b"/m/pub/here")
                    .expect("rename back");
            }
            over.store(true, Ordering::Release);
        });
        scope.spawn(|| {
            let walker = root(&vfs);
            while !over.load(Ordering::Acquire) {
                for path in paths {
                    let found = walker.stat(path.as_bytes());
                    assert_eq!(found, Err(Errno::ENOENT), "{path}");
                    let made = walker.mkdir(path.as_bytes(), 0o700);
                    assert!(matches!(made, Err(Errno::EACCES | Errno::ENOENT)));
                }
            }
        });
    });
    assert!(task.stat(b"/bare/pub/here/shadow").is_ok());
}
