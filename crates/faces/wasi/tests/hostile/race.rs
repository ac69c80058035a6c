// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a guest that walks a path never gets out of its directory while another guest of the
//! same directory moves directories and links on the way.
//!
//! The control is an unconfined task that walks the same paths while a guest moves directories: it
//! must get out.

use openpath_sync::Word;
use openpath_vfs::{Cred, Limits};

use super::escape::outside;
use super::scripted_guest::{BUFFER, DIR, PATH, PATH2, READ, ScriptedGuest, WRITE, oflags};
use super::setting::{Failed, JAIL, Jail, Report, SECRET, content, fill};

/// The control gives up after this many walks.
const CONTROL_WALKS: u64 = 1 << 28;

/// Components that stay in the moving directory.
const DOT_STEPS: usize = 64;

/// The renames that one guest repeats.
type Moves = &'static [(&'static [u8], &'static [u8])];

/// One race.
struct Race<'a> {
    /// The renames of one guest, in this order.
    moves: Moves,
    /// A path that leads to the secret at the right moment.
    way: &'a [u8],
    /// A path that would create a directory outside at that moment.
    plant: &'a [u8],
}

/// The counts of the walking guest.
#[derive(Default)]
struct Seen {
    walks: u64,
    opened: u64,
    out: u64,
}

fn rename(guest: &mut ScriptedGuest, old: &[u8], new: &[u8]) -> bool {
    guest.put(PATH, old);
    guest.put(PATH2, new);
    let (dir, old, new) = (u64::from(DIR), old.len() as u64, new.len() as u64);
    let args = [dir, PATH.into(), old, dir, PATH2.into(), new];
    guest.call("path_rename", &args).is_ok()
}

/// Renames until it is stopped; returns the number of renames.
fn mover(mut guest: ScriptedGuest, moves: Moves, over: &Word) -> u64 {
    let mut moved = 0;
    while over.get() == 0 {
        for (old, new) in moves {
            moved += u64::from(rename(&mut guest, old, new));
        }
    }
    moved
}

/// Walks this often as a guest.
fn walker(guest: &mut ScriptedGuest, race: &Race<'_>, walks: u64) -> Seen {
    let mut seen = Seen::default();
    while seen.walks < walks {
        for _ in 0..64 {
            seen.walks += 1;
            let Ok(fd) = guest.open(race.way, 0, READ) else {
                continue;
            };
            seen.opened += 1;
            if let Ok(len) = guest.transfer("fd_read", fd, 64) {
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

fn run(f: &mut Report, jail: &Jail, race: &Race<'_>) -> Result<(), Failed> {
    let before = outside(&jail.host)?;
    let over = Word::new(0);
    let (mover_guest, mut guest) = (jail.guest(None)?, jail.guest(None)?);
    let task = jail.vfs.task(Cred::root())?;
    task.chdir(JAIL)?;
    let (moved, seen, control) = std::thread::scope(|scope| {
        let thread = scope.spawn(|| mover(mover_guest, race.moves, &over));
        let seen = walker(&mut guest, race, f.plan.walks);
        let mut control = Seen::default();
        // Until it gets out, in at most [`CONTROL_WALKS`] walks.
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
    f.must(moved > 0, || "no rename succeeded".to_owned());
    f.must(seen.out == 0, || format!("{} walks got out", seen.out));
    f.must(control.out > 0, || "the control did not get out".to_owned());
    let after = outside(&jail.host)?;
    f.must(after == before, || "what is outside changed".to_owned());
    Ok(())
}

/// A directory moves up while the other guest walks up from it. The path stays long enough in the
/// directory that a walk which restarts after one move is still there at the next.
pub(super) fn dotdot(f: &mut Report) -> Result<(), Failed> {
    let jail = Jail::in_memory(Limits::default())?;
    let path = |name: &str| format!("in/deep/{}../../{name}", "./".repeat(DOT_STEPS)).into_bytes();
    let (way, plant) = (path("secret"), path("planted"));
    let race = Race {
        moves: &[(b"in/deep", b"deep"), (b"deep", b"in/deep")],
        way: &way,
        plant: &plant,
    };
    run(f, &jail, &race)
}

/// A directory and a link that leads out exchange their names.
pub(super) fn link(f: &mut Report) -> Result<(), Failed> {
    let jail = Jail::in_memory(Limits::default())?;
    let host = &jail.host;
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
    run(f, &jail, &race)
}
