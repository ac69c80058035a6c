// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that file flags, as lsattr(1) and chattr(1) use them, are shown, set and enforced on a
//! mounted tree as on a tmpfs of the host.

mod test_mount;

use openpath_fuse::{Opens, Options};
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use test_mount::TestMount;

/// The errno of a call, 0 for none.
fn errno<T>(done: io::Result<T>) -> i32 {
    done.map_or_else(|why| why.raw_os_error().unwrap_or(-1), |_| 0)
}

fn set(path: &Path, flags: IFlags) -> i32 {
    let file = File::open(path).expect("opened");
    errno(ioctl_setflags(file, flags).map_err(io::Error::from))
}

fn shown(path: &Path) -> Result<u32, i32> {
    let file = File::open(path).expect("opened");
    let flags = ioctl_getflags(file);
    flags
        .map(|flags| flags.bits())
        .map_err(rustix::io::Errno::raw_os_error)
}

/// The flags of a file and a directory, and the results of calls on them.
type Outcome = ([Result<u32, i32>; 2], Vec<i32>);

/// The results of calls on a file and a directory with each set of flags.
fn outcomes(dir: &Path) -> Vec<Outcome> {
    let (file, sub) = (dir.join("file"), dir.join("sub"));
    fs::write(&file, "data").expect("written");
    fs::create_dir(&sub).expect("made");
    fs::write(sub.join("in"), "data").expect("written");
    let mut answers = Vec::new();
    for flags in [IFlags::empty(), IFlags::IMMUTABLE, IFlags::APPEND] {
        for path in [&file, &sub] {
            assert_eq!(set(path, flags), 0, "{flags:?} {}", path.display());
        }
        let write = || {
            let mut file = OpenOptions::new().write(true).open(&file)?;
            file.write_all(b"x")
        };
        let append = || {
            let mut file = OpenOptions::new().append(true).open(&file)?;
            file.write_all(b"x")
        };
        let flags = [shown(&file), shown(&sub)];
        let ends = vec![
            errno(write()),
            errno(append()),
            errno(fs::hard_link(&file, dir.join("link"))),
            errno(fs::remove_file(sub.join("in"))),
            errno(fs::write(sub.join("new"), "")),
            errno(fs::set_permissions(&file, Permissions::from_mode(0o600))),
            errno(fs::remove_file(&file)),
        ];
        answers.push((flags, ends));
        for path in [&file, &sub] {
            if path.exists() {
                assert_eq!(set(path, IFlags::empty()), 0);
            }
        }
        let _there = fs::write(&file, "data");
        let _there = fs::write(sub.join("in"), "data");
        let _gone = fs::remove_file(sub.join("new"));
        let _gone = fs::remove_file(dir.join("link"));
    }
    answers
}

#[test]
fn flags_of_files_are_shown_set_and_enforced_as_on_tmpfs() {
    let beside = Path::new("/dev/shm").join(format!("openpath-flags-{}", std::process::id()));
    if fs::create_dir(&beside).is_err() {
        eprintln!("skipped: no tmpfs to compare with");
        return;
    }
    let probe = beside.join("probe");
    fs::write(&probe, "").expect("written");
    if set(&probe, IFlags::IMMUTABLE) != 0 {
        eprintln!("skipped: this user may not make a file immutable");
        fs::remove_dir_all(&beside).expect("removed");
        return;
    }
    assert_eq!(set(&probe, IFlags::empty()), 0);
    let expected = outcomes(&beside);
    fs::remove_dir_all(&beside).expect("removed");
    for opens in [Opens::Never, Opens::Each] {
        let Some(mount) = TestMount::new(Options::default().opens(opens)) else {
            return;
        };
        assert_eq!(outcomes(mount.dir()), expected, "{opens:?}");
        // A flag that the tree does not have.
        let unknown = set(&mount.at("file"), IFlags::COMPRESSED);
        assert_eq!(unknown, rustix::io::Errno::OPNOTSUPP.raw_os_error());
        assert!(mount.asked("ioctl") > 0);
        mount.end();
    }
}
