// SPDX-License-Identifier: MIT OR Apache-2.0
//! A commit that is carried out or undone, and all that it works on. `forth` and `back` say in
//! which order.
//!
//! # Rules
//! R5. Other users may rename things in the real tree meanwhile. A directory in which a name
//!     changes must be the inode that the plan saw, and what is changed is held (`held`).

use crate::disks::Disks;
use crate::facts::{Id, Time};
use crate::held::Held;
use crate::journal::{Act, Bytes, Journal};
use crate::messages::{changed, failed, text};
use crate::names::{join, split};
use crate::notes::Place;
use crate::phase::{Phase, Watch};
use crate::refusal::Refusal;
use crate::swap::Names;
use crate::tree::Tree;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The mark of a directory that hides what is beneath it.
const OPAQUE: &str = "user.overlay.opaque";

/// A directory that is held, and a name in it.
type Spot = (Rc<OwnedFd>, Vec<u8>);

/// A commit, and all that it works on.
pub(crate) struct Carry<'a> {
    pub(crate) base: Tree,
    pub(crate) upper: Tree,
    /// The commit's own directory.
    pub(crate) store: Tree,
    pub(crate) place: Place,
    pub(crate) journal: Journal,
    pub(crate) watch: &'a mut dyn Watch,
    /// [`Watch::step`] has ended it, as a crash would.
    pub(crate) stopped: bool,
    /// It goes on with what was interrupted.
    pub(crate) resumed: bool,
    disks: Disks,
    pub(crate) opened: RefCell<OpenedByNumber>,
    /// The numbers of files that further names are made of.
    pub(crate) linked: OnceCell<HashSet<u64>>,
    /// What an undo took from a name, by act.
    pub(crate) displaced: HashMap<usize, Id>,
}

/// Which of the directories that are opened have an inode's number.
#[derive(Default)]
pub(crate) struct OpenedByNumber {
    /// So many are in it.
    pub(crate) length: usize,
    pub(crate) all: HashMap<u64, Vec<usize>>,
}

/// Which of the two places that a directory may have: a path can lead to one directory before
/// directories move, and to another afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum When {
    Before,
    After,
}

impl<'a> Carry<'a> {
    pub(crate) fn open(
        place: Place,
        journal: Journal,
        watch: &'a mut dyn Watch,
        resumed: bool,
    ) -> Result<Carry<'a>, Refusal> {
        Ok(Carry {
            base: Tree::open(Path::new("/"))?,
            upper: place.notes.below(b"/upper")?,
            store: place.store()?,
            place,
            journal,
            watch,
            stopped: false,
            resumed,
            disks: Disks::default(),
            opened: RefCell::default(),
            linked: OnceCell::new(),
            displaced: HashMap::new(),
        })
    }

    /// The directory of a path of the real tree, which must be the one that the plan saw (R5), and
    /// the name in it.
    pub(crate) fn at(&self, path: &[u8], when: When) -> Result<Spot, Refusal> {
        let spot = self.spot(path, when)?;
        spot.ok_or_else(|| changed(split(path).0))
    }

    /// The same; `None` after an interruption, if the directory has another place by then.
    pub(crate) fn at_if(&self, path: &[u8], when: When) -> Result<Option<Spot>, Refusal> {
        match self.spot(path, when)? {
            None if !self.resumed => Err(changed(split(path).0)),
            spot => Ok(spot),
        }
    }

    pub(crate) fn spot(&self, path: &[u8], when: When) -> Result<Option<Spot>, Refusal> {
        let (dir, name) = match self.base.spot(path) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            spot => spot.map_err(|why| failed(path, why))?,
        };
        let known = match when {
            When::Before => &self.journal.before,
            When::After => &self.journal.after,
        };
        let above = split(path).0;
        // They are sorted by path.
        if let Ok(at) = known.binary_search_by(|(path, _)| path[..].cmp(above)) {
            let held = Held::open(&*dir, b".").map_err(|why| failed(above, why))?;
            if !held.is_some_and(|held| held.id().is(&known[at].1)) {
                return Ok(None);
            }
        }
        Ok(Some((dir, name.to_vec())))
    }

    /// Tells how far it is.
    pub(crate) fn step(&mut self, phase: Phase, done: u64, of: u64) -> Result<(), Refusal> {
        if self.watch.step(phase, done, of) {
            return Ok(());
        }
        self.stopped = true;
        Err(Refusal::new("stopped"))
    }

    /// Replaces the commit before, which cannot be undone any more.
    pub(crate) fn take_place(&mut self) -> Result<(), Refusal> {
        if !self.place.is_next() {
            return Ok(());
        }
        let notes = &self.place.notes;
        let said = |why| notes.said(b"/commit", why);
        let view = &notes.tree;
        // First what makes it one.
        view.remove(b"/commit/state").map_err(said)?;
        view.remove(b"/commit").map_err(said)?;
        view.rename(b"/next", b"/commit").map_err(said)?;
        self.place.name = b"/commit";
        Ok(())
    }

    /// Does something with the names of an act; `None` as `at_if`.
    pub(crate) fn names<R>(
        &self,
        act: &Act,
        run: impl FnOnce(&Names<'_>) -> R,
    ) -> Result<Option<R>, Refusal> {
        // What moves waits elsewhere, in a directory that stays.
        let when = match act.hidden == act.before && act.items.is_empty() {
            true => When::Before,
            false => When::After,
        };
        let Some((dir, name)) = self.at_if(&act.path, When::After)? else {
            return Ok(None);
        };
        let Some((beside, hidden)) = self.at_if(&act.hidden, when)? else {
            return Ok(None);
        };
        let aside = [&hidden[..], b"+"].concat();
        let names = Names {
            name: (dir.as_fd(), &name),
            hidden: (beside.as_fd(), &hidden),
            aside: (beside.as_fd(), &aside),
        };
        let done = run(&names);
        self.base.forget();
        Ok(Some(done))
    }

    /// Has a directory of the view hide what is beneath it, or show it.
    pub(crate) fn mark(&self, path: &[u8], hides: bool) -> Result<(), Refusal> {
        let fail = |why| failed(path, why);
        let Some(held) = self.upper.hold(path).map_err(fail)? else {
            return Ok(());
        };
        let done = match hides {
            true => rustix::fs::setxattr(held.path(), OPAQUE, b"y", XattrFlags::empty()),
            false => rustix::fs::removexattr(held.path(), OPAQUE),
        };
        match done {
            Err(Errno::NODATA) => Ok(()),
            done => done.map_err(fail),
        }
    }

    /// Sets the time of a directory, of which that may not be this process's to set.
    pub(crate) fn moment(
        &self,
        path: &[u8],
        id: Option<Id>,
        atime: Time,
        mtime: Time,
    ) -> Result<(), Refusal> {
        let fail = |why| failed(path, why);
        let held = self.base.hold(path).map_err(fail)?;
        // Another directory has the name by now, and its own time.
        let Some(held) = held.filter(|held| id.is_some_and(|id| held.id().is(&id))) else {
            return Ok(());
        };
        match held.times(atime, mtime) {
            Err(Errno::PERM | Errno::ACCESS) => Ok(()),
            done => done.map_err(fail),
        }
    }

    /// Holds every file system that is worked on.
    pub(crate) fn hold_disks(&self) -> Result<(), Refusal> {
        let acts = self.journal.acts.iter();
        let acts = acts.flat_map(|act| [&act.before, &act.hidden]);
        let touches = self.journal.touches.iter();
        let touches = touches.flat_map(|touch| [&touch.place, &touch.path]);
        let moments = self.journal.moments.iter();
        let moments = moments.flat_map(|moment| [&moment.path_before, &moment.path]);
        let places = acts.chain(touches).chain(moments);
        for path in places.map(|place| split(place).0) {
            self.disks.hold(&self.base, path).map_err(|why| match why {
                Errno::ACCESS => Refusal::new(format!(
                    "no directory above {} may be read, so what is committed there cannot be \
                     brought to the disk: make it readable (`chmod u+r`)",
                    text(path)
                )),
                why => failed(path, why),
            })?;
        }
        let store = self.disks.hold(&self.store, b"");
        store.map_err(|why| failed(b"/", why))
    }

    /// Brings every file system that is worked on to the disk.
    pub(crate) fn sync(&self) -> Result<(), Refusal> {
        // Some may have come since.
        self.hold_disks()?;
        let synced = self.disks.sync();
        synced.map_err(|why| Refusal::step("the changes cannot be brought to the disk", why))
    }

    /// Whether a file had names in the real tree, and the commit makes further ones.
    pub(crate) fn is_link(&self, id: &Id) -> bool {
        let links = &self.journal.links;
        let numbers = self
            .linked
            .get_or_init(|| links.iter().map(|link| link.id.number).collect());
        numbers.contains(&id.number) && links.iter().any(|link| link.id.is(id))
    }

    /// What others made elsewhere is in a directory of the commit.
    pub(crate) fn paths_of_acts(&self) -> HashSet<Bytes> {
        let acts = self.journal.acts.iter();
        acts.map(|act| act.path.clone()).collect()
    }
}

/// The time now.
pub(crate) fn now() -> Time {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    (seconds, now.subsec_nanos())
}

/// A path in the store.
pub(crate) fn kept(kind: &str, number: usize) -> Vec<u8> {
    join(format!("/{kind}").as_bytes(), number.to_string().as_bytes())
}
