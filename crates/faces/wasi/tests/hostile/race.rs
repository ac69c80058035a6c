// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two guests of one directory: one walks, the other moves what it walks through.
//!
//! The control is a task that walks the same paths unconfined while a guest moves things: it must
//! get out.

use openpath_sync::Word;
use openpath_vfs::{Cred, Limits};

use super::escape::outside;
use super::field::{Failed, Field, JAIL, Prison, SECRET, content, fill};
use super::puppet::{BUFFER, DIR, PATH, PATH2, Puppet, READ, WRITE, oflags};

/// The control gives up after so many walks.
const CONTROL_WALKS: u64 = 1 << 28;

/// Steps that lead nowhere, in a directory that moves.
const DWELLS: usize = 64;

/// Renames of one guest, over and over.
type Moves = &'static [(&'static [u8], &'static [u8])];

/// One race.
struct Race<'a> {
    /// What one guest does, in this order.
    moves: Moves,
    /// A path to the secret, at the right moment.
    way: &'a [u8],
    /// A path that would plant a directory outside then.
    plant: &'a [u8],
}

/// What the walking guest saw.
#[derive(Default)]
struct Seen {
    walks: u64,
    opened: u64,
    out: u64,
}

fn rename(guest: &mut Puppet, old: &[u8], new: &[u8]) -> bool {
    guest.put(PATH, old);
    guest.put(PATH2, new);
    let (dir, old, new) = (u64::from(DIR), old.len() as u64, new.len() as u64);
    let args = [dir, PATH.into(), old, dir, PATH2.into(), new];
    guest.call("path_rename", &args).is_ok()
}

/// Moves until told otherwise; how many renames were done.
fn mover(mut guest: Puppet, moves: Moves, over: &Word) -> u64 {
    let mut moved = 0;
    while over.get() == 0 {
        for (old, new) in moves {
            moved += u64::from(rename(&mut guest, old, new));
        }
    }
    moved
}

/// Walks so often, as a guest.
fn walker(guest: &mut Puppet, race: &Race<'_>, walks: u64) -> Seen {
    let mut seen = Seen::default();
    while seen.walks < walks {
        for _ in 0..64 {
            seen.walks += 1;
            let Ok(fd) = guest.open(race.way, 0, READ) else {
                continue;
            };
            seen.opened += 1;
            if let Ok(len) = guest.carry("fd_read", fd, 64) {
                seen.out += u64::from(guest.get(BUFFER, len) == SECRET);
            }
            guest.close(fd);
        }
        guest.path("path_create_directory", race.plant);
        guest.path("path_remove_directory", race.plant);
        if let Ok(fd) = guest.open(race.plant, oflags::CREAT, WRITE) {
            guest.close(fd);
            guest.path("path_unlink_file", race.plant);
        }
    }
    seen
}

fn run(f: &mut Field, prison: &Prison, race: &Race<'_>) -> Result<(), Failed> {
    let before = outside(&prison.host)?;
    let over = Word::new(0);
    let (mover_guest, mut guest) = (prison.guest(None)?, prison.guest(None)?);
    let task = prison.vfs.task(Cred::root())?;
    task.chdir(JAIL)?;
    let (moved, seen, control) = std::thread::scope(|scope| {
        let thread = scope.spawn(|| mover(mover_guest, race.moves, &over));
        let seen = walker(&mut guest, race, f.plan.walks);
        let mut control = Seen::default();
        // Until it gets out, for which it has more walks than the guest had.
        while control.out == 0 && control.walks < CONTROL_WALKS {
            control.walks += 1;
            if let Ok(bytes) = content(&task, race.way) {
                control.opened += 1;
                control.out += u64::from(bytes == SECRET);
            }
        }
        over.set(1);
        (thread.join().unwrap_or(0), seen, control)
    });
    f.say(&format!(
        "{} walks beside {moved} renames: {} opened something, {} got out; unconfined, walk {} did",
        seen.walks, seen.opened, seen.out, control.walks
    ));
    f.must(moved > 0, || "nothing was moved".to_owned());
    f.must(seen.out == 0, || format!("{} walks got out", seen.out));
    f.must(control.out > 0, || "the control did not get out".to_owned());
    let after = outside(&prison.host)?;
    f.must(after == before, || "what is outside changed".to_owned());
    Ok(())
}

/// A directory moves up while the other guest goes up from it. The walks dwell there: one that
/// starts over just after a move would else be done before the next.
pub(super) fn dotdot(f: &mut Field) -> Result<(), Failed> {
    let prison = Prison::in_memory(Limits::default())?;
    let path = |name: &str| format!("in/deep/{}../../{name}", "./".repeat(DWELLS)).into_bytes();
    let (way, plant) = (path("secret"), path("planted"));
    let race = Race {
        moves: &[(b"in/deep", b"deep"), (b"deep", b"in/deep")],
        way: &way,
        plant: &plant,
    };
    run(f, &prison, &race)
}

/// A directory and a link that leads out change places.
pub(super) fn link(f: &mut Field) -> Result<(), Failed> {
    let prison = Prison::in_memory(Limits::default())?;
    let host = &prison.host;
    host.mkdir(b"/jail/flip", 0o777)?;
    fill(host, b"/jail/flip/secret", b"mine")?;
    host.symlink(b"../outside", b"/jail/lead")?;
    let race = Race {
        moves: &[
            (b"flip", b"away"),
            (b"lead", b"flip"),
            (b"flip", b"lead"),
            (b"away", b"flip"),
        ],
        way: b"flip/secret",
        plant: b"flip/planted",
    };
    run(f, &prison, &race)
}
