// SPDX-License-Identifier: MIT OR Apache-2.0
//! What changed: what the overlay says, with what the names were and are.

use openpath_abi::fcntl::{
    AT_FDCWD, AT_SYMLINK_NOFOLLOW, O_DIRECTORY, O_NOATIME, O_NOFOLLOW, O_PATH, O_RDONLY,
};
use openpath_abi::{Errno, Stat, mode};
use openpath_commit::{Change, ChangeList, Kind, Lists, Refusal, Side, What, is_below, path_of};
use openpath_overlay::{ChangeKind, Changes, OverlayFs, Sides, SidesByPath};
use openpath_vfs::{AclKind, Cred, Fd, SuperBlock, Task, Vfs};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Included, Unbounded};
use std::sync::{Arc, LazyLock, OnceLock};

/// The most changes that are told.
const CHANGES_MAX: usize = 4_000_000;
/// The most bytes of paths that are told as a whole.
const PATHS_MAX: usize = 512_000_000;
/// The longest piece of a path that is given to one call: a path may be longer than `PATH_MAX`.
const PIECE: usize = 2048;

/// The trees that are compared.
pub(crate) struct Compare {
    overlay: Arc<SuperBlock>,
    lower: Reach,
    view: Reach,
    /// Directories that moved: where they are in the view, and where they are beneath.
    moved: OnceLock<BTreeMap<Vec<u8>, Vec<u8>>>,
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

    /// All changes in the order of a walk, one for each path.
    pub(crate) fn all(&self) -> Result<Vec<Change>, Refusal> {
        let found = OverlayFs::changes_and_sides(&self.overlay, CHANGES_MAX);
        let (found, sides) = found.map_err(failed)?;
        self.sides.get_or_init(|| sides);
        let (mut all, mut bytes) = (Vec::new(), 0);
        self.each(&found, &mut |change| {
            bytes += change.path.bytes().len();
            all.push(change);
            match bytes {
                ..=PATHS_MAX => Ok(()),
                _ => Err(failed(Errno::E2BIG)),
            }
        })?;
        Ok(all)
    }

    /// The same in little memory.
    pub(crate) fn list(&self) -> Result<ChangeList, Refusal> {
        let found = OverlayFs::changes(&self.overlay, CHANGES_MAX).map_err(failed)?;
        let mut list = ChangeList::default();
        self.each(&found, &mut |change| {
            list.push(change);
            Ok(())
        })?;
        Ok(list)
    }

    fn each(
        &self,
        found: &Changes,
        tell: &mut dyn FnMut(Change) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let mut moved = BTreeMap::new();
        found.each(|change| {
            if let ChangeKind::Renamed(from) = change.kind {
                moved.insert(change.path.to_vec(), from.clone());
            }
            Ok::<_, Refusal>(())
        })?;
        self.moved.get_or_init(|| moved);
        let mut filled = |(mut change, sides): (Change, Option<Sides>)| {
            self.fill(&mut change, sides).map_err(failed)?;
            tell(change)
        };
        let mut last: Option<(Change, Option<Sides>)> = None;
        found.each(|part| {
            let new = || Change::bare(path_of(part.path), Kind::Attributes);
            let mut change = match last.take() {
                Some((change, _)) if change.path.bytes() == part.path => change,
                Some(done) => {
                    filled(done)?;
                    first(new(), part.kind)
                }
                None => first(new(), part.kind),
            };
            join(&mut change, part.kind);
            change.below = part.below;
            last = Some((change, part.sides));
            Ok(())
        })?;
        last.map_or(Ok(()), filled)
    }

    /// Says what a name was and is; `sides`: of a directory, where its attributes changed.
    fn fill(&self, change: &mut Change, sides: Option<Sides>) -> Result<(), Errno> {
        let from = match &change.kind {
            Kind::Added => None,
            Kind::Renamed { from } => Some(from.bytes().to_vec()),
            _ => Some(self.place(change.path.bytes())?),
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
        change.what = now.or(before).map_or(What::Other, |stat| what(stat.mode));
        change.what_before = before.map_or(change.what, |stat| what(stat.mode));
        (change.size, change.size_before) = (size(now), size(before));
        (change.mode, change.mode_before) = (bits(now.or(before)), bits(before));
        if change.what == What::Link && now.is_some() {
            let target = self.data(Side::Now, change.path.bytes(), usize::MAX - 1)?;
            change.target = target.map(|target| path_of(&target));
        }
        if from.is_some() && sides.is_some_and(|sides| !sides.upper) {
            // Others may have changed them beneath.
            change.mode_before = change.mode;
            return Ok(());
        }
        if let (Some(from), Some(before), Some(now)) = (from, before, now) {
            self.compare_attributes(change, (&from, before), now)?;
        }
        Ok(())
    }

    /// Says which attributes of a file of one kind differ.
    fn compare_attributes(
        &self,
        change: &mut Change,
        (from, before): (&[u8], Stat),
        now: Stat,
    ) -> Result<(), Errno> {
        if change.what != change.what_before {
            return Ok(());
        }
        let differs = &mut change.differs;
        differs.mode = change.mode != change.mode_before;
        let owners = ((before.uid, before.gid), (now.uid, now.gid));
        differs.owner = (owners.0 != owners.1).then_some(owners);
        let same_data = !change.data && change.what != What::Directory;
        differs.times = same_data && before.mtime != now.mtime;
        if change.what == What::Link {
            return Ok(());
        }
        let (old, new) = (
            self.lower.xattrs(from)?,
            self.view.xattrs(change.path.bytes())?,
        );
        let lists = |all: &BTreeMap<Vec<u8>, Vec<u8>>| -> Vec<_> {
            let lists = all.iter().filter(|(name, _)| is_list(name));
            lists
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect()
        };
        let (had, has) = (lists(&old), lists(&new));
        differs.lists = match (had.is_empty(), has.is_empty()) {
            _ if had == has => None,
            (true, _) => Some(Lists::Set),
            (_, true) => Some(Lists::Removed),
            _ => Some(Lists::Changed),
        };
        let names: BTreeSet<_> = old.keys().chain(new.keys()).collect();
        let names = names.into_iter().filter(|name| !is_list(name));
        let names = names.filter(|name| old.get(*name) != new.get(*name));
        differs.xattrs = names.map(|name| path_of(name)).collect();
        Ok(())
    }

    /// Where what a path had before is in the real tree, once the changes are known: what a
    /// directory that moved replaced has the same path there.
    pub(crate) fn place(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        let beneath = self.beneath(path);
        if beneath != path && there(self.lower.lstat(&beneath))?.is_none() {
            return Ok(path.to_vec());
        }
        Ok(beneath)
    }

    /// On which sides the attributes of directories changed, by path, once [`Compare::all`] was
    /// called; a directory is missing if nothing tells.
    pub(crate) fn sides(&self) -> &SidesByPath {
        static NONE: LazyLock<SidesByPath> = LazyLock::new(SidesByPath::new);
        self.sides.get().unwrap_or(&NONE)
    }

    /// Where a path of the view is beneath, once the changes are known; other paths are there
    /// already.
    pub(crate) fn beneath(&self, path: &[u8]) -> Vec<u8> {
        let Some(moved) = self.moved.get().filter(|moved| !moved.is_empty()) else {
            return path.to_vec();
        };
        let mut end = path.len();
        while let Some(slash) = path[..end].iter().rposition(|byte| *byte == b'/') {
            let above = &path[..slash];
            let mut known = moved.range::<[u8], _>((Unbounded, Included(above)));
            let Some((known, from)) = known.next_back() else {
                break;
            };
            if known == above {
                return [from, &path[slash..]].concat();
            }
            // One above that begins like `known`, or none.
            let both = known.iter().zip(above);
            end = both.take_while(|(a, b)| a == b).count() + 1;
        }
        path.to_vec()
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

    /// The extended attributes of what is at a path, with its access control lists.
    fn xattrs(&self, path: &[u8]) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Errno> {
        let (dir, name) = self.spot(path)?;
        let names = match self.task.listxattrat(dir, name, AT_SYMLINK_NOFOLLOW) {
            Err(Errno::EOPNOTSUPP | Errno::EACCES | Errno::EPERM) => Vec::new(),
            names => names?,
        };
        // Not every tree lists the access control lists that its files have.
        let lists = [AclKind::Access, AclKind::Default].map(AclKind::name);
        let names = names.split(|byte| *byte == 0).chain(lists);
        let mut all = BTreeMap::new();
        for of in names.filter(|of| !of.is_empty()) {
            let (dir, name) = self.spot(path)?;
            match self.task.getxattrat(dir, name, AT_SYMLINK_NOFOLLOW, of) {
                Ok(value) => drop(all.insert(of.to_vec(), value)),
                Err(Errno::ENODATA | Errno::EOPNOTSUPP | Errno::EACCES | Errno::EPERM) => {}
                Err(why) => return Err(why),
            }
        }
        Ok(all)
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

/// A change, by the first that became of its name.
fn first(change: Change, kind: &ChangeKind) -> Change {
    let kind = match kind {
        ChangeKind::Added => Kind::Added,
        ChangeKind::Deleted => Kind::Deleted,
        ChangeKind::Modified => Kind::Modified,
        ChangeKind::Attributes => Kind::Attributes,
        ChangeKind::Renamed(from) => Kind::Renamed {
            from: path_of(from),
        },
    };
    Change { kind, ..change }
}

/// Adds what else became of a name.
fn join(change: &mut Change, kind: &ChangeKind) {
    match (&change.kind, kind) {
        (Kind::Deleted, ChangeKind::Added) => change.kind = Kind::Modified,
        (_, ChangeKind::Renamed(from)) => {
            change.replaces = change.kind == Kind::Deleted;
            change.kind = Kind::Renamed {
                from: path_of(from),
            };
        }
        (Kind::Attributes, ChangeKind::Modified) => change.kind = Kind::Modified,
        _ => {}
    }
    change.data |= *kind == ChangeKind::Modified || change.kind == Kind::Modified;
}

fn what(mode: u32) -> What {
    match mode & mode::S_IFMT {
        mode::S_IFREG => What::File,
        mode::S_IFDIR => What::Directory,
        mode::S_IFLNK => What::Link,
        _ => What::Other,
    }
}

fn is_list(name: &[u8]) -> bool {
    AclKind::of_name(name).is_some()
}

fn there(found: Result<Stat, Errno>) -> Result<Option<Stat>, Errno> {
    match found {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(None),
        Err(why) => Err(why),
    }
}

fn failed(why: Errno) -> Refusal {
    if why == Errno::E2BIG {
        let text = "there are too many changes to tell: more than 4,000,000, or paths of more than \
            512 MB together; `openpath discard` removes a view";
        return Refusal::new(text);
    }
    Refusal::step("the changes cannot be read", why)
}
