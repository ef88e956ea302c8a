// SPDX-License-Identifier: Apache-2.0
//! Hexadecimal text.

/// The hexadecimal digits of bytes.
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// The bytes of hexadecimal digits, and `None` if the text is anything but pairs of digits.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs
        .iter()
        .map(|[high, low]| Some((value(*high)? << 4 | value(*low)?) as u8))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{from_hex, to_hex};

    #[test]
    fn bytes_survive_a_round_trip() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(&to_hex(&all)), Some(all));
    }

    #[test]
    fn anything_but_pairs_of_digits_is_rejected() {
        for text in ["0", "0g", "é0", "+1"] {
            assert_eq!(from_hex(text), None, "{text}");
        }
    }
}
