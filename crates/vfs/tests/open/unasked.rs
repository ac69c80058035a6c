// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests opens that the host kernel cannot be asked about: magic links lead to their target unless
//! refused, and a flag of Linux 7.2 requires a regular file.

use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_EXCL, O_NOFOLLOW, O_PATH, O_RDONLY, O_RDWR};
use openpath_abi::resolve::{
    RESOLVE_BENEATH, RESOLVE_CACHED, RESOLVE_IN_ROOT, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_XDEV,
};
use openpath_abi::{Errno, OpenHow, ResolveFlags, StatFs, Timespec};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{
    Attr, Cred, Inode, InodeOps, LookupResult, MountFlags, Profile, SuperBlock, SuperBlockOps,
    SuperBlockOptions, Vfs, VfsPath, WaitMode, flag,
};
use std::any::Any;
use std::sync::{Arc, Mutex};

/// The targets of the link, one for each time it is followed.
type Targets = Arc<Mutex<Vec<VfsPath>>>;

struct Dir(Arc<Inode>);
struct Magic(Targets);
struct Tree;

impl InodeOps for Dir {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn lookup(
        &self,
        _dir: &Inode,
        name: &[u8],
        _wait_mode: WaitMode,
    ) -> Result<LookupResult, Errno> {
        Ok(if name == b"m" {
            LookupResult::Inode(Arc::clone(&self.0))
        } else {
            LookupResult::Absent
        })
    }
}

impl InodeOps for Magic {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn jump(&self, _inode: &Inode) -> Result<VfsPath, Errno> {
        self.0.lock().expect("lock").pop().ok_or(Errno::ENOENT)
    }
}

impl SuperBlockOps for Tree {
    fn statfs(&self) -> Result<StatFs, Errno> {
        Ok(StatFs::default())
    }
}

fn tree(targets: &Targets) -> Arc<SuperBlock> {
    let attr = |mode| Attr {
        mode,
        nlink: 1,
        ..Attr::default()
    };
    let zero = Timespec::default();
    let magic = Box::new(Magic(Arc::clone(targets)));
    let link = Inode::new(2, 0, attr(0o120_777), zero, magic);
    link.set_flags(flag::MAGIC);
    let root = Inode::new(1, 0, attr(0o040_755), zero, Box::new(Dir(link)));
    SuperBlock::new(root, Box::new(Tree), SuperBlockOptions::default())
}

#[test]
fn a_magic_link_jumps_to_its_target_unless_refused() {
    let targets = Targets::default();
    let vfs = Vfs::builder()
        .build(MemFs::new(MemOptions::default()))
        .expect("a vfs");
    let t = vfs.task(Cred::root()).expect("a task");
    t.mkdir(b"/p", 0o755).expect("mkdir");
    t.mount(tree(&targets), b"/p", MountFlags::default())
        .expect("mount");
    let file = t.open(b"/f", O_RDWR | O_CREAT, 0o600).expect("open");
    t.unlink(b"/f").expect("unlink");
    let arm = || {
        let target = t.file(file).and_then(|file| file.path());
        targets.lock().expect("lock").push(target.expect("a path"));
    };
    let open = |flags: u32, resolve: ResolveFlags| {
        arm();
        let how = OpenHow {
            flags: u64::from(flags),
            mode: 0,
            resolve,
        };
        let opened = t.openat2(AT_FDCWD, b"/p/m", &how)?;
        let ino = t.fstat(opened).expect("stat").ino;
        t.close(opened).map(|()| ino)
    };
    let ino = t.fstat(file).expect("stat").ino;
    assert_eq!(
        open(O_RDONLY.bits(), ResolveFlags::empty()),
        Ok(ino),
        "the link does not reach an unlinked file"
    );
    assert_eq!(
        open((O_RDWR | O_CREAT).bits(), ResolveFlags::empty()),
        Ok(ino)
    );
    assert_eq!(
        open((O_RDONLY | O_CREAT | O_EXCL).bits(), ResolveFlags::empty()),
        Err(Errno::EEXIST)
    );
    assert_eq!(
        open((O_RDONLY | O_NOFOLLOW).bits(), ResolveFlags::empty()),
        Err(Errno::ELOOP)
    );
    assert_eq!(
        open((O_PATH | O_NOFOLLOW).bits(), RESOLVE_NO_MAGICLINKS),
        Ok(2)
    );
    assert_eq!(
        open(O_RDONLY.bits(), RESOLVE_NO_MAGICLINKS),
        Err(Errno::ELOOP)
    );
    assert_eq!(open(O_RDONLY.bits(), RESOLVE_CACHED), Err(Errno::EAGAIN));
    assert_eq!(open(O_RDONLY.bits(), RESOLVE_NO_XDEV), Err(Errno::EXDEV));
    assert_eq!(open(O_RDONLY.bits(), RESOLVE_IN_ROOT), Err(Errno::EXDEV));
    assert_eq!(open(O_RDONLY.bits(), RESOLVE_BENEATH), Err(Errno::EXDEV));
    arm();
    assert_eq!(t.stat(b"/p/m/x").map(|s| s.ino), Err(Errno::ENOTDIR));
}

#[test]
fn since_linux_7_2_an_open_can_require_a_regular_file() {
    let builder = Vfs::builder().profile(Profile::V7_2);
    let vfs = builder
        .build(MemFs::new(MemOptions::default()))
        .expect("a vfs");
    let t = vfs.task(Cred::root()).expect("a task");
    t.creat(b"/f", 0o600).expect("creat");
    let how = OpenHow {
        flags: 1 << 32,
        mode: 0,
        resolve: ResolveFlags::empty(),
    };
    let open = |path: &[u8]| t.close(t.openat2(AT_FDCWD, path, &how)?);
    assert_eq!(open(b"/f"), Ok(()));
    assert_eq!(open(b"/"), Err(Errno::EFTYPE));
}
