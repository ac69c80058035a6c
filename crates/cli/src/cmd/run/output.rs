// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens and writes the files that `openpath run` writes for its user: the report and the log.
//!
//! # Rules
//! R1. Each is opened by its path once, before the command starts. The command may put a link or a
//!     FIFO in its place afterwards, which is never opened.
//! R2. Writing a report waits for its reader no longer than [`PATIENCE`].

use anstream::adapter::StripBytes;
use openpath_run::Refusal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;

/// How long the reader of a report (a pipe, a terminal) may read nothing.
const PATIENCE: Timespec = Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};
/// How many bytes of a report are written at once.
const PIECE: usize = 1 << 16;
/// The mode of new files, before the umask.
const NEW_FILE: Mode = Mode::from_raw_mode(0o666);

/// The file of `--report`, open.
#[derive(Debug)]
pub(super) struct Report {
    file: OwnedFd,
    /// Whether its length can be set.
    regular: bool,
}

/// Where a report is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Written {
    /// It is in the file.
    KeptView,
    /// The file has no name any more.
    Removed,
}

impl Report {
    /// Opens the file, or makes it. Its content stays until the report is written.
    ///
    /// # Errors
    /// The path is `-`; it cannot be opened for writing; it is a FIFO without a reader.
    pub(super) fn open(path: &Path) -> Result<Report, Refusal> {
        if path == Path::new("-") {
            return Err(Refusal::system(
                "--report -: the summary goes to standard error without --report: leave the option \
                 out, or write ./- for a file of this name",
            ));
        }
        let file = open("--report", path, OFlags::empty())?;
        let regular = is_regular(&file).map_err(|why| failed("--report", path, why))?;
        Ok(Report { file, regular })
    }

    /// Replaces the content of the file by what `write` writes, piece by piece.
    pub(super) fn write(
        self,
        write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
    ) -> io::Result<Written> {
        if !self.regular {
            let mut out = io::BufWriter::with_capacity(PIECE, Patient(self.file));
            write(&mut out)?;
            return out.flush().map(|()| Written::KeptView);
        }
        let file = std::fs::File::from(self.file);
        file.set_len(0)?;
        let mut out = io::BufWriter::with_capacity(PIECE, file);
        write(&mut out)?;
        let file = out.into_inner()?;
        let stat = rustix::fs::fstat(&file)?;
        Ok(if stat.st_nlink == 0 {
            Written::Removed
        } else {
            Written::KeptView
        })
    }
}

/// Opens the file of a log, or makes it.
///
/// # Errors
/// The path cannot be opened for writing; it is a FIFO without a reader.
pub(super) fn open_log(path: &Path) -> Result<OwnedFd, Refusal> {
    let file = open("--log", path, OFlags::APPEND)?;
    // Only the thread that writes the log waits for its reader.
    let blocking = |file: &OwnedFd| {
        let flags = rustix::fs::fcntl_getfl(file)?;
        rustix::fs::fcntl_setfl(file, flags - OFlags::NONBLOCK)
    };
    blocking(&file).map_err(|why| failed("--log", path, why))?;
    Ok(file)
}

/// Opens a file for writing. With `O_NONBLOCK`, a FIFO without a reader is an error at once.
fn open(option: &str, path: &Path, more: OFlags) -> Result<OwnedFd, Refusal> {
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags | more, NEW_FILE).map_err(|why| failed(option, path, why))
}

fn failed(option: &str, path: &Path, why: Errno) -> Refusal {
    let dir = path.parent().unwrap_or(Path::new("/"));
    let is_missing = !dir.as_os_str().is_empty() && !dir.exists();
    let path = path.display();
    Refusal::system(match why {
        Errno::NXIO => format!("{option} {path}: nothing reads it: start the reader first"),
        Errno::ISDIR => format!("{option} {path}: it is a directory: name a file"),
        Errno::NOENT if is_missing => format!(
            "{option} {path}: there is no directory {}: make it first",
            dir.display()
        ),
        why => format!("{option} {path} cannot be written: {why}"),
    })
}

fn is_regular(file: &OwnedFd) -> Result<bool, Errno> {
    let stat = rustix::fs::fstat(file)?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}

/// A writer that removes colours.
pub(super) struct Plain<'a> {
    out: &'a mut dyn io::Write,
    colours: StripBytes,
}

impl<'a> Plain<'a> {
    pub(super) fn new(out: &'a mut dyn io::Write) -> Self {
        let colours = StripBytes::new();
        Self { out, colours }
    }
}

impl io::Write for Plain<'_> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        for piece in self.colours.strip_next(text) {
            self.out.write_all(piece)?;
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A writer that waits for its reader (R2).
struct Patient(OwnedFd);

impl io::Write for Patient {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        write_patiently(&self.0, text).map(|()| text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes all, and waits for the reader when needed (R2).
fn write_patiently(file: &OwnedFd, mut text: &[u8]) -> io::Result<()> {
    while !text.is_empty() {
        match rustix::io::write(file, text) {
            Ok(written) => text = &text[written..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let mut ready = [PollFd::new(file, PollFlags::OUT)];
                match poll(&mut ready, Some(&PATIENCE)) {
                    Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(why) => return Err(why.into()),
                }
            }
            Err(why) => return Err(why.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Report, Written};
    use std::io::{Read as _, Write as _};
    use std::path::PathBuf;

    fn scratch(name: &str) -> PathBuf {
        let dir =
            std::env::temp_dir().join(format!("openpath-output-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn report_replaces_the_content_of_its_file_when_it_is_written() {
        let dir = scratch("replace");
        let path = dir.join("report");
        std::fs::write(&path, "a longer text than the report").unwrap();
        let report = Report::open(&path).unwrap();
        assert!(
            std::fs::read_to_string(&path)
                .unwrap()
                .starts_with("a longer")
        );
        assert_eq!(
            report.write(|out| out.write_all(b"short")).unwrap(),
            Written::KeptView
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "short");
        let report = Report::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(
            report.write(|out| out.write_all(b"short")).unwrap(),
            Written::Removed
        );
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn report_is_written_piece_by_piece() {
        let dir = scratch("pieces");
        let path = dir.join("report");
        let report = Report::open(&path).unwrap();
        let mut longest = 0;
        let written = report.write(|out| {
            let mut out = super::Plain::new(out);
            for number in 0..100_000_u64 {
                writeln!(out, "\u{1b}[32m{number:07}\u{1b}[0m")?;
                let length = std::fs::metadata(&path)?.len();
                longest = longest.max(8 * (number + 1) - length);
            }
            Ok(())
        });
        assert_eq!(written.unwrap(), Written::KeptView);
        assert!(longest <= super::PIECE as u64, "{longest}");
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.len(), 800_000);
        assert!(text.ends_with("\n0099999\n") && !text.contains('\u{1b}'));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn report_to_a_fifo_needs_a_reader() {
        let dir = scratch("fifo");
        let path = dir.join("fifo");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let why = Report::open(&path).map(drop).unwrap_err().to_string();
        assert!(
            why.contains("--report") && why.contains("nothing reads it"),
            "{why}"
        );
        let reading = std::thread::spawn({
            let path = path.clone();
            move || {
                let mut text = String::new();
                let mut file = std::fs::File::open(path).unwrap();
                file.read_to_string(&mut text).unwrap();
                text
            }
        });
        let report = loop {
            if let Ok(report) = Report::open(&path) {
                break report;
            }
            std::thread::yield_now();
        };
        let long = "x".repeat(1 << 20);
        assert_eq!(
            report.write(|out| out.write_all(long.as_bytes())).unwrap(),
            Written::KeptView
        );
        assert_eq!(reading.join().unwrap(), long);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
