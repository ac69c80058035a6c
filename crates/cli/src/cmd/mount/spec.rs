// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses the argument of `openpath mount` that says what to mount, and makes that tree.
//!
//! The argument is `mem[:size=SIZE,...]`, `host:PATH[,policy=POLICY,...]` or
//! `overlay:lower=PATH[,lower=PATH...][,upper=PATH][,policy=POLICY][,null-devices]`.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use crate::copying::Bar;
use openpath_abi::Errno;
use openpath_host::{HostFs, HostOptions, Policy};
use openpath_mem::{MemFs, MemOptions};
use openpath_overlay::{OverlayFs, OverlayOptions};
use openpath_run::{Refusal, ViewLock};
use openpath_vfs::SuperBlock;

/// A tree that can be made.
#[derive(Clone, Debug)]
pub(crate) enum Spec {
    /// A tree in memory.
    Mem(MemOptions),
    /// A directory of the host.
    Host(PathBuf, HostOptions),
    /// Directories of the host, and an upper layer for the changes.
    Overlay(Layers),
}

/// The layers of an overlay.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    /// Topmost first.
    lowers: Vec<PathBuf>,
    /// `None`: the overlay is read-only.
    upper: Option<Upper>,
    /// Whether others change the lower layers.
    policy: Policy,
    /// As [`OverlayOptions::null_devices`].
    null_devices: bool,
}

/// The upper layer of an overlay, which takes the changes.
#[derive(Clone, Debug)]
enum Upper {
    Memory,
    Dir(PathBuf),
}

impl FromStr for Spec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        match kind {
            "mem" => mem(rest),
            "host" => host(rest),
            "overlay" => overlay(rest),
            _ => Err(format!(
                "no tree is called `{kind}`: use mem, host:PATH or overlay:lower=PATH"
            )),
        }
    }
}

impl Spec {
    /// Makes the tree; `bar` shows its copy-ups. `taken` comes from [`Spec::take`].
    ///
    /// # Errors
    /// Those of its backend.
    pub(crate) fn make(
        &self,
        bar: &Arc<Bar>,
        taken: Option<&ViewLock>,
    ) -> Result<Arc<SuperBlock>, Errno> {
        match self {
            Self::Mem(options) => Ok(MemFs::new(options.clone())),
            Self::Host(path, options) => HostFs::open(path, options.clone()),
            Self::Overlay(layers) => layers.stack(bar, taken),
        }
    }

    /// Whether a cached name stays valid until the tree invalidates it.
    pub(crate) fn holds(&self) -> bool {
        match self {
            Self::Mem(_) => true,
            Self::Host(_, HostOptions { policy, .. }) | Self::Overlay(Layers { policy, .. }) => {
                matches!(policy, Policy::Exclusive | Policy::Notify)
            }
        }
    }

    /// Whether the tree reports the changes of others.
    pub(crate) fn tells(&self) -> bool {
        match self {
            Self::Mem(_) => false,
            Self::Host(_, HostOptions { policy, .. }) | Self::Overlay(Layers { policy, .. }) => {
                *policy == Policy::Notify
            }
        }
    }

    /// Locks the upper directory, if there is one, until the result is dropped.
    ///
    /// # Errors
    /// Another process holds the lock; a commit was interrupted; errors of the file system.
    pub(crate) fn take(&self) -> Result<Option<ViewLock>, Refusal> {
        match self {
            Self::Overlay(Layers {
                upper: Some(Upper::Dir(dir)),
                ..
            }) => openpath_run::lock_view(dir).map(Some),
            _ => Ok(None),
        }
    }

    /// The source that the table of mounts shows.
    pub(crate) fn source(&self) -> String {
        match self {
            Self::Mem(_) => "mem".to_owned(),
            Self::Host(path, _) => path.display().to_string(),
            Self::Overlay(_) => "overlay".to_owned(),
        }
    }
}

impl Layers {
    /// Makes the overlay.
    fn stack(&self, bar: &Arc<Bar>, taken: Option<&ViewLock>) -> Result<Arc<SuperBlock>, Errno> {
        let options = |policy| HostOptions::default().policy(policy);
        let lowers = self.lowers.iter();
        let lowers = lowers.map(|path| HostFs::open(path, options(self.policy)));
        let upper = match (&self.upper, taken) {
            (None, _) => None,
            (Some(Upper::Memory), _) => Some(MemFs::new(half())),
            (Some(Upper::Dir(_)), Some(taken)) => {
                let dir = taken.descriptor().map_err(|_| Errno::EMFILE)?;
                Some(HostFs::over(dir, options(Policy::Exclusive))?)
            }
            (Some(Upper::Dir(_)), None) => return Err(Errno::ENOLCK),
        };
        let options = OverlayOptions::default()
            .lowers(lowers.collect::<Result<_, _>>()?)
            .upper(upper)
            .copying(Some(Arc::<Bar>::clone(bar)))
            .null_devices(self.null_devices);
        OverlayFs::new(options)
    }
}

/// The settings: `key=value`, separated by commas.
fn settings(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let words = text.split(',').filter(|word| !word.is_empty());
    words.map(|word| word.split_once('=').unwrap_or((word, "")))
}

/// The options of a tree in memory with the limits of tmpfs(5): half of the memory, and one inode
/// for each page of that.
fn half() -> MemOptions {
    let size = openpath_run::half_of_memory();
    MemOptions::default().size(size).inodes(size / 4096)
}

fn mem(text: &str) -> Result<Spec, String> {
    // An ordinary user may use the tree that they mount.
    let mut options = half()
        .mode(0o755)
        .uid(rustix::process::getuid().as_raw())
        .gid(rustix::process::getgid().as_raw());
    for (key, value) in settings(text) {
        match key {
            "size" => options.size = amount(value)?,
            "inodes" => options.inodes = amount(value)?,
            "mode" => options.mode = octal(value)?,
            "uid" => options.uid = number(value)?,
            "gid" => options.gid = number(value)?,
            _ => {
                return Err(format!(
                    "mem has no setting `{key}`: use size, inodes, mode, uid or gid"
                ));
            }
        }
    }
    Ok(Spec::Mem(options))
}

fn host(text: &str) -> Result<Spec, String> {
    let (path, rest) = text.split_once(',').unwrap_or((text, ""));
    if path.is_empty() {
        return Err("host needs a directory: host:PATH".to_owned());
    }
    let mut options = HostOptions::default();
    for (key, value) in settings(rest) {
        match key {
            "policy" => options.policy = policy(value)?,
            "handles" => options.handles_max = number(value)? as usize,
            "watches" => options.watches_max = number(value)? as usize,
            _ => {
                return Err(format!(
                    "host has no setting `{key}`: use policy, handles or watches"
                ));
            }
        }
    }
    Ok(Spec::Host(path.into(), options))
}

fn overlay(text: &str) -> Result<Spec, String> {
    let mut layers = Layers {
        lowers: Vec::new(),
        upper: None,
        policy: Policy::Exclusive,
        null_devices: false,
    };
    for (key, value) in settings(text) {
        match key {
            "null-devices" if value.is_empty() => layers.null_devices = true,
            "lower" => layers.lowers.push(value.into()),
            "upper" if value == "memory" => layers.upper = Some(Upper::Memory),
            "upper" if has_kind(value) => {
                return Err(format!(
                    "overlay cannot keep changes in `{value}`: write upper=memory, or \
                     upper=./{value} for a directory of this name"
                ));
            }
            "upper" => layers.upper = Some(Upper::Dir(value.into())),
            "policy" => layers.policy = policy(value)?,
            _ => {
                return Err(format!(
                    "overlay has no setting `{key}`: use lower, upper, policy or null-devices"
                ));
            }
        }
    }
    if layers.lowers.is_empty() {
        return Err("overlay needs a directory: overlay:lower=PATH".to_owned());
    }
    Ok(Spec::Overlay(layers))
}

/// Whether a word is written as `KIND:...`, and not as a path.
fn has_kind(word: &str) -> bool {
    let kind = word.split_once(':');
    kind.is_some_and(|(kind, _)| !kind.contains('/'))
}

fn policy(text: &str) -> Result<Policy, String> {
    Ok(match text {
        "exclusive" => Policy::Exclusive,
        "notify" => Policy::Notify,
        "revalidate" => Policy::Revalidate,
        "none" => Policy::None,
        _ => {
            return Err(format!(
                "`{text}` is no policy: use exclusive, notify, revalidate or none"
            ));
        }
    })
}

fn number(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not a number"))
}

fn octal(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok();
    let mode = mode.filter(|mode| *mode <= 0o7777);
    mode.ok_or_else(|| format!("`{text}` is no mode: write an octal number such as 0755"))
}

/// A number, with an optional `k`, `m`, `g` or `t` for a power of 1024.
pub(crate) fn amount(text: &str) -> Result<u64, String> {
    let shift = match text.bytes().last().map(|b| b.to_ascii_lowercase()) {
        Some(b'k') => 10,
        Some(b'm') => 20,
        Some(b'g') => 30,
        Some(b't') => 40,
        _ => 0,
    };
    let digits = &text[..text.len() - usize::from(shift != 0)];
    let value = digits.parse::<u64>().ok();
    let value = value.and_then(|value| value.checked_mul(1 << shift));
    value.ok_or_else(|| format!("`{text}` is no size: write 4096, 64m or 2g"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_describes_a_tree() {
        let Ok(Spec::Mem(options)) = "mem:size=64m,inodes=10k,mode=1777".parse() else {
            panic!("a tree in memory");
        };
        assert_eq!((options.size, options.inodes), (64 << 20, 10 << 10));
        assert_eq!(options.mode, 0o1777);
        let Ok(Spec::Host(path, options)) = "host:/srv/x:y,policy=notify".parse() else {
            panic!("a directory of the host");
        };
        assert_eq!(path.to_str(), Some("/srv/x:y"));
        assert_eq!(options.policy, Policy::Notify);
        let Ok(Spec::Overlay(layers)) = "overlay:lower=/a,lower=/b,upper=memory".parse() else {
            panic!("an overlay");
        };
        assert_eq!(layers.lowers, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert!(matches!(layers.upper, Some(Upper::Memory)) && !layers.null_devices);
        let Ok(Spec::Overlay(layers)) = "overlay:lower=/a,null-devices".parse() else {
            panic!("an overlay");
        };
        assert!(layers.null_devices);
        for wrong in [
            "overlay:upper=/a",
            "overlay:lower=/a,size=1",
            "overlay:lower=/a,null-devices=yes",
            "",
            "disk",
            "host",
            "host:",
            "mem:size=1x",
            "mem:a=1",
            "host:/,policy=no",
        ] {
            assert!(wrong.parse::<Spec>().is_err(), "{wrong}");
        }
        assert!(amount("99999999999t").is_err());
    }
}
