// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server: holds the view and answers for it.

use crate::live::{Beacon, Inside, Label, LiveKind};
use crate::plan::{FromServer, Mounted, Plan, Rest, ToServer, Upper};
use crate::view::View;
use crate::wire::Wire;
use crate::{LogFile, Refusal, guests};
use rustix::fd::OwnedFd;
use std::io;
use std::sync::Arc;

/// Changes in a message.
const CHANGES: usize = 500;

/// Serves the front at standard input until that is gone.
///
/// # Errors
/// What keeps it from hearing the front.
pub fn serve() -> Result<(), Refusal> {
    attempt().map_err(|why| Refusal::step("the server of the view", why))
}

fn attempt() -> io::Result<()> {
    let wire = Wire::inherited()?;
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
            } => server.build(&plan, command, fd.map(|file| LogFile { file, json })),
            ToServer::Namespace => {
                server.namespaces.extend(fd);
                Ok(FromServer::Kept)
            }
            ToServer::Serve(mounted) => server.serve(mounted, fd),
            ToServer::Finish => server.finish(&wire),
        };
        wire.send(&done.unwrap_or_else(FromServer::Refused), None)?;
    }
    // The front is gone, and the command with it: what it has written still comes.
    server.end_guests();
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
    namespaces: Vec<OwnedFd>,
    /// What answers who asks, and what entering takes.
    beacon: Option<(Beacon, Arc<Inside>)>,
}

impl Server {
    fn build(
        &mut self,
        plan: &Plan,
        command: String,
        log: Option<LogFile>,
    ) -> Result<FromServer, Refusal> {
        let mut view = View::build(plan)?;
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
        Ok(FromServer::Built)
    }

    fn serve(&mut self, mounted: Mounted, fuse: Option<OwnedFd>) -> Result<FromServer, Refusal> {
        let (Some(view), Some(fuse), Some(label)) = (&mut self.view, fuse, self.label.take())
        else {
            return Err(Refusal::new("there is nothing to serve"));
        };
        let handle = view.serve(fuse, mounted.mapped)?;
        let inside = Arc::new(Inside {
            namespaces: std::mem::take(&mut self.namespaces),
            device: mounted.device,
        });
        // A view that cannot be found is a view all the same.
        let beacon = Beacon::begin(label, view.sources(handle), Some(Arc::clone(&inside))).ok();
        self.beacon = beacon.map(|beacon| (beacon, inside));
        Ok(FromServer::Serving)
    }

    /// Lets nobody in any more, and ends who came; how many there were.
    fn end_guests(&mut self) -> usize {
        let Some((beacon, inside)) = self.beacon.take() else {
            return 0;
        };
        if beacon.stop() == 0 {
            return 0;
        }
        guests::end(&inside)
    }

    /// Lets go of the view and says what changed.
    fn finish(&mut self, wire: &Wire) -> Result<FromServer, Refusal> {
        let ended = self.end_guests();
        let view = self.view.take();
        let mut view = view.ok_or_else(|| Refusal::new("there is no view"))?;
        // The front waits for as long as something is told.
        let going_on = || drop(wire.send(&FromServer::Changes(Vec::new()), None));
        let lost = view.left(going_on)?;
        let unlogged = view.logged();
        for some in view.compare()?.all()?.chunks(CHANGES) {
            let sent = wire.send(&FromServer::Changes(some.to_vec()), None);
            sent.map_err(|why| Refusal::step("lost the front", why))?;
        }
        Ok(FromServer::Finished(Rest {
            ended,
            lost,
            unlogged,
        }))
    }
}
