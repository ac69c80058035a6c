// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is to be mounted, in a word: `mem[:size=SIZE,...]`, `host:PATH[,policy=POLICY,...]` or
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
    /// Directories of the host, and what takes the changes.
    Overlay(Layers),
}

/// The layers of an overlay.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    /// Topmost first.
    lowers: Vec<PathBuf>,
    /// `None`: nothing can be changed.
    upper: Option<Upper>,
    /// Who else changes the lower ones.
    policy: Policy,
    /// As [`OverlayOptions::null_devices`].
    null_devices: bool,
}

/// What takes the changes of an overlay.
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
                "no tree is called `{kind}`: mem, host:PATH or overlay:lower=PATH"
            )),
        }
    }
}

impl Spec {
    /// Makes the tree; where something is copied up in it, `bar` is told. `taken` is what
    /// [`Spec::take`] gave.
    ///
    /// # Errors
    /// What its backend meets.
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

    /// Whether what is known of a name holds until the tree tells otherwise.
    pub(crate) fn holds(&self) -> bool {
        match self {
            Self::Mem(_) => true,
            Self::Host(_, HostOptions { policy, .. }) | Self::Overlay(Layers { policy, .. }) => {
                matches!(policy, Policy::Exclusive | Policy::Notify)
            }
        }
    }

    /// Whether it tells what others change.
    pub(crate) fn tells(&self) -> bool {
        match self {
            Self::Mem(_) => false,
            Self::Host(_, HostOptions { policy, .. }) | Self::Overlay(Layers { policy, .. }) => {
                *policy == Policy::Notify
            }
        }
    }

    /// Takes the directory of changes, if there is one, until what this gives is dropped.
    ///
    /// # Errors
    /// Someone else has it; a commit of it was interrupted; what the file system says.
    pub(crate) fn take(&self) -> Result<Option<ViewLock>, Refusal> {
        match self {
            Self::Overlay(Layers {
                upper: Some(Upper::Dir(dir)),
                ..
            }) => openpath_run::take(dir).map(Some),
            _ => Ok(None),
        }
    }

    /// What the table of mounts shows.
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
        let options = |policy| HostOptions {
            policy,
            ..HostOptions::default()
        };
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
        OverlayFs::new(OverlayOptions {
            lowers: lowers.collect::<Result<_, _>>()?,
            upper,
            copying: Some(Arc::<Bar>::clone(bar)),
            null_devices: self.null_devices,
            ..OverlayOptions::default()
        })
    }
}

/// The settings after what there was to say first: `key=value`, parted by commas.
fn settings(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let words = text.split(',').filter(|word| !word.is_empty());
    words.map(|word| word.split_once('=').unwrap_or((word, "")))
}

/// A tree in memory with the bounds of tmpfs(5): half of the memory, and an inode for each page of
/// that.
fn half() -> MemOptions {
    let size = openpath_run::half_of_memory();
    MemOptions {
        size,
        inodes: size / 4096,
        ..MemOptions::default()
    }
}

fn mem(text: &str) -> Result<Spec, String> {
    // A program that is not root's may use what it mounts.
    let mut options = MemOptions {
        mode: 0o755,
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        ..half()
    };
    for (key, value) in settings(text) {
        match key {
            "size" => options.size = amount(value)?,
            "inodes" => options.inodes = amount(value)?,
            "mode" => options.mode = octal(value)?,
            "uid" => options.uid = number(value)?,
            "gid" => options.gid = number(value)?,
            _ => {
                return Err(format!(
                    "mem has no setting `{key}`: size, inodes, mode, uid, gid"
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
                    "host has no setting `{key}`: policy, handles, watches"
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
                    "overlay has no setting `{key}`: lower, upper, policy, null-devices"
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
                "no policy `{text}`: exclusive, notify, revalidate, none"
            ));
        }
    })
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("no number: `{text}`"))
}

fn octal(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok();
    let mode = mode.filter(|mode| *mode <= 0o7777);
    mode.ok_or_else(|| format!("no mode: `{text}`"))
}

/// A number, maybe with `k`, `m`, `g` or `t` for a power of 1024.
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
    value.ok_or_else(|| format!("no size: `{text}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_said_in_a_word() {
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
