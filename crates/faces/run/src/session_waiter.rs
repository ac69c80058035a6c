// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits for the FUSE session of a view to end, on a thread that exists before the command does.
//!
//! A limit on threads that is lowered later does not keep the view from ending.

use openpath_fuse::Session;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// A thread that waits for the end of a session that is sent to it.
pub(crate) struct SessionWaiter {
    given: Sender<Session>,
    ended: Receiver<io::Result<()>>,
}

impl SessionWaiter {
    /// Starts the thread.
    ///
    /// # Errors
    /// `EAGAIN`: no thread can be started.
    pub(crate) fn prepare() -> io::Result<SessionWaiter> {
        let (given, session) = channel::<Session>();
        let (told, ended) = channel();
        let thread = std::thread::Builder::new().name("openpath-leave".to_owned());
        thread.spawn(move || {
            if let Ok(session) = session.recv() {
                // The receiver may be gone.
                told.send(session.wait()).ok();
            }
        })?;
        Ok(SessionWaiter { given, ended })
    }

    /// Begins to wait for the end of a session.
    pub(crate) fn begin(&self, session: Session) {
        // The thread receives as long as this value lives.
        self.given.send(session).ok();
    }

    /// Waits for the end of the session as long as `asked` grows in each `patience`, and no longer
    /// than `longest`; `None` if it has not ended. `on_progress` is called in between.
    pub(crate) fn wait_while_active(
        &self,
        patience: Duration,
        longest: Duration,
        asked: impl Fn() -> u64,
        on_progress: impl Fn(),
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
            on_progress();
        }
    }

    /// The result of the session; `None` if it has not ended within `patience`.
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
    use super::SessionWaiter;
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    #[test]
    fn wait_for_a_session_ends_when_idle_or_at_the_maximum() {
        let waiter = SessionWaiter::prepare().unwrap();
        let (patience, longest) = (Duration::from_millis(5), Duration::from_millis(200));
        let asked = Cell::new(0);
        let ask = || asked.replace(asked.get() + 1);
        let begun = Instant::now();
        assert!(
            waiter
                .wait_while_active(patience, longest, ask, || ())
                .is_none()
        );
        let waited = begun.elapsed();
        assert!(waited >= longest && waited < 10 * longest, "{waited:?}");
        let begun = Instant::now();
        assert!(
            waiter
                .wait_while_active(patience, Duration::MAX, || 7, || ())
                .is_none()
        );
        assert!(begun.elapsed() < longest);
    }
}
