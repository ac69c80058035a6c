// SPDX-License-Identifier: MIT OR Apache-2.0
//! Access times that a directory of the host keeps by rules of its own (L29). They are left out of
//! a comparison only where it fails with them.

use crate::case::Trace;
use crate::outcome::{Stamp, StatView};
use crate::plain::Trust;
use crate::served::each;
use openpath_abi::mode;

/// Leaves out of both runs the access times that are the host's where so much of it is kept; false
/// if that is none.
///
/// Whose names are confirmed are the host's own: it moves them also for who asked that it does not.
/// With changes that are told they are known here as long as the inode is; of a link, which nobody
/// holds open, that is not long.
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
    fn what_is_the_hosts_is_left_out_and_nothing_else() {
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
