// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the statistics of the server of a run or a mount, and the label that identifies it, and
//! collects the current figures inside the server, from its FUSE handle and its `Vfs`.

use super::VERSION;
use openpath_fuse::Handle;
use openpath_overlay::OverlayFs;
use openpath_vfs::{SuperBlock, TenantStats, Vfs};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a server serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ServedKind {
    /// The view of a run.
    Run,
    /// A mount.
    Mount,
}

/// What identifies a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// What it serves.
    pub kind: ServedKind,
    /// The process that was started for it: the front of a run.
    pub pid: u32,
    /// The name of a kept view.
    pub name: Option<String>,
    /// The directory of a kept view, or of a mount.
    pub directory: Option<String>,
    /// The command of a run, the source of a mount.
    pub command: String,
    /// When it began, in seconds since 1970.
    pub begun: u64,
}

impl Label {
    /// A label with the current time as its start.
    #[must_use]
    pub fn new(kind: ServedKind, pid: u32, command: String) -> Label {
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

    /// Whether `text` names it, by its process, its name or its directory.
    #[must_use]
    pub fn is(&self, text: &str) -> bool {
        if text.parse() == Ok(self.pid) || self.name.as_deref() == Some(text) {
            return true;
        }
        let path = Path::new(text);
        // The user may not have access to a mounted directory.
        let told = path.canonicalize().or_else(|_| std::path::absolute(path));
        let told = told
            .ok()
            .and_then(|path| path.into_os_string().into_string().ok());
        told.is_some() && told == self.directory
    }
}

/// The requests to a server since it began, and what it keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerStats {
    /// [`VERSION`].
    pub version: u32,
    /// The server.
    #[serde(flatten)]
    pub label: Label,
    /// Requests of the kernel, by kind.
    pub requests: BTreeMap<String, u64>,
    /// How many of them came by rings.
    #[serde(default)]
    pub by_rings: u64,
    /// How they come, and why not by rings, in words.
    #[serde(default)]
    pub way: String,
    /// Files, directories and links that the kernel knows.
    pub nodes: u64,
    /// Cached names of all tenants.
    pub cached: Cached,
    /// Copy-ups; none if the tree is no overlay.
    pub copied_up: CopiedUp,
    /// The tenants of its tasks.
    pub tenants: Vec<Tenant>,
}

/// Cached names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cached {
    /// Names.
    pub names: u64,
    /// Entries of removed names, which wait to be freed.
    pub pending_free: u64,
}

/// Copy-ups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CopiedUp {
    /// Files, directories and links.
    pub files: u64,
    /// Bytes of files, holes included.
    pub bytes: u64,
}

/// Use and activity of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tenant {
    /// Its number.
    pub tenant: u32,
    /// Its tasks.
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
    /// Lookups in a tree.
    pub misses: u64,
    /// Walks that left the lock-free mode or started over, by reason; reasons without one are left
    /// out.
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

impl ServerStats {
    /// Those of a view that the kernel serves: no request comes to its server.
    pub(super) fn of_kernel(label: &Label) -> ServerStats {
        ServerStats {
            version: VERSION,
            label: label.clone(),
            requests: BTreeMap::new(),
            by_rings: 0,
            way: "none, because the kernel serves this view".to_owned(),
            nodes: 0,
            cached: Cached::default(),
            copied_up: CopiedUp::default(),
            tenants: Vec::new(),
        }
    }

    /// Reads the current statistics.
    pub(super) fn read(
        label: &Label,
        handle: &Handle,
        vfs: &Vfs,
        tree: &SuperBlock,
    ) -> ServerStats {
        let stats = handle.stats();
        let usage = vfs.usage();
        let tenants = vfs.tenants();
        let copied = OverlayFs::copied(tree).unwrap_or_default();
        let requests = stats.requests.iter();
        ServerStats {
            version: VERSION,
            label: label.clone(),
            requests: requests.map(|(kind, n)| ((*kind).to_owned(), *n)).collect(),
            by_rings: stats.by_rings,
            way: handle.rings().to_string(),
            nodes: stats.nodes as u64,
            cached: Cached {
                names: usage.dentries as u64,
                pending_free: usage.pending_free as u64,
            },
            copied_up: CopiedUp {
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
