// SPDX-License-Identifier: Apache-2.0
//! Where an entity forwards to, as clients write it: a whole address, `sb://host:port/entity`, or the path alone.

use percent_encoding::percent_decode_str;

/// The path of an address.
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

/// The address of a path.
pub(super) fn address(host: &str, path: &str) -> String {
    format!("sb://{host}/{path}")
}

#[cfg(test)]
mod tests {
    use super::{address, path};

    #[test]
    fn an_address_names_the_same_entity_whatever_the_host() {
        assert_eq!(path("sb://localhost:5300/a/B"), "a/B");
        assert_eq!(path("https://bus.example.net/a%2FB/"), "a/B");
        assert_eq!(path("a/B"), "a/B");
        assert_eq!(path("sb://host"), "");
        assert_eq!(path(&address("host:1", "a/B")), "a/B");
    }
}
