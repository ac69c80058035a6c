// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mounts a view's own `/dev/shm` and `/dev/mqueue`, and brings up the loopback device of its
//! network namespace.

use crate::plan::Plan;
use crate::share::Share;
use openpath_commit::{Refusal, RefusalKind};
use rustix::io::Errno;
use rustix::mount::MountFlags;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::ffi::CStr;
use std::path::Path;

/// POSIX shared memory.
const SHM: &str = "/dev/shm";
/// Its maximum size, as a share of the machine's memory.
const SHM_LIMIT: &CStr = c"mode=1777,size=25%,nr_inodes=65536";
/// POSIX message queues.
const MQUEUE: &str = "/dev/mqueue";

/// Mounts what the plan does not share, if the host has such a directory.
pub(crate) fn mount_own(plan: &Plan) -> Result<(), Refusal> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let mounts = [
        (Share::Shm, SHM, "tmpfs", SHM_LIMIT, flags),
        (
            Share::Ipc,
            MQUEUE,
            "mqueue",
            c"",
            flags | MountFlags::NOEXEC,
        ),
    ];
    for (share, place, kind, options, flags) in mounts {
        if plan.shares(share) || !Path::new(place).is_dir() {
            continue;
        }
        rustix::mount::mount(kind, place, kind, flags, options).map_err(|why| {
            Refusal::new(
                RefusalKind::Unsupported,
                format!(
                    "{place} cannot be mounted for the view ({why}): use the host's with `--share \
                 {share}`"
                ),
            )
        })?;
    }
    Ok(())
}

/// `RTM_NEWLINK`: changes a device.
const CHANGE_LINK: u16 = 16;
/// `NLM_F_REQUEST | NLM_F_ACK`
const ANSWERED: u16 = 1 | 4;
/// `NLMSG_ERROR`: the answer, with an error number or 0.
const ANSWER: u16 = 2;
/// The index of the loopback device, the first one of a network namespace.
const LOOPBACK: i32 = 1;
/// `IFF_UP`
const UP: u32 = 1;
/// `struct nlmsghdr` and `struct ifinfomsg`.
const HEAD: usize = 16;
const LINK: usize = 16;

/// Brings up the loopback device of this process's network namespace.
pub(crate) fn raise_loopback() -> rustix::io::Result<()> {
    let (kind, flags) = (SocketType::RAW, SocketFlags::CLOEXEC);
    // The default protocol is `NETLINK_ROUTE`.
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, kind, flags, None)?;
    rustix::net::send(&socket, &loopback_up(), SendFlags::empty())?;
    let mut answer = [0; 256];
    let (length, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    match answered(&answer[..length]) {
        Some(0) => Ok(()),
        Some(error) => Err(Errno::from_raw_os_error(-error)),
        None => Err(Errno::PROTO),
    }
}

/// The message that sets the device up.
fn loopback_up() -> Vec<u8> {
    let length = (HEAD + LINK) as u32;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(CHANGE_LINK.to_ne_bytes());
    message.extend(ANSWERED.to_ne_bytes());
    // Sequence number and port, which a single message does not need.
    message.extend([0; 8]);
    // Family, padding and type of the device.
    message.extend([0; 4]);
    message.extend(LOOPBACK.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    // The mask of the flags to change.
    message.extend(UP.to_ne_bytes());
    message
}

/// The error number of an answer, negated as the kernel writes it.
fn answered(message: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(message.get(4..6)?.try_into().ok()?);
    let error = message.get(HEAD..HEAD + 4)?.try_into().ok()?;
    (kind == ANSWER).then(|| i32::from_ne_bytes(error))
}

#[cfg(test)]
mod tests {
    use super::{HEAD, LINK, answered, loopback_up};

    #[test]
    fn netlink_messages_have_their_length_and_answers_their_error() {
        assert_eq!(loopback_up().len(), HEAD + LINK);
        let mut answer = loopback_up();
        assert_eq!(answered(&answer), None);
        answer[4..6].copy_from_slice(&2_u16.to_ne_bytes());
        answer[HEAD..HEAD + 4].copy_from_slice(&(-1_i32).to_ne_bytes());
        assert_eq!(answered(&answer), Some(-1));
        assert_eq!(answered(&answer[..HEAD]), None);
    }
}
