// SPDX-License-Identifier: Apache-2.0
//! Names of properties: compared without regard to case (B-365), as the service does with those of a message.

use std::hash::{Hash, Hasher};

/// True when both name the same property.
#[inline]
pub(super) fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b) || (!a.is_ascii() && !b.is_ascii() && folded(a).eq(folded(b)))
}

/// Feeds the name to a hash, so that names that are [`same`] have the same one.
pub(super) fn hash(name: &str, state: &mut impl Hasher) {
    if name.is_ascii() {
        for byte in name.bytes() {
            state.write_u8(byte.to_ascii_uppercase());
        }
    } else {
        folded(name).for_each(|character| character.hash(state));
    }
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
    use super::same;

    #[test]
    fn names_differ_by_more_than_case_or_not_at_all() {
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
        }
    }
}
