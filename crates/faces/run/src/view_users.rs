// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names the processes that keep a view mounted after its own processes have ended.
//!
//! Such a process is outside the view's namespaces: it has a working directory, a root, a program,
//! an open file or a mapping in the view, as by `/proc/PID/root`, or a mount of it.
//!
//! # Rules
//! R1. No request goes to the view, which this process serves: devices are compared, and statx(2)
//!     is told not to update attributes.
//! R2. The list may be short: processes of other users cannot be read, and a descriptor in a socket
//!     belongs to none.

use openpath_commit::printable;
use rustix::fs::{AtFlags, CWD, Statx, StatxFlags};
use std::fs;
use std::path::Path;

/// The most processes that are named.
const NAMED: usize = 8;

/// Says which processes use the view with these devices, as `/proc/PID/mountinfo` writes them.
pub(crate) fn describe(devices: &[String]) -> String {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = names.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut found: Vec<_> = pids
        .filter(|pid| devices.iter().any(|device| uses(*pid, device)))
        .collect();
    found.sort_unstable();
    sentence(found.iter().map(|pid| name(*pid)).collect())
}

fn sentence(mut found: Vec<String>) -> String {
    let more = found.len().saturating_sub(NAMED);
    found.truncate(NAMED);
    if more > 0 {
        found.push(format!("{more} more"));
    }
    match &found[..] {
        [] => "another process still uses the view".to_owned(),
        [one] => format!("process {one} still uses the view"),
        [all @ .., last] => {
            let all = all.join(", ");
            format!("processes {all} and {last} still use the view")
        }
    }
}

/// A process with its command.
fn name(pid: u32) -> String {
    let command = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{pid} ({})", printable(command.trim_ascii_end()))
}

fn uses(pid: u32, device: &str) -> bool {
    let at = |what: &str| format!("/proc/{pid}/{what}");
    let is_here = |path: &Path| device_of(path).as_deref() == Some(device);
    let files = fs::read_dir(at("fd")).into_iter().flatten().flatten();
    ["cwd", "root", "exe"]
        .iter()
        .any(|what| is_here(Path::new(&at(what))))
        || files.map(|file| file.path()).any(|file| is_here(&file))
        || has_word(&at("mountinfo"), 2, device)
        || mapped(device).is_some_and(|device| has_word(&at("maps"), 3, &device))
}

/// R1
fn device_of(path: &Path) -> Option<String> {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    let device = |stat: Statx| format!("{}:{}", stat.stx_dev_major, stat.stx_dev_minor);
    let stat = rustix::fs::statx(CWD, path, flags, StatxFlags::empty());
    stat.ok().map(device)
}

/// A device as `/proc/PID/maps` writes it.
fn mapped(device: &str) -> Option<String> {
    let (major, minor) = device.split_once(':')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    Some(format!("{major:02x}:{minor:02x}"))
}

/// Whether a line of a file has this word at this place.
fn has_word(file: &str, at: usize, word: &str) -> bool {
    let text = fs::read(file).unwrap_or_default();
    let mut lines = text.split(|byte| *byte == b'\n');
    lines.any(|line| line.split(|byte| *byte == b' ').nth(at) == Some(word.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::{NAMED, describe, device_of, mapped, sentence};
    use std::path::Path;

    #[test]
    fn process_with_a_file_on_a_device_is_named() {
        let device = device_of(Path::new("/proc")).unwrap();
        let dir = std::fs::File::open("/proc").unwrap();
        let said = describe(std::slice::from_ref(&device));
        drop(dir);
        assert!(said.contains("still use"), "{said}");
        let none = describe(&["4095:1048575".to_owned()]);
        assert_eq!(none, "another process still uses the view");
        assert_eq!(mapped("0:57").unwrap(), "00:39");
    }

    #[test]
    fn long_list_of_processes_is_cut() {
        let names = |count: usize| (0..count).map(|pid| format!("{pid} (x)")).collect();
        assert_eq!(sentence(names(1)), "process 0 (x) still uses the view");
        assert_eq!(
            sentence(names(2)),
            "processes 0 (x) and 1 (x) still use the view"
        );
        assert!(sentence(names(NAMED + 3)).ends_with("7 (x) and 3 more still use the view"));
    }
}
