// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the view in this process, for a guest that is no process of the kernel: no mount, no
//! other process, and no privilege.
//!
//! # What differs
//! | of the plan | for a command | in this process |
//! |---|---|---|
//! | passed directories | the host's own mounts | trees of the host's directories |
//! | `/proc`, `/sys` | pass | cannot be entered (`EXDEV`): they would reach into this process |
//! | `/dev` | passes | changes stay in the view; its devices are the engine's |
//! | read-only paths | mounts of the kernel | mounts of the engine |
//! | the user of a call | as the kernel reports | the user of this process |
//!
//! # Rules
//! R1. File systems that the kernel generates are entered nowhere in the view, wherever the host
//!     has them mounted ([`Crossing::Stored`]).
//! R2. The directories that this process trusts (`guarded`) cannot be reached: neither by their
//!     paths, because kept changes may later come to the disk, nor where changes go to the disk at
//!     once.

use crate::absent::Absent;
use crate::engine::Engine;
use crate::front::RunOutcome;
use crate::guard;
use crate::plan::{Plan, Protection};
use crate::signals::CommandExit;
use crate::view::{View, ViewOptions};
use openpath_abi::fcntl::AT_FDCWD;
use openpath_abi::mount::MOUNT_ATTR_RDONLY;
use openpath_abi::{AtFlags, Errno};
use openpath_commit::{PathBytes, Refusal};
use openpath_host::Crossing;
use openpath_overlay::CopyUpObserver;
use openpath_vfs::{Cred, MountAttr, MountFlags, Task};
use rustix::process::{getegid, geteuid, getgroups};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A view in this process.
pub struct InProcessView {
    view: View,
    cred: Cred,
    umask: u32,
}

impl fmt::Debug for InProcessView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut view = f.debug_struct("InProcessView");
        view.field("cred", &self.cred).field("umask", &self.umask);
        view.finish_non_exhaustive()
    }
}

impl InProcessView {
    /// Builds the view of a plan; `observer` receives the progress of copy-ups. The directories
    /// `guarded` of the host are hidden.
    ///
    /// # Errors
    /// What keeps the view from being made.
    pub fn build(
        plan: &Plan,
        guarded: &[&Path],
        observer: Option<Arc<dyn CopyUpObserver>>,
    ) -> Result<InProcessView, Refusal> {
        plan.check()?;
        if plan.engine == Engine::Kernel {
            let text = "a guest of this program needs the engine fuse: leave out --engine kernel";
            return Err(Refusal::usage(text));
        }
        let mut plan = plan.served_by(Engine::Fuse);
        plan.pass = explicit_passes(&plan)?;
        let own = guard::own_dirs();
        let guarded = guarded.iter().copied().chain(own.iter().map(|dir| &**dir));
        let guarded = guarded
            .flat_map(|dir| guard::view_paths(&plan, dir))
            .collect::<Vec<_>>();
        plan.hidden.extend(guarded.iter().cloned());
        let view_options = ViewOptions {
            observer,
            crossing: Crossing::Stored,
            // Guests of this process execute no file.
            holds_flags: false,
            ..ViewOptions::default()
        };
        let view = View::build(&plan, &view_options)?;
        let task = view.task();
        let only = Absent::new(&Plan {
            hidden: guarded,
            ..Plan::default()
        })?;
        for path in &plan.pass {
            let failed = |why| failed("pass", path, why);
            only.admits(path)?;
            let tree = view_options.host(path.path(), false)?;
            let flags = MountFlags::default();
            task.mount(tree, path.bytes(), flags).map_err(failed)?;
            task.set_absent(path.bytes(), only.below(path)?)
                .map_err(failed)?;
        }
        for (path, protection) in plan.protections() {
            // A writable part of it is a mount of its own already.
            if protection == Protection::ReadOnly && !may_be_missing(&plan, task, &path) {
                protect(task, &path).map_err(|why| failed("protect", &path, why))?;
            }
        }
        // The umask can only be read by setting it.
        let umask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
        rustix::process::umask(umask);
        Ok(InProcessView {
            view,
            cred: process_cred(),
            umask: umask.as_raw_mode(),
        })
    }

    /// A task for a guest: it runs as the user of this process, in the directory `cwd`.
    ///
    /// # Errors
    /// There is no such directory in the view; there is no memory.
    pub fn task(&self, cwd: &Path) -> Result<Task, Refusal> {
        let task = self.view.task().fork();
        let task = task.map_err(|why| Refusal::step("the guest has no task", why))?;
        task.set_cred(self.cred.clone());
        task.umask(self.umask);
        let cwd: PathBytes = cwd.into();
        task.chdir(cwd.bytes()).map_err(|why| {
            let text = format!("the view has no directory {}", cwd.path().display());
            Refusal::step(&text, why)
        })?;
        Ok(task)
    }

    /// The outcome of a guest, with its changes if they can be read. A kept view is held until this
    /// value is dropped.
    #[must_use]
    pub fn end(&self, end: CommandExit) -> RunOutcome {
        match self.view.compare().and_then(|compare| compare.list()) {
            Ok(changes) => RunOutcome::in_process(end, changes),
            Err(why) => RunOutcome::without_changes(end, why),
        }
    }
}

/// The directories that pass besides the defaults of a command.
fn explicit_passes(plan: &Plan) -> Result<Vec<PathBytes>, Refusal> {
    let own = Plan::default().pass;
    let said = plan.pass.strip_prefix(&own[..]).unwrap_or(&plan.pass);
    match said.iter().find(|path| own.contains(path)) {
        Some(path) => {
            let path = path.path().display();
            let text = format!("{path} does not pass to guests in this process");
            Err(Refusal::usage(text))
        }
        None => Ok(said.to_vec()),
    }
}

/// The credentials of this process.
fn process_cred() -> Cred {
    let (uid, gid) = (geteuid(), getegid());
    if uid.is_root() {
        return Cred::root();
    }
    let groups: Vec<_> = getgroups()
        .unwrap_or_default()
        .into_iter()
        .map(rustix::process::Gid::as_raw)
        .collect();
    Cred::user(uid.as_raw(), gid.as_raw(), &groups)
}

/// Whether a path is missing and may be: then it cannot be made.
fn may_be_missing(plan: &Plan, task: &Task, path: &PathBytes) -> bool {
    plan.read_only_if_any.contains(path) && task.stat(path.bytes()) == Err(Errno::ENOENT)
}

/// Makes a path read only, except for mounts in it.
fn protect(task: &Task, path: &PathBytes) -> Result<(), Errno> {
    let root = PathBytes::root();
    if *path != root {
        task.bind_tree(path.bytes(), path.bytes())?;
    }
    let attr = MountAttr {
        attr_set: MOUNT_ATTR_RDONLY,
        ..MountAttr::default()
    };
    task.mount_setattr(AT_FDCWD, path.bytes(), AtFlags::empty(), &attr)
}

fn failed(what: &str, path: &PathBytes, why: Errno) -> Refusal {
    Refusal::step(&format!("cannot {what} {}", path.path().display()), why)
}

#[cfg(test)]
mod tests {
    use super::InProcessView;
    use crate::plan::{ExtraMount, Plan, TreeSource};
    use crate::signals::CommandExit;
    use openpath_abi::Errno;
    use openpath_abi::fcntl::{O_CREAT, O_RDONLY, O_WRONLY};
    use openpath_commit::PathBytes;
    use openpath_vfs::Task;
    use std::path::{Path, PathBuf};

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let dir = format!("openpath-in-process-{name}-{}", std::process::id());
            let dir = std::env::temp_dir().canonicalize().unwrap().join(dir);
            for name in ["rw", "ro/deep", "pass", "secret"] {
                std::fs::create_dir_all(dir.join(name)).unwrap();
            }
            Scratch(dir)
        }

        fn at(&self, path: &str) -> PathBytes {
            self.0.join(path).as_path().into()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).ok();
        }
    }

    fn write(task: &Task, path: &str, data: &[u8]) -> Result<(), Errno> {
        let fd = task.open(path.as_bytes(), O_WRONLY | O_CREAT, 0o644)?;
        task.write(fd, data)?;
        task.close(fd)
    }

    #[test]
    fn in_process_view_follows_the_plan() {
        let s = Scratch::new("plan");
        std::fs::write(s.0.join("file"), "before").unwrap();
        let plan = Plan {
            write_through: vec![s.at("rw")],
            read_only: vec![s.at("ro")],
            hidden: vec![s.at("secret")],
            pass: [Plan::default().pass, vec![s.at("pass")]].concat(),
            extra: vec![ExtraMount {
                place: s.at("ro/deep"),
                source: TreeSource::Memory { size: None },
                read_only: false,
            }],
            ..Plan::default()
        };
        let view = InProcessView::build(&plan, &[], None).unwrap();
        let task = view.task(&s.0).unwrap();
        assert_eq!(write(&task, "file", b"longer than before"), Ok(()));
        assert_eq!(write(&task, "new", b"new"), Ok(()));
        assert_eq!(write(&task, "rw/new", b"new"), Ok(()));
        assert_eq!(write(&task, "pass/new", b"new"), Ok(()));
        assert_eq!(write(&task, "ro/new", b""), Err(Errno::EROFS));
        assert_eq!(write(&task, "ro/deep/new", b"in"), Ok(()));
        assert_eq!(write(&task, "secret/new", b""), Err(Errno::ENOENT));
        assert_eq!(task.rename(b"ro", b"away"), Err(Errno::EXDEV));
        for made_up in ["/proc/self/mem", "/proc/version", "/sys/kernel"] {
            let opened = task.open(made_up.as_bytes(), O_RDONLY, 0);
            assert_eq!(opened, Err(Errno::EXDEV), "{made_up}");
        }
        assert_eq!(write(&task, "/dev/null", b"gone"), Ok(()));
        let ended = view.end(CommandExit::Exit(3));
        let change = |name: &str| {
            ended
                .changes
                .iter()
                .find(|change| change.path == s.at(name))
        };
        assert_eq!(change("file").unwrap().size_before, 6);
        assert_eq!(change("new").unwrap().size, 3);
        assert_eq!(ended.changes.len(), 2, "{:?}", ended.changes);
        assert_eq!(ended.exit_like_command(), 3);
        assert_eq!(std::fs::read_to_string(s.0.join("file")).unwrap(), "before");
        assert!(s.0.join("rw/new").exists() && s.0.join("pass/new").exists());
        assert!(!s.0.join("new").exists());
    }

    #[test]
    fn kernel_trees_cannot_pass_in_process() {
        for path in ["/proc", "/sys", "/dev"] {
            let own = Plan::default().pass;
            let plan = Plan {
                pass: [own, vec![Path::new(path).into()]].concat(),
                ..Plan::default()
            };
            let why = InProcessView::build(&plan, &[], None)
                .map(drop)
                .unwrap_err();
            assert!(why.to_string().contains(path), "{why}");
        }
    }

    #[test]
    fn guarded_directories_are_unreachable_on_the_disk() {
        let s = Scratch::new("guarded");
        let guarded = s.0.join("rw/cache/modules");
        std::fs::create_dir_all(&guarded).unwrap();
        std::fs::create_dir(s.0.join("there")).unwrap();
        let plan = Plan {
            write_through: vec![s.at("rw")],
            extra: vec![ExtraMount {
                place: s.at("there"),
                source: TreeSource::Host(s.at("rw")),
                read_only: false,
            }],
            ..Plan::default()
        };
        let view = InProcessView::build(&plan, &[&guarded], None).unwrap();
        let task = view.task(&s.0).unwrap();
        for top in ["rw", "there"] {
            let modules = format!("{top}/cache/modules");
            let new = format!("{modules}/x");
            assert_eq!(write(&task, &new, b""), Err(Errno::ENOENT), "{top}");
            let made = task.mkdir(modules.as_bytes(), 0o755);
            assert_eq!(made, Err(Errno::EPERM), "{top}");
            let (cache, away) = (format!("{top}/cache"), format!("{top}/away"));
            let moved = task.rename(cache.as_bytes(), away.as_bytes());
            assert_eq!(moved, Err(Errno::EXDEV), "{top}");
            assert!(task.rmdir(cache.as_bytes()).is_err(), "{top}");
        }
        assert_eq!(std::fs::read_dir(&guarded).unwrap().count(), 0);
        let plain = InProcessView::build(&Plan::default(), &[&guarded], None).unwrap();
        let task = plain.task(&s.0).unwrap();
        assert_eq!(write(&task, "rw/cache/modules/x", b""), Err(Errno::ENOENT));
        assert!(InProcessView::build(&plan, &[&s.0.join("rw")], None).is_err());
    }
}
