// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines why a benchmark could not run. A figure that misses its bar (the least that it must
//! reach) is not an error, but a row of the results.

use std::{fmt, io};

/// Why a benchmark could not run.
#[derive(Debug)]
pub(crate) enum Error {
    /// The host refused a privilege that the host side needs.
    NotPermitted(String),
    /// A step failed; has the whole message.
    Setup(String),
    /// A measured operation had a wrong result.
    Wrong(String),
    /// The results could not be written.
    Output(io::Error),
}

/// Tells which step failed.
pub(crate) trait Context<T, E> {
    /// An error of the set-up step `what`.
    fn setup(self, what: &str) -> Result<T, Error>
    where
        E: fmt::Display;

    /// The same for an error of the host, with refused privileges told apart.
    fn host(self, what: &str) -> Result<T, Error>
    where
        E: Into<io::Error>;
}

impl<T, E> Context<T, E> for Result<T, E> {
    fn setup(self, what: &str) -> Result<T, Error>
    where
        E: fmt::Display,
    {
        self.map_err(|why| Error::Setup(format!("{what}: {why}")))
    }

    fn host(self, what: &str) -> Result<T, Error>
    where
        E: Into<io::Error>,
    {
        self.map_err(|why| {
            let why = why.into();
            let text = format!("{what}: {why}");
            match why.kind() {
                io::ErrorKind::PermissionDenied => Error::NotPermitted(text),
                _ => Error::Setup(text),
            }
        })
    }
}

/// Fails if there were wrong results.
pub(crate) fn all_right(wrong: u64, what: &str) -> Result<(), Error> {
    match wrong {
        0 => Ok(()),
        _ => Err(Error::Wrong(format!("{what}: {wrong} results"))),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPermitted(why) => {
                let try_root = "the host side needs CAP_SYS_ADMIN; try as root";
                write!(f, "not permitted: {why} ({try_root})")
            }
            Self::Setup(why) => f.write_str(why),
            Self::Wrong(why) => write!(f, "wrong answer: {why}"),
            Self::Output(why) => write!(f, "cannot write the results: {why}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(why: io::Error) -> Self {
        Self::Output(why)
    }
}
