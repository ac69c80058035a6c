// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lock order: every lock class of the core and of the crates beside it, outermost first. The
//! only place.

openpath_sync::lock_classes! {
    /// All classes, outermost first.
    pub const CLASSES;
    /// Changes that others made to a directory of the host, being dealt with.
    pub HostEvents;
    /// Where an open file reads and writes next (`f_pos_lock`).
    pub FilePosition, nests;
    /// Directories moving from one parent to another in one superblock (`s_vfs_rename_mutex`).
    pub RenameTopology;
    /// The names in a directory, or a file's data and attributes (`i_rwsem`). Ancestors first, else
    /// by address.
    pub InodeNames, nests;
    /// Which mount is where (`namespace_sem`).
    pub MountTopology;
    /// A superblock's place in its `Vfs`.
    pub SuperRoot;
    /// Who is told what a superblock forgets.
    pub SuperAbove;
    /// Numbers of superblocks.
    pub SuperNumbers;
    /// The pins that mounts hold.
    pub House;
    /// One name being looked up: held by who asks the backend, waited for by who wants the same.
    pub Flight;
    /// Which names are being looked up.
    pub FlightTable;
    /// Room being made on one book of cached names.
    pub Eviction;
    /// The version clock of superblocks, and which directories are changing.
    pub PathClock;
    /// A descriptor table (`file_lock`).
    pub FdTables, nests;
    /// Files to be freed when a call ends (`task_works`).
    pub Deferred;
    /// Which pipe a FIFO has.
    pub InodePipes;
    /// A pipe: what is in it, who has it open, who waits (`pipe_inode_info.mutex`).
    pub PipeState;
    /// How many pages the pipes of each user may hold.
    pub PipeBooks;
    /// Every file that has locks.
    pub LockFiles;
    /// The locks of a file, and who waits for them (`flc_lock`).
    pub LockState;
    /// Who waits for whose locks (`blocked_lock_lock`).
    pub LockGraph;
    /// What one who waits for a lock is told.
    pub LockAnswer;
    /// The leases on a file, and who waits for them (`flc_lock`).
    pub LeaseTable;
    /// Holders of leases who are to be told.
    pub LeaseNotices;
    /// Unlinked entries that wait to be reclaimed.
    pub Graveyard;
    /// The books of cached names, by number.
    pub Bookshelf;
    /// The order in which the cached names of one book came.
    pub Queues;
    /// Blocks of long names.
    pub NameBlocks;
    /// The tenants there are.
    pub Tenants;
    /// The watches of one notification group (`mark_mutex`).
    pub NotifyWatches;
    /// How many groups and watches each user has.
    pub NotifyBooks;
    /// Who watches an inode.
    pub InodeMarks;
    /// Entries that a directory has in the cache besides its first.
    pub InodeEntries;
    /// Events that nobody has read yet (`notification_lock`).
    pub NotifyQueue;
    /// What a stacked tree is doing to a file, and the names, data and attributes of inodes of the
    /// trees beneath it: the file's, then theirs, from top to bottom.
    pub Stacked, nests;
    /// Inodes of a stacked tree by those they stand for.
    pub StackedTable;
    /// Listings of merged directories.
    pub StackedList;
    /// Attributes of an inode of a stacked tree being brought up to date.
    pub StackedAttr;
    /// Entries of a directory of the memory backend.
    pub MemDir, nests;
    /// Pages of a file of the memory backend.
    pub MemData;
    /// Extended attributes of a file of the memory backend.
    pub MemXattr;
    /// Books of a superblock of the memory backend.
    pub MemSuper;
    /// Where the handle of a directory of the host stands, over a listing.
    pub HostListing;
    /// Attributes of an inode of the host being brought up to date, over a look at the host.
    pub HostAttr;
    /// Descriptors of an inode of the host, and who needs them.
    pub HostHandles;
    /// Where an inode of the host was last found.
    pub HostPlace;
    /// Inodes of a tree of the host by what the host knows them by.
    pub HostTable;
    /// Devices of the host that are part of a tree.
    pub HostDevices;
    /// Which directories of the host are watched.
    pub HostWatches;
    /// The order in which descriptors of the host are given up.
    pub HostPool;
    /// Access control lists of an inode.
    pub InodeAcls;
    /// Who has a layout of a file; a backend may ask with locks of its own held.
    pub LayoutTable;
    /// Which tasks work for a tenant, and what earlier ones counted.
    pub Tallies;
    /// What waits for the workers of a pool, and which of them sleep.
    pub PoolQueues;
    /// Who is told that a ring's workers have done something.
    pub RingBell;
    /// The future that waits for one job.
    pub RingWaker;
    /// Which request a thread of a server is at.
    pub FuseRequests;
    /// Interrupts that came before their requests.
    pub FuseEarly;
    /// What the kernel was told of by a server.
    pub FuseNodes;
    /// Names that the kernel may have to be told to ask for again.
    pub FuseTold;
    /// Who has locked files, by the opening.
    pub FuseLocks;
    /// Requests for locks that wait.
    pub FuseWaits;
}
