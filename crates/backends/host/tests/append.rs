// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that an append goes to the end of the host's file, even if other programs moved that end,
//! under each policy for changes by others, and that concurrent appends lose nothing.

mod common;

use common::{POLICIES, Scratch, policy, world};
use openpath_abi::falloc::RWF_APPEND;
use openpath_abi::fcntl::{O_APPEND, O_RDWR, O_WRONLY, SEEK_CUR};
use openpath_host::{HostFs, Policy};
use openpath_vfs::{Cred, Vfs};
use std::io::{IoSlice, Write as _};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn append_goes_to_the_end_that_others_moved() {
    for p in POLICIES {
        let s = Scratch::new("append");
        s.put("f", "begun");
        let (_vfs, task) = world(&s, policy(p));
        let appends = task.open(b"/f", O_WRONLY | O_APPEND, 0).expect("open");
        let plain = task.open(b"/f", O_WRONLY, 0).expect("open");
        let theirs = std::fs::File::options().append(true).open(s.at("f"));
        let mut theirs = theirs.expect("open");
        let mut expected = String::from("begun");
        for turn in 0..50 {
            writeln!(theirs, "theirs {turn}").expect("written");
            expected += &format!("theirs {turn}\n");
            let mine = format!("mine {turn}\n");
            let pieces = mine.as_bytes().split_at(3);
            let pieces = [IoSlice::new(pieces.0), IoSlice::new(pieces.1)];
            let (fd, flags) = match turn % 2 {
                0 => (appends, 0),
                _ => (plain, RWF_APPEND),
            };
            let written = task.pwritev2(fd, &pieces, -1, flags);
            assert_eq!(written, Ok(mine.len()), "{p:?}");
            expected += &mine;
            let len = expected.len() as i64;
            assert_eq!(task.lseek(fd, 0, SEEK_CUR), Ok(len), "{p:?}");
            assert_eq!(task.fstat(fd).map(|stat| stat.size), Ok(len), "{p:?}");
        }
        assert_eq!(s.get("f"), expected, "{p:?}");
    }
}

#[test]
fn files_without_write_flags_can_be_appended_to() {
    let options = policy(Policy::Exclusive);
    let tree = HostFs::open("/proc/self", options).expect("a tree");
    let vfs = Vfs::builder().build(tree).expect("a Vfs");
    let task = vfs.task(Cred::root()).expect("a task");
    let adjusted = std::fs::read("/proc/self/oom_score_adj").expect("a number");
    let fd = task.open(b"/oom_score_adj", O_WRONLY | O_APPEND, 0);
    let fd = fd.expect("open");
    assert_eq!(task.write(fd, &adjusted), Ok(adjusted.len()));
}

#[test]
fn concurrent_appends_lose_nothing_and_know_their_offset() {
    const TURNS: usize = 10_000;
    let s = Scratch::new("append-beside");
    s.put("f", "");
    let (_vfs, task) = world(&s, policy(Policy::Notify));
    let fd = task.open(b"/f", O_RDWR | O_APPEND, 0).expect("open");
    let (begins, ends) = (Barrier::new(2), AtomicBool::new(false));
    let theirs = std::thread::scope(|scope| {
        let theirs = scope.spawn(|| {
            let file = std::fs::File::options().append(true).open(s.at("f"));
            let mut file = file.expect("open");
            let mut turns = 0;
            begins.wait();
            while !ends.load(Ordering::Relaxed) {
                file.write_all(b"--------").expect("written");
                turns += 1;
            }
            turns
        });
        begins.wait();
        for turn in 0..TURNS {
            let mine = format!("{turn:08}");
            assert_eq!(task.write(fd, mine.as_bytes()), Ok(8));
            let end = task.lseek(fd, 0, SEEK_CUR).expect("a place");
            let mut there = [0; 8];
            let read = task.pread(fd, &mut there, end - 8);
            assert_eq!((read, &there[..]), (Ok(8), mine.as_bytes()), "{turn}");
        }
        ends.store(true, Ordering::Relaxed);
        theirs.join().expect("no panic")
    });
    let text = s.get("f");
    assert_eq!(text.len(), 8 * (TURNS + theirs));
    let pieces = (0..text.len()).step_by(8).map(|at| &text[at..at + 8]);
    let mine: Vec<&str> = pieces.filter(|&piece| piece != "--------").collect();
    let all: Vec<String> = (0..TURNS).map(|turn| format!("{turn:08}")).collect();
    assert_eq!(mine, all);
}
