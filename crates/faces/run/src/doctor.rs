// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks whether `openpath run` is possible on this machine, by taking the steps of a run
//! (namespaces, mounts, limits), and says what is missing.

use crate::init::Init;
use crate::limit::Limit;
use crate::namespaces::{DEVICE, Namespaces, device};
use crate::plan::Plan;
use openpath_commit::{Refusal, RefusalKind};
use openpath_fuse::Rings;

/// The result of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Verdict {
    /// As it must be.
    Good,
    /// A run is possible but lacks something.
    Partly,
    /// A run is not possible.
    Bad,
    /// Not done, because an earlier check failed.
    Skipped,
}

/// One check.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Check {
    /// What was checked.
    pub name: &'static str,
    /// The result.
    pub verdict: Verdict,
    /// What was found; if the result is bad, with the remedy.
    pub text: String,
}

/// Checks whether a run of this plan is possible here.
///
/// The calling process must have one thread. Afterwards it is in other namespaces, with a mounted
/// view that nothing serves, so it should end.
#[must_use]
pub fn doctor(plan: &Plan) -> Vec<Check> {
    // The last one reads `/proc`, which the view covers later.
    let mut checks = vec![kernel(), proc(), limits()];
    let is_root = rustix::process::geteuid().is_root();
    let opened = device().map(|_| format!("{DEVICE} can be opened"));
    let has_device = opened.is_ok();
    checks.push(check("device", opened));
    let made = Namespaces::make(plan, || Ok(())).map(|(made, ())| made);
    let entered = made.as_ref().map_err(Clone::clone).map(|made| {
        let kind = if made.is_mapped() {
            "user, mount, pid and IPC namespaces: set-user-ID programs gain nothing in them"
        } else {
            "mount, pid and IPC namespaces"
        };
        format!("a run has {kind}")
    });
    checks.push(check("namespaces", entered));
    checks.extend(made.as_ref().ok().and_then(Namespaces::init).map(own_proc));
    // A run is possible without it.
    match made.as_ref().map(Namespaces::is_mapped) {
        Ok(false) => checks.push(match crate::kernel_overlay::mounts::probe() {
            Ok(()) => check("engines", Ok("a run can have --engine kernel".to_owned())),
            Err(why) => partly("engines", why.to_string()),
        }),
        Ok(true) if is_root => {
            let text = "--engine kernel is not possible here: root gets no new mount namespace, \
                        as without CAP_SYS_ADMIN";
            checks.push(partly("engines", text.to_owned()));
        }
        Ok(true) => checks.push(match crate::kernel_overlay::mounts::probe_part() {
            Ok(()) => {
                let text = "a run can have --engine kernel, which serves a part of its view: a \
                            directory of the user's at or above the working directory";
                check("engines", Ok(text.to_owned()))
            }
            Err(why) => partly("engines", why.to_string()),
        }),
        _ => {}
    }
    checks.push(match made {
        Ok(made) if has_device => {
            let mounted = made.mount();
            check("mount", mounted.map(|_| "FUSE can be mounted".to_owned()))
        }
        _ => Check {
            name: "mount",
            verdict: Verdict::Skipped,
            text: "not tried".to_owned(),
        },
    });
    checks.push(rings());
    checks.push(check("terminal", crate::confine::check_terminal()));
    // A run is possible without it.
    checks.push(match crate::confine::check_scope() {
        Ok(text) => check("scopes", Ok(text)),
        Err(text) => partly("scopes", text),
    });
    checks.push(check("keyring", crate::confine::check_keyring()));
    checks
}

/// A run is possible without it, but shows the host's processes.
fn own_proc(init: &Init) -> Check {
    match &init.proc {
        Ok(_) => {
            let text = "a run has a /proc of its own, which shows its processes alone";
            check("processes", Ok(text.to_owned()))
        }
        Err(why) => partly(
            "processes",
            format!(
                "a run sees the host's /proc, since none of its own can be mounted ({why}): a \
                 container must show all of /proc, without parts covered by mounts"
            ),
        ),
    }
}

fn partly(name: &'static str, text: String) -> Check {
    Check {
        name,
        verdict: Verdict::Partly,
        text,
    }
}

fn check(name: &'static str, found: Result<String, Refusal>) -> Check {
    let (verdict, text) = match found {
        Ok(text) => (Verdict::Good, text),
        Err(refusal) => (Verdict::Bad, refusal.to_string()),
    };
    Check {
        name,
        verdict,
        text,
    }
}

/// open_tree(2) and move_mount(2) came with Linux 5.2; FUSE in user namespaces is older.
fn kernel() -> Check {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let version = crate::pid_limit::version(&release);
    let text = format!("Linux {release}");
    let found = if version >= (5, 2) {
        Ok(text)
    } else {
        Err(Refusal::new(
            RefusalKind::Unsupported,
            format!("{text}: a run needs 5.2 or later"),
        ))
    };
    check("kernel", found)
}

/// A run is possible without rings, and faster with them.
fn rings() -> Check {
    let text = if Rings::are_offered() {
        "the kernel's requests come by rings, on the processor of who asks".to_owned()
    } else {
        format!(
            "the kernel's requests are read one by one; from Linux 6.14 on they come by rings, \
             quicker for many short processes, once root says `{}`",
            Rings::REMEDY
        )
    };
    check("rings", Ok(text))
}

/// A run is possible without limits; one that asks for a limit that cannot be enforced is refused.
fn limits() -> Check {
    let group = |limit: Limit| match crate::cgroup::check(limit) {
        Ok(()) => Ok(format!("--limit {} by a control group", limit.resource())),
        Err(why) => Err((limit.resource(), why.to_string())),
    };
    let pids = match crate::pid_limit::supported() {
        Ok(()) => Ok("--limit pids by its pid namespace".to_owned()),
        // The reason of the namespace matters only if a group cannot do it either.
        Err(why) => group(Limit::Pids(0))
            .map_err(|(resource, other)| (resource, format!("{why}, and {other}"))),
    };
    let all = [pids, group(Limit::Memory(0)), group(Limit::Cpu(0))];
    let can: String = all
        .iter()
        .flatten()
        .map(|text| format!("; {text}"))
        .collect();
    let cannot = all.iter().filter_map(|found| found.as_ref().err());
    let cannot: Vec<_> = cannot
        .map(|(resource, why)| format!("not --limit {resource}: {why}"))
        .collect();
    let text = format!("a run can have --limit time{can}");
    if cannot.is_empty() {
        return check("limits", Ok(text));
    }
    partly("limits", format!("{text}; {}", cannot.join("; ")))
}

fn proc() -> Check {
    let found = match std::fs::metadata("/proc/self/ns") {
        Ok(_) => Ok("/proc is mounted".to_owned()),
        Err(why) => Err(Refusal::system(format!(
            "/proc is not mounted ({why}): as root, `mount -t proc proc /proc`"
        ))),
    };
    check("proc", found)
}
