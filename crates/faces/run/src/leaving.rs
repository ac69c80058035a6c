// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits for a session to end, on a thread that is there before the command is.
//!
//! A limit on threads that is lowered later does not keep the view from ending.

use openpath_fuse::Session;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// A thread that waits for the end of a session once it is given it.
pub(crate) struct Leaving {
    given: Sender<Session>,
    ended: Receiver<io::Result<()>>,
}

impl Leaving {
    /// Starts the thread.
    ///
    /// # Errors
    /// `EAGAIN`: no thread can be had.
    pub(crate) fn prepare() -> io::Result<Leaving> {
        let (given, session) = channel::<Session>();
        let (told, ended) = channel();
        let thread = std::thread::Builder::new().name("openpath-leave".to_owned());
        thread.spawn(move || {
            if let Ok(session) = session.recv() {
                // Nobody may wait for it any more.
                told.send(session.wait()).ok();
            }
        })?;
        Ok(Leaving { given, ended })
    }

    /// Begins to wait for the end of a session.
    pub(crate) fn begin(&self, session: Session) {
        // The thread waits for it for as long as this lives.
        self.given.send(session).ok();
    }

    /// How the session ended; `None` if it has not ended within `patience`.
    pub(crate) fn ended(&self, patience: Duration) -> Option<io::Result<()>> {
        match self.ended.recv_timeout(patience) {
            Ok(ended) => Some(ended),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                Some(Err(io::Error::other("the thread that waited has died")))
            }
        }
    }
}
