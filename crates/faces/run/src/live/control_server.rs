// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers the requests of other openpath commands to a running server: for its statistics, for its
//! locks, and for the namespaces of its view. It has a socket and a thread for that.
//!
//! # States
//! Started (clients can find it) -> stopped, by [`ControlServer::stop`] or drop: the socket is
//! removed, and all that was held for the answers is released.

use super::locks::Locks;
use super::server_stats::{Label, ServerStats};
use super::socket_dir::SocketDir;
use super::{PATIENCE, Request, Response};
use crate::cgroup::CommandGroup;
use crate::namespace_kind::NamespaceKind;
use crate::share::Share;
use crate::view_members::ViewMembers;
use crate::wire::Wire;
use openpath_fuse::Handle;
use openpath_vfs::{SuperBlock, Vfs};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::io::Errno;
use rustix::net::{Shutdown, sockopt};
use std::fmt;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// What statistics are read from.
pub struct StatsSources {
    /// The FUSE session.
    pub handle: Handle,
    /// The instance that serves it.
    pub vfs: Vfs,
    /// Its tree.
    pub tree: Arc<SuperBlock>,
}

impl fmt::Debug for StatsSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatsSources").finish_non_exhaustive()
    }
}

/// What a command needs to enter a view.
pub(crate) struct ViewAccess {
    /// Its namespaces.
    pub(crate) namespaces: Vec<(NamespaceKind, OwnedFd)>,
    /// The control group of its commands.
    pub(crate) group: Option<CommandGroup>,
    /// What its commands share with the host.
    pub(crate) share: Vec<Share>,
    /// How processes in it are recognised.
    pub(crate) members: ViewMembers,
}

/// A server that clients can find and query, until it is dropped.
#[derive(Debug)]
pub struct ControlServer {
    listener: UnixListener,
    thread: Option<JoinHandle<usize>>,
    dir: SocketDir,
    id: u32,
}

impl ControlServer {
    /// Starts to answer for a mount.
    ///
    /// # Errors
    /// There is no directory for the socket; errors of the kernel.
    pub fn start(label: Label, sources: StatsSources) -> io::Result<ControlServer> {
        Self::start_for_view(label, Some(sources), None)
    }

    /// The same for a view that commands can enter.
    pub(crate) fn start_for_view(
        label: Label,
        sources: Option<StatsSources>,
        access: Option<Arc<ViewAccess>>,
    ) -> io::Result<ControlServer> {
        let id = label.pid;
        let (dir, listener) = SocketDir::listen(id)?;
        let server = Responder {
            listener: listener.try_clone()?,
            label,
            sources,
            access,
            entered: 0,
        };
        let thread = std::thread::Builder::new().name("openpath-live".to_owned());
        let thread = thread.spawn(move || server.run());
        let mut server = ControlServer {
            listener,
            thread: None,
            dir,
            id,
        };
        server.thread = Some(thread?);
        Ok(server)
    }

    /// Stops answering and releases everything; returns how often the view was entered.
    #[must_use]
    pub fn stop(mut self) -> usize {
        self.end()
    }

    fn end(&mut self) -> usize {
        // Wakes the thread that waits for a connection.
        rustix::net::shutdown(&self.listener, Shutdown::Both).ok();
        let entered = self.thread.take().map(JoinHandle::join);
        self.dir.forget(self.id);
        entered.and_then(Result::ok).unwrap_or(0)
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.end();
        }
    }
}

/// Between two attempts to get a descriptor, where there is none.
const PAUSE: Duration = Duration::from_millis(100);

/// Whether a connection that could not be accepted may be accepted later.
fn is_short(why: &io::Error) -> bool {
    let why = why.raw_os_error().map(Errno::from_raw_os_error);
    let short = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS];
    why.is_some_and(|why| short.contains(&why))
}

/// The state of the thread.
struct Responder {
    listener: UnixListener,
    label: Label,
    /// None if the kernel serves the view.
    sources: Option<StatsSources>,
    access: Option<Arc<ViewAccess>>,
    entered: usize,
}

impl Responder {
    fn run(mut self) -> usize {
        loop {
            match self.listener.accept() {
                // A client that hangs up does not affect the others.
                Ok((stream, _)) => drop(self.answer(stream)),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) if why.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(why) if is_short(&why) => std::thread::sleep(PAUSE),
                Err(_) => return self.entered,
            }
        }
    }

    fn answer(&mut self, stream: UnixStream) -> io::Result<()> {
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let peer = sockopt::socket_peercred(&stream)?;
        // The deadline holds however slowly the client sends: the end of the view waits for this
        // thread.
        let wire = Wire::from_socket(stream.into()).with_deadline(PATIENCE);
        let known = [rustix::process::geteuid(), rustix::process::Uid::ROOT];
        let access = self.access.as_ref();
        if !known.contains(&peer.uid) {
            return refuse(&wire, "this is another user's");
        }
        if access.is_some_and(|view| view.members.has(peer.pid)) {
            return refuse(&wire, "a view is not asked from within");
        }
        let Some((ask, _)) = wire.recv::<Request>()? else {
            return Ok(());
        };
        match ask {
            Request::Stats => {
                let figures = match &self.sources {
                    Some(StatsSources { handle, vfs, tree }) => {
                        ServerStats::read(&self.label, handle, vfs, tree)
                    }
                    None => ServerStats::of_kernel(&self.label),
                };
                wire.send(&Response::Stats(Box::new(figures)), None)
            }
            Request::Locks => {
                let Some(StatsSources { handle, vfs, .. }) = &self.sources else {
                    return refuse(&wire, BY_KERNEL);
                };
                wire.send(&Response::Locks(Locks::read(handle, vfs)), None)
            }
            Request::Enter => {
                let Some(view) = &self.access else {
                    return refuse(&wire, "a mount is entered by its directory");
                };
                // The group counts as one: an older client does not know it, and does not enter.
                let namespaces = view.namespaces.len() + usize::from(view.group.is_some());
                let share = view.share.clone();
                wire.send(&Response::Enter { namespaces, share }, None)?;
                self.entered += 1;
                if let Some(group) = &view.group {
                    wire.send(&Response::Group, Some(group.as_fd()))?;
                }
                for (kind, namespace) in &view.namespaces {
                    wire.send(&Response::Namespace(*kind), Some(namespace.as_fd()))?;
                }
                Ok(())
            }
        }
    }
}

/// Why a view lists no locks.
const BY_KERNEL: &str = "the kernel serves this view (--engine kernel): lslocks(8) lists its locks";

fn refuse(wire: &Wire, why: &str) -> io::Result<()> {
    wire.send(&Response::Refused(why.to_owned()), None)
}
