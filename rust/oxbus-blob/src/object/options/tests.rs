// SPDX-License-Identifier: Apache-2.0
use std::collections::BTreeMap;
use std::time::Duration;

use super::{Cloud, Settings};

fn pairs<T: FromIterator<(String, String)>>(pairs: &[(&str, &str)]) -> T {
    let owned = pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    owned.collect()
}

fn settings(cloud: Cloud, given: &[(&str, &str)], variables: &[(&str, &str)]) -> Settings {
    Settings::of(cloud, &pairs::<Vec<_>>(given), &pairs(variables)).expect("valid options")
}

fn error(cloud: Cloud, given: &[(&str, &str)]) -> String {
    let failed = Settings::of(cloud, &pairs::<Vec<_>>(given), &BTreeMap::new());
    failed.err().expect("no valid options").to_string()
}

#[test]
fn an_unknown_option_names_the_valid_ones() {
    let text = error(Cloud::S3, &[("reigon", "x")]);
    assert!(
        text.contains("`reigon`") && text.contains(" region,") && text.contains(" timeout,"),
        "{text}"
    );
    let unknown = [
        (Cloud::S3, "account_key"),
        (Cloud::S3, "conditional_put"),
        (Cloud::Google, "region"),
        (Cloud::Azure, "proxy_url"),
    ];
    for (cloud, name) in unknown {
        assert!(error(cloud, &[(name, "x")]).contains(name));
    }
    assert!(error(Cloud::S3, &[("timeout", "soon")]).contains("`timeout`"));
}

#[test]
fn given_options_come_first() {
    let variables = [
        ("AWS_ACCESS_KEY_ID", "E"),
        ("AWS_SECRET_ACCESS_KEY", "E"),
        ("AWS_SESSION_TOKEN", "E"),
        ("AWS_DEFAULT_REGION", "r-0"),
        ("AWS_REGION", "r-1"),
        ("AWS_BUCKET", "no"),
    ];
    let found = settings(Cloud::S3, &[], &variables);
    let expected = [
        ("access_key_id", "E"),
        ("region", "r-1"),
        ("secret_access_key", "E"),
        ("session_token", "E"),
    ];
    assert_eq!(found.values, pairs(&expected));
    // No token of the environment goes with given keys.
    let given = [
        ("aws_access_key_id", "G"),
        ("secret_access_key", "G"),
        ("timeout", "2s"),
    ];
    let found = settings(Cloud::S3, &given, &variables);
    assert_eq!(
        found.values,
        pairs(&[("access_key_id", "G"), ("region", "r-1"), ("secret_access_key", "G")])
    );
    assert_eq!(
        (found.timeout, found.connect_timeout),
        (Duration::from_secs(2), Duration::from_secs(3))
    );
    let variables = [
        ("AZURE_STORAGE_ACCOUNT", "a"),
        ("AZURE_STORAGE_KEY", "E"),
        ("AZURE_TENANT_ID", "t"),
    ];
    let found = settings(Cloud::Azure, &[("sas_token", "sig=G")], &variables);
    assert_eq!(
        found.values,
        pairs(&[("account_name", "a"), ("sas_token", "sig=G"), ("tenant_id", "t")])
    );
}

#[test]
fn a_connection_string_has_parts() {
    let text = "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=k==;BlobEndpoint=http://h:1/a;";
    let expected = pairs(&[
        ("account_key", "k=="),
        ("account_name", "a"),
        ("endpoint", "http://h:1/a"),
    ]);
    assert_eq!(
        settings(Cloud::Azure, &[("connection_string", text)], &[]).values,
        expected
    );
    assert_eq!(
        settings(Cloud::Azure, &[], &[("AZURE_STORAGE_CONNECTION_STRING", text)]).values,
        expected
    );
    let given = [("account_key", "G")];
    let found = settings(Cloud::Azure, &given, &[("AZURE_STORAGE_CONNECTION_STRING", text)]);
    assert_eq!(found.values, pairs(&given));
}

#[test]
fn only_an_endpoint_allows_http() {
    assert!(!settings(Cloud::S3, &[], &[("AWS_ALLOW_HTTP", "true")]).is_plain_http());
    assert!(!settings(Cloud::S3, &[("endpoint", "https://s3")], &[]).is_plain_http());
    assert!(settings(Cloud::S3, &[("endpoint", "http://s3")], &[]).is_plain_http());
    let variables = [
        ("AWS_ENDPOINT_URL", "https://all"),
        ("AWS_ENDPOINT_URL_S3", "http://s3"),
    ];
    assert!(settings(Cloud::S3, &[], &variables).is_plain_http());
}

#[test]
fn an_endpoint_is_a_url() {
    for wrong in [
        "host",
        "host:9000",
        "ftp://host",
        "http://",
        "http://me:SECRET@host",
        "https://host?sig=SECRET",
        "",
    ] {
        let text = error(Cloud::S3, &[("endpoint", wrong)]);
        assert!(text.contains("`endpoint`") && !text.contains("SECRET"), "{text}");
    }
    let endpoint = "http://[::1]:9000/path";
    assert_eq!(
        settings(Cloud::Azure, &[("endpoint", endpoint)], &[]).values["endpoint"],
        endpoint
    );
}

#[test]
fn secrets_are_known_in_each_spelling() {
    let found = settings(Cloud::Azure, &[("sas_token", "sig=a%2Bb"), ("account_name", "a")], &[]).secrets();
    assert!(found.contains(&"sig=a%2Bb".to_owned()) && found.contains(&"sig=a+b".to_owned()));
}
