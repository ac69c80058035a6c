// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many mounts under one root, and what the threads do in them.

use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt;

use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_EXCL, O_RDWR};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{MountFlags, Task, Vfs};

use crate::error::Error;
use crate::host::Root;
use crate::paths::Ring;
use crate::team::{Burst, Make};
use crate::{ours, sys};

/// What is done with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// Open with `O_CREAT` of a file that exists, and close.
    Existing,
    /// Create with `O_EXCL`, close, unlink.
    New,
}

/// So many mounts, and for each thread a path in each mount of its share.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    /// The name used in rows.
    pub(super) name: String,
    pub(super) deed: Deed,
    mounts: usize,
    paths: Vec<Vec<CString>>,
}

/// Flags of the opens.
const EXISTING: u32 = O_CREAT | O_RDWR;
const NEW: u32 = O_CREAT | O_EXCL | O_RDWR;

impl Deed {
    /// Does it on our side; whether it worked.
    #[inline(always)]
    pub(super) fn ours(self, task: &Task, path: &[u8]) -> bool {
        match self {
            Deed::Existing => ours::open_close(task, path, EXISTING),
            Deed::New => {
                ours::open_close(task, path, NEW) && task.unlinkat(AT_FDCWD, path, 0).is_ok()
            }
        }
    }

    /// Does it on the host's.
    #[inline(always)]
    fn host(self, path: &CStr) -> bool {
        let closed = |fd: i32| fd >= 0 && sys::close(fd) == 0;
        match self {
            Deed::Existing => closed(sys::open(path, EXISTING, 0o644)),
            Deed::New => closed(sys::open(path, NEW, 0o644)) && sys::unlink(path),
        }
    }
}

/// The directory that mount `number` is on.
fn point(number: usize) -> String {
    format!("/m{number}")
}

fn c_string(text: String) -> CString {
    CString::new(text).unwrap_or_default()
}

impl Scene {
    /// `deed` in `mounts` mounts divided among `threads`, by paths from the root or relative to it.
    pub(super) fn new(deed: Deed, mounts: usize, threads: usize, absolute: bool) -> Self {
        let (form, file) = match deed {
            Deed::Existing => ("create-existing", "file"),
            Deed::New => ("create-new", "new"),
        };
        let from = if absolute { "absolute" } else { "relative" };
        let path = |number: usize| {
            let path = format!("{}/{file}", point(number));
            c_string(path[usize::from(!absolute)..].to_owned())
        };
        let share = |thread: usize| (thread..mounts).step_by(threads).map(path).collect();
        Self {
            name: format!("{form} {mounts} {from}"),
            deed,
            mounts,
            paths: (0..threads).map(share).collect(),
        }
    }

    /// The paths of all threads.
    pub(super) fn all_paths(&self) -> Vec<CString> {
        self.paths.iter().flatten().cloned().collect()
    }

    /// Mounts and files on our side; the task that made them.
    ///
    /// # Errors
    /// `Setup` with the errno.
    pub(super) fn grow_ours(&self, vfs: &Vfs) -> Result<Task, Error> {
        let task = ours::task(vfs)?;
        for number in 0..self.mounts {
            let point = point(number);
            ours::mkdir(&task, point.as_bytes())?;
            let tree = MemFs::new(MemOptions::default());
            task.mount(tree, point.as_bytes(), MountFlags::default())
                .map_err(|e| Error::setup("mount", e))?;
            ours::touch(&task, format!("{point}/file").as_bytes())?;
        }
        Ok(task)
    }

    /// The same on the host, which is left in that root.
    ///
    /// # Errors
    /// `Setup` with the errno.
    pub(super) fn grow_host(&self, root: &Root) -> Result<(), Error> {
        root.enter()?;
        let host = |e| Error::host("mount in the host's root", e);
        for number in 0..self.mounts {
            let point = c_string(point(number));
            fs::create_dir(OsStr::from_bytes(point.to_bytes())).map_err(host)?;
            sys::mount_tmpfs(&point).map_err(host)?;
            let file = [point.to_bytes(), b"/file"].concat();
            fs::write(OsStr::from_bytes(&file), "").map_err(host)?;
        }
        Ok(())
    }

    /// The threads of an instance of ours.
    ///
    /// # Errors
    /// `Setup` with the errno.
    pub(super) fn ours<'a>(&'a self, vfs: &Vfs) -> Result<Vec<Make<'a>>, Error> {
        let deed = self.deed;
        let make = |paths: &'a Vec<CString>| {
            let task = ours::task(vfs)?;
            let make: Make<'a> = Box::new(move || {
                let mut ring = Ring::new(paths, 0);
                let once = move |path: &CStr| deed.ours(&task, path.to_bytes());
                let burst: Burst<'a> = Box::new(move |ops| wrong(ops, &mut ring, &once));
                Ok(burst)
            });
            Ok(make)
        };
        self.paths.iter().map(make).collect()
    }

    /// The host's threads: each with a root directory and a descriptor table of its own.
    pub(super) fn host<'a>(&'a self, root: &'a Root) -> Vec<Make<'a>> {
        let deed = self.deed;
        let make = |paths: &'a Vec<CString>| -> Make<'a> {
            Box::new(move || {
                sys::unshare_thread(true)
                    .map_err(|e| Error::host("a root and a table of its own for a thread", e))?;
                root.enter()?;
                let mut ring = Ring::new(paths, 0);
                let once = move |path: &CStr| deed.host(path);
                let burst: Burst<'a> = Box::new(move |ops| wrong(ops, &mut ring, once));
                Ok(burst)
            })
        };
        self.paths.iter().map(make).collect()
    }
}

#[inline(always)]
fn wrong(ops: u64, ring: &mut Ring<'_>, right: impl Fn(&CStr) -> bool) -> u64 {
    (0..ops).map(|_| u64::from(!right(ring.next()))).sum()
}
