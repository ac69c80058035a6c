// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines every lock class of the core and of the crates that use it, in the order in which they
//! are taken, outermost first. No other file defines a lock class.

openpath_sync::lock_classes! {
    /// All classes, outermost first.
    pub const CLASSES;
    /// The handling of changes that other programs made to a directory of the host.
    pub HostEvents;
    /// The position of an open file (`f_pos_lock`).
    pub FilePosition, nests;
    /// Moves of directories to another parent in one superblock (`s_vfs_rename_mutex`).
    pub RenameTopology;
    /// The names in a directory, or a file's data and attributes (`i_rwsem`). Ancestors first, else
    /// by address.
    pub InodeNames, nests;
    /// The places of mounts (`namespace_sem`).
    pub MountTopology;
    /// A superblock's place in its `Vfs`.
    pub SuperRoot;
    /// The listeners for a superblock's invalidations.
    pub SuperListeners;
    /// Numbers of superblocks.
    pub SuperNumbers;
    /// The pins that mounts hold.
    pub MountPins;
    /// One lookup: held by the task that asks the backend, awaited by others that want the same
    /// name.
    pub Flight;
    /// The lookups under way.
    pub FlightTable;
    /// The making of room on one LRU list of cached names.
    pub Eviction;
    /// The version clock of superblocks, and the directories that are changing.
    pub PathClock;
    /// A descriptor table (`file_lock`).
    pub FdTables, nests;
    /// Files to be freed when a call ends (`task_works`).
    pub Deferred;
    /// The pipe of a FIFO.
    pub InodePipes;
    /// A pipe: its data, ends and waiters (`pipe_inode_info.mutex`).
    pub PipeState;
    /// How many pages the pipes of each user may hold.
    pub PipePages;
    /// Every file that has locks.
    pub LockFiles;
    /// The locks of a file, and their waiters (`flc_lock`).
    pub LockState;
    /// The wait-for graph of lock owners (`blocked_lock_lock`).
    pub LockGraph;
    /// The answer to one waiter for a lock.
    pub LockAnswer;
    /// The leases on a file, and their waiters (`flc_lock`).
    pub LeaseTable;
    /// Undelivered notices for holders of leases.
    pub LeaseNotices;
    /// Unlinked entries that wait to be reclaimed.
    pub FreeQueue;
    /// The LRU lists of all tenants, by number.
    pub LruLists;
    /// The queues of one LRU list of cached names, by age.
    pub Queues;
    /// Blocks of long names.
    pub NameBlocks;
    /// The list of tenants.
    pub Tenants;
    /// The watches of one notification group (`mark_mutex`).
    pub NotifyWatches;
    /// How many groups and watches each user has.
    pub NotifyCounts;
    /// The marks of an inode.
    pub InodeMarks;
    /// Entries that a directory has in the cache besides its first.
    pub InodeEntries;
    /// Events that were not read yet (`notification_lock`).
    pub NotifyQueue;
    /// Work of a stacked tree on a file, and the names, data and attributes of inodes of the trees
    /// beneath it: the file's, then theirs, from top to bottom.
    pub Stacked, nests;
    /// Inodes of a stacked tree by the inodes beneath.
    pub StackedTable;
    /// Listings of merged directories.
    pub StackedList;
    /// The update of attributes of an inode of a stacked tree.
    pub StackedAttr;
    /// Entries of a directory of the memory backend.
    pub MemDir, nests;
    /// Pages of a file of the memory backend.
    pub MemData;
    /// Extended attributes of a file of the memory backend.
    pub MemXattr;
    /// Books of a superblock of the memory backend.
    pub MemSuper;
    /// The position of a handle of a directory of the host, over a listing.
    pub HostListing;
    /// The update of attributes of an inode of the host, over a look at the host.
    pub HostAttr;
    /// Descriptors of an inode of the host, and their users.
    pub HostHandles;
    /// The place where an inode of the host was last found.
    pub HostPlace;
    /// Inodes of a tree of the host by their identity there.
    pub HostTable;
    /// Devices of the host that are part of a tree.
    pub HostDevices;
    /// The watched directories of the host.
    pub HostWatches;
    /// The order in which descriptors of the host are closed to make room.
    pub HostPool;
    /// Access control lists of an inode.
    pub InodeAcls;
    /// The layouts of a file; a backend may recall them with locks of its own held.
    pub LayoutTable;
    /// The tasks of a tenant, and the counts of earlier ones.
    pub TenantCounts;
    /// The jobs that wait for the workers of a pool, and the workers that sleep.
    pub PoolQueues;
    /// The callback for work that a ring's workers have done.
    pub RingBell;
    /// The future that waits for one job.
    pub RingWaker;
    /// The request that a thread of a server is at.
    pub FuseRequests;
    /// Interrupts that came before their requests.
    pub FuseEarly;
    /// The nodes that a server has reported to the kernel.
    pub FuseNodes;
    /// Names that may have to expire in the kernel.
    pub FuseTold;
    /// Owners of file locks, by the opening.
    pub FuseLocks;
    /// Lock requests that wait.
    pub FuseWaits;
}
