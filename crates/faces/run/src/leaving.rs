// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits for a session to end, on a thread that is there before the command is.
//!
//! A limit on threads that is lowered later does not keep the view from ending.

use openpath_fuse::Session;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

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

    /// How the session ended, which is waited for as long as `asked` grows in each `patience`, and
    /// no longer than `longest`; `None` if it has not ended. `going_on` is called in between.
    pub(crate) fn outwait(
        &self,
        patience: Duration,
        longest: Duration,
        asked: impl Fn() -> u64,
        going_on: impl Fn(),
    ) -> Option<io::Result<()>> {
        let begun = Instant::now();
        let mut before = asked();
        loop {
            let left = longest.saturating_sub(begun.elapsed());
            let ended = self.ended(patience.min(left));
            let now = asked();
            if ended.is_some() || now == before || begun.elapsed() >= longest {
                return ended;
            }
            before = now;
            going_on();
        }
    }

    /// How the session ended; `None` if it has not ended within `patience`.
    fn ended(&self, patience: Duration) -> Option<io::Result<()>> {
        match self.ended.recv_timeout(patience) {
            Ok(ended) => Some(ended),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                Some(Err(io::Error::other("the thread that waited has died")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Leaving;
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    #[test]
    fn session_is_waited_for_while_it_is_asked_and_not_for_ever() {
        let leaving = Leaving::prepare().unwrap();
        let (patience, longest) = (Duration::from_millis(5), Duration::from_millis(200));
        let asked = Cell::new(0);
        let ask = || asked.replace(asked.get() + 1);
        let begun = Instant::now();
        assert!(leaving.outwait(patience, longest, ask, || ()).is_none());
        let waited = begun.elapsed();
        assert!(waited >= longest && waited < 10 * longest, "{waited:?}");
        let begun = Instant::now();
        assert!(
            leaving
                .outwait(patience, Duration::MAX, || 7, || ())
                .is_none()
        );
        assert!(begun.elapsed() < longest);
    }
}
