// SPDX-License-Identifier: MIT OR Apache-2.0
//! What changed: what the overlay says, with what the names were and are.

use crate::change::{Change, Kind, What};
use crate::commit::is_below;
use crate::plan::PathBytes;
use crate::{Refusal, Side};
use openpath_abi::fcntl::{
    AT_FDCWD, AT_SYMLINK_NOFOLLOW, O_DIRECTORY, O_NOATIME, O_NOFOLLOW, O_PATH, O_RDONLY,
};
use openpath_abi::{Errno, Stat, mode};
use openpath_overlay::{ChangeKind, OverlayFs, SidesByPath};
use openpath_vfs::{AclKind, Cred, Fd, SuperBlock, Task, Vfs};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, LazyLock, OnceLock};

/// The most changes that are told.
const CHANGES_MAX: usize = 4_000_000;
/// The longest piece of a path that is given to one call: a path may be longer than `PATH_MAX`.
const PIECE: usize = 2048;

/// The trees that are compared.
pub(crate) struct Compare {
    overlay: Arc<SuperBlock>,
    lower: Reach,
    view: Reach,
    /// Directories that moved: where they are in the view, and where they are beneath.
    moved: OnceLock<Vec<(Vec<u8>, Vec<u8>)>>,
    /// Where attributes of directories changed, as far as their copies tell.
    sides: OnceLock<SidesByPath>,
}

impl Compare {
    /// Compares an overlay with its lower tree, and looks at `view`, which shows it.
    pub(crate) fn new(
        overlay: &Arc<SuperBlock>,
        lower: &Arc<SuperBlock>,
        view: &Task,
    ) -> Result<Compare, Refusal> {
        let vfs = Vfs::builder().build(Arc::clone(lower));
        let lower = vfs.and_then(|vfs| vfs.task(Cred::root()));
        Ok(Compare {
            overlay: Arc::clone(overlay),
            lower: Reach::new(lower.map_err(failed)?),
            view: Reach::new(view.fork().map_err(failed)?),
            moved: OnceLock::new(),
            sides: OnceLock::new(),
        })
    }

    /// All changes, by path, one for each.
    pub(crate) fn all(&self) -> Result<Vec<Change>, Refusal> {
        let mut all: Vec<Change> = Vec::new();
        let found = OverlayFs::changes_and_sides(&self.overlay, CHANGES_MAX);
        let (found, sides) = found.map_err(failed)?;
        self.sides.get_or_init(|| sides);
        for change in found {
            let kind = match change.kind {
                ChangeKind::Added => Kind::Added,
                ChangeKind::Deleted => Kind::Deleted,
                ChangeKind::Modified => Kind::Modified,
                ChangeKind::Attributes => Kind::Attributes,
                ChangeKind::Renamed(from) => Kind::Renamed {
                    from: path_of(&from),
                },
            };
            let path = path_of(&change.path);
            match all.last_mut() {
                Some(last) if last.path == path => {
                    if (&last.kind, &kind) == (&Kind::Deleted, &Kind::Added) {
                        last.kind = Kind::Modified;
                    } else if weight(&kind) > weight(&last.kind) {
                        last.kind = kind;
                    }
                }
                _ => all.push(Change::bare(path, kind)),
            }
        }
        let moved = all.iter().filter_map(|change| match &change.kind {
            Kind::Renamed { from } => {
                let (to, from) = (change.path.bytes(), from.bytes());
                Some((to.to_vec(), from.to_vec()))
            }
            _ => None,
        });
        self.moved.get_or_init(|| moved.collect());
        for change in &mut all {
            self.fill(change).map_err(failed)?;
        }
        Ok(all)
    }

    /// Says what a name was and is.
    fn fill(&self, change: &mut Change) -> Result<(), Errno> {
        let from = match &change.kind {
            Kind::Added => None,
            Kind::Renamed { from } => Some(from.bytes().to_vec()),
            _ => Some(self.beneath(change.path.bytes())),
        };
        let before = match &from {
            Some(from) => there(self.lower.lstat(from))?,
            None => None,
        };
        let now = match &change.kind {
            Kind::Deleted => None,
            _ => there(self.view.lstat(change.path.bytes()))?,
        };
        let size = |stat: Option<Stat>| {
            let file = stat.filter(|stat| mode::is_reg(stat.mode));
            file.map_or(0, |stat| u64::try_from(stat.size).unwrap_or(0))
        };
        let bits = |stat: Option<Stat>| stat.map_or(0, |stat| stat.mode & 0o7777);
        let is = now.or(before).map_or(0, |stat| stat.mode & mode::S_IFMT);
        change.what = match is {
            mode::S_IFREG => What::File,
            mode::S_IFDIR => What::Directory,
            mode::S_IFLNK => What::Link,
            _ => What::Other,
        };
        (change.size, change.size_before) = (size(now), size(before));
        (change.mode, change.mode_before) = (bits(now.or(before)), bits(before));
        let path = change.path.bytes();
        let sides = self.sides().get(path.strip_suffix(b"/").unwrap_or(path));
        if from.is_some() && sides.is_some_and(|sides| !sides.upper) {
            // Others may have changed them beneath.
            change.mode_before = change.mode;
            return Ok(());
        }
        let both = before.and(now).is_some_and(|now| !mode::is_lnk(now.mode));
        if let (Some(from), true) = (&from, both) {
            change.lists = self.lower.lists(from)? != self.view.lists(change.path.bytes())?;
        }
        Ok(())
    }

    /// On which sides the attributes of directories changed, by path, once the changes are known;
    /// a directory is missing if nothing tells.
    pub(crate) fn sides(&self) -> &SidesByPath {
        static NONE: LazyLock<SidesByPath> = LazyLock::new(SidesByPath::new);
        self.sides.get().unwrap_or(&NONE)
    }

    /// Where a path of the view is beneath, once the changes are known; other paths are there
    /// already.
    pub(crate) fn beneath(&self, path: &[u8]) -> Vec<u8> {
        let inside = |to: &[u8]| {
            let rest = path.strip_prefix(to);
            rest.is_some_and(|rest| rest.first() == Some(&b'/'))
        };
        let moved = self.moved.get().map_or(&[][..], Vec::as_slice);
        let above = moved.iter().filter(|(to, _)| inside(to));
        match above.max_by_key(|(to, _)| to.len()) {
            Some((to, from)) => [from, &path[to.len()..]].concat(),
            None => path.to_vec(),
        }
    }

    /// As [`crate::Inspect::data`].
    pub(crate) fn data(
        &self,
        side: Side,
        path: &[u8],
        max: usize,
    ) -> Result<Option<Vec<u8>>, Errno> {
        let reach = match side {
            Side::Before => &self.lower,
            Side::Now => &self.view,
        };
        let stat = reach.lstat(path)?;
        let (dir, name) = reach.spot(path)?;
        let task = &reach.task;
        if mode::is_lnk(stat.mode) {
            return task.readlinkat(dir, name).map(Some);
        }
        if !mode::is_reg(stat.mode) {
            return Ok(None);
        }
        let fd = task.openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NOATIME, 0)?;
        // One byte more, to know of a longer file.
        let mut data = vec![0; max.saturating_add(1)];
        let mut filled = 0;
        let read = loop {
            match task.read(fd, &mut data[filled..]) {
                Ok(0) => break Ok(()),
                Ok(got) => filled += got,
                Err(why) => break Err(why),
            }
        };
        task.close(fd)?;
        read?;
        data.truncate(filled);
        Ok(Some(data).filter(|data| data.len() <= max))
    }
}

/// A tree in which paths of any length are found.
struct Reach {
    task: Task,
    /// The directory that was asked for last.
    last: RefCell<Option<(Vec<u8>, Fd)>>,
}

impl Reach {
    fn new(task: Task) -> Reach {
        let last = RefCell::new(None);
        Reach { task, last }
    }

    fn lstat(&self, path: &[u8]) -> Result<Stat, Errno> {
        let (dir, name) = self.spot(path)?;
        self.task.fstatat(dir, name, AT_SYMLINK_NOFOLLOW)
    }

    /// The access control lists of what is at a path.
    fn lists(&self, path: &[u8]) -> Result<[Option<Vec<u8>>; 2], Errno> {
        let list = |kind: AclKind| {
            let (dir, name) = self.spot(path)?;
            match self
                .task
                .getxattrat(dir, name, AT_SYMLINK_NOFOLLOW, kind.name())
            {
                Ok(list) => Ok(Some(list)),
                Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(None),
                Err(why) => Err(why),
            }
        };
        Ok([list(AclKind::Access)?, list(AclKind::Default)?])
    }

    /// The directory of a path, by descriptor, and the rest of the path; a short path has none.
    fn spot<'p>(&self, path: &'p [u8]) -> Result<(Fd, &'p [u8]), Errno> {
        if path.len() <= PIECE {
            return Ok((AT_FDCWD, path));
        }
        let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let (above, name) = (&path[..end], &path[end + 1..]);
        let mut last = self.last.borrow_mut();
        let known = last.take_if(|_| true);
        let (mut dir, mut at) = match known {
            Some((known, dir)) if is_below(above, &known) => (dir, known.len()),
            known => {
                if let Some((_, dir)) = known {
                    self.task.close(dir)?;
                }
                (self.task.open(b"/", O_PATH | O_DIRECTORY, 0)?, 0)
            }
        };
        while at < above.len() {
            let rest = &above[at + 1..];
            let piece = match rest.len() {
                ..=PIECE => rest.len(),
                _ => rest[..PIECE]
                    .iter()
                    .rposition(|byte| *byte == b'/')
                    .unwrap_or(PIECE),
            };
            let below = self
                .task
                .openat(dir, &rest[..piece], O_PATH | O_DIRECTORY, 0);
            self.task.close(dir)?;
            dir = below?;
            at += 1 + piece;
        }
        *last = Some((above.to_vec(), dir));
        Ok((dir, name))
    }
}

/// Which of two things that became of a name is to be told.
fn weight(kind: &Kind) -> u8 {
    match kind {
        Kind::Attributes => 0,
        Kind::Modified => 1,
        Kind::Added | Kind::Deleted => 2,
        Kind::Renamed { .. } => 3,
    }
}

fn there(found: Result<Stat, Errno>) -> Result<Option<Stat>, Errno> {
    match found {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(None),
        Err(why) => Err(why),
    }
}

fn path_of(path: &[u8]) -> PathBytes {
    Path::new(OsStr::from_bytes(path)).into()
}

fn failed(why: Errno) -> Refusal {
    if why == Errno::E2BIG {
        let text = "there are too many changes to tell: more than 4,000,000, or paths of more than \
            512 MB together; `openpath discard` removes a view";
        return Refusal::new(text);
    }
    Refusal::step("the changes cannot be read", why)
}
