// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server: holds the view and answers for it.

use crate::cgroup::Entry;
use crate::guests;
use crate::guests::Members;
use crate::live::{Beacon, Inside, Label, LiveKind};
use crate::log::LogFile;
use crate::plan::{FromServer, Mounted, Plan, Rest, ToServer, Upper};
use crate::share::Share;
use crate::space::Space;
use crate::view::{How, Telling, View};
use crate::wire::Wire;
use openpath_commit::{ChangeList, PathBytes, Refusal};
use openpath_overlay::CopyUpObserver;
use openpath_sync::asymmetric_fence;
use rustix::fd::OwnedFd;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How often the front is told that there is more to come.
const PULSE: Duration = Duration::from_secs(10);

/// Serves the front at standard input until that is gone. What `copying` makes is told how far
/// copying up is, and may show it if the front says so.
///
/// # Errors
/// What keeps it from hearing the front.
pub fn serve(copying: fn(bool) -> Arc<dyn CopyUpObserver>) -> Result<(), Refusal> {
    crate::confine::protect()?;
    attempt(copying).map_err(|why| Refusal::step("the server of the view", why))
}

fn attempt(copying: fn(bool) -> Arc<dyn CopyUpObserver>) -> io::Result<()> {
    let wire = Wire::inherited()?;
    // Before there are threads: in a process that has some it takes the kernel some milliseconds.
    asymmetric_fence::mode();
    crate::confine::outlive_limits()?;
    // Out of reach of the terminal's signals, and of its end.
    rustix::process::setsid()?;
    std::env::set_current_dir("/")?;
    let mut server = Server::default();
    while let Some((message, fd)) = wire.recv()? {
        let done = match message {
            ToServer::Build {
                plan,
                command,
                json,
                progress,
            } => {
                let log = fd.map(|file| LogFile { file, json });
                server.build(&plan, command, log, Some(copying(progress)))
            }
            ToServer::Namespace(kind) => {
                server.namespaces.extend(fd.map(|fd| (kind, fd)));
                Ok(FromServer::Kept)
            }
            ToServer::Group => {
                server.group = fd.and_then(Entry::over);
                let kept = server.group.is_some();
                let lost = || Refusal::new("the server has no control group");
                kept.then_some(FromServer::Kept).ok_or_else(lost)
            }
            ToServer::Serve(mounted) => server.serve(mounted, fd),
            ToServer::Unheld(places) => server.give_up(&places),
            ToServer::Finish => server.finish(&wire),
        };
        wire.send(&done.unwrap_or_else(FromServer::Refused), None)?;
    }
    // The front is gone, and the command with it, but not what that started: to the server they
    // are guests. What they have written still comes.
    server.end_guests(true);
    if let Some(view) = &mut server.view {
        view.left(|| ()).ok();
    }
    Ok(())
}

/// What there is of a view.
#[derive(Default)]
struct Server {
    view: Option<View>,
    label: Option<Label>,
    /// Those of the view, until it is served.
    namespaces: Vec<(Space, OwnedFd)>,
    /// The control group of its commands, until it is served; none without limits that need one.
    group: Option<Entry>,
    /// What the command shares with the host.
    share: Vec<Share>,
    /// What answers who asks.
    beacon: Option<Beacon>,
    /// What entering takes, once it is served.
    inside: Option<Arc<Inside>>,
}

impl Server {
    fn build(
        &mut self,
        plan: &Plan,
        command: String,
        log: Option<LogFile>,
        telling: Telling,
    ) -> Result<FromServer, Refusal> {
        let how = How {
            telling,
            holds_flags: true,
            ..How::default()
        };
        let mut view = View::build(plan, &how)?;
        if let Some(log) = log {
            view.log(plan, log)?;
        }
        self.view = Some(view);
        let front = rustix::process::getppid().map_or(0, |pid| pid.as_raw_pid().cast_unsigned());
        let mut label = Label::new(LiveKind::Run, front, command);
        label.name = plan.name.clone();
        if let Upper::Directory(dir) = &plan.upper {
            label.directory = Some(dir.path().display().to_string());
        }
        self.label = Some(label);
        self.share.clone_from(&plan.share);
        Ok(FromServer::Built)
    }

    fn serve(&mut self, mounted: Mounted, fuse: Option<OwnedFd>) -> Result<FromServer, Refusal> {
        let (Some(view), Some(fuse), Some(label)) = (&mut self.view, fuse, self.label.take())
        else {
            return Err(Refusal::new("there is nothing to serve"));
        };
        let handle = view.serve(fuse, mounted.mapped)?;
        let namespaces = std::mem::take(&mut self.namespaces);
        let inside = Arc::new(Inside {
            members: Members::new(mounted.device, &namespaces)?,
            namespaces,
            group: self.group.take(),
            share: std::mem::take(&mut self.share),
        });
        // A view that cannot be found is a view all the same.
        self.beacon = Beacon::begin(label, view.sources(handle), Some(Arc::clone(&inside))).ok();
        self.inside = Some(inside);
        Ok(FromServer::Serving)
    }

    /// Mount flags are not enforced at these places.
    fn give_up(&self, places: &[PathBytes]) -> Result<FromServer, Refusal> {
        let Some(view) = &self.view else {
            return Err(Refusal::new("there is no view"));
        };
        view.give_up(places);
        Ok(FromServer::Kept)
    }

    /// Lets nobody in any more, and ends who came; without a front, `alone`, ends all that are
    /// there. How many there were.
    fn end_guests(&mut self, alone: bool) -> usize {
        let came = self.beacon.take().map_or(0, Beacon::stop);
        match self.inside.take() {
            Some(inside) if alone || came > 0 => guests::end(&inside.members),
            _ => 0,
        }
    }

    /// Lets go of the view and says what changed.
    fn finish(&mut self, wire: &Wire) -> Result<FromServer, Refusal> {
        let ended = self.end_guests(false);
        let view = self.view.take();
        let mut view = view.ok_or_else(|| Refusal::new("there is no view"))?;
        // The front waits for as long as something is told.
        let going_on = || drop(wire.send(&FromServer::Changes(ChangeList::default()), None));
        let lost = view.left(going_on)?;
        let unlogged = view.logged();
        let changes = meanwhile(PULSE, going_on, || view.compare()?.list())?;
        for some in changes.parts() {
            let sent = wire.send(&FromServer::Changes(some), None);
            sent.map_err(|why| Refusal::step("the changes cannot be told", why))?;
        }
        if !view.is_awaited() {
            // It goes with this process, for which the front does not wait.
            self.view = Some(view);
        }
        Ok(FromServer::Finished(Rest {
            ended,
            lost,
            unlogged,
        }))
    }
}

/// Does what may take long; `going_on` is called each `pulse` while it does, if there is a thread
/// for that.
fn meanwhile<T>(pulse: Duration, going_on: impl Fn() + Send, long: impl FnOnce() -> T) -> T {
    std::thread::scope(|scope| {
        let (working, ended) = channel::<()>();
        let pulses = std::thread::Builder::new().spawn_scoped(scope, move || {
            while ended.recv_timeout(pulse) == Err(RecvTimeoutError::Timeout) {
                going_on();
            }
        });
        // Without it the front waits for as long as it does for any answer.
        drop(pulses);
        let done = long();
        drop(working);
        done
    })
}

#[cfg(test)]
mod tests {
    use super::meanwhile;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn who_waits_for_something_long_hears_of_it() {
        let (tell, told) = channel();
        let pulse = Duration::from_millis(1);
        let going_on = move || tell.send(()).unwrap();
        // Ends only when it was told of.
        let done = meanwhile(pulse, going_on, || told.recv().is_ok());
        assert!(done);
        assert_eq!(meanwhile(Duration::MAX, || panic!("too early"), || 7), 7);
    }
}
