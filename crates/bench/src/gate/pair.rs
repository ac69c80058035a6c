// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the pairs of operations for two tasks.
//!
//! The first kind commutes and is promised: cached calls on the same file or on two files. The
//! second kind writes; it is watched, so that its shared cache lines can only become fewer.

use super::case::{Case, Via};
use crate::common::*;
/// The action of one of the two tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Action {
    #[value(skip)]
    Cached(Op),
    /// Create a file exclusively, and unlink it.
    CreateUnlink,
    /// Create a file exclusively; the unlink is untraced.
    Create,
    MkdirRmdir,
    /// Rename the file away, and back.
    Rename,
    Chmod,
    /// Open, write eight bytes at the beginning, close.
    Write,
    /// Open, read eight bytes, close.
    Read,
    /// Open for writing only, close.
    OpenWrite,
}

/// Two actions, on one path or on two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    /// The actions of the first and the second task.
    pub(crate) actions: [Action; 2],
    /// Whether the second task uses another path.
    pub(crate) elsewhere: bool,
    /// The circumstances; its operation is ignored.
    pub(crate) how: Case,
}

impl Action {
    fn name(&self) -> String {
        match self {
            Action::Cached(op) => name_of(op),
            change => name_of(change),
        }
    }

    /// Runs the action once; returns whether the result was right.
    pub(crate) fn once(self, task: &Task, how: Case, chain: &Chain) -> bool {
        let Action::Cached(op) = self else {
            return self.change(task, chain).is_ok();
        };
        let path = match op.wants_missing() {
            true => &chain.missing,
            false => &chain.file,
        };
        let paths = std::slice::from_ref(path);
        Case { op, ..how }.burst(task, 1, &mut Ring::new(paths, 0)) == 0
    }

    /// Undoes what would disturb the next run; returns whether that succeeded.
    pub(crate) fn undo(self, task: &Task, chain: &Chain) -> bool {
        let missing = chain.missing.to_bytes();
        self != Action::Create || task.unlink(missing).is_ok()
    }

    fn change(self, task: &Task, chain: &Chain) -> Result<(), Errno> {
        let (file, missing) = (chain.file.to_bytes(), chain.missing.to_bytes());
        let mut data = [0; 8];
        let with_open = |flags, body: &mut dyn FnMut(Fd) -> Result<(), Errno>| {
            let fd = task.open(file, flags, 0)?;
            let done = body(fd);
            task.close(fd).and(done)
        };
        match self {
            Action::Cached(_) => Ok(()),
            Action::CreateUnlink => {
                Action::Create.change(task, chain)?;
                task.unlink(missing)
            }
            Action::Create => {
                let flags = O_CREAT | O_EXCL | O_RDWR;
                task.close(task.open(missing, flags, 0o644)?)
            }
            Action::MkdirRmdir => {
                task.mkdir(missing, 0o755)?;
                task.rmdir(missing)
            }
            Action::Rename => {
                task.rename(file, missing)?;
                task.rename(missing, file)
            }
            Action::Chmod => task.chmod(file, 0o644),
            Action::Write => with_open(O_WRONLY, &mut |fd| task.pwrite(fd, &data, 0).map(drop)),
            Action::Read => with_open(O_RDONLY, &mut |fd| task.pread(fd, &mut data, 0).map(drop)),
            Action::OpenWrite => with_open(O_WRONLY, &mut |_| Ok(())),
        }
    }
}

impl Pair {
    /// Its name in results: `open-close | stat, same d1`.
    pub(crate) fn name(&self) -> String {
        let [first, second] = self.actions.each_ref().map(Action::name);
        let place = if self.elsewhere { "other" } else { "same" };
        format!("{first} | {second}, {place} {}", self.how.circumstances())
    }

    /// Whether the files differ afterwards.
    pub(crate) fn changes(&self) -> bool {
        let cached = |action: &Action| matches!(action, Action::Cached(_));
        !self.actions.iter().all(cached)
    }
}

const SAME: [Op; 7] = [
    Op::OpenClose,
    Op::FailedOpen,
    Op::Stat,
    Op::Lstat,
    Op::CreatExisting,
    Op::CreatReadOnly,
    Op::DupClose,
];
/// The operations that are possible on the root of a tree.
const ROOT: [Op; 3] = [Op::OpenClose, Op::Stat, Op::DupClose];
const WATCHED: [(Action, Action, bool); 9] = [
    (Action::Read, Action::Read, false),
    (Action::OpenWrite, Action::OpenWrite, false),
    (Action::Write, Action::Write, true),
    (Action::Write, Action::Write, false),
    (Action::Chmod, Action::Chmod, true),
    (Action::CreateUnlink, Action::CreateUnlink, true),
    (Action::MkdirRmdir, Action::MkdirRmdir, true),
    (Action::Rename, Action::Rename, true),
    (Action::CreateUnlink, Action::Cached(Op::OpenClose), true),
];

/// All pairs, in the order of the run.
pub(crate) fn all() -> Vec<Pair> {
    let how = |via, user, depth| Case {
        op: Op::OpenClose,
        via,
        user: user || via == Via::Barred,
        shared: false,
        depth,
    };
    let mut pairs = Vec::new();
    let mut add = |actions, elsewhere, how| {
        pairs.push(Pair {
            actions,
            elsewhere,
            how,
        });
    };
    let twice = |op| [Action::Cached(op); 2];
    for depth in [1, 5] {
        let plain = how(Via::Dirs, false, depth);
        for (at, &first) in SAME.iter().enumerate() {
            for &second in &SAME[at..] {
                add([first, second].map(Action::Cached), false, plain);
            }
            add([first, Op::OpenClose].map(Action::Cached), true, plain);
        }
    }
    use Via::{Barred, DirLink, DotDot, Mount, Symlink};
    for via in [Symlink, DirLink, DotDot, Mount, Barred] {
        SAME.into_iter()
            .for_each(|op| add(twice(op), false, how(via, false, 5)));
    }
    for op in SAME {
        add(twice(op), false, how(Via::Dirs, true, 5));
        add(twice(op), true, how(Via::Mounts, false, 2));
        for via in [Via::Nested, Via::MountUp, Via::Relative] {
            add(twice(op), false, how(via, false, 2));
        }
    }
    for op in ROOT {
        add(twice(op), false, how(Via::Root, false, 2));
    }
    let shared = Case {
        shared: true,
        ..how(Via::Dirs, false, 1)
    };
    for op in [Op::FailedOpen, Op::Stat, Op::OpenClose, Op::DupClose] {
        add(twice(op), false, shared);
    }
    for (first, second, elsewhere) in WATCHED {
        add([first, second], elsewhere, how(Via::Dirs, false, 2));
    }
    for action in [Action::Create, Action::CreateUnlink] {
        add([action; 2], true, how(Via::Mounts, false, 2));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pair_names_are_unique() {
        let mut names: Vec<String> = all().iter().map(Pair::name).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.contains(&"open-close | stat, same d1".to_owned()));
        assert!(names.contains(&"lstat | lstat, same user d5".to_owned()));
    }
}
