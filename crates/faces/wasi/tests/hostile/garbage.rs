// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests attacks by arguments that no compiler makes (counts and lengths beyond all memory,
//! pointers outside memory, random calls): nothing outside the guest's directory may change, and
//! memory must hardly grow.

use openpath_vfs::Limits;

use super::escape::outside;
use super::scripted_guest::{
    BUFFER, CALLS, DIR, Got, MEMORY, OUT, PATH, READ, ScriptedGuest, VECTOR, WRITE, oflags,
};
use super::setting::{Failed, Jail, Report, resident};

/// The most that memory may grow by arguments alone.
const GROWTH_MAX: u64 = 4 << 20;

/// A file open for reading and writing.
fn file(guest: &mut ScriptedGuest) -> Result<u32, Failed> {
    let opened = guest.open(b"scratch", oflags::CREAT, READ | WRITE);
    opened.map_err(|why| Failed::new(format!("{why:?}")))
}

/// Vectors of very many buffers, and buffers longer than memory.
pub(super) fn vectors(f: &mut Report) -> Result<(), Failed> {
    let jail = Jail::in_memory(Limits::default())?;
    let mut guest = jail.guest(None)?;
    let fd = file(&mut guest)?;
    let wrote = guest.transfer("fd_write", fd, 4096);
    f.must(wrote == Ok(4096), || format!("the control: {wrote:?}"));
    let before = resident();
    let mut tried = 0;
    let entries: [&[u32]; 6] = [
        &[BUFFER, u32::MAX],
        &[u32::MAX, 1],
        &[MEMORY - 1, 2],
        &[BUFFER, 1 << 16, BUFFER, u32::MAX - 1],
        &[0, u32::MAX, 0, u32::MAX, 0, u32::MAX],
        &[MEMORY, 1],
    ];
    let counts = [1, 2, 3, 1 << 10, 1 << 16, 1 << 20, 1 << 29, u32::MAX];
    for words in entries {
        for count in counts {
            for (name, out) in [
                ("fd_read", 3),
                ("fd_write", 3),
                ("fd_pread", 4),
                ("fd_pwrite", 4),
            ] {
                guest.put_words(VECTOR, words);
                let mut args = [fd.into(), VECTOR.into(), count.into(), 0, 0];
                args[out] = OUT.into();
                guest.put(OUT, &[0; 4]);
                let got = guest.call(name, &args);
                let moved = guest.word(OUT);
                tried += 1;
                f.must(!got.is_ok() || moved <= MEMORY, || {
                    format!("{name} of {count} buffers, the first {words:x?}: {moved} bytes")
                });
            }
        }
    }
    let len = u64::from(u32::MAX);
    for len in [len, 1 << 31, u64::from(MEMORY) + 1] {
        let dir = u64::from(DIR);
        let path = u64::from(PATH);
        let gots = [
            guest.call("fd_readdir", &[dir, BUFFER.into(), len, 0, OUT.into()]),
            guest.call("random_get", &[BUFFER.into(), len]),
            guest.call("path_open", &[dir, 0, path, len, 0, 0, 0, 0, OUT.into()]),
            guest.call("path_symlink", &[path, len, dir, path, 1]),
            guest.call("path_symlink", &[path, 1, dir, path, len]),
            guest.call("path_rename", &[dir, path, len, dir, path, len]),
            guest.call(
                "poll_oneoff",
                &[VECTOR.into(), BUFFER.into(), len, OUT.into()],
            ),
        ];
        tried += gots.len();
        f.must(!gots.contains(&Got::Errno(0)), || {
            format!("of {len} bytes: {gots:?}")
        });
    }
    let again = guest.transfer("fd_write", fd, 4096);
    f.must(again == Ok(4096), || format!("and afterwards: {again:?}"));
    let grown = resident().saturating_sub(before);
    f.must(grown <= GROWTH_MAX, || {
        format!("{} KiB of memory", grown >> 10)
    });
    f.say(&format!("{tried} calls, {} KiB of memory", grown >> 10));
    Ok(())
}

/// Points each argument of each call outside memory in turn, with all others valid.
pub(super) fn pointers(f: &mut Report) -> Result<(), Failed> {
    let jail = Jail::in_memory(Limits::default())?;
    let mut guest = jail.guest(None)?;
    let before = outside(&jail.host)?;
    let wild = [u32::MAX, 1 << 31, MEMORY, MEMORY - 1, MEMORY - 3, 1];
    let (mut tried, mut traps) = (0, 0);
    for (at, (name, takes)) in CALLS.iter().enumerate() {
        if *name == "poll_oneoff" || *name == "proc_exit" {
            continue;
        }
        for arg in 0..takes.len() {
            for wild in wild {
                let fd = file(&mut guest)?;
                guest.put(PATH, b"in");
                guest.put_words(VECTOR, &[BUFFER, 64]);
                let mut args: Vec<u64> = vec![u64::from(VECTOR); takes.len()];
                args[0] = if name.starts_with("path") {
                    DIR.into()
                } else {
                    fd.into()
                };
                args[arg] = wild.into();
                tried += 1;
                traps += u64::from(guest.call_at(at, &args) == Got::Trap);
                guest.close(fd);
                if guest
                    .open(b"mine", 0, READ)
                    .map(|fd| guest.close(fd))
                    .is_err()
                {
                    // The call may have closed or renumbered its directory.
                    guest = jail.guest(None)?;
                    jail.restore()?;
                }
            }
        }
    }
    let after = outside(&jail.host)?;
    f.must(before == after, || "what is outside changed".to_owned());
    f.say(&format!("{tried} calls, {traps} of them traps"));
    Ok(())
}

/// Random calls, with arguments that are valid for some call.
pub(super) fn chaos(f: &mut Report) -> Result<(), Failed> {
    let jail = Jail::in_memory(Limits::default())?;
    let before = outside(&jail.host)?;
    let paths: [&[u8]; 7] = [
        b"mine",
        b"in/deep",
        b"../secret",
        b"new\0name",
        b"\xff\xfe",
        b"",
        b"in/../../outside",
    ];
    let values = [
        0,
        1,
        3,
        4,
        5,
        7,
        64,
        4096,
        u64::from(PATH),
        u64::from(VECTOR),
        u64::from(BUFFER),
        u64::from(MEMORY) - 8,
        u64::from(MEMORY),
        1 << 31,
        1 << 32,
        1 << 62,
        1 << 63,
        u64::MAX,
    ];
    let calls = f.size(4_000_000);
    let (mut done, mut traps) = (0_u64, 0_u64);
    let mut guest = jail.guest(None)?;
    for n in 0..calls {
        if n % 5000 == 4999 {
            guest = jail.guest(None)?;
            jail.restore()?;
        }
        let at = f.rng.below(CALLS.len());
        let path = *f.rng.pick(&paths);
        guest.put(PATH, path);
        guest.put_words(VECTOR, &[BUFFER, f.rng.below(8192) as u32, PATH, 3]);
        let takes = CALLS[at].1.len();
        let mut args: Vec<u64> = (0..takes).map(|_| *f.rng.pick(&values)).collect();
        if f.rng.below(4) != 0 {
            // A valid descriptor, as far as this test knows.
            if let Some(first) = args.first_mut() {
                *first = 3 + f.rng.below(3) as u64;
            }
            for at in 1..args.len() {
                if args[at - 1] == u64::from(PATH) {
                    args[at] = path.len() as u64;
                }
            }
        }
        match guest.call_at(at, &args) {
            Got::Errno(0) => done += 1,
            Got::Errno(_) => {}
            Got::Trap => traps += 1,
        }
    }
    let after = outside(&jail.host)?;
    f.must(before == after, || "what is outside changed".to_owned());
    f.must(done > calls / 100, || {
        format!("only {done} of {calls} calls did something")
    });
    f.say(&format!(
        "{calls} calls: {done} succeeded, {traps} were traps"
    ));
    Ok(())
}
