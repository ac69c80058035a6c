// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a guest is put together.

use crate::clocks::{Clocks, SystemClocks};
use crate::guest::{Guest, GuestLimits, Pause};
use crate::streams::{Input, Output};
use crate::table::{Entry, Table, What};
use crate::types::{Filetype, rights};
use openpath_abi::Errno;
use openpath_abi::fcntl::{O_DIRECTORY, O_RDONLY};
use openpath_vfs::{Cred, Entropy, MountFlags, SuperBlock, SystemEntropy, Task, Vfs};
use std::sync::Arc;

/// Where it begins: [`OpenpathWasi::builder`].
#[derive(Debug)]
pub struct OpenpathWasi;

impl OpenpathWasi {
    /// A guest without files, arguments and environment, whose streams are empty.
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

/// What a guest is to have. See [`OpenpathWasi::builder`].
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

impl Builder {
    /// Its calls are made by this task: in its namespace, with its credentials, for its tenant,
    /// within its limit of descriptors. The task is the guest's alone from now on.
    pub fn task(mut self, task: Task) -> Self {
        self.task = Some(task);
        self
    }

    /// Mounts `tree` at `path`, in the order of these calls. With a task that is done in a mount
    /// namespace of its own; without one, the first tree is the root, at `/`.
    pub fn mount(mut self, path: impl AsRef<[u8]>, tree: Arc<SuperBlock>) -> Self {
        self.mounts.push((path.as_ref().to_vec(), tree));
        self
    }

    /// The guest finds the directory `path` open, by the name `guest_name`. Nothing above it can
    /// be reached from there.
    pub fn preopen(mut self, guest_name: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Self {
        let name = guest_name.as_ref().into();
        self.preopens.push((name, path.as_ref().to_vec()));
        self
    }

    /// One more argument; the first is the program's name. What follows a NUL is cut off.
    pub fn arg(mut self, arg: impl AsRef<[u8]>) -> Self {
        self.args.push(terminated(&[arg.as_ref()]));
        self
    }

    /// More arguments.
    pub fn args(self, args: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        args.into_iter().fold(self, Self::arg)
    }

    /// One more variable of its environment. What follows a NUL is cut off.
    pub fn env(mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        let variable = terminated(&[name.as_ref(), b"=", value.as_ref()]);
        self.env.push(variable);
        self
    }

    /// Its standard input; nothing unless it is said.
    pub fn stdin(mut self, input: Input) -> Self {
        self.stdin = input;
        self
    }

    /// Where its standard output goes; nowhere unless it is said.
    pub fn stdout(mut self, output: Output) -> Self {
        self.stdout = output;
        self
    }

    /// Where its standard error goes; nowhere unless it is said.
    pub fn stderr(mut self, output: Output) -> Self {
        self.stderr = output;
        self
    }

    /// Its streams are the host's own.
    pub fn inherit_stdio(self) -> Self {
        self.stdin(Input::inherit())
            .stdout(Output::stdout())
            .stderr(Output::stderr())
    }

    /// What bounds it, beyond its task.
    pub fn limits(mut self, limits: GuestLimits) -> Self {
        self.limits = limits;
        self
    }

    /// What it takes for time; the system's clocks unless it is said. Files are stamped by the
    /// clock of their [`Vfs`].
    pub fn clock(mut self, clocks: Arc<dyn Clocks>) -> Self {
        self.clocks = clocks;
        self
    }

    /// Where its random numbers come from; from the system unless it is said.
    pub fn random(mut self, random: Arc<dyn Entropy>) -> Self {
        self.random = random;
        self
    }

    /// The guest.
    ///
    /// # Errors
    /// `EINVAL` (neither a task nor a tree at `/` first); those of mounting and of opening the
    /// preopened directories.
    pub fn build(self) -> Result<Guest, Errno> {
        let task = prepare(self.task, self.mounts)?;
        let mut table = Table::default();
        let streams = [
            (What::Stdin, self.stdin.filetype(), rights::FD_READ),
            (What::Stdout, self.stdout.filetype(), rights::FD_WRITE),
            (What::Stderr, self.stderr.filetype(), rights::FD_WRITE),
        ];
        for (what, filetype, access) in streams {
            table.push(Entry {
                what,
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
                what: What::Directory,
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
            over: Arc::default(),
            memory: None,
        })
    }
}

/// The guest's task, with all that is to be mounted.
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

/// The parts as one string that ends with a NUL, and has none before.
fn terminated(parts: &[&[u8]]) -> Box<[u8]> {
    let mut bytes = parts.concat();
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    bytes.truncate(end);
    bytes.push(0);
    bytes.into()
}
