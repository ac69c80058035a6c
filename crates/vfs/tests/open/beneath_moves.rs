// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that path calls which must stay beneath their starting directory never leave it while
//! others move directories, and that unrelated moves do not fail them.
//!
//! A tree is mounted on the way. Its lookups have another thread move directories before they
//! answer, so that each walk meets the same moves.

use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_DIRECTORY, O_PATH, O_WRONLY};
use openpath_abi::resolve::RESOLVE_BENEATH;
use openpath_abi::{AtFlags, Errno, OpenHow, StatFs, Timespec};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{
    Attr, Cred, Fd, Inode, InodeOps, LookupResult, MountFlags, SuperBlock, SuperBlockOps,
    SuperBlockOptions, Task, Vfs, WaitMode,
};
use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

type Move = Box<dyn FnOnce() + Send>;
/// The move to make before the next lookup answers.
type Next = Arc<Mutex<Option<Move>>>;

struct Top(Next);
struct Empty;
struct Tree;

fn dir(ino: u64, ops: Box<dyn InodeOps>) -> Arc<Inode> {
    let attr = Attr {
        mode: 0o040_755,
        nlink: 2,
        ..Attr::default()
    };
    Inode::new(ino, 0, attr, Timespec::default(), ops)
}

impl InodeOps for Top {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn lookup(
        &self,
        _dir: &Inode,
        name: &[u8],
        _wait_mode: WaitMode,
    ) -> Result<LookupResult, Errno> {
        let next = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(next) = next {
            // A lookup may hold locks that a rename needs first; others move directories at any
            // moment.
            std::thread::scope(|s| {
                s.spawn(next);
            });
        }
        let ino = name.iter().fold(7, |sum, b| sum * 31 + u64::from(*b));
        Ok(LookupResult::Inode(dir(ino, Box::new(Empty))))
    }
}

impl InodeOps for Empty {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl SuperBlockOps for Tree {
    fn statfs(&self) -> Result<StatFs, Errno> {
        Ok(StatFs::default())
    }
}

struct World {
    vfs: Vfs,
    task: Task,
    /// `/in`, with `f` and `x/a/m` beneath it; the tree is mounted on the latter.
    base: Fd,
    next: Next,
}

impl World {
    fn new() -> Result<Self, Errno> {
        let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()))?;
        let task = vfs.task(Cred::root())?;
        for dir in [
            "/in",
            "/in/x",
            "/in/x/a",
            "/in/x/a/m",
            "/out",
            "/1",
            "/1/d",
            "/2",
        ] {
            task.mkdir(dir.as_bytes(), 0o755)?;
        }
        for file in ["/in/f", "/f", "/out/f"] {
            task.close(task.open(file.as_bytes(), O_CREAT | O_WRONLY, 0o644)?)?;
        }
        let next = Next::default();
        let root = dir(1, Box::new(Top(Arc::clone(&next))));
        let tree = SuperBlock::new(root, Box::new(Tree), SuperBlockOptions::default());
        task.mount(tree, b"/in/x/a/m", MountFlags::default())?;
        let base = task.open(b"/in", O_PATH | O_DIRECTORY, 0)?;
        Ok(Self {
            vfs,
            task,
            base,
            next,
        })
    }

    /// At the next lookup in the tree, renames `old` to `new`.
    fn arm(&self, old: &'static str, new: &'static str) {
        let task = self.vfs.task(Cred::root()).expect("a task");
        let moves: Move = Box::new(move || {
            let moved = task.rename(old.as_bytes(), new.as_bytes());
            moved.expect("a rename");
        });
        *self.next.lock().expect("lock") = Some(moves);
    }

    fn took_place(&self) -> bool {
        self.next.lock().expect("lock").is_none()
    }
}

#[test]
fn unrelated_moves_do_not_fail_a_walk_beneath() -> Result<(), Errno> {
    let world = World::new()?;
    let (task, base) = (&world.task, world.base);
    let how = OpenHow::new(O_PATH, 0).resolve(RESOLVE_BENEATH);
    world.arm("/1/d", "/2/d");
    // The kernel's own answer, after which its callers try again.
    let kernel = task.openat2(base, b"x/a/m/n0/../../../../f", &how);
    assert_eq!(kernel, Err(Errno::EAGAIN));
    assert!(world.took_place());
    let beneath = task.beneath();
    let back = [("/2/d", "/1/d"), ("/1/d", "/2/d")];
    let (ino, file) = (task.stat(b"/in/f")?.ino, "x/a/m/N/../../../../f");
    for (n, (old, new)) in back.into_iter().cycle().take(6).enumerate() {
        let path = file.replace('N', &format!("n{}", n + 1));
        world.arm(old, new);
        let found = if n % 2 == 0 {
            let fd = beneath.openat(base, path.as_bytes(), O_PATH, 0)?;
            let stat = task.fstat(fd)?;
            task.close(fd)?;
            stat.ino
        } else {
            beneath
                .fstatat(base, path.as_bytes(), AtFlags::empty())?
                .ino
        };
        assert_eq!(found, ino);
        assert!(world.took_place(), "{path}");
    }
    world.arm("/2/d", "/1/d");
    beneath.mkdirat(base, b"x/a/m/n8/../../../made", 0o755)?;
    assert!(world.took_place());
    assert!(task.stat(b"/in/x/made").is_ok());
    Ok(())
}

#[test]
fn a_walk_through_a_moved_directory_is_repeated() -> Result<(), Errno> {
    let world = World::new()?;
    let (task, base) = (&world.task, world.base);
    let beneath = task.beneath();
    // Moved out: neither the directory nor its parent is beneath any more.
    world.arm("/in/x/a", "/out/a");
    let path = b"x/a/m/n0/../../../f";
    assert_eq!(
        beneath.fstatat(base, path, AtFlags::empty()).map(drop),
        Err(Errno::ENOENT)
    );
    assert!(world.took_place());
    task.rename(b"/out/a", b"/in/x/a")?;
    // Moved up: one more step now leads out, which it did not before.
    world.arm("/in/x/a", "/in/a");
    let path = b"x/a/m/n1/../../../../f";
    assert_eq!(
        beneath.fstatat(base, path, AtFlags::empty()).map(drop),
        Err(Errno::ENOENT)
    );
    assert!(world.took_place());
    // Moved down, where the path still stays beneath.
    world.arm("/in/a", "/in/x/a");
    let path = b"a/m/n2/../../../f";
    assert_eq!(
        beneath.fstatat(base, path, AtFlags::empty()).map(drop),
        Err(Errno::ENOENT)
    );
    assert!(world.took_place());
    Ok(())
}

#[test]
fn a_path_that_leads_out_is_refused_while_directories_move() -> Result<(), Errno> {
    let world = World::new()?;
    let beneath = world.task.beneath();
    world.arm("/1/d", "/2/d");
    for path in ["x/a/m/n0/../../../../../f", "x/a/m/n1/../../../../.."] {
        let answer = beneath.openat(world.base, path.as_bytes(), O_PATH, 0);
        assert_eq!(answer, Err(Errno::EXDEV), "{path}");
        assert!(world.took_place());
        world.arm("/2/d", "/1/d");
    }
    let out = world.task.fstatat(AT_FDCWD, b"/in/../f", AtFlags::empty());
    assert!(out.is_ok(), "the path exists");
    Ok(())
}

#[test]
fn a_walk_in_a_directory_moved_out_is_repeated_even_without_dotdot() -> Result<(), Errno> {
    let world = World::new()?;
    let beneath = world.task.beneath();
    world.arm("/in/x/a", "/out/a");
    let answer = beneath
        .fstatat(world.base, b"x/a/m/n0", AtFlags::empty())
        .map(drop);
    assert_eq!(answer, Err(Errno::ENOENT));
    assert!(world.took_place());
    Ok(())
}

#[test]
fn a_directory_moved_out_of_a_bind_is_not_beneath() -> Result<(), Errno> {
    let world = World::new()?;
    let task = &world.task;
    for dir in ["/q", "/q/y", "/q/y/m", "/p", "/in/b"] {
        task.mkdir(dir.as_bytes(), 0o755)?;
    }
    task.bind(b"/q", b"/in/b")?;
    let root = dir(1, Box::new(Top(Arc::clone(&world.next))));
    let tree = SuperBlock::new(root, Box::new(Tree), SuperBlockOptions::default());
    task.mount(tree, b"/in/b/y/m", MountFlags::default())?;
    let beneath = task.beneath();
    assert!(
        beneath
            .fstatat(world.base, b"b/y/m/n0/..", AtFlags::empty())
            .is_ok()
    );
    // The mount point leaves what the bind shows.
    world.arm("/q/y", "/p/y");
    let answer = beneath
        .fstatat(world.base, b"b/y/m/n1/..", AtFlags::empty())
        .map(drop);
    assert_eq!(answer, Err(Errno::ENOENT));
    assert!(world.took_place());
    Ok(())
}
