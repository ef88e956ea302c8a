// SPDX-License-Identifier: Apache-2.0
//! Property names are case-insensitive (B-365), as in the service.

/// True if both are the same name.
#[inline]
pub(super) fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b) || (!a.is_ascii() && !b.is_ascii() && folded(a).eq(folded(b)))
}

/// A hash that is equal for names that are [`same`]. It needs no secret key: only names of rules are stored under it.
#[inline]
pub(super) fn hash(name: &str) -> u64 {
    // This is FNV-1a. The high bits, which are better distributed, are then mixed into the low ones.
    let mix = |hash: u64, number: u32| (hash ^ u64::from(number)).wrapping_mul(0x0100_0000_01b3);
    let start = 0xcbf2_9ce4_8422_2325;
    let hash = if name.is_ascii() {
        name.bytes()
            .fold(start, |hash, byte| mix(hash, byte.to_ascii_uppercase().into()))
    } else {
        folded(name).fold(start, |hash, character| mix(hash, character.into()))
    };
    hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ hash >> 32
}

/// The characters of a name in upper case. A character whose upper case has several characters stays as it is.
fn folded(name: &str) -> impl Iterator<Item = char> {
    name.chars().map(|character| {
        let mut upper = character.to_uppercase();
        match (upper.next(), upper.next()) {
            // A non-ASCII character never becomes ASCII, so an ASCII name never equals a non-ASCII one.
            (Some(one), None) if one.is_ascii() == character.is_ascii() => one,
            _ => character,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{hash, same};

    #[test]
    fn names_are_equal_when_they_differ_in_case_only() {
        for (a, b, expected) in [
            ("Color", "cOLOR", true),
            ("color", "colour", false),
            ("größe", "GRÖßE", true),
            ("größe", "grösse", false),
            ("", "", true),
            // The upper case of the Turkish dotless i is I, which is ASCII.
            ("ı", "i", false),
            ("ſ", "s", false),
        ] {
            assert_eq!(same(a, b), expected, "{a} {b}");
            assert_eq!(hash(a) == hash(b), expected, "{a} {b}");
        }
    }
}
