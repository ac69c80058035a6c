// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server: holds the view and answers for it.

use crate::Refusal;
use crate::plan::{FromServer, ToServer};
use crate::view::View;
use crate::wire::Wire;
use std::io;

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
    let mut view = None;
    while let Some((message, fd)) = wire.recv()? {
        let done = match message {
            ToServer::Build(plan) => View::build(&plan).map(|built| {
                view = Some(built);
                FromServer::Built
            }),
            ToServer::Serve { mapped } => match (&mut view, fd) {
                (Some(view), Some(fuse)) => view.serve(fuse, mapped).map(|()| FromServer::Serving),
                _ => Err(Refusal::new("there is nothing to serve")),
            },
            ToServer::Finish => finish(&wire, view.take()).map(|()| FromServer::Finished),
        };
        wire.send(&done.unwrap_or_else(FromServer::Refused), None)?;
    }
    // The front is gone, and the command with it: what it has written still comes.
    if let Some(view) = &mut view {
        view.left().ok();
    }
    Ok(())
}

/// Lets go of the view and says what changed.
fn finish(wire: &Wire, view: Option<View>) -> Result<(), Refusal> {
    let mut view = view.ok_or_else(|| Refusal::new("there is no view"))?;
    view.left()?;
    for some in view.compare()?.all()?.chunks(CHANGES) {
        let sent = wire.send(&FromServer::Changes(some.to_vec()), None);
        sent.map_err(|why| Refusal::step("lost the front", why))?;
    }
    Ok(())
}
