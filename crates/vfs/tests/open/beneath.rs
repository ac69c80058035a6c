// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that no path call which must stay beneath its starting directory leads out of it, and that
//! calls which stay answer like unconfined ones.

use openpath_abi::fcntl::{
    AT_REMOVEDIR, AT_SYMLINK_NOFOLLOW, O_CREAT, O_DIRECTORY, O_RDONLY, O_WRONLY,
};
use openpath_abi::{AtFlags, Errno, RenameFlags, TimeSet};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, Fd, Task, Vfs};

/// `/out` with a file, and `/in` with a file, a directory, and links of which some lead out.
fn world() -> Result<(Task, Fd), Errno> {
    let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()))?;
    let task = vfs.task(Cred::root())?;
    for dir in ["/out", "/in", "/in/d"] {
        task.mkdir(dir.as_bytes(), 0o755)?;
    }
    for file in ["/out/f", "/in/f"] {
        task.close(task.open(file.as_bytes(), O_CREAT | O_WRONLY, 0o644)?)?;
    }
    for (target, path) in [
        ("/out", "/in/absolute"),
        ("../out", "/in/up"),
        ("../../out", "/in/d/up"),
        ("d", "/in/good"),
        ("../f", "/in/d/good"),
    ] {
        task.symlink(target.as_bytes(), path.as_bytes())?;
    }
    let dir = task.open(b"/in", O_DIRECTORY, 0)?;
    Ok((task, dir))
}

/// Paths from `/in` that are not beneath it. They exist, except for the last name of some.
const OUT: &[&str] = &[
    "/out/f",
    "../out/f",
    "d/../../out/f",
    "absolute/f",
    "up/f",
    "d/up/f",
    "good/up/f",
    "./d/../../in/f",
];

#[test]
fn no_call_leads_out() -> Result<(), Errno> {
    let (task, dir) = world()?;
    let beneath = task.beneath();
    let now = [TimeSet::Now; 2];
    let before = task.stat(b"/out/f")?;
    // Once with few names cached, and again after the same walks.
    for out in OUT.iter().chain(OUT) {
        let out = out.as_bytes();
        let answers = [
            ("open", beneath.openat(dir, out, O_RDONLY, 0).map(|_| ())),
            (
                "stat",
                beneath.fstatat(dir, out, AtFlags::empty()).map(|_| ()),
            ),
            ("readlink", beneath.readlinkat(dir, out).map(|_| ())),
            (
                "utimens",
                beneath.utimensat(dir, out, now, AtFlags::empty()),
            ),
            ("mkdir", beneath.mkdirat(dir, out, 0o755)),
            ("symlink", beneath.symlinkat(b"x", dir, out)),
            ("unlink", beneath.unlinkat(dir, out, AtFlags::empty())),
            ("rmdir", beneath.unlinkat(dir, out, AT_REMOVEDIR)),
            (
                "link from",
                beneath.linkat(dir, out, dir, b"new", AtFlags::empty()),
            ),
            (
                "link to",
                beneath.linkat(dir, b"f", dir, out, AtFlags::empty()),
            ),
            (
                "rename from",
                beneath.renameat2(dir, out, dir, b"new", RenameFlags::empty()),
            ),
            (
                "rename to",
                beneath.renameat2(dir, b"f", dir, out, RenameFlags::empty()),
            ),
        ];
        for (call, answer) in answers {
            let path = String::from_utf8_lossy(out);
            assert_eq!(answer, Err(Errno::EXDEV), "{call} {path}");
        }
    }
    assert_eq!(task.stat(b"/out/f")?, before);
    assert!(task.stat(b"/in/f").is_ok());
    Ok(())
}

#[test]
fn calls_beneath_answer_like_unconfined_calls() -> Result<(), Errno> {
    let (task, dir) = world()?;
    let beneath = task.beneath();
    for path in [
        "f",
        "d/../f",
        "good/good",
        "./f",
        "d/./../f",
        "gone",
        "f/x",
        "good",
        "d/",
    ] {
        let path = path.as_bytes();
        for flags in [AtFlags::empty(), AT_SYMLINK_NOFOLLOW] {
            let stat = task.fstatat(dir, path, flags);
            assert_eq!(beneath.fstatat(dir, path, flags), stat);
        }
    }
    beneath.mkdirat(dir, b"good/new", 0o755)?;
    beneath.symlinkat(b"/out", dir, b"d/link")?;
    assert_eq!(beneath.readlinkat(dir, b"good/link"), Ok(b"/out".to_vec()));
    beneath.renameat2(dir, b"d/new", dir, b"moved", RenameFlags::empty())?;
    beneath.linkat(dir, b"f", dir, b"moved/f", AtFlags::empty())?;
    assert_eq!(beneath.fstatat(dir, b"moved/f", AtFlags::empty())?.nlink, 2);
    beneath.unlinkat(dir, b"moved/f", AtFlags::empty())?;
    beneath.unlinkat(dir, b"moved", AT_REMOVEDIR)?;
    beneath.unlinkat(dir, b"d/link", AtFlags::empty())?;
    assert_eq!(task.stat(b"/in/moved"), Err(Errno::ENOENT));
    Ok(())
}

#[test]
fn a_try_answers_from_the_cache() -> Result<(), Errno> {
    let (task, dir) = world()?;
    let beneath = task.beneath();
    assert_eq!(
        beneath.fstatat(dir, b"d", AtFlags::empty())?.mode & 0o777,
        0o755
    );
    assert!(beneath.try_fstatat(dir, b"d", AtFlags::empty()).is_ok());
    let fd = beneath.try_openat(dir, b"f", O_RDONLY, 0);
    assert!(fd.is_ok());
    // A `..` is refused even where the walk could continue, as in the kernel.
    assert_eq!(
        beneath.try_fstatat(dir, b"../out", AtFlags::empty()),
        Err(openpath_vfs::TryError::WouldBlock)
    );
    Ok(())
}
