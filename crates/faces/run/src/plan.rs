// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run is to be, and the messages by which the processes bring it about.

use crate::limit::Limits;
use crate::share::{Net, Share};
use crate::space::Space;
use openpath_commit::{ChangeList, Kept, KeptRules, PathBytes, Refusal};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// What the kernel makes up, which passes unless it is said otherwise.
const KERNEL_TREES: [&str; 3] = ["/proc", "/sys", "/dev"];

/// What a run is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Under which name the changes are kept.
    pub name: Option<String>,
    /// The rules of the view, which are kept with it.
    pub rules: Option<KeptRules>,
    /// What changes are kept in.
    pub upper: Upper,
    /// Directories of the host that the command sees as they are, with all that is mounted in them.
    pub pass: Vec<PathBytes>,
    /// Directories whose changes go to the disk.
    pub write_through: Vec<PathBytes>,
    /// Paths of the view that cannot be changed.
    pub read_only: Vec<PathBytes>,
    /// Those of them that need not exist: then nothing can be made there.
    pub read_only_if_any: Vec<PathBytes>,
    /// Paths that are not there, and cannot be made.
    pub hidden: Vec<PathBytes>,
    /// Directories below what passes that are empty for the command, and cannot be written to.
    #[serde(default)]
    pub masked: Vec<PathBytes>,
    /// Patterns of names, and of paths from the root on, that are not there and cannot be made.
    pub absent: Vec<String>,
    /// Other trees.
    pub extra: Vec<Extra>,
    /// Mount flags of the host that hold in the view; the front fills it in.
    pub held: Vec<HeldPlace>,
    /// What is written comes to the view when the kernel writes it back, and not at once.
    pub write_back: bool,
    /// Locks of files are answered by the server, which can be asked for them.
    pub locks: bool,
    /// The kernel's requests are read, also where it has rings for them.
    pub no_rings: bool,
    /// What the command shares with the host.
    pub share: Vec<Share>,
    /// The network of the command.
    pub net: Net,
    /// Open descriptors that go to the command whatever they are.
    pub keep_fds: Vec<i32>,
    /// What all processes of the view may use together.
    pub limits: Limits,
}

impl Default for Plan {
    /// The host's tree, changes in memory; what the kernel makes up passes.
    fn default() -> Self {
        Self {
            name: None,
            rules: None,
            upper: Upper::Memory { size: None },
            pass: KERNEL_TREES.map(|path| Path::new(path).into()).to_vec(),
            write_through: Vec::new(),
            read_only: Vec::new(),
            read_only_if_any: Vec::new(),
            hidden: Vec::new(),
            masked: Vec::new(),
            absent: Vec::new(),
            extra: Vec::new(),
            held: Vec::new(),
            write_back: false,
            locks: false,
            no_rings: false,
            share: Vec::new(),
            net: Net::Host,
            keep_fds: Vec::new(),
            limits: Limits::default(),
        }
    }
}

impl Plan {
    /// Whether the command uses this resource of the host.
    pub(crate) fn shares(&self, what: Share) -> bool {
        self.share.contains(&what)
    }

    /// Where the view begins and ceases to be read only, outer paths first. The innermost rule
    /// wins: what is written through, and a mount, may lie in what is read only.
    pub(crate) fn covers(&self) -> Vec<(PathBytes, Cover)> {
        let fixed = self.extra.iter().filter(|extra| extra.read_only);
        let fixed = fixed.map(|extra| &extra.place).chain(&self.read_only);
        let mut all: BTreeMap<_, _> = fixed.map(|path| (path.clone(), Cover::ReadOnly)).collect();
        let within = |path: &&PathBytes| {
            let mut above = path.path().ancestors().skip(1);
            above.any(|above| all.contains_key(&PathBytes::from(above)))
        };
        let open = self.extra.iter().filter(|extra| !extra.read_only);
        let open = open.map(|extra| &extra.place).chain(&self.write_through);
        let open: Vec<_> = open.filter(within).cloned().collect();
        for path in open {
            all.entry(path).or_insert(Cover::Writable);
        }
        all.into_iter().collect()
    }

    /// Whether the kernel may keep writes back: not where they go to files that others change.
    pub(crate) fn keeps_back(&self) -> bool {
        let shared = |extra: &Extra| !extra.read_only && matches!(extra.source, Source::Host(_));
        self.write_back && self.write_through.is_empty() && !self.extra.iter().any(shared)
    }

    /// Whether the kernel stamps files that the command can change: files of the host, and those
    /// whose writes it keeps back. The kernel's own trees and `/dev/shm` do not count.
    pub(crate) fn is_stamped_by_kernel(&self) -> bool {
        let of_host = |upper: &Upper| matches!(upper, Upper::Directory(_));
        let fixed = |path: &PathBytes| {
            KERNEL_TREES
                .iter()
                .any(|tree| path.path() == Path::new(tree))
        };
        let extra = |extra: &Extra| match &extra.source {
            Source::Memory { .. } => false,
            Source::Host(_) => !extra.read_only,
            Source::Overlay { upper, .. } => upper.as_ref().is_some_and(of_host),
        };
        of_host(&self.upper)
            || !self.write_through.is_empty()
            || !self.pass.iter().all(fixed)
            || self.extra.iter().any(extra)
            || self.keeps_back()
    }

    /// Keeps the changes in this view, which cannot be seen in itself.
    pub fn keep(&mut self, kept: &Kept) {
        let dir = &*kept.at().place();
        self.name = Some(kept.name.clone());
        self.upper = Upper::Directory(dir.into());
        self.hidden.push(dir.into());
    }
}

/// A place of the view, and the flags of the mount of the host that is shown there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldPlace {
    pub(crate) place: PathBytes,
    /// Bits of [`openpath_host::HELD`].
    pub(crate) flags: u64,
}

/// Whether a part of the view can be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cover {
    /// It cannot.
    ReadOnly,
    /// It can, and lies in a part that cannot.
    Writable,
}

/// What the changes of a run are kept in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Upper {
    /// Memory, gone with the run.
    Memory {
        /// Bytes at most; half of the machine's memory unless told.
        size: Option<u64>,
    },
    /// A directory of the host, with `upper` and `work` in it.
    Directory(PathBytes),
}

/// A tree that is mounted in the view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extra {
    /// On which directory.
    pub place: PathBytes,
    /// Which tree.
    pub source: Source,
    /// It cannot be changed.
    pub read_only: bool,
}

/// Where a tree comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// An empty one in memory.
    Memory {
        /// Bytes at most; half of the machine's memory unless told.
        size: Option<u64>,
    },
    /// A directory of the host.
    Host(PathBytes),
    /// Directories of the host, topmost first, and what takes the changes; without that nothing
    /// can be changed.
    Overlay {
        /// What is read.
        lowers: Vec<PathBytes>,
        /// What changes are kept in.
        upper: Option<Upper>,
    },
}

/// The front to the server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToServer {
    /// Build the view of this plan. The file of a log comes with this, if there is to be one.
    Build {
        plan: Box<Plan>,
        /// What it is for.
        command: String,
        /// The log is written as JSON.
        json: bool,
        /// How far long work is may be shown.
        progress: bool,
    },
    /// A namespace of the view, whose descriptor comes with this.
    Namespace(Space),
    /// The control group of the view's commands, whose descriptor comes with this.
    Group,
    /// Answer for the view on the descriptor that comes with this.
    Serve(Mounted),
    /// Mount flags are not enforced at these places of the view.
    Unheld(Vec<PathBytes>),
    /// The command is gone: say what changed, and end.
    Finish,
}

/// The server to the front.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromServer {
    /// The view is there.
    Built,
    /// The namespace, or the group, is kept.
    Kept,
    /// The view is answered for.
    Serving,
    /// Some of what changed; more may follow.
    Changes(ChangeList),
    /// That was all, and the view is let go.
    Finished(Rest),
    /// It cannot be done.
    Refused(Refusal),
}

/// How the view was mounted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Mounted {
    /// There is a user namespace, which knows this user alone.
    pub(crate) mapped: bool,
    /// Its device, as `/proc/PID/mountinfo` writes it.
    pub(crate) device: String,
}

/// What there is to say of a run beside its changes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Rest {
    /// Processes that had entered the view, and were ended.
    pub(crate) ended: usize,
    /// Writes that were kept back, and had no room when they came.
    pub(crate) lost: u64,
    /// Lines of the log that did not come to be written.
    pub(crate) unlogged: u64,
}

/// The front to the helper.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToHelper {
    /// Mount the view of this plan.
    Mount(Box<Plan>),
    /// The view is answered for: make it the root.
    Enter,
}

/// The helper to the front.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromHelper {
    /// A namespace of the view, whose descriptor comes with this.
    Namespace(Space),
    /// The view is mounted. The descriptor of FUSE comes with this.
    Mounted(Mounted),
    /// Mount flags could not be enforced at these places; waits for the next [`ToHelper::Enter`].
    Unheld(Vec<PathBytes>),
    /// The first process of the view's pid namespace, with the socket by which it is spoken to.
    Init(i32),
    /// The process that becomes the command, with the socket by which it is spoken to.
    Stage(i32),
    /// The view is the root. The helper ends, and its children are the front's.
    Entered {
        /// Why the host's `/proc` is seen.
        no_proc: Option<String>,
    },
    /// It cannot be done.
    Refused(Refusal),
}

/// To the first process of a pid namespace.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToInit {
    /// Mount `/proc`; the namespace may have so many processes and threads beside its first.
    Begin { pids: Option<u32> },
    /// The command starts now, and all members are ended after so many milliseconds.
    Clock(u64),
    /// The command is gone: end what it left, and exit.
    End,
}

/// From the first process of a pid namespace.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromInit {
    /// A mount of `/proc` comes with this, or there is none for this reason.
    Proc(Option<String>),
    /// So many processes were left.
    Ended(usize),
    /// The time of [`ToInit::Clock`] is over: all members are being ended.
    Expired,
    /// It cannot do its work.
    Failed(Refusal),
}

/// To the process that becomes the command.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToStage {
    /// Enter the namespace whose descriptor comes with this.
    Space(Space),
    /// Become the command. Its standard input comes with this.
    Go(Go),
}

/// How the command is to be started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Go {
    /// Working directory, in the view.
    pub(crate) cwd: PathBytes,
    /// What it shares with the host.
    pub(crate) share: Vec<Share>,
    /// It is the view's first command, and not one of `openpath exec`.
    pub(crate) is_first: bool,
    /// Descriptors that stay open whatever they are.
    pub(crate) keep_fds: Vec<i32>,
}

/// From the process that becomes the command; the end of the socket says that it has.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromStage {
    /// It cannot be done.
    Refused(Refusal),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_rule_wins() {
        let at = |path: &str| PathBytes::from(Path::new(path));
        let extra = |place: &str, read_only| Extra {
            place: at(place),
            source: Source::Memory { size: None },
            read_only,
        };
        let plan = Plan {
            write_through: ["/w", "/w/ro/rw", "/w/ro/rw/x/rw"].map(at).to_vec(),
            read_only: ["/w/ro", "/w/ro/rw/x"].map(at).to_vec(),
            extra: vec![
                extra("/w/ro/mem", false),
                extra("/m", true),
                extra("/n", false),
            ],
            ..Plan::default()
        };
        let covers = plan.covers();
        let covers: Vec<_> = covers
            .iter()
            .map(|(path, cover)| (path.path(), *cover))
            .collect();
        let want = [
            ("/m", Cover::ReadOnly),
            ("/w/ro", Cover::ReadOnly),
            ("/w/ro/mem", Cover::Writable),
            ("/w/ro/rw", Cover::Writable),
            ("/w/ro/rw/x", Cover::ReadOnly),
            ("/w/ro/rw/x/rw", Cover::Writable),
        ];
        assert_eq!(covers, want.map(|(path, cover)| (Path::new(path), cover)));
    }

    #[test]
    fn writes_are_kept_back_on_request_and_not_where_others_write_too() {
        assert!(!Plan::default().keeps_back());
        let asked = Plan {
            write_back: true,
            ..Plan::default()
        };
        assert!(asked.keeps_back());
        let through = Plan {
            write_through: vec![Path::new("/w").into()],
            ..asked.clone()
        };
        assert!(!through.keeps_back());
        for read_only in [true, false] {
            let extra = Extra {
                place: Path::new("/m").into(),
                source: Source::Host(Path::new("/h").into()),
                read_only,
            };
            let shared = Plan {
                extra: vec![extra],
                ..asked.clone()
            };
            assert_eq!(shared.keeps_back(), read_only);
        }
    }
}
