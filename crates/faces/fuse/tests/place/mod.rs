// SPDX-License-Identifier: MIT OR Apache-2.0
//! A place to mount at, and what is mounted there: a tree in memory.

#![allow(dead_code, reason = "each test takes what it needs")]

use openpath_fuse::{Options, Server, Session};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, Task, Vfs};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a mount that nobody uses any more may seem in use.
const MOMENT: Duration = Duration::from_secs(20);

/// A mount of a tree in memory, which goes with it.
pub(crate) struct Place {
    dir: PathBuf,
    session: Option<Session>,
    /// A task of the tree, beside the mount.
    pub(crate) task: Task,
}

/// The number of the next directory.
static NEXT: AtomicU32 = AtomicU32::new(0);

impl Place {
    /// A mount of an empty tree; `None`, and a word, where none can be made.
    pub(crate) fn new(options: Options) -> Option<Self> {
        let vfs = Vfs::builder()
            .build(MemFs::new(MemOptions::default()))
            .expect("a Vfs");
        let task = vfs.task(Cred::root()).expect("a task");
        Self::of(task, options)
    }

    /// A mount of what this task's root shows.
    pub(crate) fn of(task: Task, options: Options) -> Option<Self> {
        let server = Server::new(&task, options).expect("a server");
        Self::serving(task, server)
    }

    /// A mount that this server of it makes.
    pub(crate) fn serving(task: Task, server: Server) -> Option<Self> {
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
            Err(why) if cannot(&why) => {
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

/// Unmounts and waits for the end. A program that another test starts holds all that is open here
/// until it closes that as it is executed: for that moment the mount is in use.
pub(crate) fn end(session: Session) {
    let begun = Instant::now();
    while let Err(why) = session.unmount() {
        let in_use = why.kind() == io::ErrorKind::ResourceBusy;
        assert!(in_use && begun.elapsed() < MOMENT, "not unmounted: {why}");
        std::thread::sleep(Duration::from_millis(10));
    }
    session.wait().expect("a clean end");
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            let _gone = session.unmount_lazily();
        }
        let _gone = std::fs::remove_dir(&self.dir);
    }
}

/// Whether that is the machine's way of saying that it has no FUSE for this user.
pub(crate) fn cannot(why: &io::Error) -> bool {
    use io::ErrorKind::{NotFound, PermissionDenied};
    matches!(why.kind(), NotFound | PermissionDenied)
}
