// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shows every file of a mount as owned by one user, and checks what only the real owner may do.
//!
//! An ordinary user's mount is in a user namespace that maps this user and one group. The files of
//! other users have no owner there, and the kernel refuses every change of such a file, and in such
//! a directory, whatever its permission bits say. So they are shown as the user's, with owner bits
//! that say what the user may do by mode or access control list.
//!
//! # Kernel analogue
//! `HAS_UNMAPPED_ID`; `check_sticky`, `inode_owner_or_capable`.

use crate::fs::{AttrChange, FuseFs, attr_of};
use crate::options::OnlyUser;
use crate::worker::Worker;
use openpath_abi::fcntl::{AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW};
use openpath_abi::mode::{S_ISVTX, S_IWUSR};
use openpath_abi::statx::STATX_BASIC_STATS;
use openpath_abi::{Errno, Statx, TimeSet};
use openpath_vfs::{Acl, AclKind, Cred, Fd, Task};

/// The owner bits of a mode.
const OWNER: u16 = 0o700;
/// The group bits, without which an access control list is not checked.
const GROUP: u16 = 0o070;

impl OnlyUser {
    /// Attributes as presented; `acl` are the bits of the access control list, if it decides.
    fn present(&self, attr: Statx, acl: Option<u16>) -> Statx {
        let bits = if attr.uid == self.uid {
            attr.mode & OWNER
        } else if let Some(acl_bits) = acl.filter(|_| attr.mode & GROUP != 0) {
            acl_bits << 6
        } else if attr.gid == self.gid || self.groups.contains(&attr.gid) {
            (attr.mode & GROUP) << 3
        } else {
            (attr.mode & 0o007) << 6
        };
        Statx {
            uid: self.uid,
            gid: self.gid,
            mode: attr.mode & !OWNER | bits,
            ..attr
        }
    }
}

impl OnlyUser {
    /// The bits that the access control list of a file gives the user, if it has one that decides;
    /// none if it cannot be read.
    fn acl_bits(&self, task: &Task, path_fd: Fd, attr: &Statx) -> Option<u16> {
        if attr.uid == self.uid || attr.mode & GROUP == 0 {
            return None;
        }
        let name = AclKind::Access.name();
        let value = match task.getxattrat(path_fd, b"", AT_EMPTY_PATH, name) {
            Err(Errno::ENODATA | Errno::EOPNOTSUPP) => return None,
            Err(_) => return Some(0),
            Ok(value) => value,
        };
        let Ok(acl) = Acl::parse(&value) else {
            return Some(0);
        };
        let cred = Cred::user(self.uid, self.gid, &self.groups);
        acl.map(|acl| acl.granted(&cred, attr.gid) as u16)
    }
}

impl FuseFs {
    /// Attributes as the kernel gets them.
    pub(crate) fn present(&self, task: &Task, path_fd: Fd, attr: Statx) -> Statx {
        match &self.only {
            Some(only) => only.present(attr, only.acl_bits(task, path_fd, &attr)),
            None => attr,
        }
    }

    /// Whether an extended attribute is presented: access control lists are not, because their ids
    /// mean nothing there.
    ///
    /// # Errors
    /// `EOPNOTSUPP`.
    pub(crate) fn check_visible(&self, name: &[u8]) -> Result<(), Errno> {
        if self.only.is_some() && AclKind::of_name(name).is_some() {
            return Err(Errno::EOPNOTSUPP);
        }
        Ok(())
    }

    /// Whether the user may make this change, as far as it depends on the file's owner. A user that
    /// may write to a file may set its times to now. The kernel sets the modification time alone
    /// for what it has written itself, and also sends it unchanged.
    ///
    /// # Errors
    /// `EPERM`: the file's owner is another user. `EACCES`: times are to be now, and the user may
    /// not write.
    pub(crate) fn check_setattr(
        &self,
        worker: &Worker,
        path_fd: Fd,
        change: &AttrChange,
    ) -> Result<(), Errno> {
        let Some(only) = &self.only else {
            return Ok(());
        };
        let owners = [change.mode, change.uid, change.gid];
        let owners = owners.iter().any(Option::is_some);
        if !owners && change.times == [TimeSet::Omit; 2] {
            return Ok(());
        }
        let attr = attr_of(worker, path_fd)?;
        if attr.uid == only.uid {
            return Ok(());
        }
        let shown = self.present(&worker.task, path_fd, attr);
        let writes = u32::from(shown.mode) & S_IWUSR != 0;
        match change.times {
            _ if owners => Err(Errno::EPERM),
            [TimeSet::At(_), _] => Err(Errno::EPERM),
            [TimeSet::Omit, TimeSet::At(time)] if self.writeback && time == attr.mtime => Ok(()),
            [_, TimeSet::At(_)] if !(self.writeback && writes) => Err(Errno::EPERM),
            _ if !writes => Err(Errno::EACCES),
            _ => Ok(()),
        }
    }

    /// Whether the user may remove a name from a sticky directory.
    ///
    /// # Errors
    /// `EPERM`: the file belongs to another user.
    pub(crate) fn check_sticky(&self, worker: &Worker, dir: Fd, name: &[u8]) -> Result<(), Errno> {
        let Some(only) = &self.only else {
            return Ok(());
        };
        let sticky = attr_of(worker, dir)?;
        if u32::from(sticky.mode) & S_ISVTX == 0 || sticky.uid == only.uid {
            return Ok(());
        }
        let flags = AT_SYMLINK_NOFOLLOW;
        match worker.task.statx(dir, name, flags, STATX_BASIC_STATS) {
            Ok(attr) if attr.uid != only.uid => Err(Errno::EPERM),
            // The call itself fails for a name that does not exist.
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::OnlyUser;
    use crate::fs::{AttrChange, FuseFs};
    use crate::nodes::ROOT;
    use crate::options::Options;
    use crate::worker::ActingAs;
    use openpath_abi::{Errno, Statx, TimeSet, Timespec};
    use openpath_mem::{MemFs, MemOptions};
    use openpath_vfs::{Cred, Vfs};

    #[test]
    fn only_owners_set_times_and_writers_set_them_to_now() {
        for writeback in [false, true] {
            only_owners_set_times(writeback);
        }
    }

    fn only_owners_set_times(writeback: bool) {
        let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()));
        let task = vfs.expect("a Vfs").task(Cred::root()).expect("a task");
        let options = Options {
            only_user: Some(OnlyUser {
                uid: 1000,
                gid: 1000,
                groups: Vec::new(),
            }),
            writeback,
            ..Options::default()
        };
        let (fs, mut workers) = FuseFs::new(&task, &options).expect("a view");
        let w = &mut workers[0];
        let mut set = |name: &[u8], owner, mode: u32, times: [TimeSet; 2]| {
            let actor = ActingAs::Owner(owner, owner);
            let made = fs.mknod(w, actor, (ROOT, name), 0o100_000 | mode, 0);
            let number = match made {
                Ok(made) => made.number,
                Err(_) => fs.lookup(w, (ROOT, name)).expect("there").number,
            };
            let change = AttrChange {
                mode: None,
                uid: None,
                gid: None,
                size: None,
                times,
                by_descriptor: false,
                fd: None,
            };
            let set = fs.setattr(w, ActingAs::Owner(1000, 1000), number, &change);
            set.map(|attr| attr.mtime)
        };
        let (now, omit) = (TimeSet::Now, TimeSet::Omit);
        let old = TimeSet::At(Timespec::new(946_684_800, 0));
        assert_eq!(set(b"a", 0, 0o644, [old, old]), Err(Errno::EPERM));
        assert_eq!(set(b"a", 0, 0o644, [omit, old]), Err(Errno::EPERM));
        assert_eq!(set(b"a", 0, 0o644, [now, old]), Err(Errno::EPERM));
        assert_eq!(set(b"a", 0, 0o644, [now, now]), Err(Errno::EACCES));
        assert_eq!(set(b"b", 0, 0o666, [old, omit]), Err(Errno::EPERM));
        assert!(set(b"b", 0, 0o666, [now, now]).is_ok());
        // The kernel sends the time of its own writes only with the writeback cache.
        assert_eq!(set(b"b", 0, 0o666, [omit, old]).is_ok(), writeback);
        let same = set(b"a", 0, 0o644, [omit, omit]).expect("nothing");
        let same = [omit, TimeSet::At(same)];
        assert_eq!(set(b"a", 0, 0o644, same).is_ok(), writeback);
        assert!(set(b"c", 1000, 0o400, [old, old]).is_ok());
    }

    #[test]
    fn owner_bits_are_the_access_of_the_user() {
        let only = OnlyUser {
            uid: 1000,
            gid: 1000,
            groups: vec![27],
        };
        let by = |uid, gid, mode, acl| {
            let attr = Statx {
                uid,
                gid,
                mode,
                ..Statx::default()
            };
            let attr = only.present(attr, acl);
            assert_eq!((attr.uid, attr.gid), (1000, 1000));
            attr.mode
        };
        let shown = |uid, gid, mode| by(uid, gid, mode, None);
        assert_eq!(shown(1000, 0, 0o100_640), 0o100_640);
        assert_eq!(shown(0, 0, 0o100_644), 0o100_444);
        assert_eq!(shown(0, 27, 0o100_660), 0o100_660);
        assert_eq!(shown(0, 1000, 0o100_075), 0o100_775);
        assert_eq!(shown(0, 0, 0o041_777), 0o041_777);
        assert_eq!(shown(0, 0, 0o040_700), 0o040_000);
        // An access control list denies and grants, and its mask is in the group bits.
        assert_eq!(by(0, 0, 0o100_644, Some(0)), 0o100_044);
        assert_eq!(by(0, 0, 0o100_660, Some(6)), 0o100_660);
        assert_eq!(by(0, 0, 0o100_606, Some(0)), 0o100_606);
        assert_eq!(by(1000, 0, 0o100_660, Some(0)), 0o100_660);
    }
}
