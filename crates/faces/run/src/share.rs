// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines which resources of the host beyond files a command may share (`Share`), and which
//! network it has (`Net`).
//!
//! By default a command has process and IPC namespaces and a `/dev/shm` of its own, reaches only
//! the abstract sockets that it made, and uses no keys. Each [`Share`] gives up one of these.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A resource of the host that the command uses instead of one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Share {
    /// Processes: the host's pid namespace and `/proc`.
    Pid,
    /// System V IPC and POSIX message queues.
    Ipc,
    /// `/dev/shm`.
    Shm,
    /// Abstract UNIX sockets.
    Abstract,
    /// Keys of the kernel's key management, and the caller's session keyring.
    Keyring,
}

/// Each with its name on the command line and in a configuration file.
const ALL: [(&str, Share); 5] = [
    ("pid", Share::Pid),
    ("ipc", Share::Ipc),
    ("shm", Share::Shm),
    ("abstract", Share::Abstract),
    ("keyring", Share::Keyring),
];

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, share)| *share).ok_or_else(|| {
            let names = ALL.map(|(name, _)| name).join(", ");
            format!("`{text}` cannot be shared: write one of {names}")
        })
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = ALL.iter().find(|(_, share)| share == self);
        f.write_str(found.map_or("", |(name, _)| name))
    }
}

/// The network of the command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Net {
    /// The caller's network.
    #[default]
    Host,
    /// A loopback device and nothing else.
    None,
}

impl FromStr for Net {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "host" => Ok(Net::Host),
            "none" => Ok(Net::None),
            _ => Err(format!("`{text}` is not a network: write host or none")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ALL, Net, Share};

    #[test]
    fn share_names_are_parsed_printed_and_serialised_alike() {
        for (name, share) in ALL {
            assert_eq!(name.parse(), Ok(share));
            assert_eq!(share.to_string(), name);
            assert_eq!(
                serde_json::to_string(&share).unwrap(),
                format!("\"{name}\"")
            );
        }
        assert!(
            "PID"
                .parse::<Share>()
                .unwrap_err()
                .contains("pid, ipc, shm")
        );
        assert_eq!("none".parse(), Ok(Net::None));
        assert!("off".parse::<Net>().unwrap_err().contains("host or none"));
    }
}
