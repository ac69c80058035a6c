// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives tests a FUSE mount of a tree in memory, at a directory of its own, that is unmounted when
//! dropped ([`TestMount`]), and has the kernel offer rings of `io_uring` for a while ([`Offer`]).

#![allow(dead_code, reason = "each test takes what it needs")]

use openpath_fuse::{Options, Rings, Server, Session};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, Task, Vfs};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The kernel's switch for rings.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// How many offers there are, and the value of the switch before the first.
static OFFERS: Mutex<(usize, String)> = Mutex::new((0, String::new()));

/// The kernel offers rings until this is dropped.
pub(crate) struct Offer(());

impl Offer {
    /// `None`, with a message, if that is impossible.
    pub(crate) fn make() -> Option<Self> {
        let mut offers = OFFERS.lock().expect("no panic");
        if offers.0 == 0 {
            let Ok(before) = std::fs::read_to_string(SWITCH) else {
                eprintln!("skipped: this kernel has no rings for FUSE");
                return None;
            };
            if let Err(why) = std::fs::write(SWITCH, "Y") {
                eprintln!("skipped: this user may not have rings offered ({why})");
                return None;
            }
            offers.1 = before;
        }
        offers.0 += 1;
        Some(Self(()))
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        let mut offers = OFFERS.lock().expect("no panic");
        offers.0 -= 1;
        if offers.0 == 0 {
            std::fs::write(SWITCH, offers.1.trim()).expect("as it was");
        }
    }
}

/// How long an unused mount may seem to be in use.
const UNMOUNT_TIMEOUT: Duration = Duration::from_secs(120);

/// A mount of a tree in memory, unmounted on drop.
pub(crate) struct TestMount {
    dir: PathBuf,
    session: Option<Session>,
    /// A task of the tree, beside the mount.
    pub(crate) task: Task,
}

/// The number of the next directory.
static NEXT: AtomicU32 = AtomicU32::new(0);

impl TestMount {
    /// A mount of an empty tree; `None`, with a message, if mounting is impossible.
    pub(crate) fn new(options: Options) -> Option<Self> {
        let vfs = Vfs::builder()
            .build(MemFs::new(MemOptions::default()))
            .expect("a Vfs");
        let task = vfs.task(Cred::root()).expect("a task");
        Self::of(task, options)
    }

    /// A mount of the tree at this task's root.
    pub(crate) fn of(task: Task, options: Options) -> Option<Self> {
        let server = Server::new(&task, options).expect("a server");
        Self::serving(task, server)
    }

    /// A mount by this server; by rings if `OPENPATH_RINGS` is in the environment.
    pub(crate) fn serving(task: Task, server: Server) -> Option<Self> {
        let wanted = std::env::var_os("OPENPATH_RINGS").is_some();
        let offer = wanted.then(|| Offer::make().expect("rings"));
        let mount = Self::try_mount(task, server)?;
        if offer.is_some() {
            let rings = mount.session().handle().rings();
            assert!(matches!(rings, Rings::Used | Rings::Locks), "{rings}");
        }
        Some(mount)
    }

    fn try_mount(task: Task, server: Server) -> Option<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("openpath-fuse-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir).expect("a directory");
        match server.mount(&dir) {
            Ok(session) => Some(Self {
                dir,
                session: Some(session),
                task,
            }),
            Err(why) if lacks_fuse(&why) => {
                eprintln!("skipped: this user may not mount FUSE here ({why})");
                let _gone = std::fs::remove_dir(&dir);
                None
            }
            Err(why) => panic!("no mount: {why}"),
        }
    }

    /// A path in the mount.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.dir.join(path)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn session(&self) -> &Session {
        self.session.as_ref().expect("mounted")
    }

    /// How many requests of a kind there were.
    pub(crate) fn asked(&self, kind: &str) -> u64 {
        self.session().stats().of(kind)
    }

    /// Unmounts and waits for the end.
    pub(crate) fn end(mut self) {
        end(self.session.take().expect("mounted"));
    }
}

/// Unmounts and waits for the end. A program that another test starts inherits all descriptors of
/// this process until its exec: for that moment the mount is in use.
pub(crate) fn end(session: Session) {
    let begun = Instant::now();
    while let Err(why) = session.unmount() {
        let in_use = why.kind() == io::ErrorKind::ResourceBusy;
        assert!(
            in_use && begun.elapsed() < UNMOUNT_TIMEOUT,
            "not unmounted: {why}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    session.wait().expect("a clean end");
}

impl Drop for TestMount {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            let _gone = session.unmount_lazily();
        }
        let _gone = std::fs::remove_dir(&self.dir);
    }
}

/// Whether this error means that the machine has no FUSE for this user.
pub(crate) fn lacks_fuse(why: &io::Error) -> bool {
    use io::ErrorKind::{NotFound, PermissionDenied};
    matches!(why.kind(), NotFound | PermissionDenied)
}
