// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that kept views are made private, found, locked and discarded, and that damaged ones and
//! those of other users are refused. A discard that is interrupted at any step leaves a whole view
//! or can be finished.

use super::discard::discard_steps;
use super::{INFO, KeptView, discard, lock_view};
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A directory for a view, which goes with the value.
struct Scratch {
    top: PathBuf,
    dir: PathBuf,
    name: String,
}

impl Scratch {
    fn new(name: &str) -> Scratch {
        let top = format!("openpath-kept-{name}-{}", std::process::id());
        let top = std::env::temp_dir().join(top);
        fs::create_dir_all(&top).unwrap();
        let dir = top.join("view");
        let name = dir.display().to_string();
        Scratch { top, dir, name }
    }

    fn make(&self) -> Result<KeptView, crate::report::refusal::Refusal> {
        KeptView::make(&self.name, &["make".into(), "-j".into()])
    }

    /// A view that has run.
    fn used(&self) -> KeptView {
        let kept = self.make().unwrap();
        fs::create_dir_all(self.dir.join("upper/x")).unwrap();
        fs::create_dir(self.dir.join("work")).unwrap();
        fs::write(self.dir.join("upper/x/old"), "").unwrap();
        kept
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.top).ok();
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn view_is_made_found_locked_and_discarded() {
    let s = Scratch::new("life");
    assert!(KeptView::open(&s.name).is_err());
    let kept = s.make().unwrap();
    let again = KeptView::make(&s.name, &[]).unwrap();
    assert_eq!(
        (again.info.command.as_str(), again.info.made),
        ("make -j", kept.info.made)
    );
    let held = kept.lock().unwrap();
    assert!(again.is_in_use() && discard(&s.name, &mut || {}).is_err());
    // As a child has it that is about to execute its program.
    let inherited = held.inherited();
    drop(held);
    assert!(!again.is_in_use());
    drop(inherited);
    fs::create_dir_all(s.dir.join("upper/x")).unwrap();
    fs::write(s.dir.join("mine"), "").unwrap();
    discard(&s.name, &mut || {}).unwrap();
    let left: Vec<_> = fs::read_dir(&s.dir).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(s.dir.join("mine").exists());
    fs::remove_file(s.dir.join("mine")).unwrap();
    s.used();
    discard(&s.name, &mut || {}).unwrap();
    assert!(!s.dir.exists());
}

#[test]
fn view_is_private_whatever_was_there() {
    let s = Scratch::new("private");
    let kept = s.make().unwrap();
    drop(kept.lock().unwrap());
    assert_eq!(mode(&s.dir), 0o700);
    assert_eq!(mode(&s.dir.join(INFO)), 0o600);
    assert_eq!(mode(&s.dir.join("lock")), 0o600);
    // One of an older version.
    fs::set_permissions(&s.dir, fs::Permissions::from_mode(0o755)).unwrap();
    drop(lock_view(&s.dir).unwrap());
    assert_eq!(mode(&s.dir), 0o700);
    for open in [0o775, 0o707] {
        fs::set_permissions(&s.dir, fs::Permissions::from_mode(open)).unwrap();
        let why = lock_view(&s.dir).unwrap_err().to_string();
        assert!(why.contains("others can write"), "{why}");
        assert_eq!(mode(&s.dir), open);
    }
    let shared = s.top.join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(shared.join("other"), "").unwrap();
    let why = KeptView::make(&shared.display().to_string(), &[]).unwrap_err();
    assert!(why.to_string().contains("not empty"), "{why}");
    let why = lock_view(&shared).unwrap_err();
    assert!(why.to_string().contains("chmod 700"), "{why}");
    assert_eq!(mode(&shared), 0o755);
}

#[test]
fn control_files_are_not_followed_and_not_waited_for() {
    let s = Scratch::new("links");
    let victim = s.top.join("victim");
    // A dangling link in place of each, and one to a file.
    for name in ["lock", INFO] {
        fs::create_dir(&s.dir).unwrap();
        symlink(&victim, s.dir.join(name)).unwrap();
        assert!(s.make().is_err(), "{name}");
        assert!(!victim.exists(), "{name}");
        assert!(discard(&s.name, &mut || {}).is_err(), "{name}");
        fs::remove_dir_all(&s.dir).unwrap();
    }
    s.used();
    fs::remove_file(s.dir.join("lock")).unwrap();
    let made = rustix::fs::mkfifoat(rustix::fs::CWD, s.dir.join("lock"), rustix::fs::Mode::RWXU);
    made.unwrap();
    let why = lock_view(&s.dir).unwrap_err().to_string();
    assert!(why.contains("not a regular file"), "{why}");
}

#[test]
fn view_of_another_user_is_refused_by_name_of_the_user() {
    let s = Scratch::new("theirs");
    if fs::metadata(&s.top).unwrap().uid() != 0 {
        eprintln!("skipped: only root can give a directory to another user");
        return;
    }
    s.used();
    chown(&s.dir, Some(1000), Some(1000)).unwrap();
    for why in [
        s.make().map(drop).unwrap_err(),
        KeptView::open(&s.name).map(drop).unwrap_err(),
        lock_view(&s.dir).map(drop).unwrap_err(),
        discard(&s.name, &mut || {}).unwrap_err(),
    ] {
        assert!(why.to_string().contains("user 1000"), "{why}");
    }
    assert!(s.dir.join("upper/x/old").exists());
}

#[test]
fn damaged_view_is_neither_used_nor_replaced() {
    let s = Scratch::new("damaged");
    s.used();
    let info = s.dir.join(INFO);
    fs::write(&info, "made = x").unwrap();
    fs::remove_file(s.dir.join("lock")).unwrap();
    for whys in [["by hand"; 3], ["not empty", "no view", "no view"]] {
        let all = [
            s.make().map(drop),
            KeptView::open(&s.name).map(drop),
            discard(&s.name, &mut || {}),
        ];
        for (done, why) in all.into_iter().zip(whys) {
            let said = done.unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
            assert_eq!(said.contains("is damaged"), why == "by hand", "{said}");
        }
        assert!(s.dir.join("upper/x/old").exists() && !s.dir.join("lock").exists());
        fs::remove_file(&info).ok();
    }
    fs::remove_dir_all(&s.dir).unwrap();
    s.used();
    fs::remove_dir_all(s.dir.join("upper")).unwrap();
    let why = s.make().unwrap_err().to_string();
    assert!(why.contains("`upper`"), "{why}");
}

#[test]
fn discard_ended_at_any_step_leaves_a_whole_view_or_none() {
    let s = Scratch::new("steps");
    let mut ends = [0; 2];
    for last in 0.. {
        fs::remove_file(s.dir.join("mine")).ok();
        s.used();
        fs::write(s.dir.join("mine"), "").unwrap();
        let mut steps = 0..last;
        let mut step = || {
            let more = steps.next().map(|_| ());
            more.ok_or_else(|| io::ErrorKind::Interrupted.into())
        };
        let done = discard_steps(&s.name, &mut step, &mut || {});
        let whole = KeptView::open(&s.name).is_ok();
        ends[usize::from(whole)] += 1;
        if whole {
            assert!(s.dir.join("upper/x/old").exists(), "{last}");
            let kept = s.make().unwrap();
            assert_eq!(kept.info.command, "make -j");
        } else {
            if !s.dir.join(super::DISCARDED).exists() {
                // The directory is the user's again, and begins afresh only if it is empty.
                assert!(s.make().is_err());
                fs::remove_file(s.dir.join("mine")).unwrap();
            }
            let kept = KeptView::make(&s.name, &["new".into()]).unwrap();
            fs::write(s.dir.join("mine"), "").unwrap();
            assert_eq!(kept.info.command, "new", "{last}");
            for old in ["upper", "work", super::DISCARDED] {
                assert!(!s.dir.join(old).exists(), "{last}: {old}");
            }
        }
        assert!(s.dir.join("mine").exists());
        discard(&s.name, &mut || {}).unwrap();
        if done.is_ok() {
            break;
        }
    }
    assert!(ends.iter().all(|n| *n > 1), "{ends:?}");
}

#[test]
fn interrupted_discard_is_finished_by_the_next() {
    let s = Scratch::new("again");
    for last in 0..40 {
        s.used();
        let mut steps = 0..last;
        let mut step = || {
            let more = steps.next().map(|_| ());
            more.ok_or_else(|| io::ErrorKind::Interrupted.into())
        };
        let done = discard_steps(&s.name, &mut step, &mut || {});
        if done.is_ok() {
            return;
        }
        // After the last but one step there is no view any more, and maybe its lock.
        if discard(&s.name, &mut || {}).is_err() {
            fs::remove_file(s.dir.join("lock")).ok();
            fs::remove_dir(&s.dir).unwrap();
        }
        assert!(!s.dir.exists(), "{last}");
    }
    panic!("it never ends");
}

/// Discards a view up to this step; whether it was interrupted there.
fn is_interrupted_at(s: &Scratch, last: u32) -> bool {
    let mut steps = 0..last;
    let mut is_interrupted = false;
    let mut step = || {
        is_interrupted = steps.next().is_none();
        match is_interrupted {
            true => Err(io::ErrorKind::Interrupted.into()),
            false => Ok(()),
        }
    };
    let _refused = discard_steps(&s.name, &mut step, &mut || {});
    is_interrupted
}

#[test]
fn discard_interrupted_twice_leaves_a_whole_view_or_is_finished() {
    interrupt_twice(3);
}

#[test]
#[ignore = "slow: 8 s"]
fn discard_interrupted_at_any_two_steps_leaves_a_whole_view_or_is_finished() {
    interrupt_twice(u32::MAX);
}

/// Interrupts a discard at each step, and the next one at each of its first steps.
fn interrupt_twice(seconds: u32) {
    for first in 0.. {
        for second in 0..seconds {
            let s = Scratch::new("twice");
            s.used();
            if !is_interrupted_at(&s, first) {
                assert!(first > 20, "{first}");
                return;
            }
            let goes_on = is_interrupted_at(&s, second);
            if KeptView::open(&s.name).is_ok() {
                assert!(s.dir.join("upper/x/old").exists(), "{first}, {second}");
            } else {
                if second % 2 == 0 && s.dir.join(super::DISCARDED).exists() {
                    discard(&s.name, &mut || {})
                        .unwrap_or_else(|why| panic!("{first}, {second}: {why}"));
                }
                let made = KeptView::make(&s.name, &["new".into()]);
                let kept = made.unwrap_or_else(|why| panic!("{first}, {second}: {why}"));
                assert_eq!(kept.info.command, "new", "{first}, {second}");
                for old in ["upper", "work", super::DISCARDED] {
                    assert!(!s.dir.join(old).exists(), "{first}, {second}: {old}");
                }
            }
            if !goes_on {
                break;
            }
        }
    }
}

#[test]
fn unused_view_of_a_failed_run_is_discarded_and_one_with_changes_is_not() {
    let s = Scratch::new("forget");
    s.make().unwrap().discard_if_unused();
    assert!(!s.dir.exists());
    let kept = s.make().unwrap();
    fs::create_dir_all(s.dir.join("upper")).unwrap();
    let again = s.make().unwrap();
    again.discard_if_unused();
    assert!(s.dir.exists());
    fs::write(s.dir.join("upper/x"), "").unwrap();
    kept.discard_if_unused();
    assert!(s.dir.exists());
}

#[test]
fn view_that_another_run_has_changed_is_not_discarded() {
    let s = Scratch::new("forget-late");
    let (kept, again) = (s.make().unwrap(), s.make().unwrap());
    let held = again.lock().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| kept.discard_if_unused());
        // The other one waits for the lock.
        std::thread::sleep(Duration::from_millis(20));
        fs::create_dir(s.dir.join("upper")).unwrap();
        fs::write(s.dir.join("upper/x"), "").unwrap();
        drop(held);
    });
    assert!(s.dir.join("upper/x").exists());
}

#[test]
fn lock_that_lost_its_name_does_not_count_though_it_has_another() {
    let s = Scratch::new("lock-name");
    let kept = s.make().unwrap();
    drop(kept.lock().unwrap());
    let file = fs::File::open(s.dir.join("lock")).unwrap();
    assert!(super::lock::has_name(kept.view_dir(), &file).unwrap());
    fs::hard_link(s.dir.join("lock"), s.top.join("backup")).unwrap();
    fs::remove_file(s.dir.join("lock")).unwrap();
    assert!(!super::lock::has_name(kept.view_dir(), &file).unwrap());
    drop(kept.lock().unwrap());
    assert!(!super::lock::has_name(kept.view_dir(), &file).unwrap());
}

#[test]
fn test_whether_a_view_is_in_use_leaves_no_lock() {
    let s = Scratch::new("in-use");
    let kept = s.make().unwrap();
    drop(kept.lock().unwrap());
    let file = fs::File::open(s.dir.join("lock")).unwrap();
    // As a child has it that is about to execute its program.
    let inherited = file.try_clone().unwrap();
    assert!(!super::lock::is_file_locked(&file));
    drop(file);
    assert!(!kept.is_in_use());
    drop(kept.lock().unwrap());
    drop(inherited);
    // Another process tests at the same moment.
    let other = fs::File::open(s.dir.join("lock")).unwrap();
    other.lock_shared().unwrap();
    assert!(!kept.is_in_use());
}
