// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a server tells of itself.

use super::VERSION;
use openpath_fuse::Handle;
use openpath_overlay::OverlayFs;
use openpath_vfs::{SuperBlock, TenantStats, Vfs};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// What is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LiveKind {
    /// The view of a run.
    Run,
    /// A mount.
    Mount,
}

/// What a server is known by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// What it serves.
    pub kind: LiveKind,
    /// Process that was started for it: the front of a run.
    pub pid: u32,
    /// Name of a view that is kept.
    pub name: Option<String>,
    /// Directory of a view that is kept, or that of a mount.
    pub directory: Option<String>,
    /// The command of a run, the source of a mount.
    pub command: String,
    /// When it began, in seconds since 1970.
    pub begun: u64,
}

impl Label {
    /// What began now.
    #[must_use]
    pub fn new(kind: LiveKind, pid: u32, command: String) -> Label {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Label {
            kind,
            pid,
            name: None,
            directory: None,
            command,
            begun: now.unwrap_or_default().as_secs(),
        }
    }

    /// Whether `text` means it: its process, its name, or its directory.
    #[must_use]
    pub fn is(&self, text: &str) -> bool {
        if text.parse() == Ok(self.pid) || self.name.as_deref() == Some(text) {
            return true;
        }
        let path = Path::new(text);
        // What is mounted may be closed to who asks.
        let told = path.canonicalize().or_else(|_| std::path::absolute(path));
        let told = told
            .ok()
            .and_then(|path| path.into_os_string().into_string().ok());
        told.is_some() && told == self.directory
    }
}

/// What was asked of a server since it began, and what it keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// [`VERSION`].
    pub version: u32,
    /// Whose they are.
    #[serde(flatten)]
    pub label: Label,
    /// Requests of the kernel, by kind.
    pub requests: BTreeMap<String, u64>,
    /// How many of them came by rings.
    #[serde(default)]
    pub by_rings: u64,
    /// Which way they come, and why not by rings, in words.
    #[serde(default)]
    pub way: String,
    /// Files, directories and links that the kernel knows.
    pub nodes: u64,
    /// Cached names of all tenants, and what holds them.
    pub cached: Cached,
    /// What was copied up; of what is no overlay, nothing.
    pub copied_up: Copies,
    /// Whom its tasks work for.
    pub tenants: Vec<Tenant>,
}

/// What is cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cached {
    /// Names.
    pub names: u64,
    /// Names that are gone, and wait for their last user.
    pub buried: u64,
}

/// What was copied up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copies {
    /// Files, directories and links.
    pub files: u64,
    /// Bytes of files, holes included.
    pub bytes: u64,
}

/// What a tenant uses and did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// Its number.
    pub tenant: u32,
    /// Tasks that work for it.
    pub tasks: u64,
    /// Cached names that exist.
    pub positive: u64,
    /// Cached names that do not exist.
    pub negative: u64,
    /// Bytes that these names take.
    pub cached_bytes: u64,
    /// Names that existed and went to make room.
    pub evicted_positive: u64,
    /// Names that did not exist and went to make room.
    pub evicted_negative: u64,
    /// Walks that ended at a cached name that exists.
    pub hits: u64,
    /// Walks that ended at a cached name that does not exist.
    pub negative_hits: u64,
    /// Names that a tree was asked for.
    pub misses: u64,
    /// Why walks left the lock-free mode or started over; what never was is left out.
    pub restarts: BTreeMap<String, u64>,
    /// Files charged to it.
    pub files: u64,
    /// Bytes of files charged to it.
    pub bytes: u64,
}

impl Tenant {
    fn new(number: u32, stats: &TenantStats) -> Tenant {
        let activity = &stats.activity;
        let restarts = activity.restarts.iter().filter(|(_, n)| *n > 0);
        Tenant {
            tenant: number,
            tasks: stats.tasks as u64,
            positive: stats.positive.into(),
            negative: stats.negative.into(),
            cached_bytes: stats.cached_bytes,
            evicted_positive: stats.evicted_positive,
            evicted_negative: stats.evicted_negative,
            hits: activity.hits,
            negative_hits: activity.negative_hits,
            misses: activity.misses,
            restarts: restarts.map(|(why, n)| (why.to_string(), n)).collect(),
            files: stats.inodes,
            bytes: stats.bytes,
        }
    }
}

impl Figures {
    /// What they are now.
    pub(super) fn read(label: &Label, handle: &Handle, vfs: &Vfs, tree: &SuperBlock) -> Figures {
        let stats = handle.stats();
        let usage = vfs.usage();
        let tenants = vfs.tenants();
        let copied = OverlayFs::copied(tree).unwrap_or_default();
        let requests = stats.requests.iter();
        Figures {
            version: VERSION,
            label: label.clone(),
            requests: requests.map(|(kind, n)| ((*kind).to_owned(), *n)).collect(),
            by_rings: stats.by_rings,
            way: handle.rings().to_string(),
            nodes: stats.nodes as u64,
            cached: Cached {
                names: usage.dentries as u64,
                buried: usage.pending_free as u64,
            },
            copied_up: Copies {
                files: copied.files,
                bytes: copied.bytes,
            },
            tenants: tenants
                .iter()
                .map(|tenant| Tenant::new(tenant.number(), &tenant.stats()))
                .collect(),
        }
    }
}
