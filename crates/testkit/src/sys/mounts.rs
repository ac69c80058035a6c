// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the host kernel's calls on mounts and mount namespaces, except mount(2) and umount2(2).

use openpath_abi::Errno;

use super::{Arg, Ret, f32at, f64at, n, path, raw, u};

const SYS_STATMOUNT: libc::c_long = 457;
const SYS_LISTMOUNT: libc::c_long = 458;

calls! {
    /// setns(2).
    setns = SYS_setns(fd: i, kind: w);
    /// open_tree(2).
    open_tree = SYS_open_tree(dir: i, name: p, flags: w);
    /// move_mount(2).
    move_mount = SYS_move_mount(dir: i, name: p, dir2: i, name2: p, flags: w);
    /// fsopen(2).
    fsopen = SYS_fsopen(kind: p, flags: w);
    /// fsmount(2).
    fsmount = SYS_fsmount(fs: i, flags: w, attr: w);
}

/// Makes the tree that an fsopen(2) prepares: `FSCONFIG_CMD_CREATE`.
pub fn fs_create(fs: i32) -> Ret {
    let create = 6;
    let a = &mut [n(fs), n(create), Arg::Null, Arg::Null, n(0)];
    raw(libc::SYS_fsconfig, a)
}

/// Sets an option of the tree that an fsopen(2) prepares: `FSCONFIG_SET_STRING`.
pub fn fs_option(fs: i32, key: &[u8], value: &[u8]) -> Ret {
    let set_string = 1;
    let (key, value) = (path(key), path(value));
    let a = &mut [
        n(fs),
        n(set_string),
        Arg::Path(&key),
        Arg::Path(&value),
        n(0),
    ];
    raw(libc::SYS_fsconfig, a)
}

/// mount_setattr(2), without a user namespace.
pub fn mount_setattr(
    dir: i32,
    name: &[u8],
    flags: u32,
    [set, clear, propagation]: [u64; 3],
) -> Ret {
    let name = path(name);
    let mut attr = Vec::new();
    for word in [set, clear, propagation, 0] {
        attr.extend_from_slice(&word.to_ne_bytes());
    }
    let size = u(attr.len() as u64);
    let a = &mut [n(dir), Arg::Path(&name), n(flags), Arg::In(&attr), size];
    raw(libc::SYS_mount_setattr, a)
}

/// statmount(2): flags of the file system (`STATMOUNT_SB_BASIC`).
pub const SB_BASIC: u64 = 0x1;
/// statmount(2): flags of the mount, its numbers and groups (`STATMOUNT_MNT_BASIC`).
pub const MNT_BASIC: u64 = 0x2;
/// statmount(2): the visible group that it receives from (`STATMOUNT_PROPAGATE_FROM`).
pub const PROPAGATE_FROM: u64 = 0x4;
/// statmount(2): its root in the file system (`STATMOUNT_MNT_ROOT`).
pub const MNT_ROOT: u64 = 0x8;
/// statmount(2): its mount point (`STATMOUNT_MNT_POINT`).
pub const MNT_POINT: u64 = 0x10;

/// The compared fields of statmount(2).
#[derive(Clone, Debug, Default)]
pub struct RawStatMount {
    /// The fields that were filled in.
    pub mask: u64,
    /// `SB_*` of the file system.
    pub sb_flags: u32,
    /// Unique number, which is never reused.
    pub id: u64,
    /// Number of the parent mount; its own if it has none.
    pub parent: u64,
    /// `MOUNT_ATTR_*`.
    pub attr: u64,
    /// `MS_SHARED`, `MS_PRIVATE`, `MS_SLAVE`, `MS_UNBINDABLE`.
    pub propagation: u64,
    /// Peer group, 0 for none.
    pub peers: u64,
    /// The group it receives from, 0 for none.
    pub master: u64,
    /// The group visible to the caller that it receives from, 0 for none.
    pub from: u64,
    /// Its root, as a path in its file system.
    pub root: Vec<u8>,
    /// Where it is mounted, from the caller's root.
    pub point: Vec<u8>,
}

/// Bytes of `struct statmount` before its strings.
const STRINGS: usize = 512;

fn request(id: u64, param: u64) -> [u8; 32] {
    let mut b = [0; 32];
    b[0] = 32;
    b[8..16].copy_from_slice(&id.to_ne_bytes());
    b[16..24].copy_from_slice(&param.to_ne_bytes());
    b
}

/// statmount(2), in the caller's namespace.
///
/// # Errors
/// As the kernel's.
pub fn statmount(id: u64, mask: u64) -> Result<RawStatMount, Errno> {
    let mut b = vec![0u8; 4096];
    let size = u(b.len() as u64);
    let request = request(id, mask);
    let a = &mut [Arg::In(&request), Arg::Out(&mut b), size, n(0)];
    raw(SYS_STATMOUNT, a)?;
    let word = |at| f64at(&b, at).cast_unsigned();
    let given = word(8);
    let string = |bit: u64, at: usize| {
        let from = STRINGS + usize::try_from(f32at(&b, at)).unwrap_or(0);
        let rest = b.get(from..).filter(|_| given & bit != 0);
        let text = rest.and_then(|rest| rest.split(|c| *c == 0).next());
        text.unwrap_or_default().to_vec()
    };
    Ok(RawStatMount {
        mask: given,
        sb_flags: f32at(&b, 32),
        id: word(40),
        parent: word(48),
        attr: word(64),
        propagation: word(72),
        peers: word(80),
        master: word(88),
        from: word(96),
        root: string(MNT_ROOT, 104),
        point: string(MNT_POINT, 108),
    })
}

/// listmount(2), in the caller's namespace: the mounts below a mount, after `last`.
///
/// # Errors
/// As the kernel's.
pub fn listmount(id: u64, last: u64, max: usize) -> Result<Vec<u64>, Errno> {
    let mut b = vec![0u8; max * 8];
    let request = request(id, last);
    let a = &mut [Arg::In(&request), Arg::Out(&mut b), u(max as u64), n(0)];
    let got = usize::try_from(raw(SYS_LISTMOUNT, a)?).unwrap_or(0);
    let ids = (0..got).map(|i| f64at(&b, i * 8).cast_unsigned());
    Ok(ids.collect())
}
