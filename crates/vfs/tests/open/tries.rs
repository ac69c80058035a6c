// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that calls that must not wait answer from the cache or fail, and that proxy tasks, with
//! which a worker thread makes calls for another task, act as that task.

use openpath_abi::fcntl::{
    AT_EMPTY_PATH, AT_FDCWD, F_GETFL, O_CREAT, O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY,
};
use openpath_abi::{AtFlags, Errno, OpenHow, ResolveFlags, StatxMask, Timespec, mode, resolve};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Clock, Cred, MountFlags, Reason, Task, TryError, Vfs};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

fn task() -> (Vfs, Task) {
    let vfs = Vfs::builder()
        .clock(Box::new(NanosecondClock))
        .build(MemFs::new(MemOptions::default()))
        .expect("a vfs");
    let task = vfs.task(Cred::root()).expect("a task");
    (vfs, task)
}

fn how(flags: u32) -> OpenHow {
    OpenHow {
        flags: u64::from(flags),
        mode: 0,
        resolve: ResolveFlags::empty(),
    }
}

const WOULD_BLOCK: TryError = TryError::WouldBlock;

#[test]
fn a_try_opens_from_the_cache_or_would_wait() {
    let (vfs, t) = task();
    t.mkdir(b"/d", 0o755).expect("mkdir");
    t.creat(b"/d/f", 0o600).expect("creat");
    let fd = t
        .try_openat2(AT_FDCWD, b"/d/f", &how(O_RDONLY.bits()))
        .expect("open");
    let flags = t.fcntl(fd, F_GETFL, 0).expect("flags") as u32;
    assert_eq!(flags & O_NONBLOCK.bits(), 0, "the flag stays set");
    let kept = t.try_openat(AT_FDCWD, b"/d/f", O_RDWR | O_NONBLOCK, 0);
    let flags = t.fcntl(kept.expect("open"), F_GETFL, 0).expect("flags") as u32;
    assert_ne!(
        flags & O_NONBLOCK.bits(),
        0,
        "the requested flag is missing"
    );
    assert_eq!(flags >> 30, 0, "an internal flag is visible");
    let made = t.creat(b"/d/g", 0o600).expect("creat");
    t.close(made).expect("close");
    vfs.shrink(u32::MAX);
    assert_eq!(t.try_open(b"/d/g", O_RDONLY, 0), Err(WOULD_BLOCK));
    assert_eq!(t.last_reason(), Some(Reason::Miss));
    assert_eq!(
        t.try_statx(AT_FDCWD, b"/d/g", AtFlags::empty(), StatxMask::empty())
            .err(),
        Some(WOULD_BLOCK)
    );
    t.stat(b"/d/g").expect("stat");
    assert!(
        t.try_statx(AT_FDCWD, b"/d/g", AtFlags::empty(), StatxMask::empty())
            .is_ok()
    );
    assert!(t.try_fstatat(AT_FDCWD, b"/d/g", AtFlags::empty()).is_ok());
    assert!(
        t.try_faccessat2(AT_FDCWD, b"/d/g", 4, AtFlags::empty())
            .is_ok()
    );
    assert!(
        t.try_statx(kept.expect("open"), b"", AT_EMPTY_PATH, StatxMask::empty())
            .is_ok()
    );
}

#[test]
fn a_try_refuses_changes_and_wrong_arguments() {
    let (_vfs, t) = task();
    t.creat(b"/f", 0o600).expect("creat");
    assert_eq!(t.try_open(b"/f", O_RDWR | O_CREAT, 0), Err(WOULD_BLOCK));
    assert_eq!(t.last_reason(), Some(Reason::Change));
    let cached = OpenHow {
        resolve: resolve::RESOLVE_CACHED,
        ..how((O_RDWR | O_CREAT).bits())
    };
    assert_eq!(t.try_openat2(AT_FDCWD, b"/f", &cached), Err(WOULD_BLOCK));
    let wrong = OpenHow {
        mode: 0o7,
        ..how(O_RDONLY.bits())
    };
    let answer = t.try_openat2(AT_FDCWD, b"/f", &wrong);
    assert_eq!(answer, Err(TryError::Errno(Errno::EINVAL)));
}

#[test]
fn a_try_to_open_a_fifo_without_a_peer_would_wait() {
    let (_vfs, t) = task();
    t.mknod(b"/p", mode::S_IFIFO | 0o600, 0).expect("mknod");
    for side in [O_RDONLY, O_WRONLY] {
        assert_eq!(t.try_open(b"/p", side, 0), Err(WOULD_BLOCK));
        assert_eq!(t.last_reason(), Some(Reason::Peer));
    }
    let alone = t.try_open(b"/p", O_WRONLY | O_NONBLOCK, 0);
    assert_eq!(alone, Err(TryError::Errno(Errno::ENXIO)));
    let first = t.try_open(b"/p", O_RDONLY | O_NONBLOCK, 0).expect("one");
    let writer = t
        .try_open(b"/p", O_WRONLY, 0)
        .expect("the FIFO has a reader");
    t.close(first).expect("close");
    t.close(writer).expect("close");
    let both = t.open(b"/p", O_RDWR, 0).expect("opens both ends");
    let reader = t.try_open(b"/p", O_RDONLY, 0).expect("a reader");
    t.close(both).expect("close");
    let flags = t.fcntl(reader, F_GETFL, 0).expect("flags") as u32;
    assert_eq!(flags & O_NONBLOCK.bits(), 0);
    let writer = t.try_open(b"/p", O_WRONLY, 0).expect("a writer");
    assert_eq!(t.write(writer, b"x"), Ok(1));
    assert_eq!(t.read(reader, &mut [0; 8]), Ok(1));
}

#[test]
fn a_try_reads_a_link_once_its_body_is_cached() {
    let (_vfs, t) = task();
    t.creat(b"/f", 0o600).expect("creat");
    t.symlink(b"f", b"/l").expect("symlink");
    assert_eq!(t.try_readlinkat(AT_FDCWD, b"/l"), Err(WOULD_BLOCK));
    assert_eq!(t.last_reason(), Some(Reason::AccessTime));
    t.readlink(b"/l").expect("readlink");
    assert_eq!(t.try_readlinkat(AT_FDCWD, b"/l"), Ok(b"f".to_vec()));
    assert!(t.try_open(b"/l", O_RDONLY, 0).is_ok());
}

#[test]
fn a_proxy_task_acts_as_its_task_which_installs_its_files() {
    let (vfs, t) = task();
    t.mkdir(b"/d", 0o755).expect("mkdir");
    let proxy = t.proxy_task().expect("a proxy");
    assert_eq!(proxy.getcwd(), Ok(b"/".to_vec()));
    t.chdir(b"/d").expect("chdir");
    t.umask(0o077);
    t.set_cred(Cred::user(1000, 1000, &[]));
    t.set_rlimit_nofile(7);
    let tenant = vfs.tenant(openpath_vfs::TenantLimits::default());
    t.set_tenant(&tenant).expect("a tenant of this Vfs");
    t.update_proxy(&proxy).expect("updated");
    assert_eq!(proxy.getcwd(), Ok(b"/d".to_vec()));
    assert_eq!(proxy.umask(0o077), 0o077);
    assert_eq!(proxy.cred().fsuid, 1000);
    assert_eq!(proxy.tenant().number(), tenant.number());
    let worker = thread::spawn(move || {
        let refused = proxy.open(b"f", O_RDWR | O_CREAT, 0o666);
        let fd = proxy.open(b".", O_RDONLY, 0).expect("open");
        let file = proxy.file(fd).expect("a file");
        proxy.close(fd).expect("close");
        (proxy, refused, file)
    });
    let (proxy, refused, file) = worker.join().expect("a worker");
    assert_eq!(refused, Err(Errno::EACCES));
    let fd = t.install(&file, O_RDONLY).expect("install");
    assert_eq!(t.fstat(fd), t.stat(b"/d"));
    assert!(proxy.descriptors().is_empty());
    let (_other, stranger) = task();
    assert_eq!(stranger.update_proxy(&proxy), Err(Errno::EXDEV));
}

#[test]
fn a_proxy_task_follows_chroot_and_unshare() {
    let (_vfs, t) = task();
    t.mkdir(b"/r", 0o755).expect("mkdir");
    t.mkdir(b"/r/in", 0o755).expect("mkdir");
    let proxy = t.proxy_task().expect("a proxy");
    t.unshare_mounts().expect("unshare");
    t.mount(
        MemFs::new(MemOptions::default()),
        b"/r/in",
        MountFlags::default(),
    )
    .expect("mount");
    t.creat(b"/r/in/only-there", 0o600).expect("creat");
    t.chroot(b"/r").expect("chroot");
    t.chdir(b"/").expect("chdir");
    assert_eq!(proxy.stat(b"/r/in/only-there").err(), Some(Errno::ENOENT));
    t.update_proxy(&proxy).expect("updated");
    assert!(proxy.stat(b"/in/only-there").is_ok());
    t.update_proxy(&proxy).expect("updated again");
}

/// The wall clock in nanoseconds, so that consecutive calls get different times.
struct NanosecondClock;

impl Clock for NanosecondClock {
    fn now(&self) -> Timespec {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("after 1970");
        Timespec::new(now.as_secs().cast_signed(), now.subsec_nanos())
    }
}
