// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fills a buffer with random bytes from the system: getrandom(2).

use openpath_abi::Errno;

/// Fills `buf` with random bytes good enough for keys.
///
/// # Errors
/// The system's error; `EIO` if it returned no bytes.
pub fn random_bytes(buf: &mut [u8]) -> Result<(), Errno> {
    let mut done = 0;
    while done < buf.len() {
        let rest = &mut buf[done..];
        // SAFETY: the pointer and the length are those of a mutable slice.
        let got = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match usize::try_from(got) {
            Ok(0) => return Err(Errno::EIO),
            Ok(got) => done += got,
            Err(_) => {
                let error = std::io::Error::last_os_error();
                let errno = error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
                if errno != Errno::EINTR {
                    return Err(errno);
                }
            }
        }
    }
    Ok(())
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    use super::*;

    #[test]
    fn two_fills_differ_and_an_empty_fill_succeeds() {
        let (mut one, mut two) = ([0; 1000], [0; 1000]);
        assert_eq!(
            (random_bytes(&mut one), random_bytes(&mut two)),
            (Ok(()), Ok(()))
        );
        assert_ne!(one, two);
        assert!(one[900..] != [0; 100]);
        assert_eq!(random_bytes(&mut []), Ok(()));
    }
}
