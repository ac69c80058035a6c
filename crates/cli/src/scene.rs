// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds a tree in memory, with its mounts, from a description in text, for `openpath explain`.
//!
//! # Format
//! Each line is an entry: kind, path, then `key=value` words; `#` begins a comment. A space or a
//! byte beyond ASCII is `\xHH`, a backslash `\\`. Missing parent directories are made, with owner
//! root and mode 0755. Lines are read in order, but flags and rules of mounts take effect after all
//! entries are made.
//!
//! | kind | keys besides `mode`, `uid`, `gid` |
//! |---|---|
//! | `dir` | |
//! | `file` | `text` |
//! | `link` | `to` |
//! | `fifo`, `socket` | |
//! | `char`, `block` | `dev=MAJOR:MINOR` |
//! | `mount` | `flags`: `ro`, `nosuid`, `nodev`, `noexec`, `noatime`, `nosymfollow`, with commas |
//! | `bind` | `from` |
//! | `hide` | `name` (a pattern, `AbsentRules`) and `path`, each repeated as needed; `deny` |
//!
//! The path of `hide` is the root of a mount.

use openpath_abi::mode::{S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO, S_IFMT, S_IFSOCK};
use openpath_abi::{Errno, Timespec, stat};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{AbsentRules, Clock, Cred, MountFlags, SystemClock, Task, Vfs};

/// The file system of a scene.
pub(crate) struct Scene {
    vfs: Vfs,
}

/// A clock that stands still: whether a link's access time would move does not depend on how long
/// the scene took to build.
struct StoppedClock(Timespec);

impl Clock for StoppedClock {
    fn now(&self) -> Timespec {
        self.0
    }
}

/// What takes effect after all entries are made, with the paths of the mounts.
#[derive(Default)]
struct Later {
    flags: Vec<(Vec<u8>, MountFlags)>,
    rules: Vec<(Vec<u8>, AbsentRules)>,
}

/// One line, parsed.
struct Line<'l> {
    kind: &'l str,
    path: Vec<u8>,
    words: Vec<(&'l str, &'l str)>,
}

impl Scene {
    /// Builds a scene from its text.
    ///
    /// # Errors
    /// A message with the number of the line.
    pub(crate) fn build<'l>(lines: impl Iterator<Item = &'l str>) -> Result<Self, String> {
        let named = |errno: Errno| errno.name().to_owned();
        let root = MemFs::new(MemOptions::default().mode(0o755));
        let clock = StoppedClock(SystemClock.now());
        let vfs = Vfs::builder().clock(Box::new(clock));
        let vfs = vfs.build(root).map_err(named)?;
        let task = vfs.task(Cred::root()).map_err(named)?;
        task.umask(0);
        let mut later = Later::default();
        for (at, text) in lines.enumerate() {
            let text = text.split('#').next().unwrap_or_default().trim();
            if text.is_empty() {
                continue;
            }
            let done = Line::read(text).and_then(|line| line.make(&task, &mut later));
            done.map_err(|why| format!("line {}: {why}: {text}", at + 1))?;
        }
        for (path, flags) in later.flags {
            task.remount_bind(&path, flags).map_err(named)?;
        }
        for (path, rules) in later.rules {
            task.set_absent(&path, Some(rules)).map_err(named)?;
        }
        drop(task);
        Ok(Self { vfs })
    }

    /// A task with these credentials in the scene.
    ///
    /// # Errors
    /// The name of the error.
    pub(crate) fn task(&self, cred: Cred) -> Result<Task, String> {
        self.vfs.task(cred).map_err(|errno| errno.name().to_owned())
    }
}

/// The bytes of a text with escapes.
///
/// # Errors
/// A message.
pub(crate) fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        bytes.push(match rest.next() {
            Some(b'\\') => b'\\',
            Some(b'n') => b'\n',
            Some(b'x') => match (digit(rest.next()), digit(rest.next())) {
                (Some(high), Some(low)) => (high << 4 | low) as u8,
                _ => return Err("`\\x` needs two hexadecimal digits after it".to_owned()),
            },
            _ => return Err("`\\` needs `\\`, `n` or `x` after it".to_owned()),
        });
    }
    Ok(bytes)
}

impl<'l> Line<'l> {
    fn read(text: &'l str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let (Some(kind), Some(path)) = (words.next(), words.next()) else {
            return Err("the line must begin with a kind and a path".to_owned());
        };
        let path = unescape(path)?;
        if path.first() != Some(&b'/') {
            return Err("the path must begin with a slash".to_owned());
        }
        let pair = |word: &'l str| word.split_once('=').ok_or(format!("no `=` in `{word}`"));
        let words = words.map(pair).collect::<Result<_, _>>()?;
        Ok(Self { kind, path, words })
    }

    /// The value of a key.
    fn get(&self, key: &str) -> Option<&'l str> {
        self.words.iter().find(|(k, _)| *k == key).map(|(_, v)| *v)
    }

    fn wanted(&self, key: &str) -> Result<Vec<u8>, String> {
        unescape(self.get(key).ok_or_else(|| format!("`{key}=` is needed"))?)
    }

    fn make(&self, task: &Task, later: &mut Later) -> Result<(), String> {
        let named = |errno: Errno| errno.name().to_owned();
        let keys = self.keys()?;
        let odd = self.words.iter().find(|(key, _)| !keys.contains(key));
        if let Some((key, _)) = odd {
            return Err(format!("`{}` has no key `{key}=`", self.kind));
        }
        self.make_parents(task).map_err(named)?;
        let path = &self.path;
        let node = |kind: u32, dev: u64| task.mknod(path, kind | 0o644, dev).map_err(named);
        match self.kind {
            "dir" => make_dir(task, path).map_err(named)?,
            "file" => {
                let fd = task.creat(path, 0o644).map_err(named)?;
                let text = unescape(self.get("text").unwrap_or_default())?;
                task.write(fd, &text).map_err(named)?;
                task.close(fd).map_err(named)?;
            }
            "link" => task.symlink(&self.wanted("to")?, path).map_err(named)?,
            "fifo" => node(S_IFIFO, 0)?,
            "socket" => node(S_IFSOCK, 0)?,
            "char" => node(S_IFCHR, self.device()?)?,
            "block" => node(S_IFBLK, self.device()?)?,
            "mount" => {
                make_dir(task, path).map_err(named)?;
                let sb = MemFs::new(MemOptions::default().mode(0o755));
                let plain = MountFlags::default();
                task.mount(sb, path, plain).map_err(named)?;
                later.flags.push((path.clone(), self.mount_flags()?));
            }
            "bind" => {
                make_dir(task, path).map_err(named)?;
                task.bind(&self.wanted("from")?, path).map_err(named)?;
            }
            "hide" => later.rules.push((path.clone(), self.rules()?)),
            _ => {}
        }
        self.set_attributes(task).map_err(named)?
    }

    /// The keys that its kind has.
    fn keys(&self) -> Result<&'static [&'static str], String> {
        Ok(match self.kind {
            "dir" | "fifo" | "socket" => &["mode", "uid", "gid"],
            "file" => &["mode", "uid", "gid", "text"],
            "link" => &["uid", "gid", "to"],
            "char" | "block" => &["mode", "uid", "gid", "dev"],
            "mount" => &["mode", "uid", "gid", "flags"],
            "bind" => &["from"],
            "hide" => &["name", "path", "deny"],
            other => return Err(format!("no such kind: {other}")),
        })
    }

    fn make_parents(&self, task: &Task) -> Result<(), Errno> {
        let slashes = self.path.iter().enumerate().skip(1);
        for (at, _) in slashes.filter(|(_, byte)| **byte == b'/') {
            make_dir(task, &self.path[..at])?;
        }
        Ok(())
    }

    fn set_attributes(&self, task: &Task) -> Result<Result<(), String>, Errno> {
        let number = |key: &str, radix: u32| {
            let text = self.get(key);
            text.map(|text| {
                let number = u32::from_str_radix(text, radix);
                number.map_err(|_| format!("`{key}={text}` is not a number"))
            })
            .transpose()
        };
        let (mode, uid, gid) = match (number("mode", 8), number("uid", 10), number("gid", 10)) {
            (Ok(mode), Ok(uid), Ok(gid)) => (mode, uid, gid),
            (Err(why), ..) | (_, Err(why), _) | (.., Err(why)) => return Ok(Err(why)),
        };
        if uid.is_some() || gid.is_some() {
            let keep = u32::MAX;
            task.lchown(&self.path, uid.unwrap_or(keep), gid.unwrap_or(keep))?;
        }
        if let Some(mode) = mode {
            task.chmod(&self.path, mode)?;
        }
        Ok(Ok(()))
    }

    fn device(&self) -> Result<u64, String> {
        let text = self.get("dev").unwrap_or_default();
        let parts = text.split_once(':');
        let parts = parts.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        parts
            .map(|(major, minor)| stat::makedev(major, minor))
            .ok_or_else(|| "`dev=MAJOR:MINOR` is needed".to_owned())
    }

    /// The rules of a mount.
    fn rules(&self) -> Result<AbsentRules, String> {
        let mut rules = AbsentRules::builder();
        for (key, text) in &self.words {
            rules = match *key {
                "name" => rules.glob(unescape(text)?),
                "path" => rules.path(unescape(text)?),
                _ => rules.deny(Errno::from_name(text).ok_or(format!("no such errno: {text}"))?),
            };
        }
        rules.build().map_err(|errno| errno.name().to_owned())
    }

    fn mount_flags(&self) -> Result<MountFlags, String> {
        let mut flags = MountFlags::default();
        let words = self.get("flags").unwrap_or_default().split(',');
        for word in words.filter(|word| !word.is_empty()) {
            flags = flags
                | match word {
                    "ro" => MountFlags::READ_ONLY,
                    "nosuid" => MountFlags::NO_SUID,
                    "nodev" => MountFlags::NO_DEV,
                    "noexec" => MountFlags::NO_EXEC,
                    "noatime" => MountFlags::NO_ATIME,
                    "nosymfollow" => MountFlags::NO_SYM_FOLLOW,
                    other => return Err(format!("no such flag: {other}")),
                };
        }
        Ok(flags)
    }
}

/// Makes a directory unless it exists.
fn make_dir(task: &Task, path: &[u8]) -> Result<(), Errno> {
    match task.mkdir(path, 0o755) {
        Err(Errno::EEXIST) if task.stat(path)?.mode & S_IFMT == S_IFDIR => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scene_has_the_entries_that_its_lines_describe() {
        let text = "# a comment\n\
             file /a/b/f mode=0640 uid=7 gid=8 text=x\\x20y\n\
             link /l to=a/b\n\
             mount /m flags=ro,nodev\n\
             file /m/inside\n\
             bind /again from=/a\n\
             char /null dev=1:3\n\
             hide /m name=*.key path=inside deny=EPERM\n\
             dir /\\xff mode=1777\n";
        let scene = Scene::build(text.lines()).expect("a scene");
        let task = scene.task(Cred::root()).expect("a task");
        let f = task.stat(b"/l/f").expect("a file");
        assert_eq!((f.mode & 0o7777, f.uid, f.gid, f.size), (0o640, 7, 8, 3));
        assert!(task.stat(b"/again/b/f").is_ok());
        assert_eq!(task.stat(b"/m/inside"), Err(Errno::ENOENT));
        assert_eq!(task.mkdir(b"/m/x.key", 0), Err(Errno::EPERM));
        assert_eq!(task.mkdir(b"/m/x", 0), Err(Errno::EROFS));
        assert_eq!(task.stat(b"/\xff").map(|s| s.mode & 0o7777), Ok(0o1777));
        let null = task.stat(b"/null").expect("a device");
        assert_eq!(null.rdev, stat::makedev(1, 3));
    }

    #[test]
    fn error_names_the_wrong_line() {
        for (text, why) in [
            ("dir", "line 1: the line must begin with a kind"),
            ("dir a", "line 1: the path must begin"),
            ("\nnode /a", "line 2: no such kind"),
            ("dir /a text=x", "line 1: `dir` has no key `text=`"),
            ("link /l", "line 1: `to=` is needed"),
            ("dir /a mode=9", "line 1: `mode=9` is not a number"),
            ("file /a\nfile /a/b", "line 2: EEXIST"),
            ("mount /m flags=rw", "line 1: no such flag"),
            ("file /\\q", "line 1: `\\` needs"),
        ] {
            let wrong = Scene::build(text.lines()).err().unwrap_or_default();
            assert!(wrong.starts_with(why), "{text}: {wrong}");
        }
    }
}
