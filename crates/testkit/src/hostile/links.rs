// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attacks with long chains of symbolic links, and with links that name the next link as often as a
//! body allows. Walks follow 40 links, fail with `ELOOP` at 41, and end soon.

use std::time::{Duration, Instant};

use openpath_abi::Errno;
use openpath_abi::fcntl::{AT_FDCWD, AT_SYMLINK_NOFOLLOW, O_CREAT, O_RDONLY};
use openpath_vfs::{Limits, TenantLimits};

use super::context::{Context, Host};

/// How many links one walk follows.
const FOLLOWED_MAX: usize = 40;
/// Longest body of a link.
const BODY_MAX: usize = 4095;
/// The longest that one walk may take on a busy machine.
const WALK_MAX: Duration = Duration::from_secs(2);

/// Makes a chain of links to `/end`, each with a body of this length; the last link is `/N`.
fn chain(host: &Host, links: usize, body_len: usize) -> Result<(), Errno> {
    for link in 0..links {
        let target = if link == 0 {
            "end".to_owned()
        } else {
            (link - 1).to_string()
        };
        let mut body = "./".repeat(body_len.saturating_sub(target.len()) / 2);
        body.push_str(&target);
        let at = format!("/{link}");
        host.guest
            .symlinkat(body.as_bytes(), AT_FDCWD, at.as_bytes())?;
    }
    Ok(())
}

/// Checks that a walk follows 40 links and not 41, whatever their length, and that no walk takes
/// long.
pub(super) fn bombs(f: &mut Context) -> Result<(), Errno> {
    for body_len in [1, BODY_MAX] {
        let host = Host::new(Limits::default(), TenantLimits::default())?;
        host.guest.mknodat(AT_FDCWD, b"/end", 0o100_644, 0)?;
        chain(&host, FOLLOWED_MAX + 1, body_len)?;
        let mut longest = Duration::ZERO;
        for _ in 0..f.size(10_000) {
            let begun = Instant::now();
            let last = format!("/{}", FOLLOWED_MAX - 1);
            let opened = host.guest.open(last.as_bytes(), O_RDONLY, 0);
            f.must(opened.is_ok(), || format!("40 links: {opened:?}"));
            host.guest.close(opened?)?;
            let more = format!("/{FOLLOWED_MAX}");
            f.refused(
                "41 links",
                host.guest.open(more.as_bytes(), O_RDONLY, 0),
                Errno::ELOOP,
            );
            f.refused(
                "creat through 41 links",
                host.guest.open(more.as_bytes(), O_RDONLY | O_CREAT, 0o600),
                Errno::ELOOP,
            );
            longest = longest.max(begun.elapsed());
            if !f.found.is_empty() {
                return Ok(());
            }
        }
        f.say(&format!(
            "40 and 41 links of {body_len} bytes: at most {longest:?} for three walks"
        ));
        f.must(longest < WALK_MAX, || format!("a walk took {longest:?}"));
    }
    doubling(f)
}

/// Makes links that name the next link as often as a body allows: 2^40 walks without a count.
fn doubling(f: &mut Context) -> Result<(), Errno> {
    let host = Host::new(Limits::default(), TenantLimits::default())?;
    host.guest.mkdirat(AT_FDCWD, b"/d", 0o755)?;
    host.guest.symlinkat(b".", AT_FDCWD, b"/d/0")?;
    for link in 1..200 {
        let step = format!("{}/", link - 1);
        let body = step.repeat(BODY_MAX / step.len());
        let at = format!("/d/{link}");
        host.guest
            .symlinkat(body.as_bytes(), AT_FDCWD, at.as_bytes())?;
    }
    let begun = Instant::now();
    for link in 1..200 {
        let at = format!("/d/{link}");
        f.refused("a bomb", host.guest.stat(at.as_bytes()), Errno::ELOOP);
        let own = host
            .guest
            .fstatat(AT_FDCWD, at.as_bytes(), AT_SYMLINK_NOFOLLOW);
        f.must(own.is_ok(), || format!("the link itself: {own:?}"));
    }
    let taken = begun.elapsed();
    f.say(&format!("199 link bombs: {taken:?}"));
    f.must(taken < 20 * WALK_MAX, || {
        format!("link bombs took {taken:?}")
    });
    Ok(())
}
