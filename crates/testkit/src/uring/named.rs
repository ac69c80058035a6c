// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines scenes (batches of ring entries) that have a name: each is shrunk from a finding of
//! random scenes.

use super::{Act, Entry, Scene, Step, flag};
use openpath_abi::fcntl::{O_CLOEXEC, O_CREAT, O_PATH, O_RDWR, O_WRONLY};
use openpath_ring::{Cancel, Destination, File};

const LINK: u8 = flag::LINK;
const HARD: u8 = flag::HARDLINK;
const SKIP: u8 = flag::SKIP;
/// A read of the FIFO, which waits unless the FIFO is fed.
const FIFO: Act = Act::Read(File::Fd(0), 5, -1);
/// Not open, like 23.
const CLOSED: File = File::Fd(999);
const LONG: u64 = 600_000;

/// Makes a scene with one step for each list, and entries numbered from 1.
fn scene(steps: Vec<Vec<(Act, u8)>>) -> Scene {
    let mut data = 0;
    let mut entry = |(act, flags): (Act, u8)| {
        data += 1;
        Entry { act, data, flags }
    };
    let mut submit =
        |acts: Vec<(Act, u8)>| Step::Submit(acts.into_iter().map(&mut entry).collect());
    Scene(steps.into_iter().map(&mut submit).collect())
}

fn file(name: &str) -> String {
    format!("k0/{name}")
}

/// All scenes that both sides answer alike.
#[must_use]
pub fn named() -> Vec<Named> {
    let mut all = of_files();
    all.extend(of_chains());
    all.extend(of_cancels());
    all
}

/// A scene and the fact that it shows.
pub type Named = (&'static str, Scene);

fn open(name: &str, flags: u32, into: Destination) -> Act {
    Act::Open(file(name), flags, 0o644, into)
}

fn one(acts: Vec<(Act, u8)>) -> Scene {
    scene(vec![acts])
}

/// An entry that is invalid by itself.
fn wrong() -> Act {
    Act::Unlink(file("f"), 1)
}

/// Scenes with closed files, and slots.
fn of_files() -> Vec<Named> {
    vec![
        (
            "that a file is not open is said before anything else",
            one(vec![
                (Act::Read(CLOSED, 1, -2), 0),
                (Act::Write(CLOSED, b'x', 1, -2), flag::ASYNC),
                (Act::Truncate(CLOSED, -1), 0),
                (Act::Truncate(File::Slot(0), -1), 0),
                (Act::Allocate(CLOSED, 0, -1, 0), 0),
            ]),
        ),
        (
            "and so is that it is not open for writing",
            one(vec![
                (open("f", 0, Destination::Slot(1)), HARD),
                (Act::Write(File::Slot(1), b'x', 1, -2), HARD),
                (open("f", O_WRONLY.bits(), Destination::Slot(2)), HARD),
                (Act::Read(File::Slot(2), 1, -2), 0),
            ]),
        ),
        (
            "a slot is looked at when the file is open",
            one(vec![
                (
                    open("a", (O_CREAT | O_RDWR).bits(), Destination::Slot(9)),
                    HARD,
                ),
                (open("none", 0, Destination::Slot(9)), HARD),
                (Act::Close(File::Slot(9)), HARD),
                (Act::Close(File::Slot(1)), 0),
            ]),
        ),
        (
            "a slot is emptied for a file that is not there",
            one(vec![
                (Act::Keep(1, Destination::Slot(1)), HARD),
                (Act::Keep(23, Destination::Slot(1)), HARD),
                (Act::Read(File::Slot(1), 1, 0), HARD),
                (Act::Keep(23, Destination::Slot(9)), HARD),
                (open("f", O_PATH.bits(), Destination::Fd), HARD),
                (Act::Keep(5, Destination::Slot(0)), 0),
            ]),
        ),
    ]
}

/// Scenes with failures in chains, and silent entries.
fn of_chains() -> Vec<Named> {
    vec![
        (
            "a chain with what is wrong by itself does not begin",
            one(vec![
                (Act::Nop, LINK),
                (wrong(), LINK),
                (open("a", O_CREAT.bits(), Destination::Fd), HARD),
                (
                    open("b", (O_CREAT | O_CLOEXEC).bits(), Destination::AnySlot),
                    LINK,
                ),
                (Act::Nop, 0),
                (Act::Nop, 0),
            ]),
        ),
        (
            "and is silent but for the first, if that was to be",
            one(vec![
                (Act::Nop, LINK | SKIP),
                (wrong(), HARD),
                (Act::Nop, 0),
            ]),
        ),
        (
            "what is cancelled with a silent one is silent",
            one(vec![
                (Act::Close(CLOSED), LINK | SKIP),
                (Act::Nop, LINK),
                (Act::Nop, 0),
            ]),
        ),
        (
            "what is to be silent says so when it did less",
            one(vec![
                (Act::Read(File::Fd(1), 20, 0), SKIP | HARD),
                (Act::Read(File::Fd(1), 10, 0), SKIP | HARD),
                (Act::Nop, 0),
            ]),
        ),
        (
            "a chain goes on behind what waits",
            Scene(
                scene(vec![vec![
                    (FIFO, LINK),
                    (Act::LinkTimeout(LONG), LINK),
                    (Act::Rename(file("f"), file("a"), 0), LINK),
                    (open("a", O_RDWR.bits(), Destination::Fd), LINK),
                    (Act::Write(File::Fd(5), b'y', 3, -1), 0),
                    (Act::Nop, flag::DRAIN),
                ]])
                .0
                .into_iter()
                .chain([Step::Feed(5)])
                .collect(),
            ),
        ),
    ]
}

fn of_cancels() -> Vec<Named> {
    vec![
        (
            "to cancel any is to cancel all",
            scene(vec![
                vec![
                    (FIFO, 0),
                    (FIFO, LINK),
                    (Act::Nop, 0),
                    (Act::Timeout(LONG, 0), 0),
                ],
                vec![(Act::Cancel(Cancel::Any), 0)],
            ]),
        ),
        (
            "what is open nowhere cannot be cancelled",
            one(vec![
                (Act::Cancel(Cancel::File(CLOSED)), 0),
                (Act::CancelAll(Cancel::File(CLOSED)), 0),
                (Act::Cancel(Cancel::File(File::Fd(1))), 0),
                (Act::CancelAll(Cancel::File(File::Fd(1))), 0),
            ]),
        ),
    ]
}

/// A chain with a failing call on names, and a silent one that fails so. L23
#[must_use]
pub fn soft() -> [Scene; 2] {
    let made = || Act::Mkdir(file("f"), 0o755);
    [
        scene(vec![vec![(made(), LINK), (Act::Nop, 0)]]),
        scene(vec![vec![(made(), SKIP | HARD), (Act::Nop, 0)]]),
    ]
}
