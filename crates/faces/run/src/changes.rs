// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists what a command changed in its view, with the attributes of each file before and now, and
//! finds a changed file in the view and in the real tree. The list comes from a comparison of the
//! overlay with its lower tree.

use openpath_abi::fcntl::{
    AT_FDCWD, AT_SYMLINK_NOFOLLOW, O_DIRECTORY, O_NOATIME, O_NOFOLLOW, O_PATH, O_RDONLY,
};
use openpath_abi::stat::{major, minor};
use openpath_abi::{Errno, Stat, mode};
use openpath_commit::{
    AclChange, Change, ChangeKind, ChangeList, FileType, Refusal, Side, SpecialFile, is_below,
    path_of,
};
use openpath_overlay::{
    ChangeKind as OverlayChangeKind, Changes, Marks, OverlayFs, Sides, SidesByPath,
};
use openpath_vfs::{AclKind, Cred, Fd, Limits, SuperBlock, Task, Vfs};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Included, Unbounded};
use std::sync::{Arc, LazyLock, OnceLock};

/// The most changes that are listed.
const CHANGES_MAX: usize = 4_000_000;
/// The most bytes of paths that are held as a whole.
const PATHS_MAX: usize = 512_000_000;
/// Cached names of a tree of which each name is looked at about once: a kilobyte for each would add
/// up with the names of a large view.
const NAMES_ONCE: u32 = 1 << 12;
/// The longest piece of a path that is given to one call: a path may be longer than `PATH_MAX`.
const PIECE: usize = 2048;

/// Attributes that the kernel gives to each file of a machine that has labels or checksums.
const OF_EACH_FILE: [&[u8]; 5] = [
    b"security.selinux",
    b"security.SMACK64",
    b"security.SMACK64TRANSMUTE",
    b"security.ima",
    b"security.evm",
];

/// The limits of a tree of which each name is looked at about once.
pub(crate) fn limits_once() -> Limits {
    Limits::default()
        .dentries_max(NAMES_ONCE)
        .negatives_max(NAMES_ONCE / 2)
}

/// The trees that are compared.
pub(crate) struct TreeComparison {
    overlay: Arc<SuperBlock>,
    /// The prefix of attributes that no file of the view shows.
    marks: Marks,
    lower: LongPathTree,
    view: LongPathTree,
    /// Directories that moved: their path in the view, and their path in the lower tree.
    moved: OnceLock<BTreeMap<Vec<u8>, Vec<u8>>>,
    /// On which side the attributes of directories changed, if their copies record it.
    sides: OnceLock<SidesByPath>,
}

impl TreeComparison {
    /// Compares an overlay with its lower tree, and looks at `view`, which shows it.
    pub(crate) fn new(
        (overlay, lower): (&Arc<SuperBlock>, &Arc<SuperBlock>),
        marks: Marks,
        view: &Task,
    ) -> Result<TreeComparison, Refusal> {
        let vfs = Vfs::builder().limits(limits_once());
        let vfs = vfs.build(Arc::clone(lower));
        let lower = vfs.and_then(|vfs| vfs.task(Cred::root()));
        Ok(TreeComparison {
            overlay: Arc::clone(overlay),
            marks,
            lower: LongPathTree::new(lower.map_err(failed)?),
            view: LongPathTree::new(view.fork().map_err(failed)?),
            moved: OnceLock::new(),
            sides: OnceLock::new(),
        })
    }

    /// All changes in the order of a walk, one for each path. `compared` is called for each name,
    /// with how many were compared before and how many there are; 0: that is not known yet.
    pub(crate) fn all(&self, compared: &mut dyn FnMut(u64, u64)) -> Result<Vec<Change>, Refusal> {
        let mut names = 0;
        let each = &mut || {
            compared(names, 0);
            names += 1;
        };
        let found = OverlayFs::changes_and_sides(&self.overlay, CHANGES_MAX, each);
        let (found, sides) = found.map_err(failed)?;
        self.sides.get_or_init(|| sides);
        let (mut all, mut bytes) = (Vec::new(), 0);
        self.for_each(&found, &mut |change| {
            bytes += change.path.bytes().len();
            compared(all.len() as u64, names.max(all.len() as u64));
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
        self.for_each(&found, &mut |change| {
            list.push(change);
            Ok(())
        })?;
        Ok(list)
    }

    fn for_each(
        &self,
        found: &Changes,
        tell: &mut dyn FnMut(Change) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let mut moved = BTreeMap::new();
        found.each(|change| {
            if let OverlayChangeKind::Renamed(from) = change.kind {
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
            let new = || Change::bare(path_of(part.path), ChangeKind::Attributes);
            let mut change = match last.take() {
                Some((change, _)) if change.path.bytes() == part.path => change,
                Some(done) => {
                    filled(done)?;
                    with_kind(new(), part.kind)
                }
                None => with_kind(new(), part.kind),
            };
            add_kind(&mut change, part.kind);
            change.below = part.below;
            last = Some((change, part.sides));
            Ok(())
        })?;
        last.map_or(Ok(()), filled)
    }

    /// Fills in the types and attributes before and now; `sides`: of a directory, on which side its
    /// attributes changed.
    fn fill(&self, change: &mut Change, sides: Option<Sides>) -> Result<(), Errno> {
        let from = match &change.kind {
            ChangeKind::Added => None,
            ChangeKind::Renamed { from } => Some(from.bytes().to_vec()),
            _ => Some(self.place(change.path.bytes())?),
        };
        let before = match &from {
            Some(from) => if_exists(self.lower.lstat(from))?,
            None => None,
        };
        let now = match &change.kind {
            ChangeKind::Deleted => None,
            _ => if_exists(self.view.lstat(change.path.bytes()))?,
        };
        let size = |stat: Option<Stat>| {
            let file = stat.filter(|stat| mode::is_reg(stat.mode));
            file.map_or(0, |stat| u64::try_from(stat.size).unwrap_or(0))
        };
        let bits = |stat: Option<Stat>| stat.map_or(0, |stat| stat.mode & 0o7777);
        change.file_type = now
            .or(before)
            .map_or(FileType::Other, |stat| file_type_of(stat.mode));
        change.file_type_before = before.map_or(change.file_type, |stat| file_type_of(stat.mode));
        (change.size, change.size_before) = (size(now), size(before));
        (change.mode, change.mode_before) = (bits(now.or(before)), bits(before));
        if change.file_type == FileType::Link && now.is_some() {
            let target = self.data(Side::View, change.path.bytes(), usize::MAX - 1)?;
            change.target = target.map(|target| path_of(&target));
        }
        if let Some(now) = now.filter(|_| change.is_new()) {
            self.note_unusual(change, now)?;
        }
        if from.is_some() && sides.is_some_and(|sides| !sides.upper) {
            // Only others may have changed them, in the lower tree.
            change.mode_before = change.mode;
            return Ok(());
        }
        if let (Some(from), Some(before), Some(now)) = (from, before, now) {
            self.compare_attributes(change, (&from, before), now)?;
        }
        Ok(())
    }

    /// Records what a new file has that a plain new file of the caller would not have at that path.
    fn note_unusual(&self, change: &mut Change, now: Stat) -> Result<(), Errno> {
        let path = change.path.bytes();
        let dir = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let dir = self.view.lstat(&path[..dir.max(1)])?;
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        let (mut usual, mut bits) = ((user.as_raw(), group.as_raw()), 0);
        if dir.mode & mode::S_ISGID != 0 {
            usual.1 = dir.gid;
            bits |= now.mode & mode::S_ISGID & if mode::is_dir(now.mode) { !0 } else { 0 };
        }
        let owner = (now.uid, now.gid);
        change.differs.owner = (owner != usual).then_some((usual, owner));
        change.differs.mode = now.mode & (mode::S_ISUID | mode::S_ISGID) & !bits != 0;
        change.special = special_file(&now);
        if change.file_type == FileType::Link {
            return Ok(());
        }
        let mut all = self.view.xattrs(change.path.bytes())?;
        all.retain(|name, _| !OF_EACH_FILE.contains(&&name[..]));
        let has_list = all.keys().any(|name| is_acl(name));
        change.differs.lists = has_list.then_some(AclChange::Set);
        let names = all.keys().filter(|name| !is_acl(name));
        change.differs.xattrs = names.map(|name| path_of(name)).collect();
        Ok(())
    }

    /// Records which attributes differ, if the type of the file is the same.
    fn compare_attributes(
        &self,
        change: &mut Change,
        (from, before): (&[u8], Stat),
        now: Stat,
    ) -> Result<(), Errno> {
        if change.file_type != change.file_type_before {
            return Ok(());
        }
        let differs = &mut change.differs;
        differs.mode = change.mode != change.mode_before;
        let owners = ((before.uid, before.gid), (now.uid, now.gid));
        differs.owner = (owners.0 != owners.1).then_some(owners);
        let same_data = !change.data && change.file_type != FileType::Directory;
        differs.times = same_data && before.mtime != now.mtime;
        if change.file_type == FileType::Link {
            return Ok(());
        }
        let (mut old, new) = (
            self.lower.xattrs(from)?,
            self.view.xattrs(change.path.bytes())?,
        );
        // The kernel copies up no attributes with the names of marks.
        old.retain(|name, _| new.contains_key(name) || self.marks.shown_name(name).is_some());
        let lists = |all: &BTreeMap<Vec<u8>, Vec<u8>>| -> Vec<_> {
            let lists = all.iter().filter(|(name, _)| is_acl(name));
            lists
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect()
        };
        let (had, has) = (lists(&old), lists(&new));
        differs.lists = match (had.is_empty(), has.is_empty()) {
            _ if had == has => None,
            (true, _) => Some(AclChange::Set),
            (_, true) => Some(AclChange::Removed),
            _ => Some(AclChange::Changed),
        };
        let names: BTreeSet<_> = old.keys().chain(new.keys()).collect();
        let names = names.into_iter().filter(|name| !is_acl(name));
        let names = names.filter(|name| old.get(*name) != new.get(*name));
        differs.xattrs = names.map(|name| path_of(name)).collect();
        Ok(())
    }

    /// Where the earlier file of a path is in the real tree; the changes must be known. A file that
    /// a moved directory replaced has the same path there.
    pub(crate) fn place(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        let beneath = self.beneath(path);
        if beneath != path && if_exists(self.lower.lstat(&beneath))?.is_none() {
            return Ok(path.to_vec());
        }
        Ok(beneath)
    }

    /// On which sides the attributes of directories changed, by path. [`TreeComparison::all`] must
    /// have been called; a directory without a record is missing.
    pub(crate) fn sides(&self) -> &SidesByPath {
        static NONE: LazyLock<SidesByPath> = LazyLock::new(SidesByPath::new);
        self.sides.get().unwrap_or(&NONE)
    }

    /// The path in the lower tree of a path of the view, if a directory above it moved; the changes
    /// must be known.
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
            // Another directory above shares this prefix, or none does.
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
        let tree = match side {
            Side::Real => &self.lower,
            Side::View => &self.view,
        };
        let stat = tree.lstat(path)?;
        let (dir, name) = tree.locate(path)?;
        let task = &tree.task;
        if mode::is_lnk(stat.mode) {
            return task.readlinkat(dir, name).map(Some);
        }
        if !mode::is_reg(stat.mode) {
            return Ok(None);
        }
        let fd = task.openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NOATIME, 0)?;
        // One more byte shows that a file is longer.
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

/// A tree in which paths of any length can be looked up.
struct LongPathTree {
    task: Task,
    /// The directory that was looked up last.
    last: RefCell<Option<(Vec<u8>, Fd)>>,
}

impl LongPathTree {
    fn new(task: Task) -> LongPathTree {
        let last = RefCell::new(None);
        LongPathTree { task, last }
    }

    fn lstat(&self, path: &[u8]) -> Result<Stat, Errno> {
        let (dir, name) = self.locate(path)?;
        self.task.fstatat(dir, name, AT_SYMLINK_NOFOLLOW)
    }

    /// The extended attributes at a path, with its access control lists.
    fn xattrs(&self, path: &[u8]) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Errno> {
        let (dir, name) = self.locate(path)?;
        let names = match self.task.listxattrat(dir, name, AT_SYMLINK_NOFOLLOW) {
            Err(Errno::EOPNOTSUPP | Errno::EACCES | Errno::EPERM) => Vec::new(),
            names => names?,
        };
        // Not every tree lists the access control lists of its files.
        let lists = [AclKind::Access, AclKind::Default].map(AclKind::name);
        let names = names.split(|byte| *byte == 0).chain(lists);
        let mut all = BTreeMap::new();
        for of in names.filter(|of| !of.is_empty()) {
            let (dir, name) = self.locate(path)?;
            match self.task.getxattrat(dir, name, AT_SYMLINK_NOFOLLOW, of) {
                Ok(value) => drop(all.insert(of.to_vec(), value)),
                Err(Errno::ENODATA | Errno::EOPNOTSUPP | Errno::EACCES | Errno::EPERM) => {}
                Err(why) => return Err(why),
            }
        }
        Ok(all)
    }

    /// The directory of a path as a descriptor, and the rest of the path. A short path has no
    /// directory.
    fn locate<'p>(&self, path: &'p [u8]) -> Result<(Fd, &'p [u8]), Errno> {
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

/// A change with the kind of the first event of its name.
fn with_kind(change: Change, kind: &OverlayChangeKind) -> Change {
    let kind = match kind {
        OverlayChangeKind::Added => ChangeKind::Added,
        OverlayChangeKind::Deleted => ChangeKind::Deleted,
        OverlayChangeKind::Modified => ChangeKind::Modified,
        OverlayChangeKind::Attributes => ChangeKind::Attributes,
        OverlayChangeKind::Renamed(from) => ChangeKind::Renamed {
            from: path_of(from),
        },
    };
    Change { kind, ..change }
}

/// Adds a further event of the same name.
fn add_kind(change: &mut Change, kind: &OverlayChangeKind) {
    match (&change.kind, kind) {
        (ChangeKind::Deleted, OverlayChangeKind::Added) => change.kind = ChangeKind::Modified,
        (_, OverlayChangeKind::Renamed(from)) => {
            change.replaces = change.kind == ChangeKind::Deleted;
            change.kind = ChangeKind::Renamed {
                from: path_of(from),
            };
        }
        (ChangeKind::Attributes, OverlayChangeKind::Modified) => change.kind = ChangeKind::Modified,
        _ => {}
    }
    change.data |= *kind == OverlayChangeKind::Modified || change.kind == ChangeKind::Modified;
}

fn file_type_of(mode: u32) -> FileType {
    match mode & mode::S_IFMT {
        mode::S_IFREG => FileType::File,
        mode::S_IFDIR => FileType::Directory,
        mode::S_IFLNK => FileType::Link,
        _ => FileType::Other,
    }
}

fn special_file(stat: &Stat) -> Option<SpecialFile> {
    let (major, minor) = (major(stat.rdev), minor(stat.rdev));
    match stat.mode & mode::S_IFMT {
        mode::S_IFBLK => Some(SpecialFile::BlockDevice(major, minor)),
        mode::S_IFCHR => Some(SpecialFile::CharacterDevice(major, minor)),
        mode::S_IFIFO => Some(SpecialFile::Fifo),
        mode::S_IFSOCK => Some(SpecialFile::Socket),
        _ => None,
    }
}

fn is_acl(name: &[u8]) -> bool {
    AclKind::of_name(name).is_some()
}

fn if_exists(found: Result<Stat, Errno>) -> Result<Option<Stat>, Errno> {
    match found {
        Ok(stat) => Ok(Some(stat)),
        // What this user may not look at is unknown.
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES) => Ok(None),
        Err(why) => Err(why),
    }
}

fn failed(why: Errno) -> Refusal {
    if why == Errno::E2BIG {
        let text = "there are too many changes to tell: more than 4,000,000, or paths of more than \
            512 MB together; `openpath discard` removes a view";
        return Refusal::system(text);
    }
    Refusal::step("the changes cannot be read", why)
}
