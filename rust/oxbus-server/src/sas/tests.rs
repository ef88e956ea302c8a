// SPDX-License-Identifier: Apache-2.0
//! Tokens as clients create them, and invalid ones (B-408 … B-419, B-455, B-464).

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oxbus_model::Timestamp;
use oxbus_model::authorization::{AccessRight, AuthorizationRule};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use proptest::prelude::*;
use ring::hmac;

use super::{AccessDenied, Authority, Claims, DenialReason, EntityRules, Scope, development_rule};

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const LATER: u64 = 1_800_000_060;
const KEY: &str = "SAS_KEY_VALUE";
const ROOT: &str = "RootManageSharedAccessKey";

struct Entities(HashMap<String, Vec<AuthorizationRule>>);

impl EntityRules for Entities {
    fn of(&self, path: &str) -> Vec<AuthorizationRule> {
        self.0.get(path).cloned().unwrap_or_default()
    }
}

fn rule(name: &str, key: &str, rights: &[AccessRight]) -> AuthorizationRule {
    AuthorizationRule {
        key_name: name.to_owned(),
        primary_key: key.to_owned(),
        secondary_key: Some(format!("another {key}")),
        rights: rights.to_vec(),
        created_at_ms: 0,
        modified_at_ms: 0,
    }
}

/// The development rule, a rule that gives only Listen, and a rule of one queue.
fn authority() -> Authority {
    let listener = rule("listener", "a key of a listener", &[AccessRight::Listen]);
    let of_orders = rule("of orders", "a key of one queue", &[AccessRight::Send]);
    let entities = HashMap::from([("orders".to_owned(), vec![of_orders])]);
    Authority::new(vec![development_rule(), listener], Entities(entities)).expect("rules")
}

fn escaped(text: &[u8]) -> String {
    percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn signature(address: &str, expiry: &str, key: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    STANDARD.encode(hmac::sign(&key, format!("{address}\n{expiry}").as_bytes()))
}

/// A token as the SDKs create it.
pub fn token(address: &str, expiry: u64, name: &str, key: &str) -> String {
    oxbus_wire::shared_access_signature(address, Timestamp(expiry * 1000), name, key)
}

fn refused(token: &str, audience: &str) -> DenialReason {
    let refused = authority().authorize(token, audience, NOW);
    refused.expect_err("access denied").reason
}

#[test]
fn token_of_the_python_sdk_is_accepted() {
    // Created by azure-servicebus 7.15 (`generate_sas_token`) for `sb://localhost:5672/orders`.
    let made = "SharedAccessSignature sr=sb%3A%2F%2Flocalhost%3A5672%2Forders\
                &sig=DTX3TQ7hGFUnc1EMit3o4%2FjwGPBdk0Hccv7XobYkFrs%3D&se=1800000060&skn=RootManageSharedAccessKey";
    let claims = authority()
        .authorize(made, "sb://localhost:5672/orders", NOW)
        .expect("claims");
    assert_eq!(claims.key_name, ROOT);
    assert_eq!(claims.expires_at, Timestamp(LATER * 1000));
}

#[test]
fn token_covers_its_address_and_everything_below() {
    // B-416. A token also covers the management of its entity.
    let token = token("sb://h/Orders", LATER, ROOT, KEY);
    for audience in [
        "sb://other:99/orders",
        "amqps://h/ORDERS/$management",
        "orders/$DeadLetterQueue",
        "/orders/",
    ] {
        assert!(authority().authorize(&token, audience, NOW).is_ok(), "{audience}");
    }
    for audience in ["sb://h/orders2", "sb://h/order", "sb://h/", "sb://h"] {
        let scope = Scope::of_address("orders");
        assert_eq!(
            refused(&token, audience),
            DenialReason::WrongAudience(scope),
            "{audience}"
        );
    }
}

#[test]
fn token_of_the_namespace_covers_everything() {
    for address in ["https://h:443/", "https://h", "sb://h:5300", "h"] {
        let token = token(address, LATER, ROOT, KEY);
        assert!(
            authority().authorize(&token, "sb://x/t/Subscriptions/s", NOW).is_ok(),
            "{address}"
        );
        assert!(authority().authorize(&token, "https://x", NOW).is_ok(), "{address}");
    }
}

#[test]
fn denied_access_has_a_reason() {
    let of = |name: &str, key: &str| token("sb://h/orders", LATER, name, key);
    assert_eq!(
        refused(&of("nobody", KEY), "sb://h/orders"),
        DenialReason::UnknownPolicy
    );
    assert_eq!(refused(&of(ROOT, "another"), "sb://h/orders"), DenialReason::WrongKey);
    let over = token("sb://h/orders", 1_800_000_000, ROOT, KEY);
    assert_eq!(refused(&over, "sb://h/orders"), DenialReason::Expired(NOW));
    assert_eq!(refused("Bearer eyJ0", "sb://h/orders"), DenialReason::Issuer);
    assert_eq!(refused("eyJ0eXAi.x.y", "sb://h/orders"), DenialReason::Issuer);
    for old in ["oxbus1.ab.1.cd", "Bearer oxbus1.ab.1.cd"] {
        let refused = authority()
            .authorize(old, "sb://h/orders", NOW)
            .expect_err("an old form");
        let detail = refused.detail();
        assert!(
            detail.contains("oxbus1. are no longer accepted; use SharedAccessSignature"),
            "{detail}"
        );
    }
    for text in [
        "",
        "SharedAccessSignature",
        "SharedAccessSignature sr=a",
        "Basic x",
        "SharedAccessSignature sr=a&sig=%%&se=1&skn=n",
    ] {
        assert!(
            matches!(refused(text, "sb://h/orders"), DenialReason::Malformed(_)),
            "{text}"
        );
    }
    // SAS_TOKEN_BYTES_MAX.
    let long = format!("SharedAccessSignature sr={}", "a".repeat(10_000));
    assert!(matches!(refused(&long, "sb://h/orders"), DenialReason::Malformed(_)));
}

#[test]
fn denied_access_has_status_and_condition_and_names_entity_and_key() {
    // B-434, B-464.
    let all = [
        DenialReason::Missing,
        DenialReason::Malformed("why"),
        DenialReason::Issuer,
        DenialReason::UnknownPolicy,
        DenialReason::WrongKey,
        DenialReason::Expired(NOW),
        DenialReason::WrongAudience(Scope::namespace()),
        DenialReason::MissingRight(AccessRight::Send),
    ];
    let addresses = ["sb://h:1/Orders/", "Orders", "amqps://h/Orders/$Management"]
        .into_iter()
        .cycle();
    for (reason, address) in all.into_iter().zip(addresses) {
        let refused = AccessDenied::new(reason, address, Some("app"));
        assert_eq!((refused.status(), refused.sub_code() / 100), (401, 401));
        assert_eq!(refused.condition(), "amqp:unauthorized-access");
        let end = ": entity=`Orders`, key name=`app`";
        assert!(refused.detail().ends_with(end), "{}", refused.detail());
    }
}

#[test]
fn errors_contain_no_key_and_no_signature() {
    // B-455, B-464.
    let wrong = token("sb://h/orders", LATER, ROOT, "a key of somebody");
    let good = token("sb://h/orders", LATER, ROOT, KEY);
    for (shown, audience) in [(&wrong, "sb://h/orders"), (&good, "sb://h/others")] {
        let refused = authority().authorize(shown, audience, NOW).expect_err("access denied");
        let secrets = [KEY, "a key of somebody", shown.split('&').nth(1).expect("sig")];
        assert!(
            secrets.iter().all(|secret| !refused.detail().contains(secret)),
            "{}",
            refused.detail()
        );
    }
}

#[test]
fn rights_are_those_of_the_rule() {
    let of = |name: &str, key: &str, address: &str| -> Claims {
        let token = token(address, LATER, name, key);
        authority().authorize(&token, "orders", NOW).expect("claims")
    };
    let root = of(ROOT, KEY, "sb://h");
    for right in AccessRight::ALL {
        assert_eq!(root.check(right, "orders", NOW), Ok(()));
    }
    let listener = of("listener", "a key of a listener", "sb://h");
    assert_eq!(listener.check(AccessRight::Listen, "orders", NOW), Ok(()));
    let missing = AccessDenied::new(
        DenialReason::MissingRight(AccessRight::Send),
        "orders",
        Some("listener"),
    );
    assert_eq!(listener.check(AccessRight::Send, "orders", NOW), Err(missing));
    let of_orders = of("of orders", "a key of one queue", "sb://h/orders");
    assert_eq!(of_orders.check(AccessRight::Send, "orders/$management", NOW), Ok(()));
    assert!(of_orders.check(AccessRight::Send, "others", NOW).is_err());
    let over = Timestamp(LATER * 1000);
    assert_eq!(
        root.check(AccessRight::Send, "orders", over),
        Err(root.denied(DenialReason::Expired(over), "orders"))
    );
}

#[test]
fn token_is_identified_before_the_audience_is_known() {
    // The token is checked before the body, which may name the entity, is read.
    let known = |token: &str| authority().identify(token, NOW);
    let claims = known(&token("sb://h/orders", LATER, "of orders", "a key of one queue")).expect("claims");
    assert!(claims.grants(AccessRight::Send) && !claims.grants(AccessRight::Listen));
    assert_eq!(claims.check_path("orders/$DeadLetterQueue", NOW), Ok(()));
    let elsewhere = claims.check_path("others", NOW).expect_err("another place");
    assert_eq!(
        elsewhere.reason,
        DenialReason::WrongAudience(Scope::of_address("orders"))
    );
    let wrong = known(&token("sb://h/orders", LATER, ROOT, "another")).expect_err("a wrong key");
    assert_eq!(
        (wrong.reason, wrong.entity.as_str()),
        (DenialReason::WrongKey, "orders")
    );
    let late = known(&token("sb://h", 1, ROOT, KEY)).expect_err("an old token");
    assert!(matches!(late.reason, DenialReason::Expired(_)));
}

#[test]
fn rule_of_an_entity_is_valid_only_there() {
    let wide = token("sb://h", LATER, "of orders", "a key of one queue");
    assert_eq!(refused(&wide, "sb://h/orders"), DenialReason::UnknownPolicy);
    let other = token("sb://h/others", LATER, "of orders", "a key of one queue");
    assert_eq!(refused(&other, "sb://h/others"), DenialReason::UnknownPolicy);
}

#[test]
fn keys_rotate_while_clients_continue() {
    let authority = authority();
    let with = |key: &str| token("sb://h", LATER, "listener", key);
    let works = |key: &str| authority.authorize(&with(key), "q", NOW).is_ok();
    let (first, second) = ("a key of a listener", "another a key of a listener");
    assert!(works(first) && works(second));
    // The first key is replaced while clients use the second.
    let mut next = rule("listener", "a fresh key of one", &[AccessRight::Listen]);
    next.secondary_key = Some(second.to_owned());
    authority.replace_rules(vec![next]).expect("rules");
    assert!(!works(first) && works(second) && works("a fresh key of one"));
    assert!(
        authority
            .authorize(&token("sb://h", LATER, ROOT, KEY), "q", NOW)
            .is_err(),
        "the rule was removed"
    );
}

#[test]
fn plain_credentials_cover_the_whole_namespace() {
    // B-408: SASL PLAIN.
    let claims = authority().authorize_plain(ROOT, KEY).expect("claims");
    assert_eq!(claims.check(AccessRight::Send, "any", NOW), Ok(()));
    assert!(
        authority()
            .authorize_plain("listener", "another a key of a listener")
            .is_ok()
    );
    assert_eq!(
        authority().authorize_plain(ROOT, "SAS_KEY_VALUF"),
        Err(AccessDenied::new(DenialReason::WrongKey, "", Some(ROOT)))
    );
    assert_eq!(
        authority().authorize_plain("x", KEY),
        Err(AccessDenied::new(DenialReason::UnknownPolicy, "", Some("x")))
    );
}

proptest! {
    #[test]
    fn parts_are_accepted_in_any_order_and_case(order in Just(vec![0usize, 1, 2, 3]).prop_shuffle(), upper: bool) {
        let made = token("sb://h/orders", LATER, ROOT, KEY);
        let parts: Vec<&str> = made["SharedAccessSignature ".len()..].split('&').collect();
        let named = |part: &str| {
            let (name, value) = part.split_once('=').expect("a value");
            if upper { format!("{}={value}", name.to_ascii_uppercase()) } else { part.to_owned() }
        };
        let shuffled: Vec<String> = order.iter().map(|at| named(parts[*at])).collect();
        let text = format!("sharedaccesssignature {}", shuffled.join("&"));
        prop_assert!(authority().authorize(&text, "orders", NOW).is_ok());
    }

    #[test]
    fn signature_covers_the_address_as_written(lower: bool, slash: bool, plain: bool) {
        // Clients differ in which characters they escape, and how.
        let address = if slash { "https://h/orders/" } else { "https://h/orders" };
        let written = if plain { address.to_owned() } else { escaped(address.as_bytes()) };
        let written = if lower { written.to_ascii_lowercase() } else { written };
        let sig = signature(&written, &LATER.to_string(), KEY);
        let sig = if plain { sig } else { escaped(sig.as_bytes()) };
        let text = format!("SharedAccessSignature sr={written}&sig={sig}&se={LATER}&skn={ROOT}");
        prop_assert!(authority().authorize(&text, "orders", NOW).is_ok());
    }

    #[test]
    fn other_keys_and_changed_bytes_are_rejected(at in any::<prop::sample::Index>(), to in any::<u8>(), key in "[ -~]{13,60}") {
        prop_assume!(key != KEY);
        let other = token("sb://h/orders", LATER, ROOT, &key);
        prop_assert!(authority().authorize(&other, "orders", NOW).is_err());
        let good = token("sb://h/orders", LATER, ROOT, KEY);
        let mut bytes = good.clone().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = to;
        if let Ok(changed) = String::from_utf8(bytes)
            && let Ok(claims) = authority().authorize(&changed, "orders", NOW)
        {
            // Only an equivalent text may be accepted: a letter of a name or an escape in another case, or other white
            // space.
            let spaced = changed.replace(char::is_whitespace, " ");
            prop_assert!(spaced.eq_ignore_ascii_case(&good), "{changed}");
            prop_assert_eq!(claims.expires_at, Timestamp(LATER * 1000));
        }
    }

    #[test]
    fn parser_accepts_any_text_without_a_panic(text: String, tail in "[srigekn=&%0-9a-z]{0,60}") {
        let _ = authority().authorize(&text, "orders", NOW);
        let _ = authority().authorize(&format!("SharedAccessSignature {tail}"), &text, NOW);
    }

    #[test]
    fn scope_covers_itself_and_everything_below(path in "[a-z]{1,5}(/[a-z$]{1,5}){0,3}", more in "[a-z]{1,5}") {
        let scope = Scope::of_address(&path);
        prop_assert!(scope.covers(&scope));
        let below = format!("sb://h/{path}/{more}");
        prop_assert!(scope.covers(&Scope::of_address(&below)));
        let beside = format!("{path}{more}");
        prop_assert!(!scope.covers(&Scope::of_address(&beside)));
        prop_assert!(Scope::namespace().covers(&scope));
        prop_assert!(!scope.covers(&Scope::namespace()));
    }
}
