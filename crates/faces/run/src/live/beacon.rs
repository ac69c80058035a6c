// SPDX-License-Identifier: MIT OR Apache-2.0
//! The side of the server: a thread that answers who asks.
//!
//! # States
//! Lit (it can be found) -> stopped, by [`Beacon::stop`] or its end: the socket goes, and with it
//! all that was kept for the answers.

use super::figures::{Figures, Label};
use super::locks::Locks;
use super::place::Place;
use super::{Answer, Ask, PATIENCE};
use crate::cgroup::Entry;
use crate::guests::Members;
use crate::share::Share;
use crate::space::Space;
use crate::wire::Wire;
use openpath_fuse::Handle;
use openpath_vfs::{SuperBlock, Vfs};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::io::Errno;
use rustix::net::{Shutdown, sockopt};
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// What figures are read from.
pub struct Sources {
    /// The session.
    pub handle: Handle,
    /// The instance that answers.
    pub vfs: Vfs,
    /// Its tree.
    pub tree: Arc<SuperBlock>,
}

/// What entering a view takes.
pub(crate) struct Inside {
    /// Its namespaces.
    pub(crate) namespaces: Vec<(Space, OwnedFd)>,
    /// The control group of its commands.
    pub(crate) group: Option<Entry>,
    /// What its commands share with the host.
    pub(crate) share: Vec<Share>,
    /// By what processes in it are known.
    pub(crate) members: Members,
}

/// A server that can be found and asked, until this goes.
pub struct Beacon {
    listener: UnixListener,
    thread: Option<JoinHandle<usize>>,
    place: Place,
    id: u32,
}

impl Beacon {
    /// Answers for a mount from now on.
    ///
    /// # Errors
    /// No directory for the socket; what the kernel says.
    pub fn light(label: Label, sources: Sources) -> io::Result<Beacon> {
        Self::begin(label, sources, None)
    }

    /// The same for a view that can be entered.
    pub(crate) fn begin(
        label: Label,
        sources: Sources,
        inside: Option<Arc<Inside>>,
    ) -> io::Result<Beacon> {
        let id = label.pid;
        let (place, listener) = Place::listen(id)?;
        let server = Answering {
            listener: listener.try_clone()?,
            label,
            sources,
            inside,
            entered: 0,
        };
        let thread = std::thread::Builder::new().name("openpath-live".to_owned());
        let thread = thread.spawn(move || server.run());
        let mut beacon = Beacon {
            listener,
            thread: None,
            place,
            id,
        };
        beacon.thread = Some(thread?);
        Ok(beacon)
    }

    /// Answers no more, and lets go of everything; how often a view was entered.
    #[must_use]
    pub fn stop(mut self) -> usize {
        self.end()
    }

    fn end(&mut self) -> usize {
        // Who waits for the next one waits no more.
        rustix::net::shutdown(&self.listener, Shutdown::Both).ok();
        let entered = self.thread.take().map(JoinHandle::join);
        self.place.forget(self.id);
        entered.and_then(Result::ok).unwrap_or(0)
    }
}

impl Drop for Beacon {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.end();
        }
    }
}

/// Between two looks for a descriptor, where there is none.
const PAUSE: Duration = Duration::from_millis(100);

/// Whether there will be room again for what could not be accepted.
fn is_short(why: &io::Error) -> bool {
    let why = why.raw_os_error().map(Errno::from_raw_os_error);
    let short = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS];
    why.is_some_and(|why| short.contains(&why))
}

/// The thread.
struct Answering {
    listener: UnixListener,
    label: Label,
    sources: Sources,
    inside: Option<Arc<Inside>>,
    entered: usize,
}

impl Answering {
    fn run(mut self) -> usize {
        loop {
            match self.listener.accept() {
                // Who hangs up while he is answered is no concern of the others.
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
        // However slowly it comes: the end of the view waits for this thread.
        let wire = Wire::over(stream.into()).within(PATIENCE);
        let known = [rustix::process::geteuid(), rustix::process::Uid::ROOT];
        let inside = self.inside.as_ref();
        if !known.contains(&peer.uid) {
            return refuse(&wire, "this is another user's");
        }
        if inside.is_some_and(|view| view.members.has(peer.pid)) {
            return refuse(&wire, "a view is not asked from within");
        }
        let Some((ask, _)) = wire.recv::<Ask>()? else {
            return Ok(());
        };
        match ask {
            Ask::Figures => {
                let Sources { handle, vfs, tree } = &self.sources;
                let figures = Figures::read(&self.label, handle, vfs, tree);
                wire.send(&Answer::Figures(Box::new(figures)), None)
            }
            Ask::Locks => {
                let Sources { handle, vfs, .. } = &self.sources;
                wire.send(&Answer::Locks(Locks::read(handle, vfs)), None)
            }
            Ask::Enter => {
                let Some(view) = &self.inside else {
                    return refuse(&wire, "a mount is entered by its directory");
                };
                // Counted as one: a version that knows no groups does not enter.
                let namespaces = view.namespaces.len() + usize::from(view.group.is_some());
                let share = view.share.clone();
                wire.send(&Answer::Enter { namespaces, share }, None)?;
                self.entered += 1;
                if let Some(group) = &view.group {
                    wire.send(&Answer::Group, Some(group.as_fd()))?;
                }
                for (kind, namespace) in &view.namespaces {
                    wire.send(&Answer::Namespace(*kind), Some(namespace.as_fd()))?;
                }
                Ok(())
            }
        }
    }
}

fn refuse(wire: &Wire, why: &str) -> io::Result<()> {
    wire.send(&Answer::Refused(why.to_owned()), None)
}
