// SPDX-License-Identifier: Apache-2.0
//! The URLs of stores that can hold a namespace.

/// The schemes of object storage, of PostgreSQL, and of a directory of objects.
pub const STORE_SCHEMES: [&str; 8] = ["s3", "az", "abfs", "abfss", "gs", "postgresql", "postgres", "objects"];

/// True if a text begins with the scheme of a store and `://`.
pub fn is_store_url(text: &str) -> bool {
    text.split_once("://")
        .is_some_and(|(scheme, _)| STORE_SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known)))
}

#[cfg(test)]
mod tests {
    use super::is_store_url;

    #[test]
    fn urls_of_stores_are_known_by_their_scheme() {
        for url in ["s3://b", "GS://b", "objects:///x", "postgres://h/d"] {
            assert!(is_store_url(url), "{url}");
        }
        for text in [
            "",
            "s3:/b",
            "/path",
            "http://b",
            "file:///x",
            "sb://host",
            "relative/s3",
        ] {
            assert!(!is_store_url(text), "{text}");
        }
    }
}
