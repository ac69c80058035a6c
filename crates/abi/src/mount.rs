// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines flags of mount(2), umount2(2), open_tree(2), fsmount(2), move_mount(2) and
//! mount_setattr(2), and the mount flags and file system types in the result of statfs(2).

use crate::fcntl::AtFlags;
use crate::flags::flags;

/// Read-only.
pub const MS_RDONLY: u64 = 0x1;
/// Ignore the set-id bits.
pub const MS_NOSUID: u64 = 0x2;
/// Devices cannot be opened.
pub const MS_NODEV: u64 = 0x4;
/// Nothing can be executed.
pub const MS_NOEXEC: u64 = 0x8;
/// Writes are synchronous.
pub const MS_SYNCHRONOUS: u64 = 0x10;
/// Change an existing mount.
pub const MS_REMOUNT: u64 = 0x20;
/// Mandatory locks (gone since Linux 5.15).
pub const MS_MANDLOCK: u64 = 0x40;
/// Changes of directories are synchronous.
pub const MS_DIRSYNC: u64 = 0x80;
/// No symbolic link is followed.
pub const MS_NOSYMFOLLOW: u64 = 0x100;
/// The access time is never changed.
pub const MS_NOATIME: u64 = 0x400;
/// The access time of directories is never changed.
pub const MS_NODIRATIME: u64 = 0x800;
/// Bind.
pub const MS_BIND: u64 = 0x1000;
/// Move.
pub const MS_MOVE: u64 = 0x2000;
/// The whole tree.
pub const MS_REC: u64 = 0x4000;
/// Log less.
pub const MS_SILENT: u64 = 0x8000;
/// The file system has access control lists.
pub const MS_POSIXACL: u64 = 0x10000;
/// Cannot be bound.
pub const MS_UNBINDABLE: u64 = 0x20000;
/// No propagation.
pub const MS_PRIVATE: u64 = 0x40000;
/// Propagation in only.
pub const MS_SLAVE: u64 = 0x80000;
/// Propagation both ways.
pub const MS_SHARED: u64 = 0x100000;
/// The access time changes when it is older than the other two, or a day old.
pub const MS_RELATIME: u64 = 0x200000;
/// The access time changes with each access.
pub const MS_STRICTATIME: u64 = 0x1000000;
/// Times are written late.
pub const MS_LAZYTIME: u64 = 0x2000000;

flags! {
    /// Flags of umount2(2).
    UmountFlags(u32):
        MNT_FORCE MNT_DETACH MNT_EXPIRE UMOUNT_NOFOLLOW
}

/// Give up pending requests.
pub const MNT_FORCE: UmountFlags = UmountFlags::from_bits_retain(0x1);
/// Detach now, clean up when it is no longer used.
pub const MNT_DETACH: UmountFlags = UmountFlags::from_bits_retain(0x2);
/// Mark as expired; unmount if marked already.
pub const MNT_EXPIRE: UmountFlags = UmountFlags::from_bits_retain(0x4);
/// Do not follow a symbolic link.
pub const UMOUNT_NOFOLLOW: UmountFlags = UmountFlags::from_bits_retain(0x8);

/// open_tree(2): a copy of the mounts, not the place itself.
pub const OPEN_TREE_CLONE: AtFlags = AtFlags::from_bits_retain(1);
/// open_tree(2): the descriptor is closed by exec.
pub const OPEN_TREE_CLOEXEC: AtFlags = AtFlags::from_bits_retain(0o2000000);
/// fsmount(2): the descriptor is closed by exec.
pub const FSMOUNT_CLOEXEC: u32 = 1;

flags! {
    /// Flags of move_mount(2).
    MoveMountFlags(u32):
        MOVE_MOUNT_F_SYMLINKS MOVE_MOUNT_F_AUTOMOUNTS MOVE_MOUNT_F_EMPTY_PATH MOVE_MOUNT_T_SYMLINKS
        MOVE_MOUNT_T_AUTOMOUNTS MOVE_MOUNT_T_EMPTY_PATH MOVE_MOUNT_SET_GROUP MOVE_MOUNT_BENEATH
}

/// move_mount(2): follow links at the end of the source.
pub const MOVE_MOUNT_F_SYMLINKS: MoveMountFlags = MoveMountFlags::from_bits_retain(0x1);
/// move_mount(2): trigger automounts at the source.
pub const MOVE_MOUNT_F_AUTOMOUNTS: MoveMountFlags = MoveMountFlags::from_bits_retain(0x2);
/// move_mount(2): the source may be an empty path.
pub const MOVE_MOUNT_F_EMPTY_PATH: MoveMountFlags = MoveMountFlags::from_bits_retain(0x4);
/// move_mount(2): follow links at the end of the target.
pub const MOVE_MOUNT_T_SYMLINKS: MoveMountFlags = MoveMountFlags::from_bits_retain(0x10);
/// move_mount(2): trigger automounts at the target.
pub const MOVE_MOUNT_T_AUTOMOUNTS: MoveMountFlags = MoveMountFlags::from_bits_retain(0x20);
/// move_mount(2): the target may be an empty path.
pub const MOVE_MOUNT_T_EMPTY_PATH: MoveMountFlags = MoveMountFlags::from_bits_retain(0x40);
/// move_mount(2): move nothing; the target joins the peers of the source.
pub const MOVE_MOUNT_SET_GROUP: MoveMountFlags = MoveMountFlags::from_bits_retain(0x100);
/// move_mount(2): mount beneath what is mounted at the target.
pub const MOVE_MOUNT_BENEATH: MoveMountFlags = MoveMountFlags::from_bits_retain(0x200);

flags! {
    /// Attributes of a mount: mount_setattr(2), fsmount(2).
    MountAttrFlags(u64):
        MOUNT_ATTR_RDONLY MOUNT_ATTR_NOSUID MOUNT_ATTR_NODEV MOUNT_ATTR_NOEXEC MOUNT_ATTR__ATIME
        MOUNT_ATTR_RELATIME MOUNT_ATTR_NOATIME MOUNT_ATTR_STRICTATIME MOUNT_ATTR_NODIRATIME
        MOUNT_ATTR_IDMAP MOUNT_ATTR_NOSYMFOLLOW
}

/// Nothing may be changed.
pub const MOUNT_ATTR_RDONLY: MountAttrFlags = MountAttrFlags::from_bits_retain(0x1);
/// Ignore the set-id bits.
pub const MOUNT_ATTR_NOSUID: MountAttrFlags = MountAttrFlags::from_bits_retain(0x2);
/// Devices cannot be opened.
pub const MOUNT_ATTR_NODEV: MountAttrFlags = MountAttrFlags::from_bits_retain(0x4);
/// Nothing can be executed.
pub const MOUNT_ATTR_NOEXEC: MountAttrFlags = MountAttrFlags::from_bits_retain(0x8);
/// All about access times.
pub const MOUNT_ATTR__ATIME: MountAttrFlags = MountAttrFlags::from_bits_retain(0x70);
/// Access times move when they are behind, or a day old.
pub const MOUNT_ATTR_RELATIME: MountAttrFlags = MountAttrFlags::from_bits_retain(0x0);
/// The access time is never changed.
pub const MOUNT_ATTR_NOATIME: MountAttrFlags = MountAttrFlags::from_bits_retain(0x10);
/// The access time changes with each access.
pub const MOUNT_ATTR_STRICTATIME: MountAttrFlags = MountAttrFlags::from_bits_retain(0x20);
/// The access time of directories is never changed.
pub const MOUNT_ATTR_NODIRATIME: MountAttrFlags = MountAttrFlags::from_bits_retain(0x80);
/// Owners are mapped.
pub const MOUNT_ATTR_IDMAP: MountAttrFlags = MountAttrFlags::from_bits_retain(0x10_0000);
/// No symbolic link is followed.
pub const MOUNT_ATTR_NOSYMFOLLOW: MountAttrFlags = MountAttrFlags::from_bits_retain(0x20_0000);

/// Read-only.
pub const ST_RDONLY: u64 = 0x1;
/// Ignore the set-id bits.
pub const ST_NOSUID: u64 = 0x2;
/// Devices cannot be opened.
pub const ST_NODEV: u64 = 0x4;
/// Nothing can be executed.
pub const ST_NOEXEC: u64 = 0x8;
/// Writes are synchronous.
pub const ST_SYNCHRONOUS: u64 = 0x10;
/// The flags are valid: the kernel always sets it, C libraries hide it.
pub const ST_VALID: u64 = 0x20;
/// Mandatory locks.
pub const ST_MANDLOCK: u64 = 0x40;
/// The access time is never changed.
pub const ST_NOATIME: u64 = 0x400;
/// The access time of directories is never changed.
pub const ST_NODIRATIME: u64 = 0x800;
/// Relative access times.
pub const ST_RELATIME: u64 = 0x1000;
/// No symbolic link is followed.
pub const ST_NOSYMFOLLOW: u64 = 0x2000;

/// `f_type` of tmpfs.
pub const TMPFS_MAGIC: i64 = 0x1021994;
/// `f_type` of overlayfs.
pub const OVERLAYFS_SUPER_MAGIC: i64 = 0x794c_7630;
/// `f_type` of ext4.
pub const EXT4_SUPER_MAGIC: i64 = 0xef53;
