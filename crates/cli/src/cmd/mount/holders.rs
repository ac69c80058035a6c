// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds out why a mount is busy: which processes use it, and what is mounted in it.
//!
//! # Rules
//! R1. No request goes to the mount itself, because its server may not answer: devices are
//!     compared, and statx(2) is told not to update attributes.
//! R2. Processes that cannot be checked are counted, so that an empty list is not taken for "none".

use crate::summary::text_of;
use rustix::fs::{AtFlags, CWD, StatxFlags};
use std::fs;
use std::io;
use std::path::Path;

/// The most processes and mounts that are named.
const NAMED: usize = 8;

/// A device, as statx(2) tells it.
type Device = (u32, u32);

/// The end of a message: what uses the mount at `dir`, and what to do.
pub(super) fn of(dir: &Path) -> String {
    let mut parts = inner_mounts(dir);
    let mut hidden = 0;
    if let Some(device) = device(dir) {
        let (found, closed) = holders(device);
        hidden = closed;
        let more = found.len().saturating_sub(NAMED);
        let named = found.iter().take(NAMED);
        let named: Vec<_> = named
            .map(|(pid, name)| format!("process {pid} ({name}) uses it"))
            .collect();
        parts.extend(named);
        if more > 0 {
            parts.push(format!("so do {more} more"));
        }
    }
    if hidden > 0 {
        parts.push(format!(
            "{hidden} processes of other users could not be checked"
        ));
    }
    if parts.is_empty() {
        parts.push("no process of this pid namespace uses it".to_owned());
    }
    let parts = parts.join(", ");
    format!("{parts}; end them, or detach it at once with `openpath umount --lazy`")
}

/// The mounts below the mount.
fn inner_mounts(dir: &Path) -> Vec<String> {
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let places = table.lines().filter_map(|line| line.split(' ').nth(4));
    let inner =
        places.filter(|place| *place != dir.as_os_str() && Path::new(place).starts_with(&dir));
    inner
        .take(NAMED)
        .map(|place| format!("{} is mounted in it", text_of(place.as_ref())))
        .collect()
}

/// The processes that use this device, with their names, and the number of processes that this
/// user may not check.
fn holders(device: Device) -> (Vec<(u32, String)>, usize) {
    let mut found = Vec::new();
    let mut closed = 0;
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for pid in all {
        match holds(pid, device) {
            Ok(true) => {
                let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
                found.push((pid, text_of(name.trim_end().as_ref())));
            }
            Ok(false) => {}
            Err(why) if why.kind() == io::ErrorKind::PermissionDenied => closed += 1,
            // The process has ended.
            Err(_) => {}
        }
    }
    found.sort_unstable();
    (found, closed)
}

fn holds(pid: u32, wanted: Device) -> io::Result<bool> {
    let at = |what: &str| format!("/proc/{pid}/{what}");
    let is = |what: &str| device(Path::new(&at(what))) == Some(wanted);
    if ["cwd", "root", "exe"].into_iter().any(is) {
        return Ok(true);
    }
    for fd in fs::read_dir(at("fd"))?.flatten() {
        if device(&fd.path()) == Some(wanted) {
            return Ok(true);
        }
    }
    let word = format!("{:02x}:{:02x}", wanted.0, wanted.1);
    let maps = fs::read(at("maps"))?;
    let maps = String::from_utf8_lossy(&maps);
    Ok(maps
        .lines()
        .any(|line| line.split(' ').nth(3) == Some(&word)))
}

/// R1
fn device(path: &Path) -> Option<Device> {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    let stat = rustix::fs::statx(CWD, path, flags, StatxFlags::empty()).ok()?;
    Some((stat.stx_dev_major, stat.stx_dev_minor))
}
