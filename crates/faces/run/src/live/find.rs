// SPDX-License-Identifier: MIT OR Apache-2.0
//! The side of who asks: what runs, by process, name or directory.

use super::figures::{Figures, Label};
use super::locks::Locks;
use super::place::Place;
use super::{Answer, Ask, PATIENCE, VERSION};
use crate::Refusal;
use crate::cgroup::Entry;
use crate::share::Share;
use crate::space::Space;
use crate::wire::Wire;
use rustix::fd::OwnedFd;
use rustix::net::{UCred, sockopt};
use std::io;
use std::time::{Duration, Instant};

/// A server that answered.
#[derive(Clone, Debug)]
pub struct Live {
    /// What it said first.
    pub figures: Figures,
    /// Whose it is.
    uid: u32,
}

/// What it takes to enter a view.
pub(crate) struct WayIn {
    /// Its namespaces, each with its kind.
    pub(crate) namespaces: Vec<(Space, OwnedFd)>,
    /// The control group of its commands, if it has one.
    pub(crate) group: Option<Entry>,
    /// What its commands share with the host.
    pub(crate) share: Vec<Share>,
    /// Whose server it is.
    pub(crate) server: UCred,
}

impl Live {
    /// How long sockets of one directory that do not answer may take together.
    const SLOW: Duration = Duration::from_secs(10);

    /// All that run now and are this user's, or anybody's for the superuser; by process.
    #[must_use]
    pub fn all() -> Vec<Live> {
        let mut all = Vec::new();
        for place in Place::all() {
            let mut left = Self::SLOW;
            for id in place.ids() {
                // What goes while it is looked for does not run.
                let begun = Instant::now();
                let found = figures(&place, id);
                if found.is_none() {
                    left = left.saturating_sub(begun.elapsed());
                }
                all.extend(found);
                if left.is_zero() {
                    break;
                }
            }
        }
        all.sort_by_key(|live| live.figures.label.pid);
        all.dedup_by_key(|live| live.figures.label.pid);
        all
    }

    /// The one that `text` means: its process, its name, or its directory.
    ///
    /// # Errors
    /// There is none, or several.
    pub fn find(text: &str) -> Result<Live, Refusal> {
        let mut all = Self::all();
        all.retain(|live| live.label().is(text));
        let found = all.pop();
        match (found, all.pop()) {
            (Some(live), None) => Ok(live),
            (Some(a), Some(b)) => Err(Refusal::new(format!(
                "{text} is the name of several: say the process, {} or {}",
                b.label().pid,
                a.label().pid
            ))),
            (None, _) => Err(Refusal::new(format!(
                "nothing runs that is called {text}: see `openpath list`"
            ))),
        }
    }

    /// What it is known by.
    #[must_use]
    pub fn label(&self) -> &Label {
        &self.figures.label
    }

    /// Asks once more.
    ///
    /// # Errors
    /// It is gone.
    pub fn again(&self) -> Result<Live, Refusal> {
        let pid = self.label().pid;
        let mut places = Place::all().into_iter();
        let found = places.find_map(|place| figures(&place, pid));
        found.ok_or_else(|| Refusal::new(format!("{pid} has ended")))
    }

    /// What is locked there.
    ///
    /// # Errors
    /// It is gone, or of a version that does not say.
    pub fn locks(&self) -> Result<Locks, Refusal> {
        let pid = self.label().pid;
        match self.ask(&Ask::Locks)?.0.recv() {
            Ok(Some((Answer::Locks(locks), _))) => Ok(locks),
            Ok(Some((Answer::Refused(why), _))) => Err(Refusal::new(why)),
            _ => Err(Refusal::new(format!("{pid} does not say what is locked"))),
        }
    }

    /// Whether nobody listens there any more. Who listens and does not answer has not ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let pid = self.label().pid;
        let listens = |place: Place| place.connect(pid).is_ok();
        !Place::all().into_iter().any(listens)
    }

    /// Asks it; what answers, and whose it is.
    fn ask(&self, what: &Ask) -> Result<(Wire, UCred), Refusal> {
        let pid = self.label().pid;
        let mut places = Place::all().into_iter();
        let found = places.find_map(|place| connect(&place, pid).ok());
        let found = found.ok_or_else(|| Refusal::new(format!("{pid} has ended")))?;
        let lost = |why| Refusal::step(&format!("{pid} does not answer"), why);
        found.0.send(what, None).map_err(lost)?;
        Ok(found)
    }

    /// What it takes to enter the view.
    pub(crate) fn way_in(&self) -> Result<WayIn, Refusal> {
        let pid = self.label().pid;
        let lost = |why: io::Error| Refusal::step(&format!("{pid} does not answer"), why);
        let gone = || Refusal::new(format!("{pid} has ended"));
        let (wire, server) = self.ask(&Ask::Enter)?;
        let (count, share) = match wire.recv().map_err(lost)?.ok_or_else(gone)?.0 {
            Answer::Enter { namespaces, share } => (namespaces, share),
            Answer::Refused(why) => return Err(Refusal::new(why)),
            _ => return Err(Refusal::new(format!("{pid} is confused"))),
        };
        let mut namespaces = Vec::new();
        let mut group = None;
        for _ in 0..count {
            match wire.recv().map_err(lost)?.ok_or_else(gone)? {
                (Answer::Namespace(kind), Some(fd)) => namespaces.push((kind, fd)),
                (Answer::Group, Some(fd)) => {
                    let entry = Entry::over(fd);
                    group = Some(entry.ok_or_else(|| Refusal::new(format!("{pid} is confused")))?);
                }
                _ => return Err(Refusal::new(format!("{pid} is confused"))),
            }
        }
        Ok(WayIn {
            namespaces,
            group,
            share,
            server,
        })
    }
}

/// Connects to a server, and makes sure that it is its user's.
fn connect(place: &Place, id: u32) -> io::Result<(Wire, UCred)> {
    let stream = place.connect(id)?;
    stream.set_read_timeout(Some(2 * PATIENCE))?;
    stream.set_write_timeout(Some(2 * PATIENCE))?;
    let server = sockopt::socket_peercred(&stream)?;
    if server.uid.as_raw() != place.uid {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok((Wire::over(stream.into()).within(2 * PATIENCE), server))
}

fn figures(place: &Place, id: u32) -> Option<Live> {
    let (wire, _) = connect(place, id).ok()?;
    wire.send(&Ask::Figures, None).ok()?;
    match wire.recv().ok()?? {
        (Answer::Figures(figures), _) if figures.version == VERSION && figures.label.pid == id => {
            Some(Live {
                figures: *figures,
                uid: place.uid,
            })
        }
        _ => None,
    }
}

impl Live {
    /// Whose it is.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid
    }
}
