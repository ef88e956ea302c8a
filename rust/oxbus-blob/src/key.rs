// SPDX-License-Identifier: Apache-2.0
//! Which keys a store accepts: those that mean the same in every store.

use crate::BlobError;

/// S3 allows 1024 bytes, with the prefix of the store.
const BYTES_MAX: usize = 900;

/// Checks a key: parts of printable ASCII, separated by `/`. A part is not empty and does not begin with a dot, so no
/// key leaves the place of the store.
pub(crate) fn check_key(key: &str) -> Result<(), BlobError> {
    let allowed = |part: &str| !part.is_empty() && !part.starts_with('.');
    let named = key.len() <= BYTES_MAX && key.split('/').all(allowed);
    if named && key.bytes().all(is_allowed) {
        return Ok(());
    }
    Err(BlobError::Other(format!(
        "this is no key of an object: `{}`",
        key.escape_default()
    )))
}

/// Letters, digits and the marks that neither a URL nor a file name changes.
fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/-_.=+@~,".contains(&byte)
}

/// Checks the prefix of a listing: the beginning of a key.
pub(crate) fn check_prefix(prefix: &str) -> Result<(), BlobError> {
    match prefix.trim_end_matches('/') {
        "" if prefix.is_empty() => Ok(()),
        key if prefix.len() - key.len() <= 1 => check_key(key),
        _ => check_key(prefix),
    }
}

#[cfg(test)]
mod tests {
    use super::{check_key, check_prefix};

    #[test]
    fn a_key_stays_in_the_place_of_the_store() {
        for key in ["a", "a/b", "lanes/00/0000000001", "a.b/c-d_e=f", "x@y,z~1+2"] {
            assert_eq!(check_key(key), Ok(()), "{key}");
        }
        let long = "x".repeat(901);
        for key in [
            "", "/a", "a/", "a//b", "..", "a/../b", "./a", ".a", "a\\b", "C:\\a", "a:b", "a b", "a\nb", "a%2e", "ä",
            &long,
        ] {
            assert!(check_key(key).is_err(), "{key}");
        }
    }

    #[test]
    fn a_prefix_is_the_beginning_of_a_key() {
        for prefix in ["", "a", "a/", "a/b", "a/b/"] {
            assert_eq!(check_prefix(prefix), Ok(()), "{prefix}");
        }
        for prefix in ["/", "//", "a//", "../", "a/../", "/a"] {
            assert!(check_prefix(prefix).is_err(), "{prefix}");
        }
    }
}
