// SPDX-License-Identifier: MIT OR Apache-2.0
//! Walks, opens and inspects the tree that other threads change, and checks that each opened file
//! has the expected jail, family and inode.

use openpath_abi::fcntl::{F_GETFL, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_PATH, O_RDONLY};
use openpath_abi::resolve::{RESOLVE_BENEATH, RESOLVE_CACHED, RESOLVE_IN_ROOT};
use openpath_abi::{AtFlags, Errno, OpenHow, ResolveFlags, mode};
use openpath_vfs::{Cred, Fd, Task};

use super::Place;
use super::world::{FAMILIES, Held, JAILS, MARK};

/// Errors that a walk may meet.
const EXPECTED: &[Errno] = &[Errno::ENOENT, Errno::ENOTDIR, Errno::ELOOP, Errno::EACCES];
/// Errors that a scoped walk may meet besides.
const SCOPED: &[Errno] = &[Errno::EXDEV, Errno::EAGAIN];

/// How often a walker opens its jail again.
const ROUND: usize = 64;

impl Place<'_> {
    /// A path below a jail, and the family of its last name if that is a file's.
    fn path(&mut self) -> (String, Option<usize>) {
        const DIRS: &[&str] = &[
            "d0", "d1", "d2", "e0", "e1", "ferry", "s", "t", "..", "..", "..", ".", "mp", "mq",
            "l0", "l1", "l2",
        ];
        let mut parts: Vec<String> = (0..=self.rng.below(6))
            .map(|_| (*self.rng.pick(DIRS)).to_owned())
            .collect();
        let mut family = None;
        if self.rng.below(3) > 0 {
            let number = self.rng.below(FAMILIES);
            family = Some(number);
            let letter = if self.rng.below(2) == 0 { 'f' } else { 'g' };
            parts.push(format!("{letter}{number}"));
        }
        (parts.join("/"), family)
    }

    /// A path that probably exists.
    fn likely(&mut self) -> (String, Option<usize>) {
        const CHAINS: &[&str] = &[
            "d0/ferry/s/t",
            "d1/e0",
            "d2/e1",
            "d0/e0",
            "d1",
            "d2",
            "mp",
            "mq",
        ];
        let family = self.rng.below(FAMILIES);
        let chain = *self.rng.pick(CHAINS);
        match self.rng.below(4) {
            0 => {
                let up = "/..".repeat(self.rng.below(5));
                (format!("{chain}{up}/f{family}"), Some(family))
            }
            1 => (chain.to_owned(), None),
            _ => (format!("{chain}/f{family}"), Some(family)),
        }
    }

    fn strange(&self, what: &str, path: &str, e: Errno, scoped: bool) {
        let expected = EXPECTED.contains(&e) || scoped && SCOPED.contains(&e);
        if !expected {
            let names = self.shared.tenants.each_ref().map(|tenant| {
                let stats = tenant.stats();
                (stats.positive, stats.negative)
            });
            let text = format!("{}: {what} {path}: {e}", self.progress.name);
            let usage = self.shared.vfs.usage();
            self.shared
                .wrong(format!("{text}; {usage:?}, names {names:?}"));
        }
    }

    /// Checks the mark, the family and the inode of an opened file, and closes it.
    fn check(
        &self,
        task: &Task,
        fd: Fd,
        path: &str,
        jail: &str,
        family: Option<usize>,
    ) -> Result<(), Errno> {
        let file = Held(task, fd);
        let stat = task.fstat(fd)?;
        if mode::is_dir(stat.mode) {
            if family.is_some() {
                self.shared
                    .wrong(format!("{}: {path} is a directory", self.progress.name));
            }
            if task.fstatat(file.1, MARK, AtFlags::empty()).is_ok() {
                self.shared.wrong(format!(
                    "{}: ESCAPE: {jail} {path} is outside",
                    self.progress.name
                ));
            }
            return Ok(());
        }
        if !mode::is_reg(stat.mode) || task.fcntl(fd, F_GETFL, 0)? & u64::from(O_PATH) != 0 {
            return Ok(());
        }
        let mut data = [0; 64];
        let got = task.pread(fd, &mut data, 0)?;
        let text = String::from_utf8_lossy(&data[..got]).into_owned();
        // A new file may not be written yet.
        let Some(line) = text.strip_suffix('\n') else {
            return Ok(());
        };
        let parts: Vec<&str> = line.split(':').collect();
        let [mark, kin, inode] = parts[..] else {
            self.shared
                .wrong(format!("{}: {path} holds {text:?}", self.progress.name));
            return Ok(());
        };
        if mark != jail {
            self.shared.wrong(format!(
                "{}: ESCAPE: {jail} {path} is of {mark}",
                self.progress.name
            ));
        }
        if inode != stat.ino.to_string() || family.is_some_and(|f| f.to_string() != kin) {
            let text = format!(
                "{}: {path} is {line}, inode {}",
                self.progress.name, stat.ino
            );
            self.shared.wrong(text);
        }
        Ok(())
    }

    fn choose(&mut self) -> (String, Option<usize>) {
        if self.rng.below(2) == 0 {
            self.path()
        } else {
            self.likely()
        }
    }
}

/// The credentials of a walker: every other one is an ordinary user.
fn cred(p: &mut Place<'_>) -> Cred {
    if p.rng.below(2) == 0 {
        Cred::root()
    } else {
        Cred::user(1000, 1000, &[])
    }
}

/// Opens below a directory, and may not escape from it.
pub(super) fn scoped(p: &mut Place<'_>) -> Result<(), Errno> {
    let task = p.shared.vfs.task(cred(p))?;
    p.join(&task);
    if p.rng.one_in(3) {
        // Its mounts are those of the start, except shared ones.
        task.set_cred(Cred::root());
        task.unshare_mounts()?;
    }
    while !p.shared.over() {
        let number = p.rng.below(JAILS);
        let jail = format!("j{number}");
        let base = match task.open(format!("/{jail}").as_bytes(), O_PATH | O_DIRECTORY, 0) {
            Ok(base) => Held(&task, base),
            Err(e) => {
                p.strange("open", &jail, e, false);
                continue;
            }
        };
        for _ in 0..ROUND {
            if p.shared.over() {
                break;
            }
            scoped_once(p, &task, base.1, &jail)?;
        }
    }
    Ok(())
}

fn scoped_once(p: &mut Place<'_>, task: &Task, base: Fd, jail: &str) -> Result<(), Errno> {
    let (mut path, family) = p.choose();
    let what = p.rng.below(10) as u64;
    p.step(what);
    let mut resolve = if what.is_multiple_of(2) {
        RESOLVE_BENEATH
    } else {
        RESOLVE_IN_ROOT
    };
    if what >= 8 {
        resolve |= RESOLVE_CACHED;
    }
    if resolve & RESOLVE_IN_ROOT != ResolveFlags::empty() && p.rng.below(3) == 0 {
        path.insert(0, '/');
    }
    let kind = *p
        .rng
        .pick(&[O_RDONLY, O_RDONLY, O_RDONLY, O_PATH, O_PATH | O_NOFOLLOW]);
    let flags = if kind == O_RDONLY { O_NONBLOCK } else { kind };
    let how = OpenHow {
        flags: u64::from(flags),
        mode: 0,
        resolve,
    };
    match task.openat2(base, path.as_bytes(), &how) {
        Ok(file) => p.check(task, file, &path, jail, plain(&path, family))?,
        Err(e) => p.strange("openat2", &path, e, true),
    }
    // And without a scope, where only the right file is promised.
    if what == 3 {
        let path = format!("/{jail}/{}", p.likely().0);
        match task.stat(path.as_bytes()) {
            Ok(_) => {}
            Err(e) => p.strange("stat", &path, e, false),
        }
    }
    Ok(())
}

/// The family that a name promises; none if the name could be a link to another family.
fn plain(path: &str, family: Option<usize>) -> Option<usize> {
    let last = path.rsplit('/').next().unwrap_or("");
    family.filter(|_| last.starts_with(['f', 'g']) && last != "ferry")
}

/// The calls of the walkers in each kind of step.
pub(super) fn scoped_calls(doing: u64) -> &'static str {
    if doing == 3 {
        "openat2, stat"
    } else {
        "openat2"
    }
}

/// Opens from a root of its own, and may not escape from it.
pub(super) fn chrooted(p: &mut Place<'_>) -> Result<(), Errno> {
    let number = p.rng.below(JAILS);
    let jail = format!("j{number}");
    let task = p.shared.vfs.task(Cred::root())?;
    p.join(&task);
    task.chroot(format!("/{jail}").as_bytes())?;
    task.chdir(b"/")?;
    while !p.shared.over() {
        let what = p.rng.below(6) as u64;
        look_from_root(p, &task, &jail, what)?;
    }
    Ok(())
}

/// The calls of `chrooted` in each kind of step.
pub(super) fn chrooted_calls(doing: u64) -> &'static str {
    if doing == 2 { "open, chdir" } else { "open" }
}

/// Opens something from this jail as root.
pub(super) fn look_from_root(
    p: &mut Place<'_>,
    task: &Task,
    jail: &str,
    what: u64,
) -> Result<(), Errno> {
    let (path, family) = p.choose();
    p.step(what);
    let path = if what == 0 { path } else { format!("/{path}") };
    let flags = if what == 1 {
        O_PATH
    } else {
        O_RDONLY | O_NONBLOCK
    };
    match task.open(path.as_bytes(), flags, 0) {
        Ok(file) => p.check(task, file, &path, jail, plain(&path, family))?,
        Err(e) => p.strange("open", &path, e, false),
    }
    if what == 2 {
        // Deep inside, where the next rename may move it out.
        match task.chdir(b"/d0/ferry/s/t") {
            Ok(()) => task.chdir(b"/")?,
            Err(e) => p.strange("chdir", "/d0/ferry/s/t", e, false),
        }
    }
    Ok(())
}
