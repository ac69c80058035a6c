// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds a guest: its task, mounts, preopened directories, streams, clocks and limits.

use crate::clocks::{Clocks, SystemClocks};
use crate::guest::{Guest, GuestLimits, Pause};
use crate::streams::{Input, Output};
use crate::table::{Entry, Object, Table};
use crate::types::{Filetype, rights};
use openpath_abi::Errno;
use openpath_abi::fcntl::{O_DIRECTORY, O_RDONLY};
use openpath_vfs::{Cred, Entropy, MountFlags, SuperBlock, SystemEntropy, Task, Vfs};
use std::fmt;
use std::sync::Arc;

/// The entry point: [`OpenpathWasi::builder`].
#[derive(Debug)]
pub struct OpenpathWasi;

impl OpenpathWasi {
    /// A guest with empty streams, and without files, arguments and environment.
    pub fn builder() -> Builder {
        Builder {
            task: None,
            mounts: Vec::new(),
            preopens: Vec::new(),
            args: Vec::new(),
            env: Vec::new(),
            stdin: Input::null(),
            stdout: Output::null(),
            stderr: Output::null(),
            clocks: Arc::new(SystemClocks::default()),
            random: Arc::new(SystemEntropy),
            limits: GuestLimits::default(),
        }
    }
}

/// Collects what a guest gets. See [`OpenpathWasi::builder`].
#[must_use]
pub struct Builder {
    task: Option<Task>,
    mounts: Vec<(Vec<u8>, Arc<SuperBlock>)>,
    preopens: Vec<(Box<[u8]>, Vec<u8>)>,
    args: Vec<Box<[u8]>>,
    env: Vec<Box<[u8]>>,
    stdin: Input,
    stdout: Output,
    stderr: Output,
    clocks: Arc<dyn Clocks>,
    random: Arc<dyn Entropy>,
    limits: GuestLimits,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// The task that makes the guest's calls: in its namespace, with its credentials, for its
    /// tenant, within its limit of descriptors. The task is the guest's alone from now on.
    pub fn task(mut self, task: Task) -> Self {
        self.task = Some(task);
        self
    }

    /// Mounts `tree` at `path`, in the order of these calls. If a task was given, it gets a mount
    /// namespace of its own first; otherwise the first tree is the root, at `/`.
    pub fn mount(mut self, path: impl AsRef<[u8]>, tree: Arc<SuperBlock>) -> Self {
        self.mounts.push((path.as_ref().to_vec(), tree));
        self
    }

    /// Opens the directory `path` for the guest, under the name `guest_name`. The guest cannot
    /// reach anything above it from there.
    pub fn preopen(mut self, guest_name: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Self {
        let name = guest_name.as_ref().into();
        self.preopens.push((name, path.as_ref().to_vec()));
        self
    }

    /// Adds an argument; the first is the program's name. A NUL ends it.
    pub fn arg(mut self, arg: impl AsRef<[u8]>) -> Self {
        self.args.push(terminated(&[arg.as_ref()]));
        self
    }

    /// Adds arguments.
    pub fn args(self, args: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        args.into_iter().fold(self, Self::arg)
    }

    /// Adds an environment variable. A NUL ends it.
    pub fn env(mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        let variable = terminated(&[name.as_ref(), b"=", value.as_ref()]);
        self.env.push(variable);
        self
    }

    /// Sets the standard input; empty by default.
    pub fn stdin(mut self, input: Input) -> Self {
        self.stdin = input;
        self
    }

    /// Sets where the standard output goes; nowhere by default.
    pub fn stdout(mut self, output: Output) -> Self {
        self.stdout = output;
        self
    }

    /// Sets where the standard error goes; nowhere by default.
    pub fn stderr(mut self, output: Output) -> Self {
        self.stderr = output;
        self
    }

    /// Connects all three streams to the host's own.
    pub fn inherit_stdio(self) -> Self {
        self.stdin(Input::inherit())
            .stdout(Output::stdout())
            .stderr(Output::stderr())
    }

    /// Sets the limits of the guest, beyond those of its task.
    pub fn limits(mut self, limits: GuestLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the clocks that the guest reads; the system's by default. Timestamps of files come from
    /// the clock of their [`Vfs`].
    pub fn clock(mut self, clocks: Arc<dyn Clocks>) -> Self {
        self.clocks = clocks;
        self
    }

    /// Sets the source of the guest's random numbers; the system's by default.
    pub fn random(mut self, random: Arc<dyn Entropy>) -> Self {
        self.random = random;
        self
    }

    /// Builds the guest.
    ///
    /// # Errors
    /// `EINVAL` (neither a task nor a tree at `/` first); those of mounting and of opening the
    /// preopened directories.
    pub fn build(self) -> Result<Guest, Errno> {
        let task = prepare(self.task, self.mounts)?;
        let mut table = Table::default();
        let streams = [
            (Object::Stdin, self.stdin.filetype(), rights::FD_READ),
            (Object::Stdout, self.stdout.filetype(), rights::FD_WRITE),
            (Object::Stderr, self.stderr.filetype(), rights::FD_WRITE),
        ];
        for (object, filetype, access) in streams {
            table.push(Entry {
                object,
                filetype,
                fd: -1,
                base: access | rights::POLL_FD_READWRITE | rights::FD_FILESTAT_GET,
                inheriting: 0,
                sync: 0,
                opened: access,
            });
        }
        for (name, path) in self.preopens {
            let fd = task.open(&path, O_RDONLY | O_DIRECTORY, 0)?;
            let entry = Entry {
                object: Object::Directory,
                filetype: Filetype::Directory,
                fd,
                base: rights::DIRECTORY,
                inheriting: rights::ALL,
                sync: 0,
                opened: rights::FD_READ,
            };
            table.preopen(entry, name);
        }
        Ok(Guest {
            task,
            table,
            stdin: self.stdin,
            stdout: self.stdout,
            stderr: self.stderr,
            args: self.args.into(),
            env: self.env.into(),
            clocks: self.clocks,
            random: self.random,
            limits: self.limits,
            pause: Arc::new(Pause::default()),
            ended: Arc::default(),
            memory: None,
        })
    }
}

/// The guest's task, after all mounts.
fn prepare(task: Option<Task>, mounts: Vec<(Vec<u8>, Arc<SuperBlock>)>) -> Result<Task, Errno> {
    let mut mounts = mounts.into_iter();
    let task = match task {
        Some(task) => {
            if mounts.len() != 0 {
                task.unshare_mounts()?;
            }
            task
        }
        None => match mounts.next() {
            Some((path, root)) if path == b"/" => Vfs::builder().build(root)?.task(Cred::root())?,
            _ => return Err(Errno::EINVAL),
        },
    };
    for (path, tree) in mounts {
        task.mount(tree, &path, MountFlags::default())?;
    }
    Ok(task)
}

/// Joins the parts to one string, cut at its first NUL, and ends it with a NUL.
fn terminated(parts: &[&[u8]]) -> Box<[u8]> {
    let mut bytes = parts.concat();
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    bytes.truncate(end);
    bytes.push(0);
    bytes.into()
}
