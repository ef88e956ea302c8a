// SPDX-License-Identifier: Apache-2.0
//! The profiles of AWS: the static keys of `~/.aws/credentials` and the region of `~/.aws/config`.
//!
//! Only keys that stand in these files are read, once, when the store is opened. A profile that assumes a role, runs a
//! process or signs in through a browser is not: export its keys to the environment (`aws configure export-credentials
//! --format env`).

use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a profile gives, by the names of options.
const NAMES: [(&str, &str); 4] = [
    ("aws_access_key_id", "access_key_id"),
    ("aws_secret_access_key", "secret_access_key"),
    ("aws_session_token", "session_token"),
    ("region", "region"),
];

/// The options of a profile: of the named one, or that of `AWS_PROFILE`, or `default`. None if a file or the profile is
/// missing.
pub(super) fn read(named: Option<&str>, variable: impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    let named = named.map(str::to_owned).or_else(|| variable("AWS_PROFILE"));
    let profile = named.unwrap_or_else(|| "default".to_owned());
    let home = variable("HOME").or_else(|| variable("USERPROFILE"));
    let file = |variable_name: &str, name: &str| {
        let in_home = || Some(PathBuf::from(home.as_ref()?).join(".aws").join(name));
        let path = variable(variable_name).map(PathBuf::from).or_else(in_home)?;
        std::fs::read_to_string(path).ok()
    };
    let mut found = BTreeMap::new();
    if let Some(text) = file("AWS_CONFIG_FILE", "config") {
        add(&mut found, &text, &profile);
    }
    if let Some(text) = file("AWS_SHARED_CREDENTIALS_FILE", "credentials") {
        add(&mut found, &text, &profile);
    }
    found.into_iter().collect()
}

/// Adds what a file says about a profile. A section is `[name]` or `[profile name]`.
fn add(found: &mut BTreeMap<String, String>, text: &str, profile: &str) {
    let mut inside = false;
    for line in text.lines() {
        let indented = line.starts_with([' ', '\t']);
        let line = line.trim();
        if line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            let section = section.trim();
            inside = section.strip_prefix("profile ").unwrap_or(section).trim() == profile;
            continue;
        }
        // An indented line belongs to the line before it.
        let Some((name, value)) = line.split_once('=').filter(|_| inside && !indented) else {
            continue;
        };
        if let Some((_, option)) = NAMES.iter().find(|(known, _)| *known == name.trim()) {
            found.insert((*option).to_owned(), value.trim().to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn a_profile_gives_keys_and_a_region() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("config");
        let credentials = folder.path().join("credentials");
        std::fs::write(
            &config,
            "[default]\nregion = a-1\n[profile work]\nregion=b-2\ns3 =\n  region = x\n",
        )
        .expect("written");
        let keys =
            "# keys\n[default]\naws_access_key_id=A\n\n[work]\naws_access_key_id = W\naws_secret_access_key = S=/+\n";
        std::fs::write(&credentials, keys).expect("written");
        let variable = |name: &str| match name {
            "AWS_CONFIG_FILE" => Some(config.display().to_string()),
            "AWS_SHARED_CREDENTIALS_FILE" => Some(credentials.display().to_string()),
            _ => None,
        };
        let text = |named| {
            let found = read(named, variable);
            let found = found.iter().map(|(name, value)| format!("{name}={value}"));
            found.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(text(None), "access_key_id=A region=a-1");
        assert_eq!(text(Some("work")), "access_key_id=W region=b-2 secret_access_key=S=/+");
        assert_eq!(text(Some("other")), "");
        assert!(read(None, |_| None).is_empty());
    }
}
