// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that an explanation of a call names the check that failed, lists each step of the walk,
//! and changes nothing.

use crate::world::*;
use openpath_abi::access::W_OK;
use openpath_abi::fcntl::*;
use openpath_abi::lock::{F_RDLCK, F_SETLEASE};
use openpath_abi::resolve::*;
use openpath_abi::{AtFlags, Errno, Mode, OpenHow, ResolveFlags};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::*;

fn tree() -> (Vfs, Task) {
    filled(world())
}

/// Like [`tree`], without complete directories: only names that were looked up are known.
fn tree_without_complete_directories() -> (Vfs, Task) {
    let mut tuning = Tuning::default();
    tuning.complete_directories = false;
    let root = MemFs::new(MemOptions::default().mode(0o755));
    filled(Vfs::builder().tuning(tuning).build(root).expect("a world"))
}

fn filled(vfs: Vfs) -> (Vfs, Task) {
    let task = root(&vfs);
    task.dir("/d", 0o755, (0, 0));
    task.dir("/d/e", 0o755, (0, 0));
    task.data("/d/f", b"xxxxxxxxxx");
    task.dir("/secret", 0o700, (0, 0));
    task.touch("/mine", 0o600, (7, 7));
    task.link_to("/l", "d/f");
    task.link_to("/loop", "loop");
    task.link_to("/abs", "/d/f");
    task.dir("/m", 0o755, (0, 0));
    let sb = MemFs::new(MemOptions::default());
    task.mount(sb, b"/m", MountFlags::READ_ONLY)
        .expect("a mount");
    (vfs, task)
}

fn open(task: &Task, path: &str, names: &str, resolve: ResolveFlags) -> Explanation {
    let how = OpenHow {
        flags: u64::from(flags(names)),
        mode: if names.contains("CREAT") || names.contains("TMPFILE") {
            0o644
        } else {
            0
        },
        resolve,
    };
    let (dirfd, path) = (AT_FDCWD, path.as_bytes());
    let why = task.explain(&ExplainOp::Openat2 { dirfd, path, how });
    let done = task.openat2(dirfd, path, &how);
    assert_eq!(why.result.err(), done.err(), "{why}");
    if let Ok(fd) = done {
        task.close(fd).expect("a file");
    }
    why
}

#[test]
fn an_explanation_names_the_check_that_failed() {
    let (vfs, root) = tree_without_complete_directories();
    let user = user(&vfs, 7, &[], &[]);
    let long = "n".repeat(300);
    let beneath = RESOLVE_BENEATH;
    for (task, path, names, resolve, check) in [
        (&root, "/d/none", "RD", 0, Check::Absent),
        (&root, "/d/f/x", "RD", 0, Check::NotDirectory),
        (&root, "/d/f", "RD|DIR", 0, Check::WantsDirectory),
        (&root, "/d", "WR", 0, Check::IsDirectory),
        (&root, "/d/f", "RD|CREAT|EXCL", 0, Check::Exists),
        (&root, "/d/new/", "RD|CREAT", 0, Check::TrailingSlash),
        (&root, "/l", "RD|NOFOLLOW", 0, Check::IsLink),
        (
            &root,
            "/l",
            "RD",
            RESOLVE_NO_SYMLINKS.bits(),
            Check::LinksUnwanted,
        ),
        (&root, "/loop", "RD", 0, Check::LinkCount),
        (&root, "/m/x", "RD|CREAT", 0, Check::ReadOnlyMount),
        (
            &root,
            "/m",
            "RD",
            RESOLVE_NO_XDEV.bits(),
            Check::MountBoundary,
        ),
        (&root, "/d", "RD", beneath.bits(), Check::Beneath),
        (&root, "d/../..", "RD", beneath.bits(), Check::Beneath),
        (&root, "/d/f", "RD|CREAT|DIR", 0, Check::Arguments),
        (&root, "", "RD", 0, Check::EmptyPath),
        (&root, &long, "RD", 0, Check::NameLength),
        (&user, "/secret/x", "RD", 0, Check::Search),
        (&user, "/d/f", "WR", 0, Check::Permission),
        (&user, "/d/new", "WR|CREAT", 0, Check::Permission),
        (&user, "/d/f", "RD|NOATIME", 0, Check::NoAccessTime),
        (
            &root,
            "/d/e/never",
            "RD",
            RESOLVE_CACHED.bits(),
            Check::Cached,
        ),
    ] {
        let why = open(task, path, names, ResolveFlags::from_bits_retain(resolve));
        assert_eq!(why.refused_by(), Some(check), "{why}");
    }
    let access = ExplainOp::Access {
        dirfd: AT_FDCWD,
        path: b"/d/f",
        want: W_OK,
        at_flags: AtFlags::empty(),
    };
    assert_eq!(user.explain(&access).refused_by(), Some(Check::Permission));
}

#[test]
fn an_explanation_lists_each_step_of_a_walk() {
    let (vfs, root) = tree();
    let user = user(&vfs, 7, &[], &[]);
    let text = open(&user, "/abs", "RD", ResolveFlags::empty()).to_string();
    let mut lines = text.lines();
    for begins in [
        r#"openat2 "/abs""#,
        r#"fast    answered by the walk with references: the lock-free walk was left for access"#,
        r#"at      "/" (mount"#,
        r#"name    "abs": cached, link"#,
        r#"link    number 1, to "/d/f""#,
        "would   move the access time of the link",
        r#"at      "/" (mount"#,
        r#"name    "d": cached, directory"#,
        r#"name    "f": cached, regular file"#,
        "asked   to read: granted by other bits (mode 0644, owner 0:0)",
        r#"end     "/d/f" (mount"#,
        "would   open",
        "answer  ok",
    ] {
        let line = lines.next().unwrap_or_default();
        assert!(line.starts_with(begins), "{begins}\n{text}");
    }
    let why = open(&root, "/m/../d/e/./..", "RD|DIR", ResolveFlags::empty());
    let verbs: Vec<_> = why.steps.iter().map(Step::verb).collect();
    let told = "at name mount up up name name up asked end would";
    assert_eq!(verbs.join(" "), told, "{why}");

    // A directory that only a capability can search.
    let why = open(&root, "/secret/none", "RD", ResolveFlags::empty());
    let asked = why.steps.iter().find_map(|step| match step {
        Step::Asked(permission) => Some(*permission),
        _ => None,
    });
    assert_eq!(
        asked.map(|p| (p.by, p.granted)),
        Some((Decider::Owner, true))
    );
    let why = open(&root, "/mine", "RW", ResolveFlags::empty());
    assert!(
        why.to_string().contains("granted by CAP_DAC_OVERRIDE"),
        "{why}"
    );
}

#[test]
fn an_explanation_names_the_lane_that_answered() {
    let (_vfs, task) = tree_without_complete_directories();
    let deep = "/a-directory/another-directory/a-third-one";
    for (at, _) in deep.match_indices('/').skip(1) {
        task.dir(&deep[..at], 0o755, (0, 0));
    }
    task.dir(deep, 0o755, (0, 0));
    let file = format!("{deep}/file");
    task.data(&file, b"");
    let lane = |path: &str, names: &str| {
        let why = open(&task, path, names, ResolveFlags::empty());
        why.fast.map(|fast| (fast.lane, fast.left))
    };
    assert_eq!(lane("/d/f", "RD"), Some((Lane::Plain, None)));
    assert_eq!(lane("/m", "RD"), Some((Lane::Plain, None)));
    assert_eq!(lane("/d/e/../f", "RD"), Some((Lane::LockFree, None)));
    assert_eq!(lane("/d/f", "RD|CREAT"), Some((Lane::Plain, None)));
    let missed = Some((Lane::References, Some(Reason::Miss)));
    assert_eq!(lane("/d/e/unheard", "RD"), missed);
    // From the second lookup on, the name is cached as absent.
    assert_eq!(lane("/d/e/unheard", "RD"), Some((Lane::Plain, None)));
    let creates = Some((Lane::References, Some(Reason::Create)));
    assert_eq!(lane("/d/made", "RD|CREAT"), creates);
    for _ in 0..3 {
        task.shut(task.open(file.as_bytes(), O_RDONLY, 0))
            .expect("open");
    }
    assert_eq!(lane(&file, "RD"), Some((Lane::PathCache, None)));
}

#[test]
fn an_explanation_names_a_lease_and_does_not_break_it() {
    let (vfs, task) = tree();
    let fd = task.open(b"/d/f", O_RDONLY, 0).expect("open");
    task.fcntl(fd, F_SETLEASE, F_RDLCK as u64).expect("a lease");
    let why = |flags| {
        let (dirfd, path, mode) = (AT_FDCWD, &b"/d/f"[..], Mode::default());
        task.explain(&ExplainOp::Openat {
            dirfd,
            path,
            flags,
            mode,
        })
    };
    let would = |why: &Explanation| why.steps.contains(&Step::Skipped(SkippedChange::Wait));
    assert!(would(&why(O_WRONLY)) && !would(&why(O_RDONLY)));
    let refused = why(O_WRONLY | O_NONBLOCK);
    assert_eq!(refused.refused_by(), Some(Check::Leased), "{refused}");
    assert_eq!(refused.result, Err(Errno::EAGAIN));
    assert!(vfs.leases().iter().all(|lease| !lease.breaking));
}

#[test]
fn an_explanation_changes_nothing() {
    let (_vfs, task) = tree();
    let before = (task.reasons(), task.lstat(b"/l"), task.stat(b"/d/f"));
    let explain = |path: &str, names: &str| {
        task.explain(&ExplainOp::Openat {
            dirfd: AT_FDCWD,
            path: path.as_bytes(),
            flags: flags(names),
            mode: 0o600.into(),
        })
    };
    for (path, names, would) in [
        ("/d/new", "RW|CREAT", SkippedChange::Create),
        ("/d/new", "RW|CREAT|EXCL", SkippedChange::Create),
        ("/l", "RW|TRUNC", SkippedChange::Truncate),
        ("/d", "RW|TMPFILE", SkippedChange::CreateUnnamed),
        ("/d/f", "RW|CREAT", SkippedChange::Open),
    ] {
        let why = explain(path, names);
        assert_eq!(why.result, Ok(()), "{why}");
        assert!(why.steps.contains(&Step::Skipped(would)), "{why}");
    }
    assert_eq!(task.stat(b"/d/new"), Err(Errno::ENOENT));
    let missed = task.reasons().of(Reason::Miss);
    assert_eq!(
        missed,
        before.0.of(Reason::Miss),
        "the explanation cached the name as absent"
    );
    assert_eq!(
        (task.lstat(b"/l"), task.stat(b"/d/f")),
        (before.1, before.2)
    );
    assert_eq!(task.descriptors(), Vec::<Fd>::new());
    // The task walks as before.
    assert_eq!(task.reasons().total(), before.0.total());
}
