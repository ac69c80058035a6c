// SPDX-License-Identifier: MIT OR Apache-2.0
//! Leaves access times out of a comparison of openpath over a directory of the host with the host
//! kernel, where the host sets them by its own rules (L29). Times are left out only after the
//! comparison failed with them.

use crate::case::Trace;
use crate::outcome::{Stamp, StatView};
use crate::plain::Trust;
use crate::served::each;
use openpath_abi::mode;

/// Drops from both runs the access times that the host keeps under this trust; false if there are
/// none.
///
/// Under confirmed names all access times are the host's: it moves them even if the caller asked it
/// not to. With notified changes openpath knows them as long as the inode lives; a link's inode
/// does not live long, because no file holds it open.
pub(crate) fn leave_out(trust: Trust, both: [&mut Trace; 2]) -> bool {
    let work = match trust {
        Trust::Exclusive => return false,
        Trust::Notify => of_links,
        Trust::Revalidate | Trust::None => of_all,
    };
    both.into_iter().for_each(|trace| each(trace, work));
    true
}

fn of_all(stat: &mut StatView) {
    stat.atime = Stamp::Begin;
}

fn of_links(stat: &mut StatView) {
    if mode::is_lnk(stat.mode) {
        of_all(stat);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Ids, Outcome, Stamps};
    use openpath_abi::{Stat, Timespec};

    fn seen(mode: u32, atime: i64) -> Trace {
        let stat = Stat {
            mode,
            atime: Timespec::new(atime, 0),
            ..Stat::default()
        };
        let view = StatView::new(&stat, &Ids::default(), &Stamps::default());
        Trace {
            outcomes: vec![Outcome::Stat(Box::new(view))],
            ..Trace::default()
        }
    }

    #[test]
    fn only_host_access_times_are_dropped() {
        let is_same = |trust, mode| {
            let (mut host, mut ours) = (seen(mode, 5), seen(mode, 6));
            leave_out(trust, [&mut host, &mut ours]);
            host.same(&ours)
        };
        assert!(is_same(Trust::Notify, mode::S_IFLNK));
        assert!(!is_same(Trust::Notify, mode::S_IFDIR));
        assert!(is_same(Trust::Revalidate, mode::S_IFDIR));
        assert!(is_same(Trust::None, mode::S_IFREG));
        assert!(!is_same(Trust::Exclusive, mode::S_IFLNK));
    }
}
