// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attacks the hash table of dentries with names that collide, chosen by an attacker that knows the
//! first hash key: no chain exceeds the cap, the key changes, and lookups stay right.

use openpath_abi::Errno;
use openpath_abi::fcntl::AT_FDCWD;
use openpath_mem::{MemFs, MemOptions};
use openpath_sync::{CHAIN_CAP, HashKey};
use openpath_vfs::{Cred, Vfs};

use super::context::Context;

const SECRET: [u64; 2] = [0x1234_5678, 0x9abc_def0];
/// The index of the parent directory's entry: the second of an instance.
const ROOT: u32 = 2;

/// Whether a name of 16 bytes hashes to the attacked bucket, one in 4096.
fn collides(key: HashKey, name: &[u8]) -> bool {
    let word = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0, |word: u64, byte| word << 8 | u64::from(*byte))
    };
    let (lo, hi) = name.split_at(8);
    key.hash(word(lo), word(hi), ROOT) & 0xfff == 0xabc
}

/// Puts existing and missing names into one bucket: no chain gets longer than the cap, and lookups
/// find each name.
pub(super) fn collisions(f: &mut Context) -> Result<(), Errno> {
    let names = f.size(500_000);
    let tree = MemFs::new(MemOptions::default());
    let vfs = Vfs::builder().secret(SECRET).build(tree)?;
    let guest = vfs.task(Cred::root())?;
    let key = HashKey::new(SECRET);
    let all = (0..).map(|n: u64| format!("{n:016x}"));
    let all: Vec<String> = all
        .filter(|name| collides(key, name.as_bytes()))
        .take(usize::try_from(names).unwrap_or(usize::MAX))
        .collect();
    let mut longest = 0;
    for (n, name) in all.iter().enumerate() {
        if n % 2 == 0 {
            guest.mknodat(AT_FDCWD, name.as_bytes(), 0o100_600, 0)?;
        } else {
            f.refused("a name", guest.stat(name.as_bytes()), Errno::ENOENT);
        }
        if n < 1000 || n % 1000 == 0 {
            longest = longest.max(vfs.census().longest);
        }
    }
    for name in all.iter().step_by(2) {
        guest.stat(name.as_bytes())?;
    }
    let census = vfs.census();
    f.say(&format!(
        "{names} names for one bucket: longest chain {longest} of {CHAIN_CAP} allowed, {census:?}"
    ));
    f.must(longest <= CHAIN_CAP && census.longest <= CHAIN_CAP, || {
        format!("a chain of {longest}, then {census:?}")
    });
    f.must(census.rekeys > 0, || {
        "the hash key never changed".to_owned()
    });
    Ok(())
}
