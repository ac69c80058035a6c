// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that every constant equals that of the `libc` crate or, where `libc` lacks it, its
//! documented value. Tests also how error numbers are converted, the layout of `OpenHow`, and that
//! sets of flags keep unknown bits.

use openpath_abi::errno::MAX_ERRNO;
use openpath_abi::{
    AtFlags, Errno, OFlags, OpenHow, RenameFlags, ResolveFlags, StatxMask, UmountFlags, XattrFlags,
};

/// The number of a constant, whatever its type.
trait Number {
    fn number(self) -> i128;
}

macro_rules! numbers {
    ($($number:ty)*; $($set:ty)*) => {
        $(impl Number for $number {
            fn number(self) -> i128 {
                i128::from(self)
            }
        })*
        $(impl Number for $set {
            fn number(self) -> i128 {
                i128::from(self.bits())
            }
        })*
    };
}

numbers! {
    u8 i16 u32 i32 u64 i64;
    OFlags AtFlags ResolveFlags RenameFlags StatxMask UmountFlags XattrFlags
}

/// The number of a constant that is an `usize`.
impl Number for usize {
    fn number(self) -> i128 {
        self as i128
    }
}

/// Compares constants of a module, name by name, with those of `libc`, as 64-bit patterns.
macro_rules! same {
    ($module:ident: $($name:ident)*) => {
        $(
            assert_eq!(
                openpath_abi::$module::$name.number(),
                i128::from(libc::$name),
                stringify!($name)
            );
        )*
    };
}

/// Compares error numbers, name by name.
macro_rules! same_errno {
    ($($name:ident)*) => {{
        $(
            assert_eq!(Errno::$name.raw(), libc::$name, stringify!($name));
        )*
        [$(Errno::$name),*]
    }};
}

#[test]
fn errno_constants_match_libc() {
    let checked = same_errno! {
        EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT
        ENOTBLK EBUSY EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG
        ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY
        ELOOP ENOMSG EIDRM ECHRNG EL2NSYNC EL3HLT EL3RST ELNRNG EUNATCH ENOCSI EL2HLT EBADE EBADR
        EXFULL ENOANO EBADRQC EBADSLT EBFONT ENOSTR ENODATA ETIME ENOSR ENONET ENOPKG EREMOTE
        ENOLINK EADV ESRMNT ECOMM EPROTO EMULTIHOP EDOTDOT EBADMSG EOVERFLOW ENOTUNIQ EBADFD EREMCHG
        ELIBACC ELIBBAD ELIBSCN ELIBMAX ELIBEXEC EILSEQ ERESTART ESTRPIPE EUSERS ENOTSOCK
        EDESTADDRREQ EMSGSIZE EPROTOTYPE ENOPROTOOPT EPROTONOSUPPORT ESOCKTNOSUPPORT EOPNOTSUPP
        EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE EADDRNOTAVAIL ENETDOWN ENETUNREACH ENETRESET
        ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ESHUTDOWN ETOOMANYREFS ETIMEDOUT
        ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS ESTALE EUCLEAN ENOTNAM ENAVAIL
        EISNAM EREMOTEIO EDQUOT ENOMEDIUM EMEDIUMTYPE ECANCELED ENOKEY EKEYEXPIRED EKEYREVOKED
        EKEYREJECTED EOWNERDEAD ENOTRECOVERABLE ERFKILL EHWPOISON
    };
    same_errno! { EWOULDBLOCK EDEADLOCK ENOTSUP };
    // The one that libc does not have yet.
    assert_eq!(Errno::EFTYPE.raw(), 134);
    let (last, known) = Errno::ALL.split_last().expect("the table is not empty");
    assert_eq!(*last, Errno::EFTYPE);
    assert_eq!(known, checked);
}

#[test]
fn errno_numbers_are_dense_except_for_two() {
    let missing: Vec<i32> = (1..=134)
        .filter(|raw| !Errno::ALL.contains(&Errno::from_raw(*raw)))
        .collect();
    assert_eq!(missing, [41, 58]);
    assert!(Errno::ALL.is_sorted());
}

#[test]
fn errno_converts_both_ways() {
    for raw in 1..=MAX_ERRNO {
        assert_eq!(Errno::from_raw(raw).raw(), raw);
    }
    for raw in [i32::MIN, -2, 0, MAX_ERRNO + 1, 65_536, 65_537, i32::MAX] {
        assert_eq!(Errno::checked(raw), None, "{raw}");
    }
    for errno in Errno::ALL {
        assert_eq!(Errno::from_name(errno.name()), Some(*errno));
        assert_eq!(
            format!("{errno} {errno:?}"),
            format!("{0} {0}", errno.name())
        );
        assert!(!errno.text().is_empty());
    }
    assert_eq!(format!("{:?}", Errno::from_raw(41)), "E41");
    assert_eq!(Errno::from_raw(41).name(), "E?");
    assert_eq!(Errno::from_name("E?"), None);
}

#[test]
#[should_panic(expected = "not an error number")]
fn from_raw_of_zero_panics() {
    let _ = Errno::from_raw(0);
}

#[test]
fn open_flags_match_libc() {
    same! { fcntl:
        O_RDONLY O_WRONLY O_RDWR O_ACCMODE O_CREAT O_EXCL O_NOCTTY O_TRUNC O_APPEND O_NONBLOCK
        O_DSYNC O_ASYNC O_DIRECT O_DIRECTORY O_NOFOLLOW O_NOATIME O_CLOEXEC O_SYNC O_PATH O_TMPFILE
    }
    use openpath_abi::fcntl::{O_EMPTYPATH, O_LARGEFILE, OPENAT2_REGULAR};
    // The C library of a 64-bit system says 0; the kernel's value shows in F_GETFL.
    assert_eq!((libc::O_LARGEFILE, O_LARGEFILE.bits()), (0, 0o100_000));
    // Linux 7.2, newer than libc.
    assert_eq!(
        (O_EMPTYPATH.bits(), OPENAT2_REGULAR),
        (0x400_0000, 0x1_0000_0000)
    );
}

#[test]
fn at_and_descriptor_flags_match_libc() {
    same! { fcntl:
        AT_FDCWD AT_SYMLINK_NOFOLLOW AT_EACCESS AT_REMOVEDIR AT_SYMLINK_FOLLOW AT_NO_AUTOMOUNT
        AT_EMPTY_PATH AT_STATX_SYNC_AS_STAT AT_STATX_FORCE_SYNC AT_STATX_DONT_SYNC
        AT_STATX_SYNC_TYPE AT_RECURSIVE FD_CLOEXEC F_DUPFD F_GETFD F_SETFD F_GETFL F_SETFL
        F_DUPFD_CLOEXEC SEEK_SET SEEK_CUR SEEK_END SEEK_DATA SEEK_HOLE
    }
}

#[test]
fn lock_constants_match_libc() {
    same! { lock:
        F_GETLK F_SETLK F_SETLKW F_OFD_GETLK F_OFD_SETLK F_OFD_SETLKW F_RDLCK F_WRLCK F_UNLCK
        LOCK_SH LOCK_EX LOCK_NB LOCK_UN
    }
    // Gone from the C library.
    assert_eq!(openpath_abi::lock::LOCK_MAND, 32);
    use core::mem::{offset_of, size_of};
    use openpath_abi::Flock;
    assert_eq!(size_of::<Flock>(), size_of::<libc::flock>());
    assert_eq!(offset_of!(Flock, kind), offset_of!(libc::flock, l_type));
    assert_eq!(offset_of!(Flock, whence), offset_of!(libc::flock, l_whence));
    assert_eq!(offset_of!(Flock, start), offset_of!(libc::flock, l_start));
    assert_eq!(offset_of!(Flock, len), offset_of!(libc::flock, l_len));
    assert_eq!(offset_of!(Flock, pid), offset_of!(libc::flock, l_pid));
}

#[test]
fn resolve_rename_and_access_flags_match_libc() {
    same! { resolve:
        RESOLVE_NO_XDEV RESOLVE_NO_MAGICLINKS RESOLVE_NO_SYMLINKS RESOLVE_BENEATH RESOLVE_IN_ROOT
        RESOLVE_CACHED
    }
    same! { rename: RENAME_NOREPLACE RENAME_EXCHANGE RENAME_WHITEOUT }
    same! { access: F_OK X_OK W_OK R_OK }
    assert_eq!(openpath_abi::resolve::RESOLVE_ALL.bits(), 0x3f);
}

#[test]
fn modes_and_types_match_libc() {
    same! { mode:
        S_IFMT S_IFIFO S_IFCHR S_IFDIR S_IFBLK S_IFREG S_IFLNK S_IFSOCK S_ISUID S_ISGID S_ISVTX
        S_IRWXU S_IRUSR S_IWUSR S_IXUSR S_IRWXG S_IRGRP S_IWGRP S_IXGRP S_IRWXO S_IROTH S_IWOTH
        S_IXOTH
    }
    same! { dirent: DT_UNKNOWN DT_FIFO DT_CHR DT_DIR DT_BLK DT_REG DT_LNK DT_SOCK }
    use openpath_abi::{dirent, mode};
    assert_eq!(
        (mode::S_IRWXUGO, mode::S_IXUGO, mode::S_IALLUGO),
        (0o777, 0o111, 0o7777)
    );
    assert_eq!(dirent::DT_WHT, 14);
    for kind in (0..=0o17).map(|bits| bits << 12) {
        // IFTODT of the C library, for the types that exist.
        let expected = match kind {
            libc::S_IFIFO
            | libc::S_IFCHR
            | libc::S_IFDIR
            | libc::S_IFBLK
            | libc::S_IFREG
            | libc::S_IFLNK
            | libc::S_IFSOCK => kind >> 12,
            _ => 0,
        };
        assert_eq!(u32::from(mode::dirent_type(kind | 0o7777)), expected);
        assert_eq!(mode::file_type(kind | 0o7777), kind);
        assert_eq!(mode::permissions(kind | 0o7777), 0o7777);
    }
}

#[test]
fn type_predicates_hold_for_their_type_alone() {
    use openpath_abi::mode::*;
    type Predicate = fn(u32) -> bool;
    let predicates: [(u32, Predicate); 7] = [
        (S_IFIFO, is_fifo),
        (S_IFCHR, is_chr),
        (S_IFDIR, is_dir),
        (S_IFBLK, is_blk),
        (S_IFREG, is_reg),
        (S_IFLNK, is_lnk),
        (S_IFSOCK, is_sock),
    ];
    for (kind, predicate) in predicates {
        for (other, _) in predicates {
            assert_eq!(predicate(other | 0o644), kind == other);
        }
    }
}

#[test]
fn statx_flags_match_libc() {
    same! { statx:
        STATX_TYPE STATX_MODE STATX_NLINK STATX_UID STATX_GID STATX_ATIME STATX_MTIME STATX_CTIME
        STATX_INO STATX_SIZE STATX_BLOCKS STATX_BASIC_STATS STATX_BTIME STATX_MNT_ID STATX_DIOALIGN
        STATX_ATTR_COMPRESSED STATX_ATTR_IMMUTABLE STATX_ATTR_APPEND STATX_ATTR_NODUMP
        STATX_ATTR_ENCRYPTED STATX_ATTR_AUTOMOUNT STATX_ATTR_MOUNT_ROOT STATX_ATTR_VERITY
        STATX_ATTR_DAX
    }
    use openpath_abi::statx::{STATX_MNT_ID_UNIQUE, STATX_RESERVED, STATX_SUBVOL};
    assert_eq!(
        (STATX_MNT_ID_UNIQUE.bits(), STATX_SUBVOL.bits()),
        (0x4000, 0x8000)
    );
    assert_eq!(
        u64::from(STATX_RESERVED.bits()),
        libc::STATX__RESERVED as u64 & 0xffff_ffff
    );
}

#[test]
fn mount_flags_match_libc() {
    same! { mount:
        MS_RDONLY MS_NOSUID MS_NODEV MS_NOEXEC MS_SYNCHRONOUS MS_REMOUNT MS_MANDLOCK MS_DIRSYNC
        MS_NOSYMFOLLOW MS_NOATIME MS_NODIRATIME MS_BIND MS_MOVE MS_REC MS_SILENT MS_POSIXACL
        MS_UNBINDABLE MS_PRIVATE MS_SLAVE MS_SHARED MS_RELATIME MS_STRICTATIME MS_LAZYTIME
        MNT_FORCE MNT_DETACH MNT_EXPIRE UMOUNT_NOFOLLOW ST_RDONLY ST_NOSUID ST_NODEV ST_NOEXEC
        ST_SYNCHRONOUS ST_MANDLOCK ST_NOATIME ST_NODIRATIME ST_RELATIME TMPFS_MAGIC
        OVERLAYFS_SUPER_MAGIC EXT4_SUPER_MAGIC
    }
    use openpath_abi::mount::{ST_NOSYMFOLLOW, ST_VALID};
    assert_eq!((ST_VALID, ST_NOSYMFOLLOW), (0x20, 0x2000));
}

#[test]
fn xattr_time_and_limit_constants_match_libc() {
    same! { xattr: XATTR_CREATE XATTR_REPLACE }
    same! { time: UTIME_NOW UTIME_OMIT }
    use openpath_abi::{limits, xattr};
    assert_eq!(limits::PATH_MAX, libc::PATH_MAX as usize);
    assert_eq!(limits::PIPE_BUF, libc::PIPE_BUF);
    assert_eq!((limits::NAME_MAX, limits::MAXSYMLINKS), (255, 40));
    assert_eq!((limits::PAGE_SIZE, limits::NGROUPS_MAX), (4096, 65_536));
    assert_eq!(limits::MAX_LFS_FILESIZE, 0x7fff_ffff_ffff_ffff);
    assert_eq!(
        (
            xattr::XATTR_NAME_MAX,
            xattr::XATTR_SIZE_MAX,
            xattr::XATTR_LIST_MAX
        ),
        (255, 65_536, 65_536)
    );
}

#[test]
fn capabilities_match_their_man_page() {
    use openpath_abi::caps::*;
    // libc has none of them; the numbers of capabilities(7).
    let known = [
        (CAP_CHOWN, 0),
        (CAP_DAC_OVERRIDE, 1),
        (CAP_DAC_READ_SEARCH, 2),
        (CAP_FOWNER, 3),
        (CAP_FSETID, 4),
        (CAP_SETGID, 6),
        (CAP_SETUID, 7),
        (CAP_LINUX_IMMUTABLE, 9),
        (CAP_SYS_CHROOT, 18),
        (CAP_SYS_ADMIN, 21),
        (CAP_SYS_RESOURCE, 24),
        (CAP_MKNOD, 27),
        (CAP_LEASE, 28),
        (CAP_SETFCAP, 31),
        (CAP_MAC_OVERRIDE, 32),
        (CAP_LAST_CAP, 40),
    ];
    for (cap, number) in known {
        assert_eq!(cap, number);
    }
    assert_eq!(ALL, 0x1ff_ffff_ffff);
    assert_eq!(FS_SET, 0x1_0800_021f);
    assert_eq!(FS_SET & ALL, FS_SET);
}

#[test]
fn open_how_has_the_kernels_layout() {
    assert_eq!(size_of::<OpenHow>(), size_of::<libc::open_how>());
    assert_eq!(align_of::<OpenHow>(), align_of::<libc::open_how>());
    let how = OpenHow {
        flags: 0x0102_0304,
        mode: 0o640,
        resolve: ResolveFlags::from_bits_retain(1 << 63),
    };
    assert_eq!(how.to_bytes()[8..16], 0o640_u64.to_ne_bytes());
    assert_eq!(OpenHow::from_bytes(&how.to_bytes()), how);
    assert_eq!(
        OpenHow::new(OFlags::from_bits_retain(1), 2).resolve(ResolveFlags::from_bits_retain(3)),
        OpenHow {
            flags: 1,
            mode: 2,
            resolve: ResolveFlags::from_bits_retain(3)
        }
    );
}

#[test]
fn device_numbers_match_libc() {
    use openpath_abi::stat::{major, makedev, minor};
    for (high, low) in [
        (0, 0),
        (8, 1),
        (0, 0x1d),
        (1, 5),
        (0xfff, 0xf_ffff),
        (259, 0x12345),
    ] {
        let dev = makedev(high, low);
        assert_eq!((major(dev), minor(dev)), (high, low));
        assert_eq!(dev, libc::makedev(high, low));
    }
}

#[test]
fn directory_records_are_multiples_of_eight() {
    use openpath_abi::dirent::record_len;
    assert_eq!(
        [1, 4, 5, 12, 13, 255].map(record_len),
        [24, 24, 32, 32, 40, 280]
    );
}

#[test]
fn descriptor_and_io_constants_match_libc() {
    same!(fcntl: F_SETPIPE_SZ F_GETPIPE_SZ);
    same!(fcntl: F_SETOWN F_GETOWN F_ADD_SEALS F_GET_SEALS F_SEAL_SEAL F_SEAL_SHRINK F_SEAL_GROW
        F_SEAL_WRITE F_SEAL_FUTURE_WRITE F_SEAL_EXEC CLOSE_RANGE_UNSHARE CLOSE_RANGE_CLOEXEC);
    same!(falloc: FALLOC_FL_KEEP_SIZE FALLOC_FL_PUNCH_HOLE FALLOC_FL_COLLAPSE_RANGE
        FALLOC_FL_ZERO_RANGE FALLOC_FL_INSERT_RANGE FALLOC_FL_UNSHARE_RANGE RWF_HIPRI RWF_DSYNC
        RWF_SYNC RWF_NOWAIT RWF_APPEND POSIX_FADV_NORMAL POSIX_FADV_RANDOM POSIX_FADV_SEQUENTIAL
        POSIX_FADV_WILLNEED POSIX_FADV_DONTNEED POSIX_FADV_NOREUSE);
    same!(poll: POLLIN POLLPRI POLLOUT POLLERR POLLHUP POLLNVAL POLLRDNORM POLLRDBAND POLLWRNORM
        POLLWRBAND POLLRDHUP);
    same!(inotify: IN_ACCESS IN_MODIFY IN_ATTRIB IN_CLOSE_WRITE IN_CLOSE_NOWRITE IN_OPEN
        IN_MOVED_FROM IN_MOVED_TO IN_CREATE IN_DELETE IN_DELETE_SELF IN_MOVE_SELF IN_CLOSE IN_MOVE
        IN_ALL_EVENTS IN_UNMOUNT IN_Q_OVERFLOW IN_IGNORED IN_ONLYDIR IN_DONT_FOLLOW IN_EXCL_UNLINK
        IN_MASK_CREATE IN_MASK_ADD IN_ISDIR IN_ONESHOT IN_CLOEXEC IN_NONBLOCK);
}

#[test]
fn sets_keep_unknown_bits_and_show_their_names() {
    use openpath_abi::fcntl::{O_CLOEXEC, O_CREAT, O_RDWR, O_SYNC, O_TMPFILE};
    let set = OFlags::from_bits_retain(1 << 30) | O_CREAT | O_RDWR;
    assert_eq!((set & !O_CREAT).bits(), 1 << 30 | 2);
    assert!(set.contains(O_CREAT) && !set.contains(O_CREAT | O_CLOEXEC));
    assert!(set.intersects(O_CREAT | O_CLOEXEC) && !set.intersects(O_CLOEXEC));
    assert_eq!(format!("{set:?}"), "OFlags(O_RDWR | O_CREAT | 0x40000000)");
    assert_eq!(
        format!("{:?}", O_TMPFILE | O_SYNC),
        "OFlags(O_TMPFILE | O_SYNC)"
    );
    assert_eq!(format!("{:?}", AtFlags::empty()), "AtFlags(0x0)");
    assert_eq!(OFlags::union_of(&[O_CREAT, O_RDWR]), O_CREAT.union(O_RDWR));
    assert_eq!(
        (O_CREAT.only_if(true), O_CREAT.only_if(false)),
        (O_CREAT, OFlags::empty())
    );
}
