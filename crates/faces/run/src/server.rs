// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the server, the process that builds the view of a command, serves it, and reports its
//! changes at the end.

use crate::cgroup::CommandGroup;
use crate::engine::Engine;
use crate::kernel_overlay::mounts::{UpperTree, memory, work_path};
use crate::kernel_part::{self, MemoryTree};
use crate::kernel_upper::{KernelUpper, not_kept};
use crate::live::{ControlServer, Label, ServedKind, ViewAccess};
use crate::log::LogFile;
use crate::namespace_kind::NamespaceKind;
use crate::plan::{FromServer, Mounted, Plan, RunSummary, ToServer, Upper};
use crate::share::Share;
use crate::view::{ObserverOption, View, ViewOptions, half_of_memory};
use crate::view_members;
use crate::view_members::ViewMembers;
use crate::view_users;
use crate::wire::Wire;
use openpath_commit::{ChangeList, PathBytes, Refusal, RefusalKind};
use openpath_host::LeaseWaits;
use openpath_overlay::{CopyUpObserver, Marks};
use openpath_sync::asymmetric_fence;
use rustix::fd::{AsFd as _, OwnedFd};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How often the front is told that the server still works.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Makes an observer of copy-ups, which may show their progress if the front says so.
pub type CopyUpObserverOf = fn(bool) -> Arc<dyn CopyUpObserver>;

/// Serves the front at standard input until that is gone. The observer that `copying` makes
/// receives the progress of copy-ups, and may show it if the front says so.
///
/// # Errors
/// The connection to the front fails.
pub fn serve(copying: CopyUpObserverOf) -> Result<(), Refusal> {
    crate::confine::protect()?;
    attempt(copying).map_err(|why| Refusal::step("the server of the view", why))
}

fn attempt(copying: CopyUpObserverOf) -> io::Result<()> {
    let wire = Wire::inherited()?;
    // Before there are threads: with threads the kernel needs some milliseconds for it.
    asymmetric_fence::mode();
    crate::confine::outlive_limits()?;
    // Out of reach of the terminal's signals, and of its hangup.
    rustix::process::setsid()?;
    std::env::set_current_dir("/")?;
    let mut server = Server::default();
    let done = server.answer_all(&wire, copying);
    server.clean_up();
    done
}

/// The parts of a view.
#[derive(Default)]
struct Server {
    plan: Plan,
    view: Option<View>,
    /// The changes of a view that the kernel serves.
    upper: Option<KernelUpper>,
    label: Option<Label>,
    /// The observer of copy-ups, until the helper has made the tree in memory.
    observer: ObserverOption,
    /// The tree in memory, if the kernel serves a part of it.
    memory: Option<MemoryTree>,
    /// The namespaces of the view, until it is served.
    namespaces: Vec<(NamespaceKind, OwnedFd)>,
    /// The control group of its commands, until it is served; none without limits that need one.
    group: Option<CommandGroup>,
    /// What the command shares with the host.
    share: Vec<Share>,
    /// The server for queries.
    control_server: Option<ControlServer>,
    /// What a command needs to enter the view, once it is served.
    access: Option<Arc<ViewAccess>>,
    /// The devices of the view's mounts by layer, once it is served.
    devices: Vec<Option<String>>,
}

impl Server {
    /// Answers the front until it is gone.
    fn answer_all(&mut self, wire: &Wire, copying: CopyUpObserverOf) -> io::Result<()> {
        while let Some((message, fd)) = wire.recv()? {
            let done = match message {
                ToServer::Build {
                    plan,
                    command,
                    json,
                    progress,
                } => {
                    let log = fd.map(|file| LogFile { file, json });
                    let built = self.build(*plan, command, log, Some(copying(progress)));
                    let (built, upper) = match built {
                        Ok(Some(UpperTree { tree, marks })) => {
                            let trusted = marks == Marks::Trusted;
                            (FromServer::Built { trusted }, Some(tree))
                        }
                        Ok(None) => (FromServer::Built { trusted: false }, None),
                        Err(refusal) => (FromServer::Refused(refusal), None),
                    };
                    wire.send(&built, upper.as_ref().map(OwnedFd::as_fd))?;
                    continue;
                }
                ToServer::Namespace(kind) => {
                    self.namespaces.extend(fd.map(|fd| (kind, fd)));
                    continue;
                }
                ToServer::Memory => self.build_in_memory(fd),
                ToServer::Group => {
                    self.group = fd.and_then(CommandGroup::from_fd);
                    let kept = self.group.is_some();
                    let lost = || Refusal::system("the server has no control group");
                    kept.then_some(FromServer::Done).ok_or_else(lost)
                }
                ToServer::Serve(mounted) => self.serve(mounted, fd),
                ToServer::Unenforced(places) => self.unenforce(&places),
                ToServer::Finish => self.finish(wire),
            };
            wire.send(&done.unwrap_or_else(FromServer::Refused), None)?;
        }
        Ok(())
    }

    /// Ends what is left once the front is gone, and the command with it, but not the processes
    /// that it started: they end as members of the view. Their delayed writes still come.
    fn clean_up(&mut self) {
        self.stop_entries();
        if let Some(access) = self.access.take() {
            view_members::end(&access.members);
        }
        if let Some(mut view) = self.view.take() {
            let is_unused = matches!(view.wait_until_unused(|| ()), Ok(Some(_)));
            if self.plan.part.is_some() && is_unused {
                // What cannot be taken back now is, when the view is locked the next time.
                let _later = kernel_part::take_back(view.close().as_ref(), self.memory.as_ref());
            } else {
                self.view = Some(view);
            }
        }
        if let Some(upper) = self.upper.take() {
            upper.wait_until_unused().ok();
        }
    }

    /// Builds the view; returns the tree for the kernel's overlays, if they serve it.
    fn build(
        &mut self,
        plan: Plan,
        command: String,
        log: Option<LogFile>,
        observer: ObserverOption,
    ) -> Result<Option<UpperTree>, Refusal> {
        let tree = match plan.engine {
            Engine::Kernel => {
                let (upper, tree) = KernelUpper::prepare(&plan)?;
                self.upper = Some(upper);
                Some(tree)
            }
            Engine::Fuse | Engine::Auto => {
                let is_root = rustix::process::geteuid().is_root();
                match (&plan.part, &plan.upper) {
                    (Some(part), Upper::Memory { size }) if is_root => {
                        let size = size.unwrap_or_else(half_of_memory);
                        let tree = memory(size).map_err(not_kept)?;
                        let (tree, space) = (Arc::new(tree), None);
                        let memory = MemoryTree { tree, space };
                        let tree = Some(Arc::clone(&memory.tree));
                        let view = Self::view(&plan, tree, log, observer)?;
                        let tree = kernel_part::lend_in_root_memory(part, &view, &memory)?;
                        (self.view, self.memory) = (Some(view), Some(memory));
                        Some(tree)
                    }
                    (Some(_), Upper::Memory { .. }) => {
                        // The helper makes its tree.
                        self.observer = observer;
                        None
                    }
                    (part, _) => {
                        let view = Self::view(&plan, None, log, observer)?;
                        let tree = part.as_ref().map(|part| kernel_part::lend(part, &view));
                        let tree = tree.transpose()?;
                        self.view = Some(view);
                        tree
                    }
                }
            }
        };
        let front = rustix::process::getppid().map_or(0, |pid| pid.as_raw_pid().cast_unsigned());
        let mut label = Label::new(ServedKind::Run, front, command);
        label.name = plan.name.clone();
        if let Upper::Directory(dir) = &plan.upper {
            label.directory = Some(dir.path().display().to_string());
        }
        self.label = Some(label);
        self.share.clone_from(&plan.share);
        self.plan = plan;
        Ok(tree)
    }

    /// Builds the view of which the kernel serves a part, with changes in this tree in memory.
    fn build_in_memory(&mut self, tree: Option<OwnedFd>) -> Result<FromServer, Refusal> {
        let nothing = || Refusal::system("there is no tree for the changes");
        let part = self.plan.part.as_ref().ok_or_else(nothing)?;
        let spaces = &mut self.namespaces.iter();
        let user = spaces.find(|(kind, _)| *kind == NamespaceKind::User);
        let (_, space) = user.ok_or_else(nothing)?;
        let space = space.try_clone();
        let memory = MemoryTree {
            tree: Arc::new(tree.ok_or_else(nothing)?),
            space: Some(space.map_err(|why| Refusal::step("the namespace of the view", why))?),
        };
        let tree = Some(Arc::clone(&memory.tree));
        let view = Self::view(&self.plan, tree, None, self.observer.take())?;
        kernel_part::lend_in_memory(part, &view, &memory)?;
        (self.view, self.memory) = (Some(view), Some(memory));
        Ok(FromServer::Done)
    }

    fn view(
        plan: &Plan,
        memory: Option<Arc<OwnedFd>>,
        log: Option<LogFile>,
        observer: ObserverOption,
    ) -> Result<View, Refusal> {
        let view_options = ViewOptions {
            memory,
            observer,
            holds_flags: true,
            leaves_watches: true,
            // One thread goes on serving.
            lease_waits: LeaseWaits::at_most(openpath_fuse::Options::default().threads - 1),
            ..ViewOptions::default()
        };
        let mut view = View::build(plan, &view_options)?;
        if let Some(log) = log {
            view.log(plan, log)?;
        }
        Ok(view)
    }

    fn serve(&mut self, mounted: Mounted, fuse: Option<OwnedFd>) -> Result<FromServer, Refusal> {
        let nothing = || Refusal::system("there is nothing to serve");
        let label = self.label.take().ok_or_else(nothing)?;
        let sources = match (&mut self.view, &self.upper) {
            (Some(view), _) => {
                let handle = view.serve(fuse.ok_or_else(nothing)?, mounted.mapped)?;
                Some(view.stats_sources(handle))
            }
            (None, Some(_)) => None,
            (None, None) => return Err(nothing()),
        };
        self.devices = vec![Some(mounted.device.clone())];
        self.devices.extend(mounted.more_devices);
        let namespaces = std::mem::take(&mut self.namespaces);
        let access = Arc::new(ViewAccess {
            members: ViewMembers::new(mounted.device, &namespaces)?,
            namespaces,
            group: self.group.take(),
            share: std::mem::take(&mut self.share),
        });
        // A view works without a socket too.
        self.control_server =
            ControlServer::start_for_view(label, sources, Some(Arc::clone(&access))).ok();
        self.access = Some(access);
        Ok(FromServer::Serving)
    }

    /// Records that mount flags are not enforced at these paths.
    fn unenforce(&self, places: &[PathBytes]) -> Result<FromServer, Refusal> {
        // Each overlay of the kernel enforces its own.
        if let Some(view) = &self.view {
            view.unenforce(places);
        }
        Ok(FromServer::Done)
    }

    /// Lets no process enter any more; returns how many did.
    fn stop_entries(&mut self) -> usize {
        self.control_server.take().map_or(0, ControlServer::stop)
    }

    /// Takes the part back that the kernel serves, and opens the view again, for the changes.
    /// Returns how many delayed writes of the rest found no room.
    fn take_part_back(
        &mut self,
        on_progress: impl Fn() + Send + Copy,
        users: &dyn Fn() -> String,
    ) -> Result<u64, Refusal> {
        let Some(mut view) = self.view.take() else {
            return Ok(0);
        };
        let lost = view.wait_until_unused(on_progress)?;
        let held = match lost {
            None => {
                // The session goes on, and with it the lock, until this process has ended.
                Box::leak(Box::new(view));
                None
            }
            Some(_) => view.close(),
        };
        let memory = self.memory.take();
        let taken = || kernel_part::take_back(held.as_ref(), memory.as_ref());
        if lost.is_none() || !with_heartbeat(HEARTBEAT, on_progress, taken)? {
            let text = format!("{}, so its changes are not final", users());
            return Err(Refusal::new(RefusalKind::Busy, text));
        }
        let options = ViewOptions {
            memory: memory.map(|memory| memory.tree),
            ..ViewOptions::default()
        };
        let view = View::open_locked(&self.plan.without_part(), held, &options)?;
        self.view = Some(view);
        Ok(lost.unwrap_or(0))
    }

    /// Releases the view and reports its changes.
    fn finish(&mut self, wire: &Wire) -> Result<FromServer, Refusal> {
        let devices = std::mem::take(&mut self.devices);
        // The front waits as long as it receives messages.
        let on_progress = || drop(wire.send(&FromServer::Changes(ChangeList::default()), None));
        let came = self.stop_entries();
        // An open namespace would keep the view.
        let ended = match self.access.take().filter(|_| came > 0) {
            Some(access) => with_heartbeat(HEARTBEAT, on_progress, || {
                view_members::end(&access.members)
            }),
            None => 0,
        };
        if let Some(upper) = &self.upper {
            let used = match upper.is_in_memory() {
                true => upper.wait_until_unused()?,
                // The end of the kernel's overlays waits for a sync of their file system.
                false => with_heartbeat(HEARTBEAT, on_progress, || upper.wait_until_unused())?,
            };
            if !used.is_empty() {
                // The kernel may have given the device of another layer to another mount.
                let at = |at| used.contains(&work_path(at));
                let devices = devices.into_iter().enumerate();
                let devices = devices.filter_map(|(layer, device)| device.filter(|_| at(layer)));
                let users = view_users::describe(&devices.collect::<Vec<_>>());
                let text = format!("{users}, so its changes are not final");
                return Err(Refusal::new(RefusalKind::Busy, text));
            }
        }
        let mut lost_before = 0;
        if self.plan.part.is_some() {
            let devices = devices.iter().flatten().cloned().collect::<Vec<_>>();
            lost_before = self.take_part_back(on_progress, &|| view_users::describe(&devices))?;
        }
        let mut view = match (self.view.take(), self.upper.take()) {
            (Some(view), _) => view,
            (None, Some(upper)) if upper.is_unchanged() => {
                return Ok(FromServer::Finished(RunSummary {
                    ended,
                    ..RunSummary::default()
                }));
            }
            (None, Some(upper)) => upper.open(&self.plan)?,
            (None, None) => return Err(Refusal::system("there is no view")),
        };
        let lost = view.wait_until_unused(on_progress)?;
        let devices = devices.into_iter().flatten().collect::<Vec<_>>();
        let users = lost.is_none().then(|| view_users::describe(&devices));
        if let Some(users) = users.as_ref().filter(|_| self.plan.uses_write_back()) {
            let text = format!("{users}, so writes may be delayed");
            return Err(Refusal::system(text));
        }
        let lost_log_lines = view.finish_log();
        let changes = with_heartbeat(HEARTBEAT, on_progress, || view.compare()?.list())?;
        for some in changes.parts() {
            let sent = wire.send(&FromServer::Changes(some), None);
            sent.map_err(|why| Refusal::step("the changes cannot be told", why))?;
        }
        if users.is_some() {
            // The session goes on, and with it the lock, until this process has ended.
            Box::leak(Box::new(view));
        } else if !view.is_awaited() {
            // It is released with this process, for which the front does not wait.
            self.view = Some(view);
        }
        Ok(FromServer::Finished(RunSummary {
            ended,
            lost_writes: lost.unwrap_or(0) + lost_before,
            lost_log_lines,
            still_used: users,
        }))
    }
}

/// Runs `long`, which may take long. `on_progress` is called each `interval` meanwhile, if a thread
/// can be started for it.
fn with_heartbeat<T>(
    interval: Duration,
    on_progress: impl Fn() + Send,
    long: impl FnOnce() -> T,
) -> T {
    std::thread::scope(|scope| {
        let (working, ended) = channel::<()>();
        let thread = std::thread::Builder::new().spawn_scoped(scope, move || {
            while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                on_progress();
            }
        });
        // Without a thread the front waits as long as for any answer.
        drop(thread);
        let done = long();
        drop(working);
        done
    })
}

#[cfg(test)]
mod tests {
    use super::with_heartbeat;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn long_operation_sends_heartbeats() {
        let (tell, told) = channel();
        let interval = Duration::from_millis(1);
        let on_progress = move || tell.send(()).unwrap();
        // Returns only after a heartbeat.
        let done = with_heartbeat(interval, on_progress, || told.recv().is_ok());
        assert!(done);
        assert_eq!(
            with_heartbeat(Duration::MAX, || panic!("too early"), || 7),
            7
        );
    }
}
