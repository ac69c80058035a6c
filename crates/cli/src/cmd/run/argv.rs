// SPDX-License-Identifier: MIT OR Apache-2.0
//! Overwrites the values of `--hide`, `--hide-try` and `--absent` in the command line of this
//! process with asterisks, so that the command cannot read there what is hidden.
//!
//! # Kernel analogue
//! `/proc/PID/cmdline` shows the memory between `arg_start` and `arg_end` of proc(5), which a
//! process may overwrite.
//!
//! # Rules
//! R1. [`conceal`] is called after the arguments were parsed, because the standard library reads
//!     the same memory. It is called while the process is still dumpable, because later only root
//!     may open `/proc/self/mem`.
//! R2. Values keep their length, so the other arguments stay where they are.

use openpath_run::Refusal;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt as _;

/// The options with values that the command must not know.
const SECRET: &[&[u8]] = &[b"--hide", b"--hide-try", b"--absent"];
/// The field of `/proc/self/stat` with the address of the arguments, counted from the state.
const ARG_START: usize = 45;

/// Overwrites the values of `--hide`, `--hide-try` and `--absent` with asterisks.
///
/// # Errors
/// `/proc` does not show this process, or the kernel does not let it write its own memory.
pub(super) fn conceal() -> Result<(), Refusal> {
    let done = fs::read("/proc/self/cmdline").and_then(|mut line| {
        if mask(&mut line) {
            overwrite(&line)?;
        }
        Ok(())
    });
    let what = "the names of hidden paths would stay visible in the command line of this process: \
        put them into a file of --config";
    done.map_err(|why| Refusal::step(what, why))
}

/// Masks the secret values in NUL-terminated arguments up to `--`; returns whether there are any.
fn mask(line: &mut [u8]) -> bool {
    let mut masked = false;
    let mut is_value = false;
    for argument in line.split_mut(|byte| *byte == 0) {
        if argument == b"--" && !is_value {
            break;
        }
        let secret = match argument.iter().position(|byte| *byte == b'=') {
            _ if is_value => Some(0),
            Some(at) if SECRET.contains(&&argument[..at]) => Some(at + 1),
            _ => None,
        };
        is_value = !is_value && SECRET.contains(&&*argument);
        if let Some(from) = secret {
            argument[from..].fill(b'*');
            masked = true;
        }
    }
    masked
}

/// Writes the arguments to the memory where the kernel reads them.
fn overwrite(line: &[u8]) -> io::Result<()> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The name of the program, in parentheses, may contain blanks.
    let fields = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' '));
    let start = fields.and_then(|mut fields| fields.nth(ARG_START)?.parse().ok());
    let start = start.filter(|start| *start != 0).ok_or_else(|| {
        let why = "/proc/self/stat does not say where the arguments are";
        io::Error::new(io::ErrorKind::Unsupported, why)
    })?;
    let memory = fs::OpenOptions::new().write(true).open("/proc/self/mem")?;
    memory.write_all_at(line, start)
}

#[cfg(test)]
mod tests {
    use super::mask;

    fn masked(line: &str) -> String {
        let mut line = line.replace(' ', "\0").into_bytes();
        mask(&mut line);
        String::from_utf8_lossy(&line).replace('\0', " ")
    }

    #[test]
    fn values_of_secret_options_are_masked_and_nothing_else() {
        assert_eq!(
            masked("openpath run --hide a --ro b --absent=*.pem --hide-try --x -- c --hide d"),
            "openpath run --hide * --ro b --absent=***** --hide-try *** -- c --hide d"
        );
        assert_eq!(
            masked("openpath run --hide -- --"),
            "openpath run --hide ** --"
        );
        assert_eq!(masked("openpath run --hidden a"), "openpath run --hidden a");
    }
}
