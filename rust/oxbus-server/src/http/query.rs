// SPDX-License-Identifier: Apache-2.0
//! Query parameters. Names are case-insensitive. Of several parameters with one name, the first counts.

use hyper::Uri;
use percent_encoding::percent_decode_str;

/// The parameters of a request.
pub(super) struct QueryString(Vec<(String, String)>);

impl QueryString {
    /// The value of a parameter. `name` is in lower case.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}

pub(super) fn parse(uri: &Uri) -> QueryString {
    let decoded = |text: &str| {
        let with_spaces = text.replace('+', " ");
        percent_decode_str(&with_spaces).decode_utf8_lossy().into_owned()
    };
    let pairs = uri
        .query()
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty());
    let split = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    QueryString(
        split
            .map(|(name, value)| (decoded(name).to_ascii_lowercase(), decoded(value)))
            .collect(),
    )
}
