// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the plan of a command under `openpath run` (engine, rules, limits, layers of its view),
//! and the messages by which the processes of a run carry it out.

use crate::engine::Engine;
use crate::limit::Limits;
use crate::namespace_kind::NamespaceKind;
use crate::share::{Net, Share};
use openpath_commit::{ChangeList, KeptRules, KeptView, PathBytes, Refusal};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// File systems that the kernel generates, which pass by default.
const KERNEL_TREES: [&str; 3] = ["/proc", "/sys", "/dev"];

/// The plan of a run.
///
/// # Examples
/// A run whose command cannot read `/etc/shadow` and writes to `/srv`:
/// ```
/// use openpath_run::Plan;
/// use std::path::Path;
///
/// let plan = Plan::default()
///     .hidden(vec![Path::new("/etc/shadow").into()])
///     .write_through(vec![Path::new("/srv").into()]);
/// assert_eq!(plan.write_through[0].path(), Path::new("/srv"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Plan {
    /// What serves the view.
    #[serde(default)]
    pub engine: Engine,
    /// If this engine cannot serve the run, another one does.
    pub(crate) falls_back: bool,
    /// There are names that the command must not know.
    #[serde(default)]
    pub(crate) has_secrets: bool,
    /// The name of the view that keeps the changes.
    pub name: Option<String>,
    /// The directory of that view, which the command cannot reach.
    #[serde(default)]
    pub(crate) view_dir: Option<PathBytes>,
    /// The rules of the view, which are kept with it.
    pub rules: Option<KeptRules>,
    /// Where changes are kept.
    pub upper: Upper,
    /// Directories of the host that the command sees as they are, with all mounts in them.
    pub pass: Vec<PathBytes>,
    /// Those of the hidden paths that openpath keeps to itself; the front fills them in.
    #[serde(default)]
    pub(crate) own: Vec<PathBytes>,
    /// The kernel is to serve a part of the view, and this program the rest.
    #[serde(default)]
    pub(crate) wants_part: bool,
    /// That part; the front fills it in.
    #[serde(default)]
    pub(crate) part: Option<Part>,
    /// Directories in which changes go to the disk.
    pub write_through: Vec<PathBytes>,
    /// Paths of the view that cannot be changed.
    pub read_only: Vec<PathBytes>,
    /// Those of them that need not exist: then nothing can be made there.
    pub read_only_if_any: Vec<PathBytes>,
    /// Hidden paths, which the command cannot make either.
    pub hidden: Vec<PathBytes>,
    /// Directories that are empty and read only for the command.
    #[serde(default)]
    pub masked: Vec<PathBytes>,
    /// Patterns of absent names, and of absent paths from the root on.
    pub absent: Vec<String>,
    /// Further trees that are mounted.
    pub extra: Vec<ExtraMount>,
    /// Mount flags of the host to enforce in the view; the front fills them in.
    pub enforced: Vec<EnforcedPlace>,
    /// What a view that the kernel serves is made of; the front fills it in.
    #[serde(default)]
    pub layers: Vec<Layer>,
    /// Directories that such a view records before its command starts, so that a commit knows them
    /// whatever others change in them; the front fills them in.
    #[serde(default)]
    pub recorded: Vec<PathBytes>,
    /// Writes reach the view when the kernel writes them back, and not at once.
    pub write_back: bool,
    /// Changes that others make in the real tree are seen at once.
    #[serde(default)]
    pub live: bool,
    /// The server handles file locks, and can list them.
    pub locks: bool,
    /// The kernel's requests are read even if it offers rings for them.
    pub no_rings: bool,
    /// What the command shares with the host.
    pub share: Vec<Share>,
    /// The network of the command.
    pub net: Net,
    /// Descriptors that stay open to the command, whatever they are.
    pub keep_fds: Vec<i32>,
    /// Limits on all processes of the view together.
    pub limits: Limits,
}

impl Default for Plan {
    /// The host's tree, with changes in memory; the kernel's own file systems pass.
    fn default() -> Self {
        Self {
            engine: Engine::default(),
            falls_back: false,
            has_secrets: false,
            name: None,
            view_dir: None,
            rules: None,
            upper: Upper::Memory { size: None },
            pass: KERNEL_TREES.map(|path| Path::new(path).into()).to_vec(),
            own: Vec::new(),
            wants_part: false,
            part: None,
            write_through: Vec::new(),
            read_only: Vec::new(),
            read_only_if_any: Vec::new(),
            hidden: Vec::new(),
            masked: Vec::new(),
            absent: Vec::new(),
            extra: Vec::new(),
            enforced: Vec::new(),
            layers: Vec::new(),
            recorded: Vec::new(),
            write_back: false,
            live: false,
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
    /// Whether the command shares this resource with the host.
    pub(crate) fn shares(&self, what: Share) -> bool {
        self.share.contains(&what)
    }

    /// The paths where the view becomes read only or writable, outer paths first. The innermost
    /// rule wins: a written-through path or a mount may lie in a read-only path.
    pub(crate) fn protections(&self) -> Vec<(PathBytes, Protection)> {
        let fixed = self.extra.iter().filter(|extra| extra.read_only);
        let fixed = fixed.map(|extra| &extra.place).chain(&self.read_only);
        let mut all: BTreeMap<_, _> = fixed
            .map(|path| (path.clone(), Protection::ReadOnly))
            .collect();
        let within = |path: &&PathBytes| {
            let mut above = path.path().ancestors().skip(1);
            above.any(|above| all.contains_key(&PathBytes::from(above)))
        };
        let open = self.extra.iter().filter(|extra| !extra.read_only);
        let open = open.map(|extra| &extra.place).chain(&self.write_through);
        let open: Vec<_> = open.filter(within).cloned().collect();
        for path in open {
            all.entry(path).or_insert(Protection::Writable);
        }
        all.into_iter().collect()
    }

    /// The paths at which the command sees mounts of the host: what passes, and beside the kernel's
    /// overlays also what is written through.
    pub(crate) fn host_places(&self) -> impl Iterator<Item = &PathBytes> {
        let through = self.write_through.iter();
        let through = through.filter(|_| self.engine == Engine::Kernel);
        self.pass.iter().chain(through)
    }

    /// The innermost rule about changes for a path, with the path that it names.
    pub(crate) fn protection_at(&self, path: &Path) -> Option<(PathBytes, Protection)> {
        let rules = self.protections().into_iter();
        let above = rules.filter(|(rule, _)| path.starts_with(rule.path()));
        above.max_by_key(|(rule, _)| rule.bytes().len())
    }

    /// Whether the kernel may delay writes: not where they go to files that others change.
    pub(crate) fn uses_write_back(&self) -> bool {
        let shared =
            |extra: &ExtraMount| !extra.read_only && matches!(extra.source, TreeSource::Host(_));
        self.write_back && self.write_through.is_empty() && !self.extra.iter().any(shared)
    }

    /// Whether the kernel sets times of files that the command can change: files of the host, and
    /// files that it writes back. The kernel's own file systems and `/dev/shm` do not count.
    pub(crate) fn is_stamped_by_kernel(&self) -> bool {
        let of_host = |upper: &Upper| matches!(upper, Upper::Directory(_));
        let fixed = |path: &PathBytes| {
            KERNEL_TREES
                .iter()
                .any(|tree| path.path() == Path::new(tree))
        };
        let extra = |extra: &ExtraMount| match &extra.source {
            TreeSource::Memory { .. } => false,
            TreeSource::Host(_) => !extra.read_only,
            TreeSource::Overlay { upper, .. } => upper.as_ref().is_some_and(of_host),
        };
        of_host(&self.upper)
            || self.part.is_some()
            || !self.write_through.is_empty()
            || !self.pass.iter().all(fixed)
            || self.extra.iter().any(extra)
            || self.uses_write_back()
    }

    /// Keeps the changes in this view, and hides the directory of the view.
    pub fn keep_changes_in(&mut self, kept: &KeptView) {
        let dir = &*kept.view_dir().kernel_path();
        self.name = Some(kept.name.clone());
        self.upper = Upper::Directory(dir.into());
        self.view_dir = Some(dir.into());
    }

    /// The same without the part that the kernel served.
    pub(crate) fn without_part(&self) -> Plan {
        Plan {
            part: None,
            ..self.clone()
        }
    }

    /// The plan with this engine, which is not [`Engine::Auto`], and with the directory of the view
    /// out of reach by the means of that engine.
    pub(crate) fn served_by(&self, engine: Engine) -> Plan {
        // The kernel alone can serve root's views, unless a rule needs this program.
        let wants_part = engine == Engine::Kernel
            && (!rustix::process::geteuid().is_root() || self.has_rules_beside_part());
        let mut plan = Plan {
            engine: if wants_part { Engine::Fuse } else { engine },
            falls_back: self.engine == Engine::Auto,
            has_secrets: !self.hidden.is_empty() || !self.absent.is_empty(),
            wants_part,
            ..self.clone()
        };
        let dir = plan.view_dir.take();
        match plan.engine {
            Engine::Kernel => plan.masked.extend(dir),
            Engine::Fuse | Engine::Auto => {
                plan.own.extend(dir.clone());
                plan.hidden.extend(dir);
            }
        }
        plan
    }
}

openpath_vfs::setters! {
    Plan {
        engine: Engine,
        upper: Upper,
        pass: Vec<PathBytes>,
        write_through: Vec<PathBytes>,
        read_only: Vec<PathBytes>,
        read_only_if_any: Vec<PathBytes>,
        hidden: Vec<PathBytes>,
        masked: Vec<PathBytes>,
        absent: Vec<String>,
        extra: Vec<ExtraMount>,
        write_back: bool,
        live: bool,
        locks: bool,
        no_rings: bool,
        share: Vec<Share>,
        net: Net,
        keep_fds: Vec<i32>,
        limits: Limits,
    }
}

/// A path of the view, and the mount flags of the host to enforce there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnforcedPlace {
    pub(crate) place: PathBytes,
    /// Bits of [`openpath_host::HELD`].
    pub(crate) flags: u64,
}

/// A mount of a view that the kernel serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    pub(crate) place: PathBytes,
    /// Mount flags of the host there, bits of [`openpath_host::HELD`].
    pub(crate) flags: u64,
    pub(crate) shown: LayerShown,
    /// The run fails, instead of showing the mount read only: another engine can serve it.
    pub(crate) is_needed: bool,
}

/// A directory of an ordinary user's view over which the kernel's overlay lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Part {
    pub(crate) place: PathBytes,
    /// Device and inode of that directory in the real tree.
    pub(crate) id: (u64, u64),
    /// Mount flags of the host there, bits of [`openpath_host::HELD`].
    pub(crate) flags: u64,
    /// The directories in it that openpath keeps to itself.
    pub(crate) own: Vec<PathBytes>,
}

impl Part {
    /// Its path in the view.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// Checks that this is the directory which was chosen: the server and the helper open it one
    /// after the other.
    ///
    /// # Errors
    /// Others have replaced it meanwhile.
    pub(crate) fn check(&self, stat: &rustix::fs::Stat) -> Result<(), Refusal> {
        if (stat.st_dev, stat.st_ino) == self.id {
            return Ok(());
        }
        let place = self.path().display();
        let text = format!("{place} was replaced while the run began: start it again");
        Err(Refusal::system(text))
    }
}

/// What a view that the kernel serves shows at a mount of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LayerShown {
    /// An overlay over it.
    Overlay,
    /// The mount itself, read only.
    ReadOnly,
    /// What lies below the mount, read only.
    Below,
}

/// Whether a part of the view can be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protection {
    /// It is read only.
    ReadOnly,
    /// It is writable, and lies in a read-only part.
    Writable,
}

/// Where the changes of a run are kept.
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
#[non_exhaustive]
pub struct ExtraMount {
    /// The directory that it is mounted on.
    pub place: PathBytes,
    /// The tree.
    pub source: TreeSource,
    /// It cannot be changed.
    pub read_only: bool,
}

impl ExtraMount {
    /// A tree at this directory of the view, which can be changed.
    #[must_use]
    pub fn new(place: PathBytes, source: TreeSource) -> Self {
        Self {
            place,
            source,
            read_only: false,
        }
    }
}

openpath_vfs::setters! {
    ExtraMount {
        read_only: bool,
    }
}

/// Where a tree comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TreeSource {
    /// An empty one in memory.
    Memory {
        /// Bytes at most; half of the machine's memory unless told.
        size: Option<u64>,
    },
    /// A directory of the host.
    Host(PathBytes),
    /// Directories of the host, topmost first, and where changes are kept; without that nothing can
    /// be changed.
    Overlay {
        /// The layers that are read.
        lowers: Vec<PathBytes>,
        /// Where changes are kept.
        upper: Option<Upper>,
    },
}

/// The front to the server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToServer {
    /// Build the view of this plan. The file of the log comes along, if there is one.
    Build {
        plan: Box<Plan>,
        /// The command, for lists.
        command: String,
        /// The log is written as JSON.
        json: bool,
        /// Progress may be shown.
        progress: bool,
    },
    /// A namespace of the view; its descriptor comes along. There is no answer.
    Namespace(NamespaceKind),
    /// The tree in memory for the changes, a part of which the kernel serves, comes along.
    Memory,
    /// The control group of the view's commands; its descriptor comes along.
    Group,
    /// Serve the view on the descriptor that comes along. The kernel's overlay, which comes
    /// instead, needs no service.
    Serve(Mounted),
    /// Mount flags are not enforced at these paths of the view.
    Unenforced(Vec<PathBytes>),
    /// The command is gone: report the changes, and end.
    Finish,
}

/// The server to the front.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromServer {
    /// The view is built. The tree for the kernel's overlays comes along, if they serve it, and
    /// whether its marks are trusted ones.
    Built { trusted: bool },
    /// The group or the paths are recorded.
    Done,
    /// The view is served.
    Serving,
    /// Some of the changes; more may follow.
    Changes(ChangeList),
    /// That was all, and the view is released.
    Finished(RunSummary),
    /// It cannot be done.
    Refused(Refusal),
}

/// How the view was mounted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Mounted {
    /// There is a user namespace, which maps only this user.
    pub(crate) mapped: bool,
    /// Its device, as `/proc/PID/mountinfo` writes it.
    pub(crate) device: String,
    /// The devices of the kernel's overlays over the mounts of the host, by layer; none for one
    /// that has no overlay.
    pub(crate) more_devices: Vec<Option<String>>,
}

/// The results of a run besides its changes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RunSummary {
    /// How many processes had entered the view and were ended.
    pub(crate) ended: usize,
    /// How many writes of the kernel's write-back found no room.
    pub(crate) lost_writes: u64,
    /// How many lines of the log were not written.
    pub(crate) lost_log_lines: u64,
    /// Which processes outside still use the view, in a sentence.
    pub(crate) still_used: Option<String>,
}

/// The front to the helper.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToHelper {
    /// Mount the view of this plan.
    Mount(Box<Plan>),
    /// The view is built. The tree for the kernel's overlays comes along, if they serve it, and
    /// whether its marks are trusted ones.
    Upper {
        /// They are.
        trusted: bool,
    },
    /// The part of the tree in memory is lent.
    Lent,
    /// The view is served: make it the root.
    Enter,
}

/// The helper to the front.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromHelper {
    /// A namespace of the view; its descriptor comes along.
    Namespace(NamespaceKind),
    /// The tree in memory for the changes comes along; waits for [`ToHelper::Lent`].
    Memory,
    /// The view is mounted; the descriptor of FUSE comes along, or the kernel's overlay at the
    /// root.
    Mounted(Mounted),
    /// Mount flags could not be enforced at these paths; waits for the next [`ToHelper::Enter`].
    Unenforced(Vec<PathBytes>),
    /// The first process of the view's pid namespace, and its socket.
    Init(i32),
    /// The process that becomes the command, and its socket.
    Stage(i32),
    /// The view is the root. The helper ends, and its children are the front's.
    Entered {
        /// Why the command sees the host's `/proc`.
        no_proc: Option<String>,
    },
    /// It cannot be done.
    Refused(Refusal),
}

/// To the first process of a pid namespace.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToInit {
    /// Mount `/proc`, and limit the namespace to so many processes and threads besides its first.
    Begin { pids: Option<u32> },
    /// The command starts now; end all members after so many milliseconds.
    TimeLimit(u64),
    /// The command is gone: end the processes that it left, and exit.
    End,
}

/// From the first process of a pid namespace.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromInit {
    /// A mount of `/proc` comes along, or the reason why there is none.
    Proc(Option<String>),
    /// How many processes were left.
    Ended(usize),
    /// The time of [`ToInit::TimeLimit`] is over: all members are being ended.
    Expired,
    /// It cannot do its work.
    Failed(Refusal),
}

/// To the process that becomes the command.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToStage {
    /// Enter this namespace; its descriptor comes along.
    Namespace(NamespaceKind),
    /// Become the command; its standard input comes along.
    Start(CommandStart),
}

/// How the command is started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CommandStart {
    /// The working directory, in the view.
    pub(crate) cwd: PathBytes,
    /// What it shares with the host.
    pub(crate) share: Vec<Share>,
    /// It is the view's first command, and not one of `openpath exec`.
    pub(crate) is_first: bool,
    /// Descriptors that stay open, whatever they are.
    pub(crate) keep_fds: Vec<i32>,
}

/// From the process that becomes the command; the end of the socket means that it did.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromStage {
    /// It cannot be done.
    Refused(Refusal),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn innermost_rule_wins() {
        let at = |path: &str| PathBytes::from(Path::new(path));
        let extra = |place: &str, read_only| ExtraMount {
            place: at(place),
            source: TreeSource::Memory { size: None },
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
        let protections = plan.protections();
        let protections: Vec<_> = protections
            .iter()
            .map(|(path, protection)| (path.path(), *protection))
            .collect();
        let want = [
            ("/m", Protection::ReadOnly),
            ("/w/ro", Protection::ReadOnly),
            ("/w/ro/mem", Protection::Writable),
            ("/w/ro/rw", Protection::Writable),
            ("/w/ro/rw/x", Protection::ReadOnly),
            ("/w/ro/rw/x/rw", Protection::Writable),
        ];
        assert_eq!(
            protections,
            want.map(|(path, protection)| (Path::new(path), protection))
        );
    }

    #[test]
    fn write_back_is_used_on_request_but_not_for_shared_files() {
        assert!(!Plan::default().uses_write_back());
        let asked = Plan {
            write_back: true,
            ..Plan::default()
        };
        assert!(asked.uses_write_back());
        let through = Plan {
            write_through: vec![Path::new("/w").into()],
            ..asked.clone()
        };
        assert!(!through.uses_write_back());
        for read_only in [true, false] {
            let extra = ExtraMount {
                place: Path::new("/m").into(),
                source: TreeSource::Host(Path::new("/h").into()),
                read_only,
            };
            let shared = Plan {
                extra: vec![extra],
                ..asked.clone()
            };
            assert_eq!(shared.uses_write_back(), read_only);
        }
    }
}
