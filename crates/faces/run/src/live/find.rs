// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the running servers of views and mounts, and sends requests to them, for commands such as
//! `openpath stats` and `openpath exec`. `control_server` is the other end.

use super::locks::Locks;
use super::server_stats::{Label, ServerStats};
use super::socket_dir::SocketDir;
use super::{PATIENCE, Request, Response, VERSION};
use crate::cgroup::CommandGroup;
use crate::namespace_kind::NamespaceKind;
use crate::share::Share;
use crate::wire::Wire;
use openpath_commit::{KeptView, Refusal, RefusalKind};
use rustix::fd::OwnedFd;
use rustix::net::{UCred, sockopt};
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// A server that answered.
#[derive(Clone, Debug)]
pub struct LiveServer {
    /// The statistics that it sent first.
    pub stats: ServerStats,
    /// The user that it belongs to.
    uid: u32,
}

/// How long servers that do not answer were waited for, by user.
#[derive(Default)]
struct WaitBudget(BTreeMap<u32, Duration>);

impl WaitBudget {
    /// The limit for the servers of one user.
    const USER: Duration = Duration::from_secs(10);
    /// The limit for those of all users except root: one user may have many user IDs (subuid(5)).
    const USERS: Duration = Duration::from_secs(30);

    fn add(&mut self, uid: u32, wait: Duration) {
        *self.0.entry(uid).or_default() += wait;
    }

    fn are_spent(&self, uid: u32) -> bool {
        let mine = self.0.get(&uid).copied().unwrap_or_default();
        let users = self.0.iter().filter(|(uid, _)| **uid != 0);
        let others: Duration = users.map(|(_, wait)| *wait).sum();
        mine >= Self::USER || (uid != 0 && others >= Self::USERS)
    }
}

/// What a command needs to enter a view.
pub(crate) struct ViewEntry {
    /// Its namespaces, each with its kind.
    pub(crate) namespaces: Vec<(NamespaceKind, OwnedFd)>,
    /// The control group of its commands, if it has one.
    pub(crate) group: Option<CommandGroup>,
    /// What its commands share with the host.
    pub(crate) share: Vec<Share>,
    /// The user of its server.
    pub(crate) server: UCred,
}

impl LiveServer {
    /// All running servers of this user, or of all users for root, ordered by process.
    ///
    /// The total wait for servers that do not answer is bounded for each user, and for all users
    /// except root.
    #[must_use]
    pub fn all() -> Vec<LiveServer> {
        let mut all = Vec::new();
        let mut budget = WaitBudget::default();
        for dir in SocketDir::all() {
            for id in dir.ids() {
                if budget.are_spent(dir.uid) {
                    break;
                }
                // A server that ends meanwhile does not run.
                let begun = Instant::now();
                match request_stats(&dir, id) {
                    Some(live) => all.push(live),
                    None => budget.add(dir.uid, begun.elapsed()),
                }
            }
        }
        all.sort_by_key(|live| live.stats.label.pid);
        all.dedup_by_key(|live| live.stats.label.pid);
        all
    }

    /// The server that `text` names, by its process, its name or its directory. Those of this user
    /// come first: any user can give a view any name. A server of another user is named with the
    /// number of that user and a colon before it (`1000:build`), or by its process.
    ///
    /// # Errors
    /// There is none, or several.
    pub fn find(text: &str) -> Result<LiveServer, Refusal> {
        let found = choose(Self::all(), text, rustix::process::geteuid().as_raw())?;
        found.ok_or_else(|| {
            let why = match KeptView::open(text) {
                Ok(_) => format!(
                    "the view {text} does not run: start it with `openpath run --name {text} -- \
                     COMMAND`"
                ),
                Err(_) => format!("nothing runs that is called {text}: see `openpath list`"),
            };
            Refusal::new(RefusalKind::NoSuchView, why)
        })
    }

    /// By which name its user, or root, finds it: that of another user has the user's number before
    /// it. None without a name.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        let name = self.label().name.as_ref()?;
        Some(match self.uid == rustix::process::geteuid().as_raw() {
            true => name.clone(),
            false => format!("{}:{name}", self.uid),
        })
    }

    /// Text that [`LiveServer::find`] finds this server by, whoever else runs one.
    pub(crate) fn unique_name(&self) -> String {
        format!("{}:{}", self.uid, self.label().pid)
    }

    /// What identifies it.
    #[must_use]
    pub fn label(&self) -> &Label {
        &self.stats.label
    }

    /// Requests the statistics again.
    ///
    /// # Errors
    /// It has ended.
    pub fn refresh(&self) -> Result<LiveServer, Refusal> {
        let pid = self.label().pid;
        let mut dirs = self.dirs();
        let found = dirs.find_map(|dir| request_stats(&dir, pid));
        found.ok_or_else(|| Refusal::new(RefusalKind::NoSuchView, format!("{pid} has ended")))
    }

    /// The locks in it.
    ///
    /// # Errors
    /// It has ended, or its version does not list locks.
    pub fn locks(&self) -> Result<Locks, Refusal> {
        let pid = self.label().pid;
        match self.ask(&Request::Locks)?.0.recv() {
            Ok(Some((Response::Locks(locks), _))) => Ok(locks),
            Ok(Some((Response::Refused(why), _))) => {
                Err(Refusal::new(RefusalKind::PermissionDenied, why))
            }
            _ => Err(Refusal::system(format!(
                "{pid} does not say what is locked"
            ))),
        }
    }

    /// Whether it has ended. A server that listens and does not answer has not.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let pid = self.label().pid;
        let listens = |dir: SocketDir| match dir.connect(pid) {
            Ok(_) => true,
            Err(why) => why.kind() == io::ErrorKind::WouldBlock,
        };
        !self.dirs().any(listens)
    }

    /// The directories that may hold its socket: those of its own user only, since another user's
    /// server may have the same number.
    fn dirs(&self) -> impl Iterator<Item = SocketDir> {
        let all = SocketDir::all().into_iter();
        all.filter(|dir| dir.uid == self.uid)
    }

    /// Sends a request; returns the connection, and the credentials of the server.
    fn ask(&self, what: &Request) -> Result<(Wire, UCred), Refusal> {
        let pid = self.label().pid;
        let mut dirs = self.dirs();
        let found = dirs.find_map(|dir| connect(&dir, pid).ok());
        let found = found
            .ok_or_else(|| Refusal::new(RefusalKind::NoSuchView, format!("{pid} has ended")))?;
        let lost = |why| Refusal::step(&format!("{pid} does not answer"), why);
        found.0.send(what, None).map_err(lost)?;
        Ok(found)
    }

    /// What it takes to enter the view.
    pub(crate) fn view_entry(&self) -> Result<ViewEntry, Refusal> {
        let pid = self.label().pid;
        let lost = |why: io::Error| Refusal::step(&format!("{pid} does not answer"), why);
        let gone = || Refusal::new(RefusalKind::NoSuchView, format!("{pid} has ended"));
        let (wire, server) = self.ask(&Request::Enter)?;
        let (count, share) = match wire.recv().map_err(lost)?.ok_or_else(gone)?.0 {
            Response::Enter { namespaces, share } => (namespaces, share),
            Response::Refused(why) => return Err(Refusal::new(RefusalKind::PermissionDenied, why)),
            _ => return Err(Refusal::system(format!("{pid} is confused"))),
        };
        let mut namespaces = Vec::new();
        let mut group = None;
        for _ in 0..count {
            match wire.recv().map_err(lost)?.ok_or_else(gone)? {
                (Response::Namespace(kind), Some(fd)) => namespaces.push((kind, fd)),
                (Response::Group, Some(fd)) => {
                    let entry = CommandGroup::from_fd(fd);
                    group =
                        Some(entry.ok_or_else(|| Refusal::system(format!("{pid} is confused")))?);
                }
                _ => return Err(Refusal::system(format!("{pid} is confused"))),
            }
        }
        Ok(ViewEntry {
            namespaces,
            group,
            share,
            server,
        })
    }
}

/// The server that `text` names to the user `me`, if there is one.
fn choose(mut all: Vec<LiveServer>, text: &str, me: u32) -> Result<Option<LiveServer>, Refusal> {
    let user = text.split_once(':');
    let user = user.and_then(|(uid, name)| Some((uid.parse::<u32>().ok()?, name)));
    match user {
        Some((uid, name)) => all.retain(|live| live.uid == uid && live.label().is(name)),
        None => {
            all.retain(|live| live.label().is(text));
            let is_own = |live: &LiveServer| live.uid == me;
            if all.iter().any(is_own) {
                all.retain(is_own);
            }
        }
    }
    let is_process = |live: &LiveServer| text.parse() == Ok(live.label().pid);
    // Another user chose that name.
    let foreign = all
        .iter()
        .find(|live| user.is_none() && live.uid != me && !is_process(live));
    if let Some(foreign) = foreign {
        let uid = foreign.uid;
        return Err(Refusal::new(
            RefusalKind::NoSuchView,
            format!("nothing of yours runs that is called {text}: user {uid}'s is `{uid}:{text}`"),
        ));
    }
    let found = all.pop();
    match (found, all.pop()) {
        (Some(live), None) => Ok(Some(live)),
        (Some(a), Some(b)) => Err(Refusal::usage(format!(
            "{text} is the name of several: say the process, {} or {}",
            b.unique_name(),
            a.unique_name()
        ))),
        (None, _) => Ok(None),
    }
}

/// Connects to a server, and checks that it belongs to the user of the directory.
fn connect(dir: &SocketDir, id: u32) -> io::Result<(Wire, UCred)> {
    let stream = dir.connect(id)?;
    stream.set_read_timeout(Some(2 * PATIENCE))?;
    let server = sockopt::socket_peercred(&stream)?;
    if server.uid.as_raw() != dir.uid {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok((
        Wire::from_socket(stream.into()).with_deadline(2 * PATIENCE),
        server,
    ))
}

fn request_stats(dir: &SocketDir, id: u32) -> Option<LiveServer> {
    let (wire, _) = connect(dir, id).ok()?;
    wire.send(&Request::Stats, None).ok()?;
    match wire.recv().ok()?? {
        (Response::Stats(stats), _) if stats.version == VERSION && stats.label.pid == id => {
            Some(LiveServer {
                stats: *stats,
                uid: dir.uid,
            })
        }
        _ => None,
    }
}

impl LiveServer {
    /// The user that it belongs to.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid
    }
}

#[cfg(test)]
mod tests {
    use super::{LiveServer, WaitBudget, choose};
    use crate::live::{Cached, CopiedUp, Label, ServedKind, ServerStats, VERSION};
    use std::collections::BTreeMap;
    use std::time::Duration;

    fn server(uid: u32, pid: u32, name: &str) -> LiveServer {
        let mut label = Label::new(ServedKind::Run, pid, "true".to_owned());
        label.name = Some(name.to_owned());
        let stats = ServerStats {
            version: VERSION,
            label,
            requests: BTreeMap::new(),
            by_rings: 0,
            way: String::new(),
            nodes: 0,
            cached: Cached::default(),
            copied_up: CopiedUp::default(),
            tenants: Vec::new(),
        };
        LiveServer { stats, uid }
    }

    #[test]
    fn own_view_is_preferred_and_that_of_another_user_needs_the_user() {
        let all = vec![
            server(1000, 17, "prod"),
            server(0, 18, "prod"),
            server(1001, 19, "prod"),
            server(1000, 20, "theirs"),
            server(1000, 21, "22"),
            server(1000, 23, "twice"),
            server(1001, 23, "twice"),
        ];
        let find = |text: &str| {
            let found = choose(all.clone(), text, 0);
            found
                .map(|live| live.map_or((0, 0), |live| (live.uid, live.label().pid)))
                .map_err(|why| why.to_string())
        };
        assert_eq!(find("prod"), Ok((0, 18)));
        assert_eq!(find("1000:prod"), Ok((1000, 17)));
        assert_eq!(find("1001:19"), Ok((1001, 19)));
        assert_eq!(find("20"), Ok((1000, 20)));
        let why = find("theirs").unwrap_err();
        assert!(why.contains("`1000:theirs`"), "{why}");
        // A name can be that of a process.
        assert!(find("22").is_err());
        assert_eq!(find("1002:prod"), Ok((0, 0)));
        // Two users claim one process.
        let why = find("23").unwrap_err();
        assert!(why.contains("1001:23"), "{why}");
        assert_eq!(find("1001:23"), Ok((1001, 23)));
    }

    #[test]
    fn waits_are_bounded_for_each_user_and_for_all_but_the_superuser() {
        let mut budget = WaitBudget::default();
        budget.add(1000, Duration::from_secs(9));
        assert!(!budget.are_spent(1000));
        budget.add(1000, Duration::from_secs(4));
        assert!(budget.are_spent(1000) && !budget.are_spent(1001));
        for uid in 1001..1003 {
            budget.add(uid, Duration::from_secs(9));
        }
        assert!(budget.are_spent(1003) && budget.are_spent(1001) && !budget.are_spent(0));
        budget.add(0, Duration::from_secs(10));
        assert!(budget.are_spent(0));
    }
}
