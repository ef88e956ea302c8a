// SPDX-License-Identifier: Apache-2.0
//! Names of properties: compared without regard to case (B-365), as the service does with those of a message.

/// True when both name the same property.
#[inline]
pub(super) fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b) || (!a.is_ascii() && !b.is_ascii() && folded(a).eq(folded(b)))
}

/// A hash that is the same for names that are [`same`]. Its keys are no secret: only names in rules are kept by it.
#[inline]
pub(super) fn hash(name: &str) -> u64 {
    // FNV-1a, and then the high bits, which are the good ones, into the low.
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

/// Characters of a name in upper case. A character whose upper case is another number of characters stays as it is.
fn folded(name: &str) -> impl Iterator<Item = char> {
    name.chars().map(|character| {
        let mut upper = character.to_uppercase();
        match (upper.next(), upper.next()) {
            // What is not ASCII stays so: then a name that is ASCII is never the same as one that is not.
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
            // Turkish dotless i has the upper case I, which is ASCII.
            ("ı", "i", false),
            ("ſ", "s", false),
        ] {
            assert_eq!(same(a, b), expected, "{a} {b}");
            assert_eq!(hash(a) == hash(b), expected, "{a} {b}");
        }
    }
}
