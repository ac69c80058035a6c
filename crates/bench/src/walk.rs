// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures `walk`: the rows of the contract that are times.
//!
//! * `warm`: cached operations by depth, against the host's file systems;
//! * `cold`: opens in a tree so large that every component misses the processor's caches;
//! * two threads, each with its own task, on the same file;
//! * `writers`: a directory's rename and chmod, by the number of cached names below it.

mod writers;

use std::hint::black_box;

use crate::common::*;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) ask: Ask,
    /// Dentries of the cold and the big trees.
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = at_least_one)]
    dentries: usize,
}

pub(crate) fn run(options: &Options) -> Result<Vec<Row>, Error> {
    let mut host = Host::new()?;
    let mut rows = warm(&options.ask, &host)?;
    let plain = DEPTHS.map(|depth| (format!("cold open-close d{depth}"), depth, false));
    let remembered = [5, 16].map(|d| (format!("cold open-close path-cache d{d}"), d, true));
    for (name, depth, remembered) in plain.into_iter().chain(remembered) {
        if options.ask.wants(&name) {
            rows.extend(cold(&name, (depth, remembered), options, &mut host)?);
        }
    }
    host.leave()?;
    rows.extend(two_threads(&options.ask)?);
    rows.extend(writers::rows(options)?);
    Ok(rows)
}

/// The operation, whether another task uses the same table, the beginning of its row names, and
/// whether it is compared with itself at the least depth.
const GROUPS: [(Op, bool, &str, bool); 6] = [
    (Op::FailedOpen, false, "failed-open", true),
    (Op::OpenClose, false, "open-close", true),
    (Op::CreatExisting, false, "creat-existing", false),
    (Op::Stat, false, "stat", true),
    (Op::Statx, false, "statx", false),
    (Op::OpenClose, true, "open-close shared-table", false),
];

/// Measures cached operations by depth, ours against the host's file systems.
fn warm(ask: &Ask, host: &Host) -> Result<Vec<Row>, Error> {
    let vfs = ours::instance()?;
    let (task, sharer) = (ours::task(&vfs)?, ours::task(&vfs)?);
    let _shared = sharer.clone_files().setup("share a table")?;
    let mut paths: Vec<[Vec<CString>; 2]> = Vec::new();
    for depth in DEPTHS {
        let tree = chains(PATHS, depth, SEED);
        task.grow(&tree)?;
        for (_, root) in host.roots() {
            root.grow(&tree)?;
        }
        paths.push([false, true].map(|missing| rotation(&tree, missing)));
    }
    let ring = |op: Op, level: usize| {
        let of: &[[Vec<CString>; 2]] = &paths;
        Ring::new(&of[level][usize::from(op.wants_missing())], 0)
    };
    let (mut plan, mut out, repeats) = (Plan::default(), Vec::new(), ask.repeats());
    let mut growing = Vec::new();
    for (op, shared, name, grows) in GROUPS {
        let task = if shared { &sharer } else { &task };
        let ours = [0, 1, 2].map(|level| {
            let mut ring = ring(op, level);
            plan.ours(&format!("ours {name} d{}", DEPTHS[level]), move |ops| {
                (0..repeats).map(|_| op.burst(task, ops, &mut ring)).sum()
            })
        });
        for (label, root) in host.roots() {
            // tmpfs keeps no negative entries, so failed opens are compared with ext4 too.
            let name = match op {
                Op::FailedOpen => format!("{name} {label}"),
                _ if label == "tmpfs" => name.to_owned(),
                _ => continue,
            };
            for (level, depth) in DEPTHS.into_iter().enumerate() {
                let (name, mut ring) = (format!("{name} d{depth}"), ring(op, level));
                let burst = move |ops| op.burst(&Kernel, ops, &mut ring);
                let theirs = plan.host(&format!("{label} {name}"), root, burst);
                plan.row(Row::faster, &name, ours[level], label, theirs);
            }
        }
        growing.extend(grows.then(|| (format!("depth-16-over-1 {name}"), ours)));
    }
    for (name, ours) in growing {
        plan.row(Row::growth, &name, ours[2], "ours d1", ours[0]);
    }
    let floor = plan.ours("getppid", |ops| {
        for _ in 0..ops {
            let _ = black_box(rustix::process::getppid());
        }
        0
    });
    let name = "host system call floor";
    plan.row(Row::host_only, name, floor, "getppid", floor)
        .note("in every figure of the host, once a call");
    if let Err(why) = &host.ext4 {
        let name = |depth| format!("failed-open ext4 d{depth}");
        out.extend(DEPTHS.map(|depth| Row::missing(&name(depth), why)));
    }
    out.extend(plan.run(ask)?);
    host.leave()?;
    Ok(out)
}

/// Measures open and close in a tree so large that every component misses the processor's caches.
fn cold(
    name: &str,
    (depth, remembered): (usize, bool),
    options: &Options,
    host: &mut Host,
) -> Result<Vec<Row>, Error> {
    host.tmpfs.remount()?;
    let tree = chains((options.dentries / depth).max(64), depth, SEED);
    let vfs = ours::instance()?;
    let task = ours::task(&vfs)?;
    task.grow(&tree)?;
    host.tmpfs.grow(&tree)?;
    let paths = rotation(&tree, false);
    drop(tree);
    if remembered {
        // Several times in a row, as programs do that return to a file soon, so that the path cache
        // admits it. Several passes, because the cache grows meanwhile.
        for path in [0; 3].iter().flat_map(|_| &paths) {
            Op::OpenClose.burst(&task, 4, &mut Ring::new(from_ref(path), 0));
        }
    }
    let (tmpfs, op, repeats) = (&host.tmpfs, Op::OpenClose, options.ask.repeats());
    let (mut mine, mut theirs) = (Ring::new(&paths, 0), Ring::new(&paths, paths.len() / 2));
    let mut plan = Plan::default();
    let nothing = || Ok(());
    let ours = plan.add("ours cold", Heat::Cold, nothing, |ops| {
        (0..repeats).map(|_| op.burst(&task, ops, &mut mine)).sum()
    });
    let enter = || tmpfs.enter();
    let peer = plan.add("tmpfs cold", Heat::Cold, enter, |ops| {
        op.burst(&Kernel, ops, &mut theirs)
    });
    let row = plan.row(Row::faster_cold, name, ours, "tmpfs", peer);
    if remembered {
        row.note("every path walked often before");
    }
    let rows = plan.run(&options.ask)?;
    host.leave()?;
    host.tmpfs.remount()?;
    Ok(rows)
}

/// Two threads on the same file, and the same calls with a `Vfs` for each thread. Two processors of
/// one core need not be twice as fast at these calls, even if they are at adding numbers.
fn two_threads(ask: &Ask) -> Result<Vec<Row>, Error> {
    const NAME: &str = "two-threads same-file";
    const FILE: &CStr = c"/several/threads/open/this/same-file";
    if threads_max() < 2 {
        return Ok(vec![Row::missing(NAME, "only one processor")]);
    }
    let vfs = ours::instance()?;
    ours::task(&vfs)?.grow(&[Chain::of(FILE)])?;
    let make = |repeats: u64| {
        let task = ours::task(&vfs)?;
        Ok::<_, Error>(ready(move |ops| {
            wrong_of(ops * repeats, || task.open_close(FILE, O_RDONLY))
        }))
    };
    let mut plan = Plan::default();
    let same = vec![make(1)?, make(ask.repeats())?];
    let same = plan.threads(NAME, same, &[1, 2]);
    plan.row(Row::faster, NAME, same[1], "one thread", same[0]);
    nothing_shared(&mut plan, "two-threads nothing-shared", FILE)?;
    plan.run(ask)
}
