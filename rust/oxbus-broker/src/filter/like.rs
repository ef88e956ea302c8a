// SPDX-License-Identifier: Apache-2.0
//! LIKE patterns: `%` matches any sequence of characters, `_` matches one (B-369).
//!
//! Invariant: a match takes at most (characters of the pattern) × (characters of the text) steps. Only the last `%` is
//! ever retried: the part before it matched at its first possible position, and a later one cannot help.

use oxbus_model::caps::LIKE_PATTERN_CHARS_MAX;

/// A parsed pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern(Vec<PatternToken>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PatternToken {
    Character(char),
    One,
    Run,
}

impl Pattern {
    /// Parses a pattern. The character after `escape` is literal.
    pub(super) fn read(text: &str, escape: Option<char>) -> Result<Self, String> {
        let mut tokens = Vec::new();
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            let token = if Some(character) == escape {
                let next = characters.next();
                PatternToken::Character(
                    next.ok_or("the LIKE pattern ends with its escape character; add the character to escape")?,
                )
            } else {
                match character {
                    '%' if tokens.last() == Some(&PatternToken::Run) => continue,
                    '%' => PatternToken::Run,
                    '_' => PatternToken::One,
                    _ => PatternToken::Character(character),
                }
            };
            tokens.push(token);
            if tokens.len() > LIKE_PATTERN_CHARS_MAX {
                return Err(format!(
                    "a LIKE pattern has at most {LIKE_PATTERN_CHARS_MAX} characters; shorten it"
                ));
            }
        }
        Ok(Self(tokens))
    }

    /// Parses the character of an ESCAPE clause.
    pub(super) fn escape(text: &str) -> Result<char, String> {
        let mut characters = text.chars();
        match (characters.next(), characters.next()) {
            (Some(character), None) => Ok(character),
            _ => Err(format!("ESCAPE takes a string of one character: '{text}'")),
        }
    }

    /// True if the pattern matches the whole `text`.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.walk(text, || {})
    }

    /// Matches `text`. Calls `step` for every comparison of a token with a character.
    fn walk(&self, text: &str, mut step: impl FnMut()) -> bool {
        let mut rest = text.chars();
        let mut at = 0;
        // The token after the last run, and the text from which it was last tried.
        let mut retry: Option<(usize, std::str::Chars<'_>)> = None;
        loop {
            let token = self.0.get(at);
            if token == Some(&PatternToken::Run) {
                at += 1;
                if at == self.0.len() {
                    return true;
                }
                retry = Some((at, rest.clone()));
                continue;
            }
            step();
            let mut ahead = rest.clone();
            match (token, ahead.next()) {
                (None, None) => return true,
                // The text ends before the pattern does, and a later start leaves even less text.
                (Some(_), None) => return false,
                (Some(PatternToken::One), Some(_)) => {}
                (Some(PatternToken::Character(expected)), Some(found)) if *expected == found => {}
                _ => {
                    let Some((after_run, start)) = &mut retry else {
                        return false;
                    };
                    start.next();
                    at = *after_run;
                    rest = start.clone();
                    continue;
                }
            }
            at += 1;
            rest = ahead;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn like(text: &str, pattern: &str) -> bool {
        Pattern::read(pattern, Some('\\')).expect("a pattern").matches(text)
    }

    /// Tries every split.
    fn naive(text: &[char], tokens: &[PatternToken]) -> bool {
        match tokens.split_first() {
            None => text.is_empty(),
            Some((PatternToken::Run, tokens)) => (0..=text.len()).any(|skipped| naive(&text[skipped..], tokens)),
            Some((PatternToken::One, tokens)) => !text.is_empty() && naive(&text[1..], tokens),
            Some((PatternToken::Character(it), tokens)) => text.first() == Some(it) && naive(&text[1..], tokens),
        }
    }

    #[test]
    fn patterns_match_whole_texts() {
        for (text, pattern, expected) in [
            ("abc", "abc", true),
            ("abc", "ab", false),
            ("abc", "ABC", false),
            ("abc", "a%", true),
            ("abc", "%c", true),
            ("abc", "%b%", true),
            ("abc", "_b_", true),
            ("abc", "__", false),
            ("", "%", true),
            ("", "_", false),
            ("", "", true),
            ("100%", "100\\%", true),
            ("1000", "100\\%", false),
            ("a_b", "a\\_b", true),
            ("axb", "a\\_b", false),
            ("ä€😀", "_€_", true),
            ("abcabd", "%abd", true),
            ("aaab", "%aab", true),
        ] {
            assert_eq!(like(text, pattern), expected, "{text} {pattern}");
        }
    }

    #[test]
    fn an_escape_character_needs_something_to_escape() {
        assert!(Pattern::read("abc\\", Some('\\')).is_err());
        assert!(Pattern::escape("").is_err());
        assert!(Pattern::escape("ab").is_err());
        assert_eq!(Pattern::escape("é"), Ok('é'));
    }

    #[test]
    fn steps_stay_below_pattern_times_text() {
        let text = "a".repeat(4_000);
        for (pattern, tokens) in [("%a".repeat(500) + "b", 1_001), ("%aaaaaaaa".repeat(100) + "_b", 902)] {
            let mut steps = 0u64;
            let found = Pattern::read(&pattern, None)
                .expect("a pattern")
                .walk(&text, || steps += 1);
            assert!(!found);
            assert!(steps <= 4_000 * tokens, "{steps} steps");
        }
    }

    proptest! {
        #[test]
        fn matches_agree_with_a_naive_search(text in "[ab%]{0,9}", pattern in "[ab%_]{0,9}") {
            let pattern = Pattern::read(&pattern, None).expect("a pattern");
            let characters: Vec<char> = text.chars().collect();
            prop_assert_eq!(pattern.matches(&text), naive(&characters, &pattern.0));
        }
    }
}
