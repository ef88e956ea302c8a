// SPDX-License-Identifier: Apache-2.0
//! Destinations of forwarding as clients write them: a full address, `sb://host:port/entity`, or only the path.

use percent_encoding::percent_decode_str;

/// Extracts the path of an address.
pub(super) fn path(address: &str) -> String {
    match address.split_once("://") {
        Some((_, rest)) => {
            let path = rest.split_once('/').map_or("", |(_, path)| path);
            percent_decode_str(path.trim_end_matches('/'))
                .decode_utf8_lossy()
                .into_owned()
        }
        None => address.to_owned(),
    }
}

/// Builds the address of a path.
pub(super) fn address(host: &str, path: &str) -> String {
    format!("sb://{host}/{path}")
}

#[cfg(test)]
mod tests {
    use super::{address, path};

    #[test]
    fn host_of_an_address_is_ignored() {
        assert_eq!(path("sb://localhost:5300/a/B"), "a/B");
        assert_eq!(path("https://bus.example.net/a%2FB/"), "a/B");
        assert_eq!(path("a/B"), "a/B");
        assert_eq!(path("sb://host"), "");
        assert_eq!(path(&address("host:1", "a/B")), "a/B");
    }
}
