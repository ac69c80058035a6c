// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens as asynchronous programs do today: every open goes to a pool of threads.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ::tokio::fs::File;
use ::tokio::runtime::{Builder, Runtime};
use ::tokio::task::{JoinHandle, spawn_blocking};

use super::mix::Name;
use super::openers::Opener;
use crate::error::Error;

/// How the open is offloaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Offload {
    /// `tokio::fs::File::open`.
    Fs,
    /// `spawn_blocking` around the standard library's open and close.
    SpawnBlocking,
}

/// A runtime that opens several files at once.
pub(super) struct Tokio {
    runtime: Runtime,
    offload: Offload,
    depth: usize,
}

impl Tokio {
    pub(super) fn new(offload: Offload, depth: usize) -> Result<Self, Error> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .build()
            .map_err(|e| Error::host("start a runtime", e))?;
        Ok(Self {
            runtime,
            offload,
            depth,
        })
    }
}

fn path(name: &Name) -> &Path {
    Path::new(OsStr::from_bytes(name.path.to_bytes()))
}

/// Opens and closes; returns whether the result was right.
async fn open(offload: Offload, name: Name) -> bool {
    match offload {
        Offload::Fs => File::open(path(&name)).await.is_ok() == name.hit,
        Offload::SpawnBlocking => {
            let opened =
                spawn_blocking(move || std::fs::File::open(path(&name)).is_ok() == name.hit);
            opened.await.unwrap_or(false)
        }
    }
}

impl Opener for Tokio {
    /// Opens one after the other on the caller's task, or with a task for each, of which a limited
    /// number run at once.
    fn burst(&mut self, names: &[Name]) -> u64 {
        let offload = self.offload;
        self.runtime.block_on(async {
            let mut wrong = 0;
            for names in names.chunks(self.depth) {
                if let [name] = names {
                    wrong += u64::from(!open(offload, name.clone()).await);
                    continue;
                }
                let spawned = names
                    .iter()
                    .map(|name| ::tokio::spawn(open(offload, name.clone())));
                let tasks: Vec<JoinHandle<bool>> = spawned.collect();
                for task in tasks {
                    wrong += u64::from(!task.await.unwrap_or(false));
                }
            }
            wrong
        })
    }
}
