// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the numbers of capabilities(7), the bit of each in a set of 64 bits, and the sets of all
//! capabilities and of those that concern files.

/// Change owner and group at will.
pub const CAP_CHOWN: u32 = 0;
/// Pass read, write and execute checks.
pub const CAP_DAC_OVERRIDE: u32 = 1;
/// Pass read checks and the search check of directories.
pub const CAP_DAC_READ_SEARCH: u32 = 2;
/// Pass checks that ask for the owner.
pub const CAP_FOWNER: u32 = 3;
/// Keep the set-id bits.
pub const CAP_FSETID: u32 = 4;
/// Signal any process.
pub const CAP_KILL: u32 = 5;
/// Set group ids at will.
pub const CAP_SETGID: u32 = 6;
/// Set user ids at will.
pub const CAP_SETUID: u32 = 7;
/// Hand out capabilities.
pub const CAP_SETPCAP: u32 = 8;
/// Change the immutable and append-only attributes.
pub const CAP_LINUX_IMMUTABLE: u32 = 9;
/// Bind low ports.
pub const CAP_NET_BIND_SERVICE: u32 = 10;
/// Broadcast.
pub const CAP_NET_BROADCAST: u32 = 11;
/// Administer the network.
pub const CAP_NET_ADMIN: u32 = 12;
/// Open raw sockets.
pub const CAP_NET_RAW: u32 = 13;
/// Lock memory.
pub const CAP_IPC_LOCK: u32 = 14;
/// Pass checks on System V objects.
pub const CAP_IPC_OWNER: u32 = 15;
/// Load modules.
pub const CAP_SYS_MODULE: u32 = 16;
/// Raw input and output.
pub const CAP_SYS_RAWIO: u32 = 17;
/// Call chroot(2).
pub const CAP_SYS_CHROOT: u32 = 18;
/// Trace any process.
pub const CAP_SYS_PTRACE: u32 = 19;
/// Account for processes.
pub const CAP_SYS_PACCT: u32 = 20;
/// Mount, unmount and much else.
pub const CAP_SYS_ADMIN: u32 = 21;
/// Reboot.
pub const CAP_SYS_BOOT: u32 = 22;
/// Raise priority.
pub const CAP_SYS_NICE: u32 = 23;
/// Pass resource limits and quotas.
pub const CAP_SYS_RESOURCE: u32 = 24;
/// Set the clock.
pub const CAP_SYS_TIME: u32 = 25;
/// Configure terminals.
pub const CAP_SYS_TTY_CONFIG: u32 = 26;
/// Make device nodes.
pub const CAP_MKNOD: u32 = 27;
/// Take a lease on any file.
pub const CAP_LEASE: u32 = 28;
/// Write the audit log.
pub const CAP_AUDIT_WRITE: u32 = 29;
/// Control auditing.
pub const CAP_AUDIT_CONTROL: u32 = 30;
/// Set file capabilities.
pub const CAP_SETFCAP: u32 = 31;
/// Pass mandatory access control.
pub const CAP_MAC_OVERRIDE: u32 = 32;
/// Configure mandatory access control.
pub const CAP_MAC_ADMIN: u32 = 33;
/// Read the kernel log.
pub const CAP_SYSLOG: u32 = 34;
/// Wake the system.
pub const CAP_WAKE_ALARM: u32 = 35;
/// Block suspend.
pub const CAP_BLOCK_SUSPEND: u32 = 36;
/// Read the audit log.
pub const CAP_AUDIT_READ: u32 = 37;
/// Observe performance.
pub const CAP_PERFMON: u32 = 38;
/// Use BPF.
pub const CAP_BPF: u32 = 39;
/// Checkpoint and restore.
pub const CAP_CHECKPOINT_RESTORE: u32 = 40;
/// The last of them.
pub const CAP_LAST_CAP: u32 = CAP_CHECKPOINT_RESTORE;

/// The bit of one capability in a set.
#[inline]
#[must_use]
pub const fn bit(cap: u32) -> u64 {
    1 << cap
}

/// Every capability.
pub const ALL: u64 = (1 << (CAP_LAST_CAP + 1)) - 1;
/// What a task with a user's fsuid loses: the capabilities that concern files.
pub const FS_SET: u64 = bit(CAP_CHOWN)
    | bit(CAP_DAC_OVERRIDE)
    | bit(CAP_DAC_READ_SEARCH)
    | bit(CAP_FOWNER)
    | bit(CAP_FSETID)
    | bit(CAP_LINUX_IMMUTABLE)
    | bit(CAP_MKNOD)
    | bit(CAP_MAC_OVERRIDE);
