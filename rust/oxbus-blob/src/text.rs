// SPDX-License-Identifier: Apache-2.0
//! Texts of errors: one short line without credentials.

/// Longer texts are cut.
const CHARACTERS_MAX: usize = 300;

/// What stands for a credential.
const CUT: &str = "***";

/// Names whose value is a credential, in lower case, as they stand before `=` or `:` in URLs, connection strings,
/// headers and configurations.
const SECRET_NAMES: [&str; 23] = [
    "access_key",
    "accountkey",
    "account_key",
    "access_token",
    "accesskey",
    "authorization",
    "awsaccesskeyid",
    "bearer_token",
    "client_secret",
    "credential",
    "id_token",
    "key_id",
    "passwd",
    "password",
    "private_key",
    "refresh_token",
    "secret",
    "sharedaccesssignature",
    "sas_token",
    "security-token",
    "session_token",
    "sig",
    "signature",
];

/// The schemes of an authorization, each before its token.
const SCHEMES: [&str; 3] = ["bearer ", "basic ", "sharedkey "];

/// A text as one short line, without the given secrets and without whatever looks like a credential.
pub(crate) fn clean(text: &str, secrets: &[String]) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for secret in secrets.iter().filter(|secret| secret.len() >= 4) {
        line = line.replace(secret.as_str(), CUT);
    }
    let line = without_tokens(&without_named_values(&without_user_info(&line)));
    if line.chars().count() <= CHARACTERS_MAX {
        return line;
    }
    let cut: String = line.chars().take(CHARACTERS_MAX).collect();
    format!("{cut}…")
}

/// Cuts `user:password@` out of URLs.
fn without_user_info(line: &str) -> String {
    let mut kept = String::new();
    let mut rest = line;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        kept.push_str(before);
        let authority = after.find(['/', ' ', '"', '\'', '`', ')', '?']).unwrap_or(after.len());
        rest = match after[..authority].rfind('@') {
            Some(user_info) => {
                kept.push_str(CUT);
                &after[user_info..]
            }
            None => after,
        };
    }
    kept + rest
}

/// Cuts the values of names that mean a credential: what follows `=` or `:`.
fn without_named_values(line: &str) -> String {
    let mut kept = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(['=', ':']) {
        let (name, after) = rest.split_at(at + 1);
        kept.push_str(name);
        rest = after;
        if is_secret(&name[..at]) {
            let value = after.trim_start_matches(['"', '\'', ' ', '=', ':']);
            rest = cut_word(without_scheme(value), &mut kept);
        }
    }
    kept + rest
}

/// Cuts what follows the schemes of an authorization.
fn without_tokens(line: &str) -> String {
    let mut kept = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(' ') {
        let (word, after) = rest.split_at(at + 1);
        kept.push_str(word);
        let is_scheme = SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme));
        rest = if is_scheme { cut_word(after, &mut kept) } else { after };
    }
    kept + rest
}

/// Replaces the word at the beginning of a text, and returns what follows it.
fn cut_word<'a>(text: &'a str, kept: &mut String) -> &'a str {
    let end = text.find(['&', ' ', '"', '\'', ',', ';', '<', ')', '`']);
    let end = end.unwrap_or(text.len());
    if end > 0 {
        kept.push_str(CUT);
    }
    &text[end..]
}

fn without_scheme(value: &str) -> &str {
    let has = |scheme: &&str| {
        value
            .get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    let scheme = SCHEMES.iter().find(|scheme| has(scheme));
    &value[scheme.map_or(0, |scheme| scheme.len())..]
}

/// True if a value after this text is a credential.
fn is_secret(before: &str) -> bool {
    let name = before.trim_end_matches(['"', '\'', ' ']).to_ascii_lowercase();
    SECRET_NAMES.iter().any(|secret| {
        let Some(start) = name.strip_suffix(secret) else {
            return false;
        };
        // `sig` ends other words, too.
        *secret != "sig" || !start.ends_with(|last: char| last.is_ascii_alphanumeric())
    })
}

/// The text of an error and of its causes, each once.
pub(crate) fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{clean, with_causes};

    #[test]
    fn texts_have_no_credentials() {
        let texts = [
            "GET https://account.blob.core.windows.net/c/k?sv=2024&se=2027-01-01&sig=SECRET%2Babc%3D&sp=rw failed",
            "PUT https://b.s3.amazonaws.com/k?X-Amz-Credential=SECRET%2F2027&X-Amz-Signature=SECRET&X-Amz-Date=1",
            "https://b/k?X-Amz-Security-Token=SECRET== was refused",
            "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=SECRET==;EndpointSuffix=core.windows.net",
            "postgresql://user:SECRET@host/db: refused",
            "postgresql://user:pw/SECRET@host/db password=SECRET",
            "bad config `password = \"SECRET\"`",
            "Authorization: Bearer SECRET.abc.def was refused",
            "authorization: SharedKey SECRET",
            "token Bearer SECRET, expired",
            "{\"access_token\":\"SECRET\", \"private_key\" : \"SECRET\"}",
            "aws_secret_access_key=SECRET aws_session_token=SECRET secret_access_key: SECRET",
            "the key raw-SECRET-raw is wrong",
        ];
        let secrets = ["raw-SECRET-raw".to_owned(), "user:pw/SECRET".to_owned()];
        for text in texts {
            let cleaned = clean(text, &secrets);
            assert!(!cleaned.contains("SECRET"), "{cleaned}");
            assert!(cleaned.contains("***"), "{cleaned}");
        }
    }

    #[test]
    fn texts_are_one_short_line() {
        assert_eq!(clean("a\r\n  b\n", &[]), "a b");
        assert_eq!(clean(&"ä".repeat(1000), &[]).chars().count(), 301);
        let kept = "bucket: design=new, config=x at https://host:443/path: 404 Not Found";
        assert_eq!(clean(kept, &[]), kept);
    }

    #[test]
    fn causes_are_named_once() {
        let inner = std::io::Error::other("refused");
        let outer = std::io::Error::other(inner);
        assert_eq!(with_causes(&outer), "refused");
    }
}
