// SPDX-License-Identifier: MIT OR Apache-2.0
//! The side of who asks: what runs, by process, name or directory.

use super::figures::{Figures, Label};
use super::locks::Locks;
use super::place::Place;
use super::{Answer, Ask, PATIENCE, VERSION};
use crate::cgroup::Entry;
use crate::share::Share;
use crate::space::Space;
use crate::wire::Wire;
use openpath_commit::Refusal;
use rustix::fd::OwnedFd;
use rustix::net::{UCred, sockopt};
use std::collections::BTreeMap;
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

/// How long servers that do not answer were waited for, by user.
#[derive(Default)]
struct Waits(BTreeMap<u32, Duration>);

impl Waits {
    /// For those of one user.
    const USER: Duration = Duration::from_secs(10);
    /// For those of all users but the superuser: one of them may have many numbers (subuid(5)).
    const USERS: Duration = Duration::from_secs(30);

    fn add(&mut self, uid: u32, wait: Duration) {
        *self.0.entry(uid).or_default() += wait;
    }

    fn are_over(&self, uid: u32) -> bool {
        let mine = self.0.get(&uid).copied().unwrap_or_default();
        let users = self.0.iter().filter(|(uid, _)| **uid != 0);
        let others: Duration = users.map(|(_, wait)| *wait).sum();
        mine >= Self::USER || (uid != 0 && others >= Self::USERS)
    }
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
    /// All that run now and are this user's, or anybody's for the superuser; by process.
    ///
    /// Servers of a user that do not answer are waited for only so long together, and those of all
    /// users but the superuser.
    #[must_use]
    pub fn all() -> Vec<Live> {
        let mut all = Vec::new();
        let mut waits = Waits::default();
        for place in Place::all() {
            for id in place.ids() {
                if waits.are_over(place.uid) {
                    break;
                }
                // What goes while it is looked for does not run.
                let begun = Instant::now();
                match figures(&place, id) {
                    Some(live) => all.push(live),
                    None => waits.add(place.uid, begun.elapsed()),
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
        let mut places = self.places();
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
        let listens = |place: Place| match place.connect(pid) {
            Ok(_) => true,
            Err(why) => why.kind() == io::ErrorKind::WouldBlock,
        };
        !self.places().any(listens)
    }

    /// Where its socket may be: with its user's, and nobody else's of the same number.
    fn places(&self) -> impl Iterator<Item = Place> {
        let all = Place::all().into_iter();
        all.filter(|place| place.uid == self.uid)
    }

    /// Asks it; what answers, and whose it is.
    fn ask(&self, what: &Ask) -> Result<(Wire, UCred), Refusal> {
        let pid = self.label().pid;
        let mut places = self.places();
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

#[cfg(test)]
mod tests {
    use super::Waits;
    use std::time::Duration;

    #[test]
    fn waits_are_bounded_for_each_user_and_for_all_but_the_superuser() {
        let mut waits = Waits::default();
        waits.add(1000, Duration::from_secs(9));
        assert!(!waits.are_over(1000));
        waits.add(1000, Duration::from_secs(4));
        assert!(waits.are_over(1000) && !waits.are_over(1001));
        for uid in 1001..1003 {
            waits.add(uid, Duration::from_secs(9));
        }
        assert!(waits.are_over(1003) && waits.are_over(1001) && !waits.are_over(0));
        waits.add(0, Duration::from_secs(10));
        assert!(waits.are_over(0));
    }
}
