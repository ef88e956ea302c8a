// SPDX-License-Identifier: Apache-2.0
//! Decimals in the layout of .NET, which the service has always sent and which the decoder of azure-servicebus for
//! Python expects ([decision 0024](../../../../docs/decisions/0024-decimals-in-dotnet-layout.md)).
//!
//! ```text
//! standard  sign 1 bit | biased exponent 14 bits | coefficient 113 bits
//! .NET      sign 1 bit | exponent from bit 9, 7 bits | its bits 0 to 6, 7 bits | zeros 17 bits | coefficient 96 bits
//! ```
//! The .NET layout has no room for bits 7 and 8 of the exponent. They are 0 in every decimal that .NET can represent.

use std::borrow::Cow;

use crate::codec::code;

const BIAS: i32 = 6176;
/// The maximum number of decimal places in .NET.
const SCALE_MAX: i32 = 28;
const COEFFICIENT_END: u128 = 1 << 96;
const SIGN: u128 = 1 << 127;
/// Set in infinities, in NaN, and in a form of the coefficient that no encoder uses.
const SPECIAL: u128 = 0x60 << 120;

/// Converts an encoded decimal to the .NET layout if .NET can represent it exactly. Returns any other value unchanged.
pub(super) fn to_dotnet_layout(encoded: &[u8]) -> Cow<'_, [u8]> {
    let rewritten = match encoded {
        [code::DECIMAL_128, bytes @ ..] => bytes
            .try_into()
            .ok()
            .and_then(|bytes| dotnet_bits(u128::from_be_bytes(bytes))),
        _ => None,
    };
    match rewritten {
        Some(value) => {
            let mut out = vec![code::DECIMAL_128];
            out.extend_from_slice(&value.to_be_bytes());
            Cow::Owned(out)
        }
        None => Cow::Borrowed(encoded),
    }
}

/// The bits in the .NET layout. Returns `None` for a value already in that layout: its exponent, if decoded by the
/// standard layout, is far below the range of .NET.
fn dotnet_bits(value: u128) -> Option<u128> {
    if value & SPECIAL == SPECIAL {
        return None;
    }
    let exponent = (value >> 113 & 0x3fff) as i32 - BIAS;
    let coefficient = value & ((1 << 113) - 1);
    // .NET has no positive exponents, so the coefficient gets the zeros.
    let zeros = 10u128.checked_pow(u32::try_from(exponent.max(0)).ok()?)?;
    let coefficient = coefficient.checked_mul(zeros)?;
    let exponent = exponent.min(0);
    if exponent < -SCALE_MAX || coefficient >= COEFFICIENT_END {
        return None;
    }
    let biased = (BIAS + exponent) as u128;
    Some(value & SIGN | biased >> 9 << 120 | (biased & 0x7f) << 113 | coefficient)
}

#[cfg(test)]
mod tests {
    use super::to_dotnet_layout;

    /// The standard encoding of a number: sign, exponent of ten, coefficient.
    fn standard(is_negative: bool, exponent: i32, coefficient: u128) -> Vec<u8> {
        let value = u128::from(is_negative) << 127 | ((6176 + exponent) as u128) << 113 | coefficient;
        [&[0x94], &value.to_be_bytes()[..]].concat()
    }

    #[test]
    fn decimals_use_the_dotnet_layout() {
        // B-429.
        for (is_negative, exponent, coefficient, written) in [
            (false, -4, 12_345, 0x0c38_0000_0000_0000_0000_0000_0000_3039_u128),
            (true, 0, 7, 0x8c40_0000_0000_0000_0000_0000_0000_0007),
            (false, 0, 0, 0x0c40_0000_0000_0000_0000_0000_0000_0000),
            (false, 3, 2, 0x0c40_0000_0000_0000_0000_0000_0000_07d0),
            (true, -28, (1 << 96) - 1, 0x8c08_0000_ffff_ffff_ffff_ffff_ffff_ffff),
        ] {
            let standard = standard(is_negative, exponent, coefficient);
            let found = to_dotnet_layout(&standard);
            assert_eq!(&found[1..], written.to_be_bytes());
            assert_eq!(to_dotnet_layout(&found), found, "converting twice changes nothing");
        }
    }

    #[test]
    fn values_without_a_dotnet_decimal_are_unchanged() {
        // B-429.
        for encoded in [
            standard(false, -29, 1),
            standard(false, 0, 1 << 96),
            standard(false, 6111, 1),
            standard(false, 29, 1),
            [&[0x94, 0x78], &[0; 15][..]].concat(),
            [&[0x94, 0x7c], &[0; 15][..]].concat(),
            vec![0x94, 0x30, 0x38],
            vec![0x84, 0, 0, 0, 0, 0, 0, 0, 1],
        ] {
            assert_eq!(&*to_dotnet_layout(&encoded), encoded);
        }
    }
}
